"""The reader of a stage: a Python data source whose offset is the round and its cursors.

One source serves all inputs of a stage (two sources in one query drift apart). A batch is a
round: it starts when the neighbours' rows of the round before are in their ledgers, and reads
exactly what the rules let the stage take up. Nothing waits inside foreachBatch; the waiting is
done here, where Spark asks for the next offset.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from flowcontrol.emulation import lay_out
from flowcontrol.emulation.subtask import Work
from flowcontrol.errors import RunError
from flowcontrol.ledger.exchange import ExchangeView, Span
from flowcontrol.ledger.ledger import LedgerView
from flowcontrol.protocol import rounds as r
from flowcontrol.scenario import parse_scenario
from flowcontrol.streaming.paths import RunPaths
from flowcontrol.streaming.rowschema import ROUND, SUBTASK
from flowcontrol.streaming.runtime import StageRuntime

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["StageReader", "StageSource"]

SHORTEST_WAIT_S = 0.0005
LONGEST_WAIT_S = 0.008
"""A neighbour's commit is looked for after waits that double from the one to the other: a
look costs the existence of one file per link."""


class StageSource(DataSource):
    """The data source ``flowcontrol_stage``.

    Notes
    -----
    Options: ``scenario`` (JSON of a scenario), ``folder`` (of the run), ``stage``, ``schema``
    (DDL of the rows with the hidden columns).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name by which a reader asks for it."""
        return "flowcontrol_stage"

    def schema(self) -> str:
        """Return the columns of the rows, hidden ones included."""
        return self.options["schema"]

    def streamReader(self, schema: StructType) -> StageReader:
        """Return the reader."""
        return StageReader(dict(self.options), schema)


class TakePartition(InputPartition):
    """Rows that one subtask takes up in a round.

    Parameters
    ----------
    subtask : int
        Which.
    spans : list of Span
        Where they stand, in the order in which they are taken up. Empty for made rows.
    made : tuple of (str, int, int, int), optional
        Of made or replayed rows: source, first number, how many, round.
    """

    def __init__(
        self, subtask: int, spans: list[Span], made: tuple[str, int, int, int] | None = None
    ) -> None:
        super().__init__(subtask)
        self.subtask, self.spans, self.made = subtask, spans, made


class StageReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans a stage's rounds.

    Parameters
    ----------
    options : dict of str to str
        As given to the source.
    schema : StructType
        Of the rows.
    """

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self.options, self._schema = options, schema
        self._runtime: StageRuntime | None = None
        self._exchanges: dict[str, ExchangeView] = {}
        self._parent = os.getppid()

    # ------------------------------------------------------------- planning, on the driver

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to prepare: what is available ends with the last round."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit of Spark's: credit is the limit."""
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before the first round."""
        return {"round": -1, "cursors": {}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Wait for the neighbours, run the next round's rules, return where it ends.

        Returns
        -------
        dict
            ``round`` and, per input edge, (messages consumed, records read of the next
            buffer) of each channel; ``start`` itself when there is no further round.
        """
        runtime = self._planner()
        number = int(start["round"]) + 1
        if number >= runtime.job.rounds or not self._wait(runtime, number):
            return start
        runtime.advance(number)
        return {"round": number, "cursors": _cursors(runtime)}

    def _wait(self, runtime: StageRuntime, number: int) -> bool:
        """Wait until a round may start; False if the run is to stop."""
        wait = SHORTEST_WAIT_S
        stop = runtime.paths.stop_file
        while True:
            runtime.refresh()
            if runtime.is_ready(number):
                return not stop.exists()
            if stop.exists() or os.getppid() != self._parent:
                return False
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    def _planner(self) -> StageRuntime:
        if self._runtime is None:
            scenario = parse_scenario(json.loads(self.options["scenario"]))
            job, paths = lay_out(scenario), RunPaths(self.options["folder"])
            plan = job.stage(self.options["stage"])
            views = {
                link.name: LedgerView(paths.ledger(link)) for link in (*plan.inputs, *plan.outputs)
            }
            self._exchanges = {
                link.name: ExchangeView(paths.exchange(link)) for link in plan.inputs
            }
            self._runtime = StageRuntime(job, plan.name, paths, views)
        return self._runtime

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a partition per subtask that takes rows up in the round that ends at ``end``.

        A round whose ledger rows are committed is over: it is re-run only because Spark had
        not noted its end, and its rows may have been trimmed.
        """
        runtime = self._planner()
        number = int(end["round"])
        runtime.refresh()
        if runtime.is_committed(number):
            return []
        works = runtime.advance(number)
        for exchange in self._exchanges.values():
            exchange.refresh()
        return [
            self._partition(runtime, number, index, work)
            for index, work in enumerate(works)
            if work.records
        ]

    def _partition(
        self, runtime: StageRuntime, number: int, index: int, work: Work
    ) -> TakePartition:
        plan = runtime.plan
        if plan.is_source:
            made = (plan.name, work.first, work.records, number)
            if plan.stage.input is None:
                return TakePartition(index, [], made)
            file = runtime.paths.replay(plan.name) / f"subtask-{index}.parquet"
            return TakePartition(index, [Span(str(file), work.first, work.records)], made)
        subtask, spans = runtime.subtasks[index], []
        next_record = {
            (g, c): gate.cursors[c][r.IN_TAKEN] - subtask.taken[g][c]
            for g, gate in enumerate(subtask.gates)
            for c in range(len(gate.cursors))
        }
        for gate, channel, count in work.takes:
            link, own = subtask.in_links[gate]
            first = next_record[gate, channel]
            spans += self._exchanges[link.name].locate(own[channel].sender, index, first, count)
            next_record[gate, channel] += count
        return TakePartition(index, spans)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: buffers are recycled at the end of foreachBatch, senders trim."""

    def stop(self) -> None:
        """Nothing is held open."""

    # ------------------------------------------------------------- reading, on an executor

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition in the order in which they are taken up."""
        from flowcontrol.streaming.take import made_rows, replayed_rows, span_rows

        if not isinstance(partition, TakePartition):
            raise RunError(f"{type(partition).__name__} is not a partition of this source")
        columns = [name for name in self._schema.names if name not in (ROUND, SUBTASK)]
        if partition.made is None:
            yield from span_rows(partition.spans, partition.subtask, [*columns, ROUND])
        elif partition.spans:
            span, number = partition.spans[0], partition.made[3]
            yield from replayed_rows(span, partition.subtask, number, columns)
        else:
            yield made_rows(partition.subtask, *partition.made)


def _cursors(runtime: StageRuntime) -> dict[str, list[list[list[int]]]]:
    """Return per input edge, subtask and channel where the round ends."""
    found: dict[str, list[list[list[int]]]] = {}
    for number, link in enumerate(runtime.plan.inputs):
        found[link.name] = [
            [
                [row[r.IN_CONSUMED], _read_of_next(subtask, number, channel)]
                for channel, row in enumerate(subtask.gates[number].cursors)
            ]
            for subtask in runtime.subtasks
        ]
    return found


def _read_of_next(subtask: Any, gate: int, channel: int) -> int:
    """Records already read of the buffer in hand, if it is of this channel."""
    task = subtask.task
    if task[r.TASK_LEFT] and task[r.TASK_GATE] == gate and task[r.TASK_CHANNEL] == channel:
        return int(task[r.TASK_READ])
    return 0
