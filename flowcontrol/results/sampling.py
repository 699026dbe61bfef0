"""Backpressure by sampling during a run, as Flink up to 1.12 showed it.

All pages are open: each task is asked about at every moment. What lives here is when a set
begins and a sample is due, in rounds; what one makes of them is
:mod:`flowcontrol.protocol.monitoring`.

sample
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from flowcontrol.arrays import pa
from flowcontrol.layout.graph import JobVertex, start_us
from flowcontrol.layout.job import Job
from flowcontrol.memory.fields import ABSENT
from flowcontrol.memory.memory import Memory
from flowcontrol.protocol.monitoring import BackPressureSampler, pressure_level
from flowcontrol.records import SAMPLES
from flowcontrol.scenario.monitoring import SamplingKeys

AGAIN_MS: Final = 1000
"""Time after which a set is tried again that could not begin, as a subtask was not running."""


Waits = Sequence[int | None]
"""How long each subtask of a vertex waited for a buffer in a round, microseconds; None: it was not
deployed, or had ended."""


@dataclass
class _Watched:
    """A vertex: when it is looked at next, and which sample of a set that is."""

    plan: JobVertex
    due_ms: int
    number: int = 0


class Sampling:
    """Samples the tasks of a run, set by set.

    A round is the shortest time that a run knows, so a sample falls somewhere into its round:
    where, is drawn from the seed, the subtask and the moment. A task that waited for a buffer for
    a third of a round is found waiting there by every third sample. If it waited all the round or
    not at all, as in rounds that are short beside what happens, nothing is drawn.

    ``job``: the scenario, laid out; it says ``monitoring.sampling``.
    """

    def __init__(self, job: Job, keys: SamplingKeys) -> None:
        self._job, self._keys = job, keys
        forever = 2 * (keys.length_ms + keys.refresh_ms + AGAIN_MS) + int(job.time_s(job.rounds))
        self._sampler = BackPressureSampler(
            keys.samples, keys.delay_ms, keys.refresh_ms, cleanup_ms=forever * 1000
        )
        begin_ms = -(-start_us(job.scenario) // 1000)
        self._watched = [_Watched(plan, begin_ms) for plan in job.stages]
        self._rows: list[tuple[float, str, int, float, str]] = []

    @property
    def next_round(self) -> int:
        """The next round that has to be looked at."""
        return min(one.due_ms for one in self._watched) * 1000 // self._job.round_us

    def look(self, number: int, waits_of: Callable[[JobVertex], Waits]) -> None:
        """Take the samples that are due in a round.

        ``number``: the round, which is over.
        """
        end_us = (number + 1) * self._job.round_us
        for watched in self._watched:
            if watched.due_ms * 1000 < end_us:
                found = waits_of(watched.plan)
                while watched.due_ms * 1000 < end_us:
                    self._visit(watched, found)

    def table(self) -> pa.Table:
        """Return the table ``samples``: sets in the order of their ends, stages in the job's."""
        members = (member for plan in self._job.stages for member in plan.members)
        order = {member.stage.name: number for number, member in enumerate(members)}
        rows = sorted(self._rows, key=lambda row: (row[0], order[row[1]], row[2]))
        return SAMPLES.of_rows(dict(zip(SAMPLES.names, row, strict=True)) for row in rows)

    def _visit(self, watched: _Watched, waits: Waits) -> None:
        """Ask about a vertex if no set of it is under way, and take the sample that is due."""
        now_ms, name = watched.due_ms, watched.plan.name
        if watched.number == 0:
            if None in waits:
                watched.due_ms += AGAIN_MS
                return
            self._sampler.ask(name, now_ms)
        for index, blocked_us in enumerate(waits):
            if blocked_us is not None:
                blocked = self._is_waiting(blocked_us, f"{name}/{index}/{now_ms}")
                self._sampler.sample(name, index, blocked, now_ms)
        watched.number += 1
        watched.due_ms += self._keys.delay_ms
        if watched.number == self._keys.samples:
            self._close(watched, now_ms)

    def _close(self, watched: _Watched, end_ms: int) -> None:
        """Note the result of a set, and when the next one begins."""
        watched.number = 0
        watched.due_ms = end_ms + max(self._keys.refresh_ms, 1)
        found = self._sampler.result(watched.plan.name, end_ms + 1)
        for member in watched.plan.members:
            for index, ratio in found.ratios.items() if found is not None else ():
                level = pressure_level(ratio).value
                self._rows.append((end_ms / 1000, member.stage.name, index, ratio, level))

    def _is_waiting(self, blocked_us: int, what: str) -> bool:
        """Tell whether a moment somewhere in a round is one of those in which a task waited."""
        whole = self._job.round_us
        if not 0 < blocked_us < whole:
            return blocked_us > 0
        text = f"{self._job.scenario.seed}/sampling/{what}"
        drawn = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
        return drawn % whole < blocked_us


def sampling_of(job: Job) -> Sampling | None:
    """Return what samples a job; None if its scenario asks for no sampling."""
    monitoring = job.scenario.monitoring
    if monitoring is None or monitoring.sampling is None:
        return None
    return Sampling(job, monitoring.sampling)


class Samples:
    """Has a run's tasks looked at in the rounds into which a sample falls.

    - ``absent``: stages whose job does not run at present.
    - ``sampling``: as given.
    """

    def __init__(self, job: Job, memory: Memory, absent: set[str], sampling: Sampling) -> None:
        self._head, self._absent, self.sampling = memory.head, absent, sampling
        self._places, self._last = memory.places.tasks, job.rounds
        self._at: int | None = None
        tasks = memory.tasks  # views, made once: making them takes longer than looking at them
        self._status, self._is_finished = tasks["status"], tasks["is_finished"]
        self._blocked = tasks["blocked"]
        self._before = self._blocked.copy()

    def take(self) -> None:
        """Take the samples of the round that is over, if any fell into it.

        To be called before anything else happens between two rounds.
        """
        if self._at is not None and self._head.round > self._at:
            number, self._at = self._at, None
            self.sampling.look(number, self._waits)

    def begin(self) -> int:
        """Be ready for the next round; return the round before which to be called again.

        To be called when all that happens between two rounds has happened.
        """
        number, due = self._head.round, self.sampling.next_round
        if number < due:
            return due
        if number >= self._last:
            return self._last
        self._at = number
        self._before = self._blocked.copy()
        return number + 1

    def _waits(self, plan: JobVertex) -> Waits:
        """Return how long the tasks of a vertex waited in the round that is over."""
        first = self._places[plan.name]
        own = slice(first, first + plan.stage.parallelism)
        grown = (self._blocked[own] - self._before[own]).tolist()
        is_there = not any(member.stage.name in self._absent for member in plan.members)
        runs = (self._status[own] != ABSENT) & (self._is_finished[own] == 0)
        pairs = zip(runs.tolist(), grown, strict=True)
        return [us if is_there and run else None for run, us in pairs]
