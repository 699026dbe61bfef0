"""Which batches a query runs: what ``MicroBatchExecution`` decides between two of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flowcontrol.protocol.spark_time.aggregation import Group, SparkAggregation
from flowcontrol.protocol.spark_time.arguments import Row

Rows = Iterable[int | Row]


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

    Parameters
    ----------
    query : SparkAggregation
        The query.

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

        Parameters
        ----------
        *rows_per_input : iterables of int or (int, key)
            Rows that came. No arguments: nothing came, and a batch runs only to put out and to
            evict what the watermark has passed. Empty ones: data came, and it has no rows (an
            empty file).

        Returns
        -------
        MicroBatch or None
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

        Parameters
        ----------
        batches : iterable of sequences
            Rows of each input, for each batch.
        """
        done = [self.trigger(*rows_per_input) for rows_per_input in batches]
        while (without_data := self.trigger()) is not None:
            done.append(without_data)
        return [batch for batch in done if batch is not None]
