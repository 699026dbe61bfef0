"""A job whose stages run in a memory each, as on the live clock: linked by what they publish."""

from __future__ import annotations

from collections.abc import Iterator

from flowcontrol.control.between import Between
from flowcontrol.kernel.jobs import Timeline
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed
from flowcontrol.live.replica import Replica
from flowcontrol.live.shares import Shares
from flowcontrol.live.whole import observer_of, replica_of
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.results.state_reader import StateReader
from flowcontrol.results.windows import WindowResults
from flowcontrol.trace.round_state import RoundState


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
        self._shares, self._since = Shares(), list[Shares]()

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
        self._shares = fresh
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
            tasks = {task: self._shares.tasks[task] for task in own}
            replica.restore(number, Shares(tasks, machines=self._shares.machines))
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
