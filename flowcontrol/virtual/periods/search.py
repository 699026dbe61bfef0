"""Looks at a run now and then, whether it has been in its state before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, lcm

import numpy as np

from flowcontrol.protocol.motions import Motion, cells_of_motion
from flowcontrol.protocol.state import width
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.periods.clocks import Flushers, Stretch, changes_of, stretch_at
from flowcontrol.virtual.periods.relative import work_ahead
from flowcontrol.virtual.places import Ints


@dataclass(frozen=True)
class Effort:
    """What a run spends on looking for a period.

    Attributes
    ----------
    steps : int
        Steps of tasks between two looks, at least: what a look costs is little beside them.
    matches : int
        Looks one after the other that have to find a state again at first sight before whole states
        are compared.
    whole_looks : int
        Looks at whole states then.
    tries : int
        Periods between two changes of a schedule that may turn out to be none.
    looks : int
        Looks after which the next ones are twice as far apart.
    gain : int
        Periods that must be left of the time until a schedule changes.
    most_cells : int
        Cells to remember of the states of a period.
    moment : int
        Steps that are run in the time that a state at a new place of a period takes.
    copy : int
        The same of a sample that is a copy.
    """

    steps: int = 16384
    matches: int = 1
    whole_looks: int = 16
    tries: int = 2
    looks: int = 1024
    gain: int = 6
    most_cells: int = 1 << 23
    moment: int = 16384
    copy: int = 1024

    def pays(self, *, rounds: int, interval: int, period: int, steps: int) -> bool:
        """Tell whether a period that is jumped costs less than its rounds.

        A sample at a place of the period that is new takes the state there, and so does the second
        one there; from the third one on samples are copies.

        Parameters
        ----------
        rounds : int
            In which it repeats itself.
        interval : int
            Rounds between two samples.
        period : int
            Rounds of it.
        steps : int
            Steps of tasks in it.
        """
        samples = max(1, rounds // interval)
        taken = min(samples, 2 * (period // gcd(period, interval)))
        # All times the period, so that a step in so many rounds is a whole number.
        jumping = taken * (self.moment * period + steps * min(interval, period))
        return jumping + (samples - taken) * self.copy * period <= steps * rounds


StateOf = Callable[[Stretch, bool], list[Ints]]

EFFORT = Effort()
"""What a run spends unless it is asked for something else."""


@dataclass(frozen=True)
class Candidate:
    """A period that a run seems to have.

    Attributes
    ----------
    stretch : Stretch
        The rounds in which it holds.
    rounds : int
        Its length, or a multiple of that.
    whole : int
        Its length is a multiple of so many rounds.
    flushes : bool
        Whether it makes a difference when the flushers run.
    is_settled : bool
        Whether there are flushers, and it seems to make none.
    """

    stretch: Stretch
    rounds: int
    whole: int
    flushes: bool
    is_settled: bool


class Search:
    """Looks for a period of a run.

    Parameters
    ----------
    memory : Memory
        Of the run, before its first round.
    effort : Effort
        What it may cost.
    state : callable
        Returns the whole state relative to the present moment, given the stretch and whether it
        makes a difference when the flushers run.

    Attributes
    ----------
    next : int
        The round before which to look next.
    flushers : Flushers
        Of the job.
    """

    def __init__(self, memory: Memory, effort: Effort, state: StateOf) -> None:
        self._memory, self._effort, self._state = memory, effort, state
        self.flushers, head = Flushers.of(memory), memory.head
        self._least = max(1, effort.steps // max(1, head.tasks))
        self._changes = changes_of(memory)
        ends = np.append(self._changes[1:], head.rounds * head.round_us)
        lasting = ends - self._changes >= effort.gain * self._least * head.round_us
        self._lasting = np.flatnonzero(lasting)
        self._hints = np.concatenate(
            [
                _levels(head.tasks_at, head.tasks, f.KernelTask),
                _levels(head.outputs_at, head.channels, f.KernelSubpartition),
            ]
        )
        self._stretch: Stretch | None = None
        self.next = self._least
        self._end = self._every = self._steps = self._looks = 0
        self._last = self._matches = self._wanted = self._tries = self._whole_looks = 0
        self._seen: dict[int, int] = {}
        self._whole_seen: dict[int, int] = {}

    def look(self) -> Candidate | None:
        """Look at the present state; return a period to be tried, if there is one."""
        head, effort = self._memory.head, self._effort
        now = head.round
        if now >= self._end:
            self._begin(now)
        if self._stretch is None or self._tries == 0:
            self.next = self._end
            return None
        has_flushers = len(self.flushers.period_us) > 0
        flushes = has_flushers and not self._is_settled()
        whole = self._stretch.whole
        if flushes:
            whole = lcm(whole, self.flushers.whole(head.round_us))
        room = (self._end - now) // effort.gain
        # A flusher's beat may not come again before the end, and a log may hold older records.
        if whole > room or not self._stretch.holds_all_unread(self._memory.cells):
            self._plan(now, 1)
            return None
        found = self._seen_before(now, flushes=flushes)
        self._plan(now, whole)
        if found == 0 or found > room:
            return None
        return Candidate(self._stretch, found, whole, flushes, has_flushers and not flushes)

    def has_failed(self) -> None:
        """Note that what seemed to be a period was none."""
        self._tries -= 1

    def give_up(self) -> None:
        """Look no more until a schedule changes."""
        self._tries = 0
        self.next = self._end

    def go_on(self, now: int) -> None:
        """Look again from a round on, which a period has led to."""
        self._end, self.next = min(self._end, now), now

    def _begin(self, now: int) -> None:
        """Begin with a stretch of rounds in which no schedule changes, if it lasts long enough.

        If not, nothing is to be looked for before the next one that does.
        """
        head, effort = self._memory.head, self._effort
        following = int(self._changes.searchsorted(now * head.round_us, "right"))
        self._end = self._before(following, now)
        self._stretch = None
        if self._end - now < effort.gain * self._least:
            lasting = self._lasting[self._lasting.searchsorted(following) :]
            self._end = self._before(int(lasting[0]) if len(lasting) else len(self._changes), now)
            return
        stretch = stretch_at(self._memory, now, self._end)
        if stretch.whole > (self._end - now) // effort.gain:
            return
        self._stretch, self._every = stretch, self._least
        self._seen.clear()
        self._steps, self._looks, self._last, self._matches = head.steps, 0, 0, 0
        self._whole_looks, self._wanted, self._tries = 0, effort.matches, effort.tries

    def _before(self, change: int, now: int) -> int:
        """Return the round before a change of a schedule, at least the next one.

        The round that ends at the very moment sees it already: a source may end there.
        """
        head = self._memory.head
        end = head.rounds
        if change < len(self._changes):
            end = min(end, (int(self._changes[change]) - 1) // head.round_us)
        return max(end, now + 1)

    def _plan(self, now: int, whole: int) -> None:
        """Say when to look next: after a whole number of what has to be whole."""
        head, effort = self._memory.head, self._effort
        if self._looks > 0 and head.steps - self._steps < effort.steps // 2:
            self._every *= 2  # tasks sleep: a look costs as much as ever
        self._steps = head.steps
        self._looks += 1
        if self._looks % effort.looks == 0:
            self._every *= 2
            self._seen.clear()
        rounds = whole
        while rounds < self._every:
            rounds *= 2  # most queues and buffers come out even after a power of 2
        self.next = min(now + rounds, self._end)

    def _is_settled(self) -> bool:
        """Tell whether a flush would change nothing now: all that waits to be sent is flushed."""
        outs = self._memory.outs
        return not np.any((outs["buffers"] > 0) & (outs["is_flushed"] == 0))

    def _seen_before(self, now: int, *, flushes: bool) -> int:
        """Return how many rounds ago the state was the same; 0: it was not, or nobody knows."""
        assert self._stretch is not None
        memory, now_us = self._memory, now * self._memory.head.round_us
        if self._whole_looks > 0:
            self._whole_looks -= 1
            parts = self._state(self._stretch, flushes)
            return self._lag(self._whole_seen, parts, now, flushes=flushes)
        parts = [work_ahead(memory, self._stretch, now_us), memory.cells[self._hints]]
        if flushes:
            parts.append(self.flushers.until_next(now_us))
        lag = self._lag(self._seen, parts, now, flushes=flushes)
        self._matches = self._matches + 1 if lag == self._last and lag > 0 else int(lag > 0)
        self._last = lag
        if self._matches >= self._wanted:
            self._matches, self._wanted = 0, 4 * self._wanted  # more seldom from now on
            self._whole_looks = self._effort.whole_looks
            self._whole_seen.clear()
        return 0

    def _lag(self, seen: dict[int, int], parts: list[Ints], now: int, *, flushes: bool) -> int:
        """Return how many rounds ago a state was seen last, and note that it is seen; 0: never."""
        mark = hash((flushes, *(part.tobytes() for part in parts)))
        lag = now - seen.get(mark, now)
        seen[mark] = now
        return lag


def _levels(at: int, count: int, cls: type) -> Ints:
    """Return the levels of states of a class, one behind the other."""
    own = np.array(cells_of_motion(cls, Motion.LEVEL), np.int64)
    found: Ints = (at + width(cls) * np.arange(count))[:, None] + own
    return found.ravel()
