"""A period of a steady state, and the states of all moments that follow from it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from flowcontrol.protocol.motions import Motion
from flowcontrol.protocol.state import cell
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.periods.ages import AgesOfPeriod
from flowcontrol.virtual.periods.clocks import NANOSECONDS
from flowcontrol.virtual.periods.layout import Layout
from flowcontrol.virtual.periods.wake import wake_all
from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.tables import Log, Tables

Advance = Callable[[int], int]
"""Runs the rounds before one; returns the flags of a log that was full, or 0."""


@dataclass(frozen=True)
class Steady:
    """A run that may repeat itself.

    Attributes
    ----------
    memory : Memory
        Stopped between two rounds.
    layout : Layout
        Its layout.
    tables : Tables
        Collects the ages.
    advance : callable
        Runs the rounds before one.
    """

    memory: Memory
    layout: Layout
    tables: Tables
    advance: Advance


class Start:
    """The memory of a run at the present moment, to be put back.

    Parameters
    ----------
    run : Steady
        The run.

    Attributes
    ----------
    round : int
        The next round.
    steps : int
        Steps of tasks so far.
    grown : ndarray of int64
        What is in the cells that grow.
    """

    def __init__(self, run: Steady) -> None:
        memory, head = run.memory, run.memory.head
        self._memory, self.round, self.steps = memory, head.round, head.steps
        ages = slice(head.ages, head.ages + memory.ages.nbytes // memory.cells.itemsize)
        self._parts = slice(0, ages.start), slice(ages.stop, len(memory.cells))
        self._values = [memory.cells[part].copy() for part in self._parts]
        self.grown = memory.cells[run.layout.grows]

    def put_back(self) -> None:
        """Have the memory be what it was; the log of ages is empty."""
        for part, values in zip(self._parts, self._values, strict=True):
            self._memory.cells[part] = values
        self._memory.head.ages_count = 0

    def changes(self) -> Ints:
        """Return the cells that are not what they were."""
        found = [
            part.start + np.flatnonzero(self._memory.cells[part] != values)
            for part, values in zip(self._parts, self._values, strict=True)
        ]
        return np.concatenate(found)


@dataclass(frozen=True)
class _Moment:
    """A state within the period.

    ``at``: cells that differ from those at its start, and ``values``, what is in them. ``grown``:
    what is in the cells that grow. ``emitted_at``: cells that say when the records in flight were
    emitted. ``ages``: records of each age that sinks have taken up since the start.
    """

    at: Ints
    values: Ints
    grown: Ints
    emitted_at: Ints
    ages: Ints


@dataclass
class Orbit:
    """A period that a run goes through again and again, until a schedule changes.

    Attributes
    ----------
    run : Steady
        The run. It is at the end of the first period when this is made, and then at its start.
    start : Start
        Its memory at the start of the period.
    logs : list of ndarray of Age
        Ages that were logged in the period.
    until : int
        First round of which the period says nothing.
    most_cells : int
        Cells to remember of states within the period.
    rounds : int
        Length of the period.
    steps : int
        Steps of tasks in it.
    """

    run: Steady
    start: Start
    logs: list[Log]
    until: int
    most_cells: int
    rounds: int = field(init=False)
    steps: int = field(init=False)

    def __post_init__(self) -> None:
        cells, head, layout = self.run.memory.cells, self.run.memory.head, self.run.layout
        self.rounds = head.round - self.start.round
        self.steps = head.steps - self.start.steps
        self._ages = AgesOfPeriod(self.logs)
        self._growth = cells[layout.grows] - self.start.grown
        is_wire = self.run.memory.tasks["kind"] == f.CONNECTION
        wires = np.isin(layout.grows, layout.tasks.field("ready")[is_wire])
        self._growth[wires] = self.rounds * head.round_us * NANOSECONDS
        self._queued, self._growth_of_queued = self._of_queues()
        self.start.put_back()
        self._phases, self._moments = [0], [self._moment(0 * self._ages.whole)]
        self._stored, self._taken_up = 0, self._moments[0].ages
        self._is_skipped = False
        self._arrived = int(np.flatnonzero(layout.grows == cell(KernelMemory, "arrived"))[0])

    @property
    def moments(self) -> int:
        """How many moments of the period it knows."""
        return len(self._moments)

    def place_of(self, end: int) -> tuple[int, int]:
        """Return how many whole periods a round is behind the start, and its phase."""
        return divmod(end - self.start.round, self.rounds)

    def skip_to(self, end: int) -> None:
        """Be before a round of a phase that is known, without having the memory show it."""
        periods, phase = self.place_of(end)
        moment, head = self._moments[bisect_right(self._phases, phase) - 1], self.run.memory.head
        head.round = end
        head.arrived = int(moment.grown[self._arrived] + periods * self._growth[self._arrived])
        self._taken_up = moment.ages + periods * self._ages.whole
        self._is_skipped = True

    def knows(self, phase: int) -> bool:
        """Tell whether the state at a phase is known."""
        return self._phases[bisect_right(self._phases, phase) - 1] == phase

    def go_to(self, end: int) -> tuple[int, int]:
        """Have the memory be as it is before a round, which may be as far as ``until``.

        Returns
        -------
        tuple of (int, int)
            Flags of a log that was full, or 0; rounds that were run for it.
        """
        head, tables = self.run.memory.head, self.run.tables
        periods, phase = self.place_of(end)
        place = bisect_right(self._phases, phase) - 1
        pending, before = tables.take_ages(), self._taken_up
        if self._is_skipped or phase - self._phases[place] < end - head.round:
            self._show(self._moments[place], periods)
        first = head.round
        if first < end:
            flags = self.run.advance(end)
            if flags:
                return flags, 0
            self._taken_up = self._taken_up + self._ages.counted(tables.take_ages())
            self._remember(phase, place, self._taken_up - periods * self._ages.whole)
        tables.give_ages(pending)
        tables.give_ages(self._ages.log(self._taken_up - before))
        return 0, end - first

    def _show(self, moment: _Moment, periods: int) -> None:
        """Put the state into the memory that is a moment's so many periods later."""
        cells = self.run.memory.cells
        self.start.put_back()
        cells[moment.at] = moment.values
        cells[self.run.layout.grows] = moment.grown + periods * self._growth
        cells[self._queued] += periods * self._growth_of_queued
        cells[moment.emitted_at] += periods * self.rounds
        self._taken_up = moment.ages + periods * self._ages.whole
        self._is_skipped = False
        wake_all(self.run.memory)

    def _remember(self, phase: int, place: int, ages: Ints) -> None:
        """Remember the present state, unless it is known or there is no room."""
        if self._stored > self.most_cells or self._phases[place] == phase:
            return
        # What grows is relative to the period that it is in.
        moment = self._moment(ages)
        self._phases.insert(place + 1, phase)
        self._moments.insert(place + 1, moment)
        self._stored += 2 * len(moment.at) + len(moment.grown) + len(ages)

    def _moment(self, ages: Ints) -> _Moment:
        """Return the present state as one of the first period."""
        cells, head = self.run.memory.cells, self.run.memory.head
        periods = (head.round - self.start.round) // self.rounds
        emitted_at = self.run.layout.runs.contents(cells, head.round)[1]
        cells[self._queued] -= periods * self._growth_of_queued
        cells[emitted_at] -= periods * self.rounds
        at = self.start.changes()
        grown = cells[self.run.layout.grows] - periods * self._growth
        moment = _Moment(at, cells[at], grown, emitted_at, ages)
        cells[self._queued] += periods * self._growth_of_queued
        cells[emitted_at] += periods * self.rounds
        return moment

    def _of_queues(self) -> tuple[Ints, Ints]:
        """Return the cells of queues that grow, and by how much in a period."""
        cells, growth = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        layout = self.run.layout
        places_in_grows = np.argsort(layout.grows)
        for rings in layout.rings:
            places, _ = rings.of_motion(Motion.ROUND)
            cells.append(places)
            growth.append(np.full(len(places), self.rounds))
            if rings.sent is not None:
                places, queues = rings.of_motion(Motion.CREDITS)
                found = np.searchsorted(layout.grows, rings.sent, sorter=places_in_grows)
                cells.append(places)
                growth.append(self._growth[places_in_grows[found]][queues])
        return np.concatenate(cells), np.concatenate(growth)
