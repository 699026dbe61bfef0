"""Windows: their keys in the file, and the values for the clocks, in milliseconds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Discriminator, PlainValidator, Tag, WithJsonSchema

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.event_time import in_ms
from flowcontrol.scenario.problems import known, show
from flowcontrol.scenario.refusals import faults
from flowcontrol.scenario.schedule import TAG_MARK

MAX_KEYS: Final = 1 << 21
"""Most keys of a window stage: a record carries the number of its key in 21 bits."""
MAX_OVERLAP: Final = 10_000
"""Most windows that a record is in: each is written for each record."""
MAX_COUNT: Final = 10**12
"""Most records of a count trigger; more is a slip of the pen."""

WindowKind = Literal["tumbling", "sliding", "session", "global"]
OutputMode = Literal["append", "update", "complete"]

FUNCTIONS: Final = ("sum", "min", "max", "avg")
"""Aggregates of a column, beside count."""
RESERVED: Final = ("window_start", "window_end", "key", "emitted_s")
"""Columns that each result has."""

_AGGREGATE = r"(count|(sum|min|max|avg)\(.+\))"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "tumbling": ("size_s",),
    "sliding": ("size_s", "slide_s"),
    "session": ("gap_s",),
    "global": (),
}
"""By kind, the lengths that it needs; it takes no others."""
_OFFSETS: Final = {"tumbling": "size", "sliding": "slide"}
"""Kinds that take an offset, and what it must be less than."""
_MEANINGS: Final = {
    "size_s": "its length",
    "slide_s": "the time from one start to the next",
    "gap_s": "the time without a record that ends it",
}


def _read_aggregate(value: object) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not re.fullmatch(_AGGREGATE, text):
        functions = ", ".join(f"{name}(column)" for name in FUNCTIONS)
        raise f.refuse(f"{show(value)} is not an aggregate: write count, {functions}")
    return text


Aggregate = Annotated[
    str,
    PlainValidator(_read_aggregate),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*{_AGGREGATE}\s*$"}),
]


def split_aggregate(text: str) -> tuple[str, str | None]:
    """Return function and column of an aggregate that was read; None: count has no column."""
    function, _, column = text.partition("(")
    return function, column.removesuffix(")") or None


class Trigger(f.Mapping):
    """A trigger with a number: after so many records, or again and again."""

    quiet = frozenset({"count", "continuous_s"})

    count: (
        Annotated[int, f.Number("a whole number of records", 1, MAX_COUNT, step=f.ONE)] | None
    ) = f.key("Trigger.count")
    continuous_s: f.PositiveEventSeconds | None = f.key("Trigger.continuous_s")


def _kind_of_trigger(value: object) -> str:
    is_mapping = isinstance(value, dict | Trigger)
    return f"{TAG_MARK}{'mapping' if is_mapping else 'word'}"


TriggerName = Literal["event_time", "processing_time"]


def _read_trigger(value: object) -> object:
    """Refuse what is no trigger's name with all that a trigger may be, not with names alone."""
    listed = [*get_args(TriggerName), "{count: n}", "{continuous_s: s}"]
    if isinstance(value, str) and value not in listed:
        raise f.refuse(known(value, listed, "trigger"))
    if not isinstance(value, str):
        raise f.refuse(f"{show(value)} is not one of {', '.join(listed)}")
    return value


if TYPE_CHECKING:
    AnyTrigger = TriggerName | Trigger
else:
    AnyTrigger = Annotated[
        Annotated[TriggerName, BeforeValidator(_read_trigger), Tag(f"{TAG_MARK}word")]
        | Annotated[Trigger, Tag(f"{TAG_MARK}mapping")],
        Discriminator(_kind_of_trigger),
    ]


class Window(f.Mapping):
    """Which records of a key a stage puts together, and what it sends on."""

    quiet = frozenset(
        {
            *("size_s", "slide_s", "gap_s", "offset_s", "allowed_lateness_s", "trigger"),
            *("accumulate", "output", "keys", "bytes_per_key", "aggregate"),
        }
    )

    kind: WindowKind = f.key("Window.kind", ...)
    size_s: f.PositiveEventSeconds | None = f.key("Window.size_s")
    slide_s: f.PositiveEventSeconds | None = f.key("Window.slide_s")
    gap_s: f.PositiveEventSeconds | None = f.key("Window.gap_s")
    offset_s: f.EventOffset = f.key("Window.offset_s", Fraction(0))
    allowed_lateness_s: f.EventSeconds = f.key("Window.allowed_lateness_s", Fraction(0))
    trigger: AnyTrigger = f.key("Window.trigger", "event_time")
    accumulate: bool = f.key("Window.accumulate", True, strict=True)
    output: OutputMode = f.key("Window.output", "append")
    keys: Annotated[int, f.Number("a whole number of keys", 1, MAX_KEYS, step=f.ONE)] | None = (
        f.key("Window.keys")
    )
    bytes_per_key: f.StateBytes = f.key("Window.bytes_per_key", 100)
    aggregate: dict[str, Aggregate] = f.key("Window.aggregate", {"n": "count"}, min_length=1)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys: a key and the refusal."""
        yield from self._lengths()
        yield from faults("windows by themselves", self, **self._facts())
        yield from self._names()

    def _names(self) -> Iterator[tuple[str, str]]:
        """Yield names that a table cannot have beside its others, upper and lower case alike."""
        taken = dict.fromkeys(RESERVED, "a column of every result")
        for name in self.aggregate:
            other = taken.setdefault(name.lower(), f"also the name of {name!r}")
            if other != f"also the name of {name!r}":
                yield f"aggregate.{name}", f"{name!r} is {other}: choose another name"
            elif not _NAME.fullmatch(name):
                text = f"{show(name)} is not a column name: needs letters, digits and _"
                yield "aggregate", f"{text}, a letter first"

    def _lengths(self) -> Iterator[tuple[str, str]]:
        needed = _NEEDS[self.kind]
        for key, meaning in _MEANINGS.items():
            value: Any = getattr(self, key)
            if key in needed and value is None:
                yield key, f"is missing: a {self.kind} window needs {meaning}, s"
            elif key not in needed and value is not None:
                others = " or ".join(kind for kind, keys in _NEEDS.items() if key in keys)
                text = f"{float(value):g}: a {self.kind} window takes no {key}: remove it, or"
                yield key, f"{text} write kind: {others}"
        if self.size_s is not None and self.slide_s is not None and self.kind == "sliding":
            overlap = -(-self.size_s // self.slide_s)
            if overlap > MAX_OVERLAP:
                text = f"{float(self.slide_s):g}: each record would be in {overlap} windows of"
                text = f"{text} {float(self.size_s):g} s, and at most {MAX_OVERLAP} are possible"
                yield "slide_s", f"{text}: raise it"

    def _facts(self) -> dict[str, Any]:
        """Return what rows ask of its offset and its trigger."""
        key, trigger = _OFFSETS.get(self.kind), self.trigger
        grid = self.slide_s if self.kind == "sliding" else self.size_s
        is_too_much = key is not None and grid is not None and abs(self.offset_s) >= grid
        given = trigger.model_dump() if isinstance(trigger, Trigger) else None
        return {
            "grid_key": key,
            "grid": grid,
            "is_offset_too_much": is_too_much,
            "rest": self.offset_s % grid if is_too_much and grid else None,
            "is_offset_without_grid": key is None and self.offset_s,
            "flinks_name": f"{self.kind.capitalize()}EventTimeWindows",
            "is_trigger_named": given is None,
            "shown_trigger": show(given),
            "is_trigger_unclear": given is not None and len(given) != 1,
        }


TriggerKind = Literal["event_time", "processing_time", "count", "continuous"]


class Aggregation(NamedTuple):
    """A column of a result."""

    name: str  # Of the column
    function: str  # ``count``, ``sum``, ``min``, ``max`` or ``avg``
    column: str | None  # Of the rows; None for ``count``


@dataclass(frozen=True)
class WindowPlan:
    """What the window of a stage does."""

    kind: WindowKind  # Which records it puts together
    # Whether windows follow the watermark; False: the clock. A global window follows neither.
    is_event_time: bool
    # Of a tumbling window (which slides by its size) or a sliding one, ms; else 0.
    size_ms: int
    slide_ms: int
    gap_ms: int  # Of a session, ms; else 0
    offset_ms: int  # Shift of the starts, ms
    lateness_ms: int  # For how long a window is kept behind its end, ms
    trigger: TriggerKind  # When it fires
    every: int  # Records of ``count``, ms of ``continuous``; else 0
    is_accumulating: bool  # Whether a window that has fired keeps its contents
    output: OutputMode  # Spark's output mode; ``append`` in a job with Flink's time
    keys: int | None  # Keys of made records, 1 to 2**21; None: rows bring theirs
    # Column of replayed rows with their keys; None: all of one key, or made records.
    key_column: str | None
    bytes_per_key: int  # State of each key and open window, bytes
    aggregations: tuple[Aggregation, ...]  # Columns of a result


def window_plan(
    window: Window, *, has_event_time: bool, keys: int | None, key_column: str | None
) -> WindowPlan:
    """Return a window in milliseconds.

    - ``has_event_time``: whether the records that enter have an event time.
    - ``keys``: keys of made records; None: rows bring theirs.
    """
    trigger, every = _trigger(window.trigger)
    size_ms = 0 if window.size_s is None else in_ms(window.size_s)
    return WindowPlan(
        kind=window.kind,
        is_event_time=has_event_time
        and window.kind != "global"
        and window.trigger != "processing_time",
        size_ms=size_ms,
        slide_ms=size_ms if window.slide_s is None else in_ms(window.slide_s),
        gap_ms=0 if window.gap_s is None else in_ms(window.gap_s),
        offset_ms=in_ms(window.offset_s),
        lateness_ms=in_ms(window.allowed_lateness_s),
        trigger=trigger,
        every=every,
        is_accumulating=window.accumulate,
        output=window.output,
        keys=keys,
        key_column=key_column,
        bytes_per_key=window.bytes_per_key,
        aggregations=tuple(
            Aggregation(name, *split_aggregate(text)) for name, text in window.aggregate.items()
        ),
    )


def _trigger(trigger: str | Trigger) -> tuple[TriggerKind, int]:
    if isinstance(trigger, Trigger):
        if trigger.count is not None:
            return "count", trigger.count
        return "continuous", 0 if trigger.continuous_s is None else in_ms(trigger.continuous_s)
    return ("processing_time" if trigger == "processing_time" else "event_time"), 0
