"""What foreachBatch does with rounds: pack on executors, commit, and only then recycle.

A batch holds as many rounds as a stage may run at once (:mod:`flowcontrol.live.runtime`). What
follows is done once for all of them; each has its rows in the ledger.

Steps of a micro-batch, and what a crash right after each one leaves:

1. The rules run on the ledger's rows of the rounds before: nothing is written.
2. Executors write files: orphans, which no commit names; the batch runs again.
3. The exchange logs (a sink: its table) are committed, a transaction each: the batch runs
   again, finds them there, moves no row and continues with step 4. So is what subtasks held at
   the checkpoints that they took in the round (:mod:`flowcontrol.ledger.ledger`). A sink that
   writes exactly once commits nothing here but what a completed checkpoint has, before step 2
   (:mod:`flowcontrol.live.sink`).
4. The ledgers' rows are committed, a transaction each. That recycles the round's buffers.
   Neighbours continue with those that are there; the batch runs again and adds the others.
5. Spark notes the end of the batch: if not, it is run again and does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job
from flowcontrol.ledger.exchange import Exchange, OutputTable, PackedFile
from flowcontrol.ledger.ledger import KeptCut, Ledger, LedgerView, StateTable, create_ledger
from flowcontrol.live.file_orders import StageOrders, WindowResults, joined
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.rows import RESULT, SubtaskOrder, exchange_schema, sent_schema, written_schema
from flowcontrol.live.runtime import StageRuntime, links_heard, rounds_at_once, rounds_of_batch
from flowcontrol.live.sink import StageSink, pieces_of
from flowcontrol.live.stage_rows import released_of, with_texts, writers_of
from flowcontrol.spark.crash_points import CrashPoint, crash_point

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


Orders = dict[int, SubtaskOrder]
"""By subtask."""

Files = Sequence[dict[str, Any] | None]
"""Of a subtask: the file of each output edge; those of each sink; of windows at last, of theirs."""


class StageBatch:
    """The foreachBatch function of one stage.

    - ``rounds``: rounds done, those of an earlier start included.
    - ``records``: records processed, for the progress bar only.
    """

    def __init__(
        self, job: Job, stage: str, paths: RunPaths, schema: pa.Schema, run_id: str
    ) -> None:
        self.plan = plan = job.stage(stage)
        ledgers = {
            link.name: Ledger(paths.ledger(link), side, run_id, job.latency)
            for side, links in (("receiver", plan.inputs), ("sender", plan.outputs))
            for link in links
        }
        others = [link for link in links_heard(job, plan) if link.name not in ledgers]
        views = {
            link.name: LedgerView(create_ledger(paths.ledger(link)), run_id) for link in others
        }
        self._state: StateTable | None = None
        if job.checkpoints is not None:
            self._state = StateTable(paths.state, run_id, plan.name)
        self._runtime = StageRuntime(job, plan.name, paths, {**views, **ledgers}, self._state)
        self._runtime.refresh()
        rows = self._runtime.replayed.keys
        hidden = exchange_schema(sent_schema(job, stage, schema, rows))
        self._exchanges = {
            link.name: Exchange(paths.exchange(link), hidden, run_id) for link in plan.outputs
        }
        self._windows: WindowResults | None = None
        if plan.stage.window is not None:
            self._windows = WindowResults(job, plan, paths, run_id, rows, schema)
        self._tables = dict[int, OutputTable]()
        self._sinks = dict[int, StageSink]()
        """Of each sink, by its place among them: of one that writes exactly once its rules."""
        first = next(iter(ledgers.values()))
        for place, member in enumerate(writers_of(plan)):
            sink = member.stage
            assert sink.output is not None
            columns = written_schema(sink, sent_schema(job, stage, schema, rows))
            table = OutputTable(paths.output(sink.output.path), columns, f"{run_id}/{sink.name}")
            if sink.guarantee == "exactly-once":
                self._sinks[place] = StageSink(plan, member, table, run_id, first, job.round_us)
            else:
                self._tables[place] = table
        self._ledgers = ledgers
        self._orders = StageOrders(job, plan, paths, run_id)
        self.rounds = self._runtime.last_committed() + 1
        self.records = 0

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Run the rounds of a batch on the rows that the reader planned for them."""
        runtime, rounds = self._runtime, rounds_of_batch(self._runtime.job, self.plan, batch_id)
        last = rounds[-1]
        runtime.refresh()
        if not runtime.is_committed(last):
            orders: dict[int, list[SubtaskOrder]] = {}
            held = list[Any]()
            for number in rounds:
                works = runtime.advance(number)
                for sink in self._sinks.values():
                    sink.begin_round(number, runtime.restarts.mail.heard)
                for done in works:
                    if done.records or len(rounds) > 1:
                        orders.setdefault(done.index, []).append(self._orders.order(last, done))
                if number < last:  # of the last one later: executors may have to say something
                    held.append(runtime.kept(number))
            files = self._move_rows(rows, rounds, {i: joined(own) for i, own in orders.items()})
            for place, sink in self._sinks.items():
                sink.end_round(last, runtime.works, self._written(place, files))
            self._commit_state(last)
            crash_point(self.plan.name, last, CrashPoint.BEFORE_LEDGER)
            self._commit_ledgers(last, held)
            for sink in self._sinks.values():
                sink.after_ledger(last)
            crash_point(self.plan.name, last, CrashPoint.AFTER_LEDGER)
            self.records = sum(done.taken for done in runtime.works)
        self.rounds = rounds.stop

    # ------------------------------------------------------------------ rows

    def _move_rows(self, rows: DataFrame, rounds: range, orders: Orders) -> dict[int, Files]:
        """Run the executors' part and commit its files; return these."""
        orders, last = {i: order for i, order in orders.items() if order.rows}, rounds[-1]
        if self._windows is None and (not orders or self._all_exchanged(last, orders)):
            return {}
        reports = [json.loads(row[RESULT]) for row in rows.collect()] if orders else []
        files: dict[int, Files] = {report["subtask"]: report["files"] for report in reports}
        crash_point(self.plan.name, last, CrashPoint.BEFORE_EXCHANGE)
        if self._windows is not None:
            files = self._results(self._windows, last, files)
        for place, link in enumerate(self.plan.outputs):
            self._commit_exchange(rounds, place, link, files)
        tables = [(table, self._written(place, files)) for place, table in self._tables.items()]
        if self._windows is not None:
            tables.append((self._windows.table, {i: own[-1:] for i, own in files.items()}))
        for table, found in tables:
            written = [_packed(i, own[0]) for i, own in sorted(found.items()) if own[0]]
            if written:
                table.commit(last, written)
        return files

    def _written(self, place: int, files: Mapping[int, Files]) -> dict[int, Files]:
        """Return the files that belong to a sink, by subtask."""
        found = dict[int, Files]()
        for done in self._runtime.works:
            pieces = len(pieces_of(done))
            counts = [pieces if i in self._sinks else 1 for i in range(place + 1)]
            first = len(self.plan.outputs) + sum(counts[:place])
            if done.index in files:
                found[done.index] = files[done.index][first : first + counts[place]]
        return found

    def _results(
        self, windows: WindowResults, number: int, files: Mapping[int, Files]
    ) -> dict[int, Files]:
        """Write the results of all subtasks; return the files of each, that of the table last.

        What was late is committed: executors have written it.
        """
        late = [_packed(i, own[0]) for i, own in sorted(files.items()) if own[0]]
        if late:
            windows.late.commit(number, late)
        return {
            done.index: windows.packed(number, done, list(self._orders.ways(number, done)))
            for done in self._runtime.works
        }

    def _all_exchanged(self, number: int, orders: Orders) -> bool:
        """Whether it has edges alone, and all that carry rows in this batch have them committed."""
        if not self.plan.outputs or self._tables or self._sinks:
            return False
        for place, link in enumerate(self.plan.outputs):
            carries = any(len(order.edges[place].routes) for order in orders.values())
            if carries and not self._exchanges[link.name].is_committed(number):
                return False
        return True

    def _commit_exchange(
        self, rounds: range, place: int, link: JobEdge, files: dict[int, Files]
    ) -> None:
        packed = [_packed(i, own[place]) for i, own in sorted(files.items()) if own[place]]
        if packed:
            exchange = self._exchanges[link.name]
            exchange.commit(rounds[-1], packed, lambda: self._taken(rounds[0], link))

    def _taken(self, number: int, link: JobEdge) -> Mapping[tuple[int, int], int]:
        """Return the records of each channel that the receiver will not read again.

        As of a batch and a round before the stage's own batch, which begins with ``number``: a
        receiver that died between the ledgers of two inputs repeats its last batch, whose rows are
        in one of them. And no further than it was at any checkpoint from which it may yet begin:
        what was in flight to it then is read again.
        """
        runtime, job = self._runtime, self._runtime.job
        before = number - 1 - rounds_at_once(job, job.stage(link.edge.receiver))
        if before < 0 or runtime.restarts.began_after(before):
            return {}
        rows = self._ledgers[link.name].rows("receiver", before)
        taken = {(row["sender"], row["receiver"]): released_of(row) for row in rows}
        if self._state is not None:
            self._state.refresh(at_once=True)
            for kept in self._state.all_cuts(runtime.restarts.is_needed):
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
        noted = self._runtime.restarts.noted
        if self._state is not None and noted:
            crash_point(self.plan.name, number, CrashPoint.BEFORE_STATE)
            self._state.commit(number, noted, self._runtime.restarts.is_needed)

    def _commit_ledgers(self, last: int, held: list[Any]) -> None:
        """Commit the rows of the rounds to each ledger; ``held`` is of all but the last one."""
        rows = {link: list[list[dict[str, Any]]]() for link in self._ledgers}
        sinks = list[Any]()
        if self._sinks:
            every = self._sinks.values()
            count = self.plan.stage.parallelism
            sinks = [{one.name: one.state_of(index) for one in every} for index in range(count)]
        for kept in (*held, self._runtime.kept(last)):
            for link, found in with_texts(self.plan, kept, sinks).items():
                rows[link].append(found)
        for done, (name, ledger) in enumerate(self._ledgers.items()):
            if done == 1:
                crash_point(self.plan.name, last, CrashPoint.BETWEEN_LEDGERS)
            *earlier, newest = rows[name]
            ledger.commit(last, newest, earlier=earlier)


def _packed(sender: int, file: Mapping[str, Any] | None) -> PackedFile:
    assert file is not None
    index = tuple((a, b, c, d) for a, b, c, d in file["index"])
    return PackedFile(file["path"], sender, file["bytes"], file["rows"], index)
