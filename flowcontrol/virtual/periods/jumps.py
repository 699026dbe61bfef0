"""A run that jumps the periods of its steady states."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from flowcontrol.job.job import Job
from flowcontrol.protocol.service import CONSTANT
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.parts import BROADCASTS, BUFFERS, LOGS, WIRES, parts_of
from flowcontrol.virtual.periods.clocks import Stretch
from flowcontrol.virtual.periods.layout import Layout
from flowcontrol.virtual.periods.orbit import Advance, Orbit, Start, Steady
from flowcontrol.virtual.periods.relative import Relative, are_equal
from flowcontrol.virtual.periods.rows import Place, Rows
from flowcontrol.virtual.periods.search import Candidate, Effort, Search
from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.tables import Tables

REPEATING = BUFFERS | LOGS | WIRES | BROADCASTS
"""Parts of the kernel whose states may come again; jobs that need others run as they do."""

MOST_CELLS = 1 << 24
"""Cells of a memory, at most, that is looked at: 128 MiB."""

NEVER_FLUSHED = -1
"""An interval of the flushers, as the memory's head has it."""


def may_repeat(job: Job, memory: Memory) -> bool:
    """Tell whether a job may do the same again: it draws no numbers, and nobody commands it."""
    if parts_of(job) & ~REPEATING != 0 or len(memory.cells) > MOST_CELLS:
        return False
    tasks, routes = memory.tasks, memory.partitions["route"]
    draws = np.any(tasks["distribution"] != CONSTANT)
    draws |= np.any(np.isin(routes, (f.ROUTE_SHUFFLE, f.ROUTE_KEY)))
    ends = np.any((tasks["kind"] != f.CONNECTION) & (tasks["limit"] >= 0))
    return not (draws or ends or _is_shared(memory))


def _is_shared(memory: Memory) -> bool:
    """Tell whether tasks send over the same wire: who comes first there nothing remembers.

    It hangs on which of them the clock has looked at first in the round.
    """
    outs = memory.outs
    over_wires = outs["connection"] >= 0
    pairs = np.unique(np.stack([outs["connection"], outs["sender"]])[:, over_wires], axis=1)
    return len(np.unique(pairs[0])) < pairs.shape[1]


class Jumps:
    """Advances a run, and jumps what repeats itself.

    Parameters
    ----------
    memory : Memory
        Of the run, before its first round.
    tables : Tables
        Collects the ages.
    advance : callable
        Runs the rounds before one.
    effort : Effort
        What looking for a period may cost.
    interval : int
        Rounds between two samples.

    Attributes
    ----------
    jumped : int
        Rounds that were not run.
    """

    def __init__(
        self, memory: Memory, tables: Tables, advance: Advance, effort: Effort, interval: int
    ) -> None:
        self._memory, self._tables, self._advance = memory, tables, advance
        self._interval = interval
        self._effort, self._search = effort, Search(memory, effort, self._state)
        self._orbit: Orbit | None = None
        self._rows, self._sampled, self._is_copy = Rows(tables), 0, False
        self.jumped = 0

    @cached_property
    def _run(self) -> Steady:
        """The run; it is laid out when it is looked at as a whole for the first time."""
        return Steady(self._memory, Layout.of(self._memory), self._tables, self._advance)

    def advance_to(self, end: int) -> int:
        """Have the memory be as it is before a round; return the flags of a full log, or 0."""
        head = self._memory.head
        while head.round < end:
            if self._orbit is not None:
                flags = self._follow(self._orbit, end)
                if flags:
                    return flags
                continue
            flags = self._advance(min(end, self._search.next))
            if flags:
                return flags
            if head.round == self._search.next:
                self._look()
        return 0

    def add(self, t_s: float, rounds: int) -> None:
        """Take a sample, as :meth:`Tables.add` does, of the state to which the run was advanced."""
        orbit, now = self._orbit, self._memory.head.round
        place = None if orbit is None else self._place(orbit, now)
        if orbit is None or place is None:
            self._tables.add(t_s, rounds)
        else:
            add = self._rows.copy if self._is_copy else self._rows.take
            add(place, orbit.place_of(now)[0], t_s)
        self._sampled = now

    def _place(self, orbit: Orbit, end: int) -> Place | None:
        """Return where a sample is in a period; None if the one before is none of it."""
        if self._sampled < orbit.start.round:
            return None
        before, phase = orbit.place_of(self._sampled)[1], orbit.place_of(end)[1]
        return before, phase, end - self._sampled

    def _follow(self, orbit: Orbit, end: int) -> int:
        """Follow a period up to a round, or as far as it goes; return as :meth:`advance_to`."""
        before, stop = self._memory.head.round, min(end, orbit.until)
        place = self._place(orbit, stop)
        self._is_copy = (
            stop < orbit.until
            and place is not None
            and self._rows.are_known(place)
            and orbit.knows(place[1])
        )
        flags, ran = 0, 0
        if self._is_copy:
            orbit.skip_to(stop)
        else:
            flags, ran = orbit.go_to(stop)
        self.jumped += stop - before - ran
        if stop == orbit.until:
            self._orbit = None
            self._search.go_on(stop)
        return flags

    def _look(self) -> None:
        """Look for a period; begin with it if there is one."""
        candidate = self._search.look()
        if candidate is None:
            return
        orbit = self._tried(candidate)
        if orbit is None:
            self._search.has_failed()
        elif self._pays(orbit):
            self._orbit, self._rows = orbit, Rows(self._tables)
        else:
            self._search.give_up()

    def _pays(self, orbit: Orbit) -> bool:
        return self._effort.pays(
            rounds=orbit.until - orbit.start.round,
            interval=self._interval,
            period=orbit.rounds,
            steps=orbit.steps,
        )

    def _state(self, stretch: Stretch, flushes: bool) -> list[Ints]:
        """Return the present state relative to its moment."""
        self._tables.drain()
        view = Relative(self._memory, self._run.layout, stretch, self._search.flushers)
        return view.state(flushes=flushes)

    def _tried(self, candidate: Candidate) -> Orbit | None:
        """Run the period that a run seems to have; go back to the present moment.

        Returns
        -------
        Orbit or None
            None if the state at its end is not that at its start.
        """
        head, tables, stretch = self._memory.head, self._tables, candidate.stretch
        pending, interval = tables.take_ages(), head.flush_us
        start, first = Start(self._run), self._state(stretch, candidate.flushes)
        outs = self._memory.outs
        flushed, empty = outs["is_flushed"] == 1, outs["buffers"] == 0
        written = outs["written"].copy()
        logs, found = [], None
        for rounds in lengths(candidate):
            head.flush_us = NEVER_FLUSHED if candidate.is_settled else interval
            flags = self._advance(start.round + rounds)
            head.flush_us = interval
            if flags:
                break
            logs.append(tables.take_ages())
            if are_equal(self._state(stretch, candidate.flushes), first):
                flushed &= outs["is_flushed"] == 1
                empty &= (outs["buffers"] == 0) & (outs["written"] == written)
                if not candidate.is_settled or np.all(flushed | empty):
                    most = self._effort.most_cells
                    found = Orbit(self._run, start, logs, stretch.end, most)
                break
        if found is None:
            start.put_back()
        tables.take_ages()
        tables.give_ages(pending)
        return found


def lengths(candidate: Candidate) -> list[int]:
    """Return the lengths that a period may have, ascending."""
    count = candidate.rounds // candidate.whole
    return [candidate.whole * n for n in range(1, count + 1) if count % n == 0]
