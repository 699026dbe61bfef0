"""What foreachBatch does with a round: pack on executors, commit, and only then recycle.

Steps of a micro-batch, and what a crash right after each one leaves:

1. The rules run on the ledger's rows of the round before: nothing is written.
2. Executors write files: orphans, which no commit names; the batch runs again.
3. The exchange logs (a sink: its table) are committed, a transaction each: the batch runs
   again, finds them there, moves no row and continues with step 4. So is what subtasks held at
   the checkpoints that they took in the round (:mod:`flowcontrol.ledger.state_table`). A sink that
   writes exactly once commits nothing here but what a completed checkpoint has, before step 2
   (:mod:`flowcontrol.live.sink`).
4. The ledgers' rows are committed, a transaction each. That recycles the round's buffers.
   Neighbours continue with those that are there; the batch runs again and adds the others.
5. Spark notes the end of the batch: if not, it is run again and does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.types import StructType

from flowcontrol.job import Job, JobEdge, Work
from flowcontrol.job.ledger_rows import receiver_rows, sender_rows
from flowcontrol.job.snapshot import task_state
from flowcontrol.job.timed_settings import has_stamps
from flowcontrol.ledger.exchange import Exchange, OutputTable, PackedFile
from flowcontrol.ledger.ledger import Ledger, LedgerView, create_ledger
from flowcontrol.ledger.state_table import KeptCut, StateTable
from flowcontrol.live.elements import sent_stamps
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.pack import GROUP_BYTES, RESULT, EdgeOrder, SubtaskOrder, SubtaskWork
from flowcontrol.live.runtime import StageRuntime, links_seen
from flowcontrol.live.sink import StageSink
from flowcontrol.live.take import exchange_schema, sent_schema
from flowcontrol.live.window_rows import WindowResults
from flowcontrol.protocol.rows import fifo_values
from flowcontrol.spark.crash_points import CrashPoint, crash_point

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Reports = dict[int, dict[str, Any]]
Files = list[dict[str, Any] | None]
"""Of a subtask: the file of each output edge; of a sink, and of windows at last, of its table."""


class StageBatch:
    """The foreachBatch function of one stage.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    stage : str
        Which stage.
    paths : RunPaths
        The run's folder.
    schema : pyarrow.Schema
        Columns of the rows, without the hidden ones.
    run_id : str
        Makes application ids unique to this run.

    Attributes
    ----------
    rounds : int
        Rounds done, those of an earlier start included.
    records : int
        Records processed, for the progress bar only.
    """

    def __init__(
        self, job: Job, stage: str, paths: RunPaths, schema: pa.Schema, run_id: str
    ) -> None:
        self.plan = plan = job.stage(stage)
        ledgers: dict[str, Ledger] = {}
        for link in plan.inputs:
            ledgers[link.name] = Ledger(paths.ledger(link), "receiver", run_id)
        for link in plan.outputs:
            ledgers[link.name] = Ledger(paths.ledger(link), "sender", run_id)
        others = [link for link in links_seen(job, plan) if link.name not in ledgers]
        views = {link.name: LedgerView(create_ledger(paths.ledger(link))) for link in others}
        self._state: StateTable | None = None
        if job.checkpoints is not None:
            self._state = StateTable(paths.state, run_id, plan.name)
        self._runtime = StageRuntime(job, plan.name, paths, {**views, **ledgers}, self._state)
        self._runtime.refresh()
        rows = self._runtime.replayed.keys
        hidden = exchange_schema(sent_schema(job, stage, schema, rows), has_stamps(job))
        self._exchanges = {
            link.name: Exchange(paths.exchange(link), hidden, run_id) for link in plan.outputs
        }
        self._output: OutputTable | None = None
        self._windows: WindowResults | None = None
        if plan.stage.window is not None:
            self._windows = WindowResults(job, plan, paths, run_id, rows, schema)
            self._output = self._windows.table
        elif plan.stage.output is not None:
            folder = paths.output(plan.stage.output.path)
            self._output = OutputTable(folder, schema, f"{run_id}/{plan.name}")
        self._sink: StageSink | None = None
        if self._output is not None and plan.stage.guarantee == "exactly-once":
            first = ledgers[plan.inputs[0].name]
            self._sink = StageSink(plan, self._output, run_id, first, job.round_us)
        self._ledgers = ledgers
        self._result = StructType().add(RESULT, "string")
        self.rounds = self._runtime.last_committed() + 1
        self.records = 0

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Run round ``batch_id`` on the rows that the reader planned for it."""
        runtime = self._runtime
        runtime.refresh()
        if not runtime.is_committed(batch_id):
            works = runtime.advance(batch_id)
            if self._sink is not None:
                self._sink.begin_round(batch_id, runtime.heard)
            reports = self._move_rows(rows, batch_id, works)
            if self._sink is not None:
                self._sink.end_round(batch_id, runtime.subtasks, reports)
            self._commit_state(batch_id)
            crash_point(self.plan.name, batch_id, CrashPoint.BEFORE_LEDGER)
            self._commit_ledgers(batch_id, reports)
            if self._sink is not None:
                self._sink.after_ledger(batch_id)
            crash_point(self.plan.name, batch_id, CrashPoint.AFTER_LEDGER)
            self.records = sum(subtask.task.taken for subtask in runtime.subtasks)
        self.rounds = batch_id + 1

    # ------------------------------------------------------------------ rows

    def _move_rows(self, rows: DataFrame, number: int, works: list[Work]) -> Reports:
        """Run the executors' part and commit its files; return what they report."""
        moved = [i for i, work in enumerate(works) if work.records]
        if self._windows is None and (not moved or self._all_exchanged(number, works)):
            return {}
        reports = self._executed(rows, number, works, moved)
        crash_point(self.plan.name, number, CrashPoint.BEFORE_EXCHANGE)
        files = {i: report["files"] for i, report in reports.items()}
        if self._windows is not None:
            files = self._results(self._windows, number, works, reports)
        for place, link in enumerate(self.plan.outputs):
            self._commit_exchange(number, place, link, files)
        if self._output is not None and self._sink is None:
            written = [_packed(i, own[-1]) for i, own in sorted(files.items()) if own[-1]]
            if written:
                self._output.commit(number, written)
        return reports

    def _executed(
        self, rows: DataFrame, number: int, works: list[Work], moved: list[int]
    ) -> Reports:
        """Have executors do the work of the subtasks that rows move at; return what they report."""
        if not moved:
            return {}
        orders = {i: self._order(number, i, works[i]) for i in moved}
        found = rows.mapInArrow(SubtaskWork(orders), self._result).collect()
        reports: Reports = {}
        for row in found:
            report = json.loads(row[RESULT])
            reports[report["subtask"]] = report
        return reports

    def _results(
        self, windows: WindowResults, number: int, works: list[Work], reports: Reports
    ) -> dict[int, Files]:
        """Write the results of all subtasks; return the files of each, that of the table last.

        What was late is committed: executors have written it.
        """
        late = [
            _packed(i, report["files"][0])
            for i, report in sorted(reports.items())
            if report["files"][0]
        ]
        if late:
            windows.late.commit(number, late)
        return {
            subtask.index: windows.packed(
                number,
                subtask,
                [
                    self._edge_order(number, subtask.index, place, link, works[subtask.index])
                    for place, link in enumerate(self.plan.outputs)
                ],
                reports.get(subtask.index),
            )
            for subtask in self._runtime.subtasks
        }

    def _all_exchanged(self, number: int, works: list[Work]) -> bool:
        """Whether it has edges, and all that carry rows in this round have them committed."""
        if not self.plan.outputs:
            return False
        for place, link in enumerate(self.plan.outputs):
            carries = any(len(work.routes[place]) for work in works if work.records)
            if carries and not self._exchanges[link.name].is_committed(number):
                return False
        return True

    def _order(self, number: int, index: int, work: Work) -> SubtaskOrder:
        if self._windows is not None:
            return self._windows.order(number, self._runtime.subtasks[index], work)
        if self._sink is not None:
            orders = self._sink.orders(number, self._runtime.subtasks[index])
            return SubtaskOrder(work.records, orders, True)
        if self.plan.is_sink:
            table = [] if self._output is None else [self._whole(index, work)]
            is_most_once = self.plan.stage.guarantee == "at-most-once"
            return SubtaskOrder(work.records, tuple(table), True, is_most_once)
        edges = tuple(
            self._edge_order(number, index, place, link, work)
            for place, link in enumerate(self.plan.outputs)
        )
        return SubtaskOrder(work.records, edges, False)

    def _edge_order(
        self, number: int, index: int, place: int, link: JobEdge, work: Work
    ) -> EdgeOrder:
        subtask = self._runtime.subtasks[index]
        pending = fifo_values(subtask.outputs[place].pending)
        # Not what was routed: a source that cannot rewind goes on there, and its channels at a cut.
        numbers = [
            own.written + pending.count(channel)
            for channel, own in enumerate(subtask.partitions[place].channels)
        ]
        return EdgeOrder(
            root=str(self._exchanges[link.name].path),
            folder=f"batch_id={number}/sender={index}",
            receivers=tuple(channel.receiver for channel in link.outgoing(index)),
            first=tuple(end - new for end, new in zip(numbers, subtask.routed[place], strict=True)),
            routes=work.routes[place],
            parents=work.parents[place],
            group_rows=max(1, GROUP_BYTES // link.record_bytes),
            stamps=sent_stamps(subtask, place),
        )

    def _whole(self, index: int, work: Work) -> EdgeOrder:
        """Order a sink's rows into one file of its table."""
        root = "" if self._output is None else str(self._output.path)
        every = np.arange(work.records, dtype=np.int64)
        return EdgeOrder(root, "", (index,), (work.first,), every * 0, every, 1 << 20)

    def _commit_exchange(
        self, number: int, place: int, link: JobEdge, files: dict[int, Files]
    ) -> None:
        packed = [_packed(i, own[place]) for i, own in sorted(files.items()) if own[place]]
        if packed:
            self._exchanges[link.name].commit(number, packed, lambda: self._taken(number, link))

    def _taken(self, number: int, link: JobEdge) -> Mapping[tuple[int, int], int]:
        """Return the records of each channel that the receiver will not read again.

        As of two rounds ago: a receiver that died between the ledgers of two inputs repeats its
        last round, whose rows are in one of them. And no further than it was at any checkpoint from
        which it may yet begin: what was in flight to it then is read again.
        """
        coordination = self._runtime.coordination
        if number < 2 or (coordination is not None and coordination.began_after(number - 2)):
            return {}
        rows = self._ledgers[link.name].rows("receiver", number - 2)
        taken = {
            (row["sender"], row["receiver"]): json.loads(row["channel_state"])["channel"][
                "processed"
            ]
            for row in rows
        }
        if coordination is not None and self._state is not None:
            self._state.refresh()
            for kept in self._state.all_cuts(coordination.is_needed):
                self._hold_back(taken, link, kept)
        return taken

    def _hold_back(self, taken: dict[tuple[int, int], int], link: JobEdge, kept: KeptCut) -> None:
        """Have nothing go of a link that its receiver had not taken up at a checkpoint."""
        if kept.stage != link.edge.receiver:
            return
        gate = self._runtime.job.stage(kept.stage).inputs.index(link)
        counts = json.loads(kept.cut)["processed"][gate]
        for own, count in zip(link.incoming(kept.subtask), counts, strict=True):
            channel = own.sender, own.receiver
            taken[channel] = min(taken[channel], count)

    # ------------------------------------------------------------------ ledgers

    def _commit_state(self, number: int) -> None:
        """Keep what subtasks held at checkpoints that they took in the round."""
        coordination, noted = self._runtime.coordination, self._runtime.noted
        if coordination is not None and self._state is not None and noted:
            crash_point(self.plan.name, number, CrashPoint.BEFORE_STATE)
            self._state.commit(number, noted, coordination.is_needed)

    def _commit_ledgers(self, number: int, reports: Reports) -> None:
        subtasks = self._runtime.subtasks
        rows: dict[str, list[dict[str, Any]]] = {link: [] for link in self._ledgers}
        for subtask in subtasks:
            if self._runtime.window_files is not None:
                self._runtime.window_files.keep(subtask, number)
            latency = self._latency(number, reports.get(subtask.index))
            state, job = task_state(subtask, number), subtask.job
            control = self._runtime.control_of(subtask)
            time = self._runtime.kept_time(subtask)
            sink = None if self._sink is None else self._sink.state_of(subtask.index)
            for place, link in enumerate(self.plan.inputs):
                rows[link.name] += receiver_rows(job, state, place, latency, control, sink, time)
            for place, link in enumerate(self.plan.outputs):
                rows[link.name] += sender_rows(job, state, place, control, time)
        for done, (name, ledger) in enumerate(self._ledgers.items()):
            if done == 1:
                crash_point(self.plan.name, number, CrashPoint.BETWEEN_LEDGERS)
            ledger.commit(number, rows[name])
        if self._runtime.window_files is not None:
            self._runtime.window_files.forget()

    def _latency(self, number: int, report: dict[str, Any] | None) -> list[list[int]] | None:
        """Rounds from emission to processing and how many records took them, of a sink."""
        if not self.plan.is_sink:
            return None
        if report is None:
            return []
        emitted, counts = report["emitted"]
        return [[number - e, c] for e, c in zip(emitted, counts, strict=True)][::-1]


def _packed(sender: int, file: Mapping[str, Any] | None) -> PackedFile:
    assert file is not None
    index = tuple((a, b, c, d) for a, b, c, d in file["index"])
    return PackedFile(file["path"], sender, file["bytes"], file["rows"], index)
