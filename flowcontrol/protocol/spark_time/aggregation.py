"""An aggregation of Structured Streaming over windows of event time, batch by batch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowcontrol.protocol.spark_time.arguments import (
    MODES,
    POLICIES,
    Window,
    choice,
    delays_of,
    held_of,
    rows_of,
)
from flowcontrol.protocol.spark_time.groups import Group, Held, Row, Sessions
from flowcontrol.protocol.spark_time.watermarks import (
    APPEND,
    UPDATE,
    QueryWatermark,
    WatermarkOperator,
    drops_late,
    end_batch,
    evicts,
    is_over,
    late_watermark,
    needs_no_data_batch,
    observe,
    restart,
)


@dataclass(eq=False)
class SparkAggregation:
    """Count rows per window, and key, as ``withWatermark(...).groupBy(window(...))`` does.

    Parameters
    ----------
    delay : int, sequence of int or None
        How far the watermark stays behind the latest event time, ms: of each input, or one for
        all. Each input has a ``withWatermark`` of its own. None: no watermark.
    window : tuple
        ``("tumbling", size[, offset])``, ``("sliding", size, slide[, offset])`` or
        ``("session", gap)``, all ms; a gap may be a function of the key.
    mode : str, default "append"
        ``"append"``, ``"update"`` or ``"complete"``.
    policy : str, default "min"
        Which input's watermark is the query's, ``"min"`` or ``"max"``
        (``spark.sql.streaming.multipleWatermarkPolicy``).
    no_data_batches : bool, default True
        Whether a batch follows without data when the watermark has moved
        (``spark.sql.streaming.noDataMicroBatches.enabled``).
    multiple : bool, default True
        Whether rows are late by the watermark of the batch before
        (``spark.sql.streaming.statefulOperator.allowMultiple``); otherwise by the batch's own.

    Attributes
    ----------
    dropped : int
        Partial groups that came too late, since the start (``numRowsDroppedByWatermark``).

    Raises
    ------
    ValueError
        If Spark refuses the query: append without a watermark, sessions in update mode, a negative
        delay, a window without a length, a slide above the size, an offset of a slide or more.

    Notes
    -----
    Source: Spark 4.2, section 7 of checkpoints-and-time. Spark's session windows need a key
    column; rows without a key are those of one null key there.

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
    dropped: int = field(default=0, init=False)
    _mode: int = field(init=False, repr=False)
    _held: Held = field(init=False, repr=False)
    _query: QueryWatermark = field(init=False, repr=False)
    _delays: tuple[int, ...] | None = field(init=False, repr=False)
    _operators: list[WatermarkOperator] = field(init=False, repr=False)
    _inputs: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the query."""
        self._mode = choice("mode", self.mode, MODES)
        self._query = QueryWatermark(choice("policy", self.policy, POLICIES))
        self._held = held_of(self.window)
        self._delays = delays_of(self.delay)
        if self._delays is None and self._mode == APPEND:
            raise ValueError(
                "mode is 'append' without a watermark: needs a delay, as no window would ever be "
                "over; or mode 'update' or 'complete'"
            )
        if self._mode == UPDATE and isinstance(self._held, Sessions):
            raise ValueError(
                "mode is 'update' with sessions, which Spark does not have: needs 'append' or "
                "'complete'"
            )
        self._operators = [WatermarkOperator(delay) for delay in self._delays or ()]
        if self._delays is not None and isinstance(self.delay, Sequence):
            self._inputs = len(self._delays)

    @property
    def watermark(self) -> int:
        """That of the next batch, ms; 0 at the start, and always without a delay."""
        return self._query.current

    @property
    def state_rows(self) -> int:
        """Groups held (``numRowsTotal``)."""
        return len(self._held)

    @property
    def needs_no_data_batch(self) -> bool:
        """Whether a batch follows even if no data comes, to put out and to evict."""
        return self.no_data_batches and needs_no_data_batch(self._query, self._mode) == 1

    def batch(self, *rows_per_input: Iterable[int | Row]) -> list[Group]:
        """Run a micro-batch.

        Parameters
        ----------
        *rows_per_input : iterables of int or (int, key)
            Rows of each input: event time, ms, and key. None or empty ones: a batch without data.

        Returns
        -------
        list of Group
            Start, end, key or None, and number of rows, in the order of the windows' ends.

        Raises
        ------
        ValueError
            If the number of inputs is not that of before or something is no row. Nothing has
            changed then.
        """
        inputs = rows_of([list(rows) for rows in rows_per_input], self._inputs)
        partials = self._held.partials(inputs)
        if inputs and self._inputs is None:
            self._inputs = len(inputs)
            self._operators = [WatermarkOperator(*(self._delays or ())) for _ in inputs]
        changed = self._held.add(self._in_time(partials))
        answer = self._answer(changed)
        if self._delays is not None:
            for operator, rows in zip(self._operators, inputs, strict=False):
                if rows:
                    observe(operator, max(time for time, _ in rows))
            end_batch(self._query, self._operators)
        return sorted(answer, key=lambda group: (group.end, group.start))

    def restart(self) -> None:
        """Go on from the checkpoint, as a query that was stopped and started again.

        Groups and both watermarks are restored. What each input had seen is not, so with policy
        min the watermark stands until each has had rows again; and no batch without data follows
        before a batch with data.
        """
        restart(self._query, self._operators)

    def _in_time(self, partials: list[Group]) -> list[Group]:
        """Leave out, and count, what comes too late."""
        if self._delays is None or not drops_late(self._mode, isinstance(self._held, Sessions)):
            return partials
        watermark = late_watermark(self._query, int(self.multiple))
        kept = [group for group in partials if not is_over(group.end, watermark)]
        self.dropped += len(partials) - len(kept)
        return kept

    def _answer(self, changed: list[Group]) -> list[Group]:
        """Return what the mode puts out; evict what is over."""
        gone = list[Group]()
        if self._delays is not None and evicts(self._mode):
            gone = self._held.evict(self._query.current)
        if self._mode == APPEND:
            return gone
        return changed if self._mode == UPDATE else self._held.groups()
