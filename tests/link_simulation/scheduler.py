"""Processes of a history: who runs next, what time it is, who is dead, frozen or blocked.

Each task is a greenlet, so one runs at a time: it hands over at a call to the world below it.
All choices come from one generator of random numbers, so a seed is a history.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

BEGIN_S = 1_700_000_000.0
"""Time at which a history begins, Unix time, s."""

CALL_S = 0.0005
"""What a call takes, s."""


class Crash(BaseException):
    """The process of the task is dead."""


class Process:
    """A process of a machine, with clocks of its own.

    - ``wall_s``, ``monotonic_s``: how far its clocks are ahead of the world's.
    - ``frozen_until``: it does nothing before that time.
    - ``is_hurt``: whether one of its calls has failed.
    """

    def __init__(self, name: str, pid: int, host: str) -> None:
        self.name, self.pid, self.host = name, pid, host
        self.wall_s = self.monotonic_s = self.frozen_until = 0.0
        self.is_dead = self.is_hurt = self.is_stopping = False
        self.on_end: Callable[[BaseException | None], None] | None = None


class Task:
    """One thread of a process."""

    __slots__ = ("greenlet", "is_main", "process", "wake", "work")

    def __init__(self, process: Process, work: Callable[[], Any], *, is_main: bool) -> None:
        self.process, self.work, self.is_main = process, work, is_main
        self.wake = 0.0


class Scheduler:
    """Runs tasks, one at a time.

    - ``switch``: how likely another task goes on after a call.
    - ``most``: calls after which a history is stuck.
    """

    def __init__(self, rng: random.Random, switch: float, most: int) -> None:
        self.rng, self.switch, self.most = rng, switch, most
        self.now, self.calls, self.switches = BEGIN_S, 0, 0
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self.is_over = False
        self.failure: BaseException | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._main = getcurrent()

    @property
    def process(self) -> Process:
        """The process that runs now."""
        assert self.current is not None
        return self.current.process

    # ------------------------------------------------------------------ what may happen later

    def at(self, moment: float, happens: Callable[[], None]) -> None:
        """Have something happen at a time."""
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, happens))

    def spawn(self, process: Process, work: Callable[[], Any], *, is_main: bool = False) -> Task:
        """Add a task; it begins when it is chosen."""
        task = Task(process, work, is_main=is_main)
        task.greenlet = greenlet(lambda: self._run(task), self._main)
        self.tasks.append(task)
        return task

    def kill(self, process: Process) -> None:
        """End a process; its tasks find out at their next call."""
        process.is_dead = True

    # ------------------------------------------------------------------ called by tasks

    def pause(self) -> None:
        """A call is about to be made: somebody else may go on before."""
        task = self.current
        assert task is not None
        if self.is_over or task.process.is_dead:
            raise Crash
        self.calls += 1
        self.now += CALL_S
        if self.calls > self.most:
            self.fail(AssertionError(f"stuck: nothing is over after {self.most} calls"))
            raise Crash
        events = self._events
        while events and events[0][0] <= self.now:
            self._happen()
        if task.process.frozen_until > self.now or self.rng.random() < self.switch:
            self._hand_over(task)
        if self.is_over or task.process.is_dead:
            raise Crash

    def sleep(self, seconds: float) -> None:
        """Let others go on for a time."""
        task = self.current
        assert task is not None
        if self.is_over or task.process.is_dead:
            raise Crash
        self.calls += 1
        task.wake = self.now + max(seconds, CALL_S)
        self._hand_over(task)
        if self.is_over or task.process.is_dead:
            raise Crash

    def fail(self, error: BaseException) -> None:
        """End the history with an error."""
        self.failure = self.failure or error
        self.is_over = True

    # ------------------------------------------------------------------ inside

    def _happen(self) -> None:
        _, _, happens = heapq.heappop(self._events)
        try:
            happens()
        except Exception as error:
            self.fail(error)

    def _choose(self) -> Task | None:
        """Return who goes on; None when the history is over."""
        while not self.is_over:
            now, ready, soonest = self.now, [], float("inf")
            for task in self.tasks:
                process = task.process
                wake = task.wake
                wake = 0.0 if process.is_dead else max(wake, process.frozen_until)
                if wake <= now:
                    ready.append(task)
                elif wake < soonest:
                    soonest = wake
            if ready:
                return ready[0] if len(ready) == 1 else ready[int(self.rng.random() * len(ready))]
            if self._events and self._events[0][0] <= soonest:
                self.now = max(self.now, self._events[0][0])
                self._happen()
            elif soonest < float("inf"):
                self.now = soonest
            else:
                self.fail(AssertionError("stuck: nobody is left who could go on"))
        return None

    def _hand_over(self, task: Task) -> None:
        following = self._choose()
        if following is task:
            return
        self.switches += 1
        if following is not None:
            self.current = following
        (self._main if following is None else following.greenlet).switch()

    def _run(self, task: Task) -> None:
        error: BaseException | None = None
        try:
            if not (self.is_over or task.process.is_dead):
                task.work()
        except Crash as crash:
            error = crash
        except BaseException as failure:
            error = failure
        self.tasks.remove(task)
        if task.is_main and not self.is_over:
            task.process.is_dead = True  # its other threads end with it
            try:
                if task.process.on_end is not None:
                    task.process.on_end(error)
            except Exception as wrong:
                self.fail(wrong)

    def run(self) -> None:
        """Run until the history is over; raise what was wrong in it."""
        while (task := self._choose()) is not None:
            self.current = task
            task.greenlet.switch()  # until one ends
        while self.tasks:  # each ends at the call at which it waits
            self.current = self.tasks[0]
            self.current.greenlet.switch()
        self.current = None
        if self.failure is not None:
            raise self.failure
