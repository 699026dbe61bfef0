"""Runs by the uncompiled functions whose tasks, coordinator and failures are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

from flowcontrol.control.between import Between
from flowcontrol.control.checkpoints import CheckpointControl
from flowcontrol.control.delivery import DeliveryControl
from flowcontrol.control.failures import FailureControl
from flowcontrol.kernel.loop import _advance
from flowcontrol.kernel.task import KernelWorker
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed, read_replayed
from flowcontrol.live.whole import Staged
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.places import FLAG_EMPTY, FLAG_REPORTS
from flowcontrol.results.state_reader import StateReader
from flowcontrol.results.windows import WindowResults
from flowcontrol.trace.round_state import RoundState
from modules import load

clocks: Any = load("tests/virtual/clocks.py")

WINDOWS = 1 << 12
"""Entries that a subtask has room for: a round looks at all the room there is."""


class InOneMemory:
    """A job run by the same functions in one memory: far quicker where much is in flight."""

    def __init__(self, job: Job, replayed: Replayed, sizes: LogSizes) -> None:
        self.memory = fill(job, sizes, replayed=replayed)
        self._between = Between(job, self.memory)
        self._reader = StateReader(job, self.memory, self._between, WindowResults(self.memory))

    def run(self) -> RoundState:
        """Run a round; return the state then."""
        head = self.memory.head
        self._between.act()
        assert _advance(self.memory.cells, head.round + 1) in {0, FLAG_REPORTS, FLAG_EMPTY}
        head.flags = head.ages_count = 0
        state: RoundState = self._reader.read()
        return state


class WatchedRun:
    """A run whose coordinator looks before every round; if it is staged, the observer's.

    Those of the stages look when something is due.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    replayed : Replayed, optional
        What its sources replay; by default it is read.
    delivery : DeliveryControl, optional
        What finds out what the readers of its sinks see.
    is_staged : bool, default False
        Whether each stage has a memory of its own.

    Attributes
    ----------
    states : list of RoundState
        After each round so far.
    """

    def __init__(
        self,
        job: Job,
        replayed: Replayed | None = None,
        delivery: DeliveryControl | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        rows = replayed or read_replayed(job)
        sizes = LogSizes.of_processes(job, rows.keys)
        sizes = replace(sizes, windows=min(sizes.windows, WINDOWS))
        kind: Any = Staged if is_staged else InOneMemory
        self.job, self.staged, self.delivery = job, kind(job, rows, sizes), delivery
        self.memory, self.states = self.staged.memory, list[RoundState]()
        coordination, recovery = self.between.coordination, self.between.recovery
        self.checkpoints: CheckpointControl | None = coordination and coordination.control
        self.failures: FailureControl | None = recovery and recovery.control
        self._watches: dict[str, Callable[..., Any]] = {}
        if delivery is not None:
            delivery.attach(self.checkpoints, self.failures)
            if coordination is not None:
                coordination.delivery = delivery

    @property
    def between(self) -> Between:
        """What acts between rounds, as the observer sees it."""
        found: Between = self.staged._between
        return found

    @property
    def stages(self) -> list[tuple[Any, Between]]:
        """The replica of each stage, and what acts on it between rounds."""
        found: list[tuple[Any, Between]] = self.staged._stages
        return found

    @property
    def shares(self) -> Any:
        """What all tasks have published in the last round."""
        return self.staged.published

    def watch(
        self,
        name: str,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
    ) -> None:
        """Call something before or after each call of a method of a task: with the same."""
        method = getattr(KernelWorker, name)

        def watched(worker: KernelWorker, *what: Any) -> Any:
            if before is not None:
                before(worker, *what)
            found = method(worker, *what)
            if after is not None:
                after(worker, *what)
            return found

        self._watches[name] = watched

    def rounds(self) -> Iterator[RoundState]:
        """Run the job round by round."""
        coordination, own = self.between.coordination, self.delivery
        samples = [(t_s, last) for t_s, _, last in self.job.samples(self.job.rounds)]
        for number in range(self.job.rounds):
            if coordination is not None:
                coordination._due = number
            with ExitStack() as patches:
                for name, watched in self._watches.items():
                    patches.enter_context(mock.patch.object(KernelWorker, name, watched))
                state = self.staged.run()
            self.states.append(state)
            if own is not None:
                if coordination is not None:
                    own.advance(number)
                taken = [state.tasks[task].state.taken for task in own.tasks]
                for t_s, last in samples:
                    if last == number:
                        own.sample(t_s, number + 1, taken)
            yield state
        if coordination is not None:
            coordination.finish(self.job.rounds)
        if own is not None:
            own.advance(self.job.rounds)

    def run(self) -> list[RoundState]:
        """Run the job to its end; return its states."""
        return list(self.rounds())
