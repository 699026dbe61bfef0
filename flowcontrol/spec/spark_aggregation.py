"""An aggregation of Structured Streaming over windows of event time, and the batches that it runs.

Which batches run is what ``MicroBatchExecution`` decides between two of them.
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowcontrol.protocol.windows.contents import PANES, SESSIONS
from flowcontrol.protocol.windows.firing import FULL
from flowcontrol.protocol.windows.spark_batches import (
    APPEND,
    COMPLETE,
    MAXIMUM,
    MINIMUM,
    UPDATE,
    QueryWatermark,
    WatermarkOperator,
    begin_answer,
    end_batch,
    needs_no_data_batch,
    next_answer,
    take_row,
)
from flowcontrol.protocol.windows.triggers import NEVER
from flowcontrol.spec.window_operator import grow, new_windows
from flowcontrol.state.tasks import TaskBatch
from flowcontrol.state.windows import Windows, WindowSettings

# --- What Spark takes and refuses of an aggregation: its delays, its windows, the rows of a batch.


LONGEST = ((1 << 63) - 1) // 1000
"""Milliseconds: Spark counts microseconds in 64 bits."""

MODES = {"append": APPEND, "update": UPDATE, "complete": COMPLETE}
POLICIES = {"min": MINIMUM, "max": MAXIMUM}

Row = tuple[int, Hashable]
"""An event time, ms, and a key; None: no key."""

Gap = int | Callable[[Any], int]
Window = tuple[str, int] | tuple[str, int, int] | tuple[str, int, int, int] | tuple[str, Gap]
"""What an aggregation groups by: a name, and its numbers or the function of a session's gap."""

_FORMS = {
    "tumbling": "('tumbling', size[, offset])",
    "sliding": "('sliding', size, slide[, offset])",
    "session": "('session', gap)",
}


def whole(what: str, value: Any, least: int = -LONGEST) -> int:
    """Return a number of milliseconds that Spark can count.

    ``value``: milliseconds; a whole number of any type.

    Raises ValueError if it is not a whole number, below the least or beyond what 64 bits of
    microseconds hold.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{what} is {value!r}: needs whole milliseconds") from None
    if isinstance(value, bool):
        raise ValueError(f"{what} is {value!r}: needs whole milliseconds")
    if not least <= number <= LONGEST:
        raise ValueError(f"{what} is {number} ms: needs {least} to {LONGEST}")
    return number


def choice(what: str, value: Any, choices: dict[str, int]) -> int:
    """Return the number of a name.

    Raises ValueError if there is no such name.
    """
    if value not in choices:
        raise ValueError(f"{what} is {value!r}: needs one of {', '.join(choices)}")
    return choices[value]


def delays_of(delay: Any) -> tuple[int, ...] | None:
    """Return the delay of each input, or the one of all; None without a watermark.

    Raises ValueError if there is none, or one is negative.
    """
    if delay is None:
        return None
    if not isinstance(delay, Sequence) or isinstance(delay, str):
        return (whole("delay", delay, 0),)
    if not delay:
        raise ValueError("delay is empty: needs one per input, or None for no watermark")
    return tuple(whole(f"delay of input {at}", one, 0) for at, one in enumerate(delay))


def settings_of(window: Any) -> WindowSettings:
    """Return what the rules of windows are told of an aggregation's; a session's gap is not in it.

    Raises ValueError if the kind is unknown, or Spark refuses a number.
    """
    if not isinstance(window, Sequence) or isinstance(window, str) or not window:
        raise ValueError(f"window is {window!r}: needs {', '.join(_FORMS.values())}")
    kind, *numbers = window
    if kind not in _FORMS:
        raise ValueError(f"window is {kind!r}: needs one of {', '.join(_FORMS)}")
    least = 2 if kind == "sliding" else 1
    most = 1 if kind == "session" else least + 1
    if not least <= len(numbers) <= most:
        raise ValueError(f"window {kind} has {len(numbers)} numbers: needs {_FORMS[kind]}")
    if kind == "session":
        return WindowSettings(SESSIONS, trigger=NEVER)
    size = whole("size of the window", numbers[0], 1)
    slide = whole("slide of the window", numbers[1], 1) if kind == "sliding" else size
    offset = whole("offset of the window", numbers[least]) if len(numbers) > least else 0
    if slide > size:
        raise ValueError(f"slide of the window is {slide} ms: needs at most its size, {size}")
    if abs(offset) >= slide:
        raise ValueError(
            f"offset of the window is {offset} ms: needs {1 - slide} to {slide - 1}, "
            "less than a slide either way"
        )
    overlap = -(-size // slide)
    return WindowSettings(PANES, 1, size, slide, offset, overlap, trigger=NEVER)


def rows_of(given: Sequence[Any], inputs: int | None) -> list[list[Row]]:
    """Return the rows of each input as pairs of event time and key.

    - ``given``: rows of each input: a time, or a pair of time and key. Nothing at all: no rows.
    - ``inputs``: how many inputs the query has; None: not known so far.

    Raises ValueError if there are fewer or more inputs, or something is not a row.
    """
    if given and inputs is not None and len(given) != inputs:
        raise ValueError(f"rows of {len(given)} inputs: the query has {inputs}")
    return [
        [_row(f"row {at} of input {number}", row) for at, row in enumerate(rows)]
        for number, rows in enumerate(given)
    ]


def _row(what: str, row: Any) -> Row:
    if not isinstance(row, tuple | list):
        return whole(f"time of {what}", row), None
    if len(row) != 2:
        raise ValueError(f"{what} is {row!r}: needs a time, or (time, key)")
    time, key = row
    if not isinstance(key, Hashable):
        raise ValueError(f"key of {what} is {key!r}: needs a value that can be a key")
    return whole(f"time of {what}", time), key


def gap_of(given: Any) -> Callable[[Hashable], int]:
    """Return the gap of a session as a function of its key; it refuses what is not a number."""
    if not callable(given):
        constant = whole("gap of the session", given)
        return lambda _: constant

    def gap(key: Hashable) -> int:
        return whole(f"gap of key {key!r}", given(key))

    return gap


Rows = Iterable[int | Row]

_FIRST_ENTRIES = 16


class Group(NamedTuple):
    """A row of an answer."""

    start: int
    """Of the window, ms."""
    end: int
    """Of the window, exclusive, ms."""
    key: Hashable
    """None: no key."""
    rows: int
    """How many are in it."""


def restart(query: QueryWatermark, operators: Sequence[WatermarkOperator]) -> None:
    """Forget what the checkpoint of a query does not hold.

    The offset log has the last batch's watermark and the commit log the next one's. What each
    operator has seen is gone, and so is the plan that asks for a batch without data.
    """
    query.has_plan = 0
    for i in range(len(operators)):
        operators[i].watermark = 0


def late_watermark(query: QueryWatermark, is_multiple: int) -> int:
    """Watermark by which the running batch drops rows, ms.

    ``is_multiple``: 1: the previous batch's, so that what one aggregation evicts is not late for
    the next one; 0: the batch's own (``spark.sql.streaming.statefulOperator.allowMultiple`` is
    false).
    """
    return query.used if is_multiple == 1 else query.current


@dataclass(eq=False)
class SparkAggregation:
    """Count rows per window, and key, as ``withWatermark(...).groupBy(window(...))`` does.

    Source: Spark 4.2, section 7 of checkpoints-and-time. Spark's session windows need a key
    column; rows without a key are those of one null key there.

    - ``delay`` (sequence of int or None): how far the watermark stays behind the latest event time,
      ms: of each input, or one for all. Each input has a ``withWatermark`` of its own. None: no
      watermark.
    - ``window``: ``("tumbling", size[, offset])``, ``("sliding", size, slide[, offset])`` or
      ``("session", gap)``, all ms; a gap may be a function of the key.
    - ``mode``: ``"append"``, ``"update"`` or ``"complete"``.
    - ``policy``: which input's watermark is the query's, ``"min"`` or ``"max"``
      (``spark.sql.streaming.multipleWatermarkPolicy``).
    - ``no_data_batches``: whether a batch follows without data when the watermark has moved
      (``spark.sql.streaming.noDataMicroBatches.enabled``).
    - ``multiple``: whether rows are late by the watermark of the batch before
      (``spark.sql.streaming.statefulOperator.allowMultiple``); otherwise by the batch's own.

    Raises ValueError if Spark refuses the query: append without a watermark, sessions in update
    mode, a negative delay, a window without a length, a slide above the size, an offset of a slide
    or more.

    Examples
    --------
    >>> query = SparkAggregation(2_000, ("tumbling", 5_000))
    >>> query.batch([1_000, 4_000, 8_000]), query.watermark, query.needs_no_data_batch
    ([], 6000, True)
    >>> query.batch()
    [Group(start=0, end=5000, key=None, rows=2)]
    """

    delay: Any
    window: Window
    mode: str = "append"
    policy: str = "min"
    no_data_batches: bool = True
    multiple: bool = True
    _batch: TaskBatch = field(init=False, repr=False)
    _windows: Windows = field(init=False, repr=False)
    _query: QueryWatermark = field(init=False, repr=False)
    _delays: tuple[int, ...] | None = field(init=False, repr=False)
    _gap: Callable[[Hashable], int] | None = field(init=False, repr=False)
    _operators: list[WatermarkOperator] = field(init=False, repr=False)
    _inputs: int | None = field(default=None, init=False, repr=False)
    _keys: dict[Hashable, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the query."""
        mode = choice("mode", self.mode, MODES)
        self._query = QueryWatermark(choice("policy", self.policy, POLICIES))
        self._windows = new_windows(settings_of(self.window), _FIRST_ENTRIES)
        is_session = self._windows.settings.kind == SESSIONS
        self._gap = gap_of(self.window[1]) if is_session else None
        self._delays = delays_of(self.delay)
        if self._delays is None and mode == APPEND:
            raise ValueError(
                "mode is 'append' without a watermark: needs a delay, as no window would ever be "
                "over; or mode 'update' or 'complete'"
            )
        if mode == UPDATE and is_session:
            raise ValueError(
                "mode is 'update' with sessions, which Spark does not have: needs 'append' or "
                "'complete'"
            )
        self._batch = TaskBatch(1, mode, int(self._delays is not None))
        self._operators = [WatermarkOperator(delay) for delay in self._delays or ()]
        if self._delays is not None and isinstance(self.delay, Sequence):
            self._inputs = len(self._delays)

    @property
    def watermark(self) -> int:
        """That of the next batch, ms; 0 at the start, and always without a delay."""
        return self._query.current

    @property
    def dropped(self) -> int:
        """Partial groups that came too late, since the start (``numRowsDroppedByWatermark``)."""
        return self._windows.store.late

    @property
    def state_rows(self) -> int:
        """Groups held (``numRowsTotal``)."""
        return self._windows.store.open

    @property
    def needs_no_data_batch(self) -> bool:
        """Whether a batch follows even if no data comes, to put out and to evict."""
        return self.no_data_batches and needs_no_data_batch(self._query, self._batch.mode) == 1

    def batch(self, *rows_per_input: Iterable[int | Row]) -> list[Group]:
        """Run a micro-batch.

        ``rows_per_input``: rows of each input: event time, ms, and key. None or empty ones: a batch
        without data.

        Returns start, end, key or None, and number of rows, in the order of the windows' ends.
        Raises ValueError if the number of inputs is not that of before or something is not a row.
        Nothing has changed then.
        """
        inputs = rows_of([list(rows) for rows in rows_per_input], self._inputs)
        gaps = [[0 if self._gap is None else self._gap(key) for _, key in rows] for rows in inputs]
        if inputs and self._inputs is None:
            self._inputs = len(inputs)
            self._operators = [WatermarkOperator(*(self._delays or ())) for _ in inputs]
        self._windows.store.watermark = late_watermark(self._query, int(self.multiple))
        for number, (rows, own) in enumerate(zip(inputs, gaps, strict=True)):
            for row, gap in zip(rows, own, strict=True):
                self._take(number, row, gap)
        answer = self._answer()
        if self._delays is not None:
            end_batch(self._query, self._operators)
        return answer

    def restart(self) -> None:
        """Go on from the checkpoint, as a query that was stopped and started again.

        Groups and both watermarks are restored. What each input had seen is not, so with policy
        min the watermark stands until each has had rows again; and no batch without data follows
        before a batch with data.
        """
        restart(self._query, self._operators)

    def _take(self, number: int, row: Row, gap: int) -> None:
        """Take a row of an input up."""
        time, key = row
        windows, code = self._windows, self._keys.setdefault(key, len(self._keys))
        windows.settings.gap = gap
        while take_row(windows, self._batch, self._operators, number, code, time, 1) == FULL:
            grow(windows, 2 * len(windows.entries) + windows.settings.overlap)

    def _answer(self) -> list[Group]:
        """End the batch; return what it puts out."""
        begin_answer(self._windows.store, self._batch, self._query.current)
        store, keys, found = self._windows.store, list(self._keys), list[Group]()
        while next_answer(self._windows, self._batch) == 1:
            key = keys[store.result_key]
            found.append(Group(store.result_start, store.result_end, key, store.result_count))
        return sorted(found, key=lambda group: (group.end, group.start))


class MicroBatch(NamedTuple):
    """A batch that has run."""

    number: int
    """Its id, from 0."""
    watermark: int
    """The one that it ran with, ms."""
    answer: list[Group]
    """What it put out."""
    dropped: int
    """Partial groups that came too late for it."""
    state_rows: int
    """Groups held after it."""


@dataclass
class MicroBatches:
    """The batches of a query, those without data included.

    A trigger is a call. ``Trigger.Once`` is one :meth:`trigger`, ``AvailableNow`` is
    :meth:`run_available`; the default trigger calls :meth:`trigger` again and again.

    Examples
    --------
    >>> batches = MicroBatches(SparkAggregation(0, ("tumbling", 10)))
    >>> [batch.number for batch in batches.run_available([[[5, 12]], [[21]]])]
    [0, 1, 2]
    """

    query: SparkAggregation
    _number: int = field(default=0, init=False)

    def trigger(self, *rows_per_input: Rows) -> MicroBatch | None:
        """Run the batch of a trigger, if there is one.

        ``rows_per_input``: rows that came. No arguments: nothing came, and a batch runs only to put
        out and to evict what the watermark has passed. Empty ones: data came, and it has no rows
        (an empty file).

        None: the trigger ran no batch.
        """
        if not rows_per_input and not self.query.needs_no_data_batch:
            return None
        watermark, dropped = self.query.watermark, self.query.dropped
        answer = self.query.batch(*rows_per_input)
        number, self._number = self._number, self._number + 1
        dropped = self.query.dropped - dropped
        return MicroBatch(number, watermark, answer, dropped, self.query.state_rows)

    def run_available(self, batches: Iterable[Sequence[Rows]]) -> list[MicroBatch]:
        """Run what is there, and then as many batches without data as it takes (AvailableNow).

        ``batches``: rows of each input, for each batch.
        """
        done = [self.trigger(*rows_per_input) for rows_per_input in batches]
        while (without_data := self.trigger()) is not None:
            done.append(without_data)
        return [batch for batch in done if batch is not None]
