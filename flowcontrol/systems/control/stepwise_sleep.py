"""JStorm 2.1: bolts vote, a coordinator forwards, the spouts sleep longer after every tuple.

``BackpressureTrigger``, ``BackpressureCoordinator`` and ``BackpressureController`` of JStorm 2.1.1;
the formulas are in :mod:`flowcontrol.systems.stepwise_sleep`.

Where this differs from them:

- All bolts take their samples at the same times, multiples of ``interval_ms``; there each has a
  timer of its own. What bolts report at one time the coordinator takes in the order of the
  subtasks, and a period is over when it has passed, not a millisecond later.
- Events take no time: a spout sleeps from the next round on.
- The execution time is that of the bolt's rate now, not of the last tuple.
- A spout's send queue is not there, so it is not cut to a hundredth of its size either.
- A spout's own time for a record is that of the rate at which it is offered records; it is looked
  up when samples are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flowcontrol.systems.control.controller import Controller, interval_us, next_tick_us
from flowcontrol.systems.control.seen import GO, Command, Seen, SourceSeen, TaskSeen
from flowcontrol.systems.emission import sleep_gap_ns
from flowcontrol.systems.stepwise_sleep import (
    START,
    STOP,
    faster,
    is_start_due,
    is_stop_forwarded,
    is_widespread,
    slower,
    tally,
    vote,
)

__all__ = ["StepwiseSleep"]


class StepwiseSleep(Controller):
    """Let the sources above a bolt that is under pressure sleep longer, step by step.

    Messages are the bolts' reports, what the coordinator forwards to each task of a spout, their
    report when they sleep no more, and its word to each task of the bolt then.

    Parameters
    ----------
    values : mapping of str to float
        The throttle's parameters.
    round_us : int
        Length of a round, microseconds.
    spouts_above : mapping of str to sequence of str
        By stage that is no source, the source stages from which it can be reached.
    """

    _kept: ClassVar[tuple[str, ...]] = (
        "look_us", "looks", "votes", "pressed", "sleeps", "known", "active",
    )  # fmt: skip

    def __init__(
        self,
        values: Mapping[str, float],
        round_us: int,
        spouts_above: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__()
        self._slots = int(values["slots"])
        self._high, self._low = values["high"], values["low"]
        self._interval_us = interval_us(values["interval_ms"], round_us)
        self._samples = int(values["samples"])
        self._period_us = self._interval_us * self._samples
        self._sample_rate, self._share = values["sample_rate"], values["trigger_ratio"]
        self._above = {stage: list(spouts) for stage, spouts in spouts_above.items()}
        self.look_us = self._interval_us
        self.looks = 0
        self.votes: list[list[int]] = []  # a task's votes to start and to stop in this period
        self.pressed: list[int] = []  # whether a task waits for the end of the sleep
        # All tasks of a spout are told the same, so what one sleeps all do: sleep and bounds.
        self.sleeps: dict[str, list[int]] = {}
        # What the coordinator knows of a spout, by the bolts below it that have reported.
        self.known: dict[str, dict[str, dict[str, Any]]] = {}
        self.active: list[str] = []  # spouts to which a start was forwarded

    def first(self, sources: Sequence[SourceSeen]) -> list[Command]:
        """Let all sources emit."""
        return [GO] * len(sources)

    def next_look_us(self) -> int:
        """Return when the next sample is taken."""
        return self.look_us

    def observe(self, seen: Seen) -> list[Command]:
        """Take a sample of each queue, and let the coordinator work after the last of a period."""
        if seen.now_us >= self.look_us:
            tick_us, self.look_us = self.look_us, next_tick_us(seen.now_us, self._interval_us)
            self._sample(seen)
            self.looks += 1
            if self.looks % self._samples == 0:
                self._coordinate(seen, tick_us)
        sleeps = [self.sleeps.get(source.stage, [0])[0] for source in seen.sources]
        return [
            Command(0, sleep_gap_ns(sleep, source.rate), -1)
            for sleep, source in zip(sleeps, seen.sources, strict=True)
        ]

    def _sample(self, seen: Seen) -> None:
        if not self.pressed:
            self.pressed = [0] * len(seen.tasks)
            self.votes = [[0, 0] for _ in seen.tasks]
        for votes, task in zip(self.votes, seen.tasks, strict=True):
            says = vote(task.queued / self._slots, self._high, self._low)
            votes[0] += says == START
            votes[1] += says == STOP

    def _coordinate(self, seen: Seen, now_us: int) -> None:
        """Let every task report, hand on what is due, and let the spouts answer."""
        reports = [
            tally(votes[0], votes[1], self._samples, self._sample_rate, pressed)
            for votes, pressed in zip(self.votes, self.pressed, strict=True)
        ]
        self.votes = [[0, 0] for _ in seen.tasks]
        answering: list[str] = []
        for number, (task, report) in enumerate(zip(seen.tasks, reports, strict=True)):
            if report == START:
                self.messages += 1
                self.pressed[number] = 1
                self._start(task, seen, now_us)
            elif report == STOP:
                self.messages += 1
                answering += self._stop(number, task, seen, now_us)
        for spout in answering:
            self._end(spout, seen)

    def _start(self, task: TaskSeen, seen: Seen, now_us: int) -> None:
        """Hear a task that is under pressure: its spouts shall sleep longer."""
        execute_ms = int(task.service_ms)
        tasks = sum(other.stage == task.stage for other in seen.tasks)
        for spout in self._above[task.stage]:
            bolts = self.known.setdefault(spout, {})
            newest = max(bolts.values(), key=lambda bolt: bolt["at_us"], default=None)
            elapsed = now_us - newest["at_us"] if newest else self._period_us
            largest = max((bolt["execute_ms"] for bolt in bolts.values()), default=0)
            was_start = int(newest["says"] == START) if newest else 0
            is_due = is_start_due(elapsed, self._period_us, was_start, execute_ms, largest)
            bolt = bolts.setdefault(task.stage, {"at_us": 0, "tasks": []})
            bolt.update(execute_ms=execute_ms, says=START)
            if task.subtask not in bolt["tasks"]:
                bolt["tasks"].append(task.subtask)
            if is_due == 1:
                bolt["at_us"] = now_us
                if is_widespread(len(bolt["tasks"]), tasks, self._share) == 1:
                    self._hand_on(spout, seen)
                    sleep = self.sleeps.get(spout, [0, 0, 0])
                    self.sleeps[spout] = [*slower(sleep[0], sleep[1], sleep[2], execute_ms)]
                    if spout not in self.active:
                        self.active.append(spout)

    def _stop(self, number: int, task: TaskSeen, seen: Seen, now_us: int) -> list[str]:
        """Hear a task whose queue is short; return the spouts that do not sleep any more."""
        ended = []
        for spout in self._above[task.stage]:
            bolts = self.known.get(spout, {})
            bolt = bolts.get(task.stage)
            if bolt is None:
                continue
            bolt["tasks"] = [other for other in bolt["tasks"] if other != task.subtask]
            newest_us = max(other["at_us"] for other in bolts.values())
            if is_stop_forwarded(now_us - newest_us, self._period_us) == 1:
                bolt.update(at_us=now_us, says=STOP)
                self._hand_on(spout, seen)
                self.sleeps[spout] = [*faster(*self.sleeps.get(spout, [0, 0, 0]))]
                if self.sleeps[spout][0] == 0:
                    ended.append(spout)
        if not self._is_any_active(task.stage):
            self.pressed[number] = 0
            self.messages += 1
        return ended

    def _end(self, spout: str, seen: Seen) -> None:
        """Hear that a spout's tasks sleep no more; release the bolts below that waited for it."""
        self._hand_on(spout, seen)
        self.active = [other for other in self.active if other != spout]
        for stage in self.known.pop(spout, {}):
            if not self._is_any_active(stage):
                for number, task in enumerate(seen.tasks):
                    if task.stage == stage:
                        self.pressed[number] = 0
                        self.messages += 1

    def _is_any_active(self, stage: str) -> bool:
        return any(spout in self.active for spout in self._above[stage])

    def _hand_on(self, spout: str, seen: Seen) -> None:
        """Count a message from or to each task of a spout."""
        self.messages += sum(source.stage == spout for source in seen.sources)
