"""The reader of a stage on the driver: wait for rounds, and plan which rows they read."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from flowcontrol.errors import LedgerError
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.work import arrival_rounds
from flowcontrol.ledger.exchange import ExchangeView, Span
from flowcontrol.ledger.ledger import LedgerView
from flowcontrol.ledger.storage import RESTORE_RUN
from flowcontrol.live.file_orders import StageOrders
from flowcontrol.live.file_orders import joined as in_one
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.rows import SubtaskOrder, TakePartition, joined, marked
from flowcontrol.live.runtime import StageRuntime, links_heard, rounds_at_once, rounds_of_batch
from flowcontrol.live.stage_rows import SubtaskRound, Take
from flowcontrol.scenario import parse_scenario
from flowcontrol.spark.versions import has_read_limits

SHORTEST_WAIT_S = 0.0005
LONGEST_WAIT_S = 0.002
"""Pauses between two polls for a neighbour's commit double from the shortest to the longest: a poll
tests whether one file per link exists."""

LONG_WAIT_S = 5.0
"""Time after which the log is checked for a gap: a commit may have been cleaned away."""

Cursors = dict[str, list[list[list[int]]]]


class RoundPlanner:
    """Plans the rounds of one stage.

    ``options``: of the data source: ``scenario``, ``folder``, ``stage``, ``run_id``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        job = build_physical_graph(parse_scenario(json.loads(options["scenario"])))
        paths, plan = RunPaths(options["folder"]), job.stage(options["stage"])
        run_id = options["run_id"]
        views = {
            link.name: LedgerView(paths.ledger(link), run_id) for link in links_heard(job, plan)
        }
        self._exchanges = {
            link.name: ExchangeView(paths.exchange(link), run_id) for link in plan.inputs
        }
        self._runtime = StageRuntime(job, plan.name, paths, views)
        self._orders = StageOrders(job, plan, paths, run_id)
        self._at_once = rounds_at_once(job, plan)
        self._planned: tuple[range, list[TakePartition]] = range(0), []
        self._parent = os.getppid()
        self._ended = None if has_read_limits() else paths.ended_file(plan.name)

    def end_of_batch(self, first: int) -> tuple[int, Cursors] | None:
        """Wait until a batch may start, run its rules, return where it ends; None at the end.

        ``first``: the round that it begins with.

        Returns its last round, and the cursors after that. Raises LedgerError if rounds before it
        are not in the stage's own ledgers.
        """
        runtime = self._runtime
        self._check_follows(first)
        if first >= runtime.job.rounds or not self._wait(first):
            return None
        rounds = range(first, min(first + self._at_once, runtime.job.rounds))
        self._plan(rounds)
        cursors = {
            link.name: [
                [list(pair) for pair in zip(done.consumed[gate], done.read[gate], strict=True)]
                for done in runtime.works
            ]
            for gate, link in enumerate(runtime.plan.inputs)
        }
        return rounds[-1], cursors

    def _check_follows(self, first: int) -> None:
        """Refuse a checkpoint that is ahead of the ledgers: its neighbours would wait for ever.

        Rows of a batch are in the ledgers before Spark notes that it is done.
        """
        runtime = self._runtime
        runtime.refresh()
        if not runtime.is_committed(first - 1):
            raise LedgerError(
                f"stage {runtime.plan.name}: its checkpoint says that round {first - 1} is done, "
                f"its ledgers end with round {runtime.last_committed()}: one of them is of "
                f"another run or moment. {RESTORE_RUN}"
            )

    def _plan(self, rounds: range) -> None:
        """Run the rules of rounds, and note what each subtask does with which rows in them."""
        runtime, last = self._runtime, rounds[-1]
        parts, orders = dict[int, list[TakePartition]](), dict[int, list[SubtaskOrder]]()
        for exchange in self._exchanges.values():
            exchange.refresh()
        for number in rounds:
            for done in runtime.advance(number):
                if done.records:
                    parts.setdefault(done.index, []).append(self._partition(number, done))
                if done.records or len(rounds) > 1:
                    orders.setdefault(done.index, []).append(self._orders.order(last, done))
        planned = [joined(own) for _, own in sorted(parts.items())]
        for partition in planned:
            partition.order = in_one(orders[partition.subtask])
        self._planned = rounds, planned

    def note_end(self) -> None:
        """Tell the driver where Spark does not end the query by itself (before 4.2)."""
        if self._ended is not None:
            self._ended.touch()

    def _wait(self, number: int) -> bool:
        """Wait until a round may start; False if the run is to stop, or the driver is gone."""
        wait, stop = SHORTEST_WAIT_S, self._runtime.paths.stop_file
        checked = time.monotonic()
        while True:
            self._runtime.refresh()
            if self._runtime.is_ready(number):
                return not stop.exists()
            if stop.exists() or os.getppid() != self._parent:
                return False
            if time.monotonic() - checked > LONG_WAIT_S:
                checked = time.monotonic()
                self._runtime.check_reachable()
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    def partitions(self, first: int, last: int) -> Sequence[TakePartition]:
        """Return a partition per subtask that processes rows in a batch, which holds some rounds.

        A batch whose ledger rows are committed is over: it is run again only because Spark
        had not noted its end, and its rows may have been trimmed.
        """
        runtime, rounds = self._runtime, range(first, last + 1)
        if rounds != rounds_of_batch(runtime.job, runtime.plan, first // self._at_once):
            raise LedgerError(
                f"stage {runtime.plan.name}: its checkpoint has a batch of rounds {first} to "
                f"{last}, and batches here have {self._at_once} each, from 0 on: it is of another "
                f"version, or of another query. {RESTORE_RUN}"
            )
        runtime.refresh()
        if runtime.is_committed(last):
            return []
        if self._planned[0] != rounds:
            self._plan(rounds)
        return self._planned[1]

    def _partition(self, number: int, done: SubtaskRound) -> TakePartition:
        runtime, plan, index = self._runtime, done.plan, done.index
        if plan.is_source:
            made = plan.name, done.first, done.records
            rounds = arrival_rounds(runtime.job, plan, index, done.first, done.records)
            rounds = rounds or [(number, done.records)]
            again = min(done.records, max(0, runtime.restarts.emitted.get(index, 0) - done.first))
            spans = list[Span]()
            if plan.stage.input is not None:
                file = runtime.paths.replay(plan.name) / f"subtask-{index}.parquet"
                spans = [Span(str(file), done.first, done.records)]
            return TakePartition(index, spans, made, rounds, again)
        moved = done.takes if done.answered is None else done.answered
        return TakePartition(index, [span for take in moved for span in self._located(index, take)])

    def _located(self, index: int, take: Take) -> Iterator[Span]:
        """Yield the positions of records of a channel; what was in flight to it has one age.

        An earlier attempt has emitted that.
        """
        link, first, count = self._runtime.plan.inputs[take.gate], take.first, take.records
        exchange, sender = self._exchanges[link.name], link.incoming(index)[take.channel].sender
        restored, early = self._runtime.restarts.in_flight_to.get(index), 0
        if restored is not None:
            early = max(0, min(count, restored.until[take.gate][take.channel] - first))
            for span in exchange.locate(sender, index, first, early):
                yield replace(span, emitted=marked(restored.began))
        yield from exchange.locate(sender, index, first + early, count - early)
