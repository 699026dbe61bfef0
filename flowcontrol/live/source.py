"""The reader of a stage: a Python data source whose offset is a round and its cursors.

One source serves all inputs of a stage (two sources in one query drift apart). A batch is the
rounds between two offsets, as many as a stage may run at once: it starts when the neighbours' rows
of the round before are in their ledgers, and reads exactly what the rules let the stage process.
Nothing waits inside foreachBatch; a stage waits here, where Spark asks for the next offset.

Executors import this module as well, so it imports little; planning is in :mod:`.planner`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from flowcontrol.live.rows import RESULT, TakePartition, rows_of
from flowcontrol.spark.reader import CreditReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flowcontrol.live.planner import RoundPlanner


class StageSource(DataSource):
    """The data source ``flowcontrol_stage``.

    Options: ``scenario`` (JSON of a scenario), ``folder`` (of the run), ``run_id``, ``stage``,
    ``columns`` (JSON of the names of its rows' columns, hidden ones included).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name by which a reader asks for it."""
        return "flowcontrol_stage"

    def schema(self) -> str:
        """Return the one column: what the task of each subtask reports of its rows."""
        return f"{RESULT} string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader."""
        return StageReader(dict(self.options)).for_spark()


class StageReader(CreditReader):
    """Plans a stage's batches on the driver; on executors it reads their rows and packs them."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self._made: RoundPlanner | None = None

    def _planner(self) -> RoundPlanner:
        if self._made is None:
            from flowcontrol.live.planner import RoundPlanner

            self._made = RoundPlanner(self.options)
        return self._made

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to prepare: what is available ends with the last round."""

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before the first round."""
        return {"round": -1, "cursors": {}}

    def next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """Wait for the neighbours, run the rules of the next batch, return where it ends.

        Returns ``round``, its last one, and, per input edge, subtask and channel, messages consumed
        and records read of the next buffer; ``start`` itself when there is no further round.
        """
        end = self._planner().end_of_batch(int(start["round"]) + 1)
        if end is None:
            self._planner().note_end()
            return start
        number, cursors = end
        return {"round": number, "cursors": cursors}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a partition per subtask that processes rows in the rounds after ``start``."""
        return self._planner().partitions(int(start["round"]) + 1, int(end["round"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Do the work of a subtask on its rows, in the order in which they are processed."""
        from flowcontrol.live.rows import work_of

        if not isinstance(partition, TakePartition) or partition.order is None:
            raise TypeError(f"{type(partition).__name__} is not a partition of this source")
        columns = json.loads(self.options["columns"])
        yield from work_of(partition.order, rows_of(partition, columns))
