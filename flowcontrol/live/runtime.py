"""A stage's tasks in one process, run by the kernel's own functions, as far as they may go.

The reader (which plans a batch) and the foreachBatch function (which runs it) live in two
processes. Both lay out the job's whole memory and step the stage's tasks in it; what the others
did, the ledgers say. A round is a pure function of the ledger's rows of the rounds before, so both
come to the same result and nothing but the ledgers is shared. The reader's run plans which rows
executors read; foreachBatch's run says what is committed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from flowcontrol.control.between import Between, acts_between
from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_ROWS, Replayed
from flowcontrol.layout.task_settings import alignment_of, has_batches
from flowcontrol.ledger.ledger import LedgerView, StateView
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.moves import StageRestarts, works_of
from flowcontrol.live.replay import staged_rows
from flowcontrol.live.replica import Replica
from flowcontrol.live.shares import Shares
from flowcontrol.live.stage_rows import Row, Rows, StageRows, SubtaskRound, between_of, shares_of
from flowcontrol.live.whole import is_whole, replica_of
from flowcontrol.memory.fill import fill
from flowcontrol.memory.links import connections_of
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory

# --- How many rounds a stage may run at once: as many as it cannot hear of anything that others
# do.
#
# What a neighbour does in a round is heard a network latency later, and not before. So a
# stage that has what its neighbours did up to the round before runs as many rounds as the
# shortest of its channels takes, messages and credits alike, and each of them is what it
# would be alone (conservative look-ahead: Chandy and Misra 1979).


MOST_AT_ONCE: Final = 64
"""Rounds at once at most: a longer latency gains little, and a kill repeats them."""


def rounds_at_once(job: Job, plan: JobVertex) -> int:
    """Return how many rounds of a stage one micro-batch of the live clock holds.

    At least 1. It is 1 where something is heard a round later: over a channel within a task
    manager, by the coordinators of checkpoints, failures and of aligned sources, by a throttle, by
    connections, processors, disks and pools that tasks share; and where what executors wrote in a
    round is part of the next one's state, as of windows, or of a sink that stages its files.
    """
    scenario = job.scenario
    has_wires = scenario.cluster.bandwidth_bytes_per_s is not None
    has_wires |= scenario.system.transport == "tcp"
    is_controlled = job.checkpoints is not None or job.faults is not None
    if is_controlled or has_wires or scenario.counts_processors:
        return 1
    if is_whole(job):
        return 1
    stage, is_throttled = plan.stage, plan.is_source and job.scenario.system.throttle != "none"
    if is_throttled or stage.window is not None or alignment_of(job, plan) is not None:
        return 1
    if any(one.stage.output and one.stage.guarantee == "exactly-once" for one in plan.members):
        return 1
    channels = [channel for link in (*plan.inputs, *plan.outputs) for channel in link.channels]
    return min(MOST_AT_ONCE, *(job.trip(channel) for channel in channels))


def rounds_of_batch(job: Job, plan: JobVertex, batch: int) -> range:
    """Return the rounds that a micro-batch holds, by its number; empty behind the last round."""
    count = rounds_at_once(job, plan)
    return range(min(batch * count, job.rounds), min((batch + 1) * count, job.rounds))


# --- A stage's tasks in one process, run by the kernel's own functions, uncompiled.


def hears_all(job: Job, plan: JobVertex) -> bool:
    """Whether a stage hears of all tasks: something that acts on it acts on others with it.

    Tasks share connections, processors, disks or pools, or the coordinators of checkpoints,
    failures and batches look at all of them. A throttle, and the alignment of sources, command
    these alone.
    """
    is_shared = bool(connections_of(job)) or job.scenario.counts_processors
    is_shared |= has_batches(job.scenario) or is_whole(job)
    if is_shared or job.checkpoints is not None or job.faults is not None:
        return True
    return plan.is_source and acts_between(job)


def links_heard(job: Job, plan: JobVertex) -> tuple[JobEdge, ...]:
    """Return the links whose ledgers a stage reads."""
    return job.links if hears_all(job, plan) else (*plan.inputs, *plan.outputs)


SIDES = ("sender", "receiver")


def memory_of(job: Job, replayed: Replayed) -> Memory:
    """Return the memory of a job before its first round, as every process of it lays it out."""
    return fill(job, LogSizes.of_processes(job, replayed.keys), replayed=replayed)


def replayed_of(job: Job, paths: RunPaths) -> Replayed:
    """Return what is known of the rows that a job's sources replay."""
    if not job.scenario.has_stamps and all(plan.stage.input is None for plan in job.stages):
        return NO_ROWS
    return staged_rows(job, paths.replay)


class StageRuntime:
    """One stage's tasks and what its ledgers say.

    - ``views``: the ledger of each link that the stage reads, by edge name (:func:`links_heard`).
    - ``state``: what is kept of checkpoints; by default it is read off the run's folder.
    - ``round``: the last round that was run; -1 before the first.
    - ``works``: what the subtasks did in it.
    """

    restarts: StageRestarts  # Checkpoints and attempts of its tasks, once a round was run

    def __init__(
        self,
        job: Job,
        stage: str,
        paths: RunPaths,
        views: dict[str, LedgerView],
        state: StateView | None = None,
    ) -> None:
        plan = job.stage(stage)
        self.job, self.plan, self.paths, self.views = job, plan, paths, views
        self._own = [(link.name, "receiver") for link in plan.inputs]
        self._own += [(link.name, "sender") for link in plan.outputs]
        self._hears_all = hears_all(job, plan)
        self.round, self.works = -1, list[SubtaskRound]()
        self._at_once = rounds_at_once(job, plan)
        self._replica: Replica | None = None
        self._between: Between | None = None
        self._shares, self._state = Shares(), state
        if state is None and job.checkpoints is not None:
            self._state = StateView(paths.state)

    @cached_property
    def replayed(self) -> Replayed:
        """What is known of replayed rows."""
        return replayed_of(self.job, self.paths)

    # ------------------------------------------------------------------ the ledgers

    def refresh(self) -> None:
        """Read the new commits of all ledgers."""
        for view in self.views.values():
            view.refresh()

    def check_reachable(self) -> None:
        """Verify that the neighbours' next commits can still be read."""
        for view in self.views.values():
            view.check_reachable()

    def is_ready(self, number: int) -> bool:
        """Whether the rows of the round before are there: the neighbours', or all that it hears."""
        heard = self._others if not self._hears_all else [*self._own, *self._others]
        return all(self.views[name].last_batch(side) >= number - 1 for name, side in heard)

    def last_committed(self) -> int:
        """Return the last round whose own rows are in all of the ledgers; -1 before the first."""
        return min(self.views[name].last_batch(side) for name, side in self._own)

    @property
    def _others(self) -> list[tuple[str, str]]:
        """The sides of its ledgers that are not its own."""
        every = [(name, side) for name in self.views for side in SIDES]
        return [end for end in every if end not in self._own]

    def is_committed(self, number: int) -> bool:
        """Whether this stage's own rows of a round are in all of its ledgers."""
        return self.last_committed() >= number

    # ------------------------------------------------------------------ a round

    def advance(self, number: int) -> list[SubtaskRound]:
        """Run a round; return what each subtask did. The same round again gives the same.

        ``number``: the round: the one after the last, or any other, for which the state is then
        restored from the ledger.

        Raises LedgerError if the rows of the round before are not there. Raises ProtocolError if a
        neighbour broke the protocol.
        """
        if number == self.round:
            return self.works
        if number != self.round + 1 or self._replica is None:
            self._replica = self._restored(number - 1)
        replica, self.round = self._replica, -2  # unfinished: it must not count as either round
        if number % self._at_once == 0:
            for before in replica.unheard(number, self._at_once):
                heard = self._published(before, own=False)
                if self._hears_all:
                    is_last = before == number - 1
                    heard.add(self._shares if is_last else self._published(before, own=True))
                replica.hear(heard)
        if self._between is not None:
            self.restarts.begin_round()
            self._between.act()
            self.restarts.deliver(number)
        self._shares = replica.run()
        self.restarts.end_round(number, self._shares)
        self.works = works_of(replica, self.plan, self._shares)
        self.round = number
        return self.works

    def _restored(self, before: int) -> Replica:
        """Return the stage's tasks as they were after a round, by the stage's own rows."""
        job, plan = self.job, self.plan
        memory = memory_of(job, self.replayed)
        first = memory.places.tasks[plan.name]
        replica = replica_of(job, memory, range(first, first + plan.stage.parallelism))
        if self._hears_all and acts_between(job):
            self._between = Between(job, memory, own=replica.own)
        self.restarts = StageRestarts(plan, replica, self._between, self._state)
        if before < 0:
            return replica
        rows = self._rows_of(before, own=True)
        self._shares = shares_of(job, memory.places, rows)
        replica.restore(before, self._shares)
        if self._between is not None:
            kept = between_of(rows, self._own[0][0])
            self._between.restore(kept["between"])
            self.restarts.go_on_from(kept["restarts"], self._logged)
        return replica

    def _logged(self, number: int) -> list[list[list[int]]]:
        """Return what the stage's tasks have logged of checkpoints in a round."""
        kept = between_of(self._rows_of(number, own=True), self._own[0][0])
        found: list[list[list[int]]] = kept["restarts"]["logged"]
        return found

    def _published(self, number: int, *, own: bool) -> Shares:
        """Return what the own tasks published in a round, or all that the stage hears of others."""
        assert self._replica is not None
        rows = self._rows_of(number, own=own)
        return shares_of(self.job, self._replica.memory.places, rows)

    def _rows_of(self, number: int, *, own: bool) -> Rows:
        """Return the rows of a round, by edge and side: the stage's own, or those of others."""
        ends = self._own if own else self._others
        found: dict[str, dict[str, list[Row]]] = {name: {} for name, _ in ends}
        for name, side in ends:
            found[name][side] = self.views[name].rows(side, number)
        return found

    # ------------------------------------------------------------------ what is asked for

    def kept(self, number: int) -> dict[str, list[Row]]:
        """Return what the ledger is to hold of the round that was just run: its rows."""
        assert self._replica is not None and number == self.round
        rows = StageRows(self.job, self.plan, self._replica)
        between = None
        if self._between is not None:
            between = {"between": self._between.state(), "restarts": self.restarts.state()}
        return rows.make(self._shares, self.works, between)
