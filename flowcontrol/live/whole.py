"""A job whose tasks see each other within a round: every process steps all of them.

Jobs that start and stop take their segments from one pool, and the disk of a task manager serves
its partitions in one order; so no task can be stepped by itself. Each process has all of the
memory, steps all tasks, and publishes what its own have put into their channels; so all come to
the same. That which has task 0 publishes the memory besides, for those that start again: all of it
every few rounds, and in those between what they have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import numpy as np

from flowcontrol.control.between import Between
from flowcontrol.kernel import views as v
from flowcontrol.kernel.jobs import Timeline
from flowcontrol.kernel.loop import run_round, settle_until
from flowcontrol.kernel.views import inputs_of, outputs_of
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed
from flowcontrol.live.replica import Replica, broken, rows_of_log
from flowcontrol.live.shares import ChannelShare, Machines, Shares, TaskShare, sent_as, waiting_in
from flowcontrol.memory.fill import fill
from flowcontrol.memory.links import disks_of
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.places import Ints
from flowcontrol.results.state_reader import StateReader
from flowcontrol.results.windows import WindowResults
from flowcontrol.state.queues import SPANNING_DATA
from flowcontrol.trace.round_state import RoundState

COMPLETE_EVERY: Final = 32
"""Rounds after which all of the memory is published."""


def is_whole(job: Job) -> bool:
    """Whether tasks of a job see each other within a round."""
    return job.scenario.shares_memory or bool(disks_of(job))


def replica_of(job: Job, memory: Memory, own: Sequence[int]) -> Replica:
    """Return the memory of a job in which some of its tasks run; parameters as of Replica."""
    if not is_whole(job):
        return Replica(job, memory, own)
    timeline = Timeline(job, memory) if job.scenario.shares_memory else None
    return WholeReplica(job, memory, own, timeline)


def observer_of(job: Job, memory: Memory) -> Replica:
    """Return that in which all tasks are only looked at; its jobs are started by somebody else."""
    return WholeReplica(job, memory, (), None) if is_whole(job) else Replica(job, memory, ())


class WholeReplica(Replica):
    """The memory of a job in which all tasks run, and some are published.

    - ``memory``: of it, before the first round; filled alike in every process.
    - ``own``: the tasks that are published here; none where all are only looked at.
    - ``timeline``: starts and stops jobs before rounds; none where somebody else does.
    """

    sees_turns = True

    def __init__(
        self, job: Job, memory: Memory, own: Sequence[int], timeline: Timeline | None
    ) -> None:
        super().__init__(job, memory, own)
        self._known = self._standing.first()
        """The memory as it was published last."""
        self._stand_as_known()  # nobody sleeps
        self._timeline, self._is_behind, self._jobs = timeline, False, dict[str, Any]()

    def run(self) -> Shares:
        """Run the next round of all tasks; return what those do that are published here."""
        m, number = self._head, self._head.round
        if self._is_behind:
            self._catch_up()
        if self._timeline is not None:
            self._timeline.act(number)
        outputs = [c for task in self.own for c in outputs_of(self.memory, task)]
        sent = {channel: v.out_row(m, channel).sent for channel in outputs}
        self.taken_before = {task: v.task_row(m, task).taken for task in self.own}
        run_round(m, number)
        self._take_moves()
        m.round = number + 1
        for task in range(m.tasks):
            settle_until(m, task, number + 1)
        if m.flags != 0:
            raise broken(number, m.flags)
        return self._shares(sent)

    def _shares(self, sent: dict[int, int]) -> Shares:
        """Return what the tasks publish, and of the first one's stage what all tasks do."""
        m = self._head
        shares = Shares({task: self._share(task, sent) for task in self.own})
        ages, m.ages_count = self.memory.ages[: m.ages_count], 0
        if 0 in self.own:
            shares.ages, shares.machines = rows_of_log(ages), self._changed()
            shares.jobs = {} if self._timeline is None else self._timeline.state()
        return shares

    def _share(self, task: int, sent: dict[int, int]) -> TaskShare:
        """Return the channels of a task, with kind and records of the messages of the round."""
        m, outputs = self._head, dict[int, ChannelShare]()
        for channel in outputs_of(self.memory, task):
            out = v.out_row(m, channel)
            flying = waiting_in(v.wire_queue(m, out.input))
            data = [one for one in flying if one.kind <= SPANNING_DATA]
            fresh = data[max(0, len(data) - out.sent + sent[channel]) :]
            outputs[channel] = ChannelShare(messages=sent_as(fresh))
        inputs = {channel: ChannelShare() for channel in inputs_of(self.memory, task)}
        return TaskShare(inputs=inputs, outputs=outputs)

    # ------------------------------------------------------------------ the memory

    def _changed(self) -> Machines:
        """Return what the round has changed, or all that is not as before the first round."""
        cells, places = self.memory.cells, self._unknown()
        self._known[places] = cells[places]
        is_complete = (self._head.round - 1) % COMPLETE_EVERY == 0
        if is_complete:
            places = self._but_ages(np.flatnonzero(cells != self._standing.image))
        pairs = np.stack([places, cells[places]], axis=1)
        return Machines(pairs.ravel().tolist(), [], is_complete)

    def _unknown(self) -> Ints:
        """Return the cells that are not as they were published last."""
        return self._but_ages(np.flatnonzero(self.memory.cells != self._known))

    def _but_ages(self, places: Ints) -> Ints:
        """Leave out the log of ages, which is published by itself."""
        first, count = self._head.ages, self.memory.ages.nbytes // 8
        found: Ints = places[(places < first) | (places >= first + count)]
        return found

    def _stand_as_known(self) -> None:
        """Have the memory be as it was published last."""
        places, ages = self._unknown(), self._head.ages_count
        self.memory.cells[places] = self._known[places]
        self._head.ages_count = ages
        cast(Any, self._head).found.clear()  # pools may be others

    def restore(self, number: int, shares: Shares) -> None:
        """Wait for what all hear of the round and of some before: that has everything."""
        self._is_behind = True
        self._head.round, self._head.now = number + 1, number

    def unheard(self, number: int, count: int) -> range:
        """Return the rounds since all of the memory was published; none when they were run here."""
        if not self._is_behind:
            return range(0)
        last = number - 1
        return range(last - last % COMPLETE_EVERY, number)

    def hear(self, shares: Shares) -> None:
        """Know the memory as it stood after a round, unless that was run here."""
        if self.own and not self._is_behind:
            return
        if shares.machines.is_complete:
            self._known = self._standing.first()
        pairs = np.array(shares.machines.cells, np.int64)
        self._known[pairs[::2]] = pairs[1::2]
        self._jobs = shares.jobs
        if not self.own:
            self._stand_as_known()

    def _catch_up(self) -> None:
        """Have all tasks stand as they stood after the round before, and jobs go on."""
        self._is_behind = False
        if self._timeline is not None:
            self._timeline.restore(self._jobs)
        self._stand_as_known()


# --- A job whose stages run in a memory each, as on the live clock: linked by what they publish.


class Staged:
    """Runs a job stage by stage; an observer looks at all of it after each round.

    - ``sizes``: entries of the logs of each memory.
    - ``memory``: in which the observer sees all tasks.
    """

    def __init__(self, job: Job, replayed: Replayed, sizes: LogSizes) -> None:
        self._job, self._replayed, self._sizes = job, replayed, sizes
        self.memory = self._new_memory()
        self._timeline = Timeline(job, self.memory)
        self._observer = observer_of(job, self.memory)
        between = self._between = Between(job, self.memory, own=())
        self._reader = StateReader(job, self.memory, between, WindowResults(self.memory))
        first = self.memory.places.tasks
        self._owns = [
            range(first[plan.name], first[plan.name] + plan.stage.parallelism)
            for plan in job.stages
        ]
        self._stages = [self._stage(own) for own in self._owns]
        self.published, self._since = Shares(), list[Shares]()  # In the last round, and before

    def run(self) -> RoundState:
        """Run a round of every stage; return how all tasks stand then."""
        fresh = Shares()
        for replica, between in self._stages:
            between.act()
            fresh.add(replica.run())
        self._timeline.act(self.memory.head.round)
        self._between.act()
        for replica, _ in self._stages:
            replica.hear(fresh)
        self.published = fresh
        self._since = [fresh] if fresh.machines.is_complete else [*self._since, fresh]
        self._observer.look_at(fresh)
        self.memory.head.ages_count = 0
        return self._reader.read()

    def restart(self) -> None:
        """Begin anew with what the stages have published in the last round; of no job that fails.

        As processes do that are started again.
        """
        number, before = self.memory.head.round - 1, self._stages
        self._stages = [self._stage(own) for own in self._owns]
        for own, (replica, between), (_, old) in zip(self._owns, self._stages, before, strict=True):
            tasks = {task: self.published.tasks[task] for task in own}
            replica.restore(number, Shares(tasks, machines=self.published.machines))
            between.restore(old.state())
            for shares in self._since:
                replica.hear(shares)

    def _new_memory(self) -> Memory:
        return fill(self._job, self._sizes, replayed=self._replayed)

    def _stage(self, own: range) -> tuple[Replica, Between]:
        memory = self._new_memory()
        return replica_of(self._job, memory, own), Between(self._job, memory, own=own)


def staged_states(
    job: Job, replayed: Replayed, sizes: LogSizes | None = None
) -> Iterator[RoundState]:
    """Run a job stage by stage; yield its state after each round.

    ``sizes``: entries of the logs of each memory; by default more than a round needs.
    """
    staged = Staged(job, replayed, sizes or LogSizes.of_processes(job, replayed.keys))
    for _ in range(job.rounds):
        yield staged.run()
