"""Event time of a job: its keys in the file, and the values for the clocks.

Intervals of emulated time are microseconds, as everywhere; event time counts in milliseconds, as
Flink's timestamps do.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Discriminator, PlainSerializer, Tag

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.schedule import TAG_MARK

MILLISECONDS: Final = 1000
"""Milliseconds of a second."""

TimeModel = Literal["flink", "spark"]
"""Whose event time holds in a job."""

Distribution = Literal["uniform", "exponential"]
"""How far the records of a source lie behind one another."""


def in_ms(seconds: Fraction) -> int:
    """Return whole milliseconds of a time of the file, which are exact."""
    return int(seconds * MILLISECONDS)


def _kind(value: object) -> str:
    """Tell one number for all subtasks and a list with one for each apart."""
    return f"{TAG_MARK}{'subtasks' if isinstance(value, list | tuple) else 'number'}"


def _written(values: tuple[Fraction, ...]) -> list[int | float]:
    return [f.write_number(value) for value in values]


if TYPE_CHECKING:  # what is kept; a file may also have one number for all subtasks
    PerSubtaskSeconds = tuple[Fraction, ...]
    PerSubtaskOffset = tuple[Fraction, ...]
else:

    def _per_subtask(number: object) -> object:
        """Return the type of a number for all subtasks, or of a list with one for each."""
        one = Annotated[number, AfterValidator(lambda value: (value,)), Tag(f"{TAG_MARK}number")]
        each = Annotated[tuple[number, ...], Tag(f"{TAG_MARK}subtasks")]
        return Annotated[one | each, Discriminator(_kind), PlainSerializer(_written)]

    PerSubtaskSeconds = _per_subtask(f.EventSeconds)
    PerSubtaskOffset = _per_subtask(f.EventOffset)

_SPREAD: Final = ("out_of_orderness_s", "offset_s")
"""Keys that are a number, or one for each subtask."""


class EventTime(f.Mapping):
    """When the records of a source happened: made from the seed, or a column of replayed rows."""

    quiet = frozenset({"out_of_orderness_s", "distribution", "offset_s", "column"})

    out_of_orderness_s: PerSubtaskSeconds = f.key("EventTime.out_of_orderness_s", (Fraction(0),))
    distribution: Distribution = f.key("EventTime.distribution", "uniform")
    offset_s: PerSubtaskOffset = f.key("EventTime.offset_s", (Fraction(0),))
    column: f.Text | None = f.key("EventTime.column")

    @property
    def out_of_orderness_ms(self) -> tuple[int, ...]:
        """For each subtask, how far made records lie behind, ms: the most, or the mean."""
        return tuple(map(in_ms, self.out_of_orderness_s))

    @property
    def offset_ms(self) -> tuple[int, ...]:
        """For each subtask, what is added to the event time of made records, ms."""
        return tuple(map(in_ms, self.offset_s))

    def is_written(self, key: str) -> bool:
        """Tell whether a key is written down: not where all subtasks have 0."""
        if key in _SPREAD:
            return any(getattr(self, key))
        return super().is_written(key)

    def spread(self, subtasks: int) -> "EventTime":
        """Return it with a number for each subtask where one stands for all."""
        each = {key: getattr(self, key) * subtasks for key in _SPREAD if self._is_one(key)}
        return self.model_copy(update=each)

    def _is_one(self, key: str) -> bool:
        return len(getattr(self, key)) == 1

    def contradictions(self, subtasks: int) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys, and with the number of subtasks."""
        for key in _SPREAD:
            values = getattr(self, key)
            if not values:
                yield key, "[] is empty: write a number, or one for each subtask"
            elif len(values) != subtasks:
                text = f"{len(values)} numbers for {subtasks} subtasks"
                yield key, f"{text}: write one for each, or one for all"
            elif self.column is not None and any(values):
                shown = f"{float(max(values, key=abs)):g}"
                text = (
                    f"{shown} together with column {self.column!r}, which has the times of the rows"
                )
                yield key, f"{text}: remove one of them"
        if self.distribution != "uniform" and not any(self.out_of_orderness_s):
            text = f"{self.distribution!r}: no record is out of order with out_of_orderness_s 0"
            yield "distribution", f"{text}: state it, or remove distribution"


class Alignment(f.Mapping):
    """Sources that wait for one another by event time."""

    quiet = frozenset({"interval_s"})

    group: f.Name = f.key("Alignment.group", ...)
    max_drift_s: f.PositiveEventSeconds = f.key("Alignment.max_drift_s", ...)
    interval_s: f.PositiveEventSeconds = f.key("Alignment.interval_s", Fraction(1))

    @property
    def max_drift_ms(self) -> int:
        """How far a subtask may be ahead of the slowest of the group, ms of event time."""
        return in_ms(self.max_drift_s)

    @property
    def interval_us(self) -> int:
        """Between two reports, microseconds, a multiple of a millisecond."""
        return 1000 * in_ms(self.interval_s)


class Watermark(f.Mapping):
    """How a source tells how far its event time has come."""

    quiet = frozenset({"punctuated", "idle_after_s", "alignment"})

    delay_s: f.EventSeconds = f.key("Watermark.delay_s", Fraction(0))
    punctuated: bool = f.key("Watermark.punctuated", False, strict=True)
    idle_after_s: f.PositiveEventSeconds | None = f.key("Watermark.idle_after_s")
    alignment: Alignment | None = f.key("Watermark.alignment")

    @property
    def delay_ms(self) -> int:
        """How far the watermark stays behind the largest event time, ms."""
        return in_ms(self.delay_s)

    @property
    def idle_after_us(self) -> int | None:
        """Without a record until a subtask is idle, a multiple of a millisecond; None: never."""
        return None if self.idle_after_s is None else 1000 * in_ms(self.idle_after_s)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys."""
        if self.punctuated and self.delay_s:
            text = f"{float(self.delay_s):g}: a punctuated watermark is the time of its record, and"
            yield "delay_s", f"{text} has no delay: remove it, or write punctuated: false"
