"""The clocks of a job: what its rates allow by a moment, when they change, when flushers run."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm
from typing import Any

import numpy as np

from flowcontrol.protocol.service import PHASE_BASE, PHASE_RATE, PHASE_START, PHASE_WIDTH
from flowcontrol.protocol.state import cell
from flowcontrol.protocol.times import flush_period_us
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.places import Ints

NANOSECONDS = 1000
"""Of a microsecond."""


@dataclass(frozen=True)
class Stretch:
    """Rounds in which no schedule changes.

    Attributes
    ----------
    end : int
        The first round that may be another's.
    whole : int
        Rounds after which every source and every log is where it was between two records, at
        least 1.
    rated : ndarray of int64, shape (tasks with a rate,)
        Their numbers.
    phases : ndarray of int64, shape (tasks with a rate, PHASE_WIDTH)
        The rate in force at each.
    written : ndarray of int64, shape (logs, PHASE_WIDTH)
        The rate at which each log is written.
    records : ndarray of int64, shape (logs,)
        Units of that a record.
    positions : ndarray of int64, shape (logs,)
        Cells with the offset of the record that is read next of each.
    """

    end: int
    whole: int
    rated: Ints
    phases: Ints
    written: Ints
    records: Ints
    positions: Ints

    def work_by(self, now_us: int) -> Ints:
        """Return the work that each task with a rate was allowed by a moment, units."""
        return _work_by(self.phases, now_us)

    def written_in_part(self, now_us: int) -> Ints:
        """Return what was written of the next record of each log by a moment, units."""
        return _work_by(self.written, now_us) % self.records

    def holds_all_unread(self, cells: Ints) -> bool:
        """Tell whether all that waits in logs was written at the rates in force.

        If not, as many records may wait as before, and be older.
        """
        written = (cells[self.positions] + 1) * self.records
        return bool(np.all(written >= self.written[:, PHASE_BASE]))


def changes_of(memory: Memory) -> Ints:
    """Return the microseconds at which a schedule of a job changes, ascending."""
    found: set[int] = set()
    for row in memory.tasks:
        stalls = 2 * int(row["stall_count"])
        found.update(memory.cells[int(row["stalls"]) :][:stalls].tolist())
        for phases in _schedules(memory, row):
            found.update(phases[:, PHASE_START].tolist())
    return np.array(sorted(found), np.int64)


def stretch_at(memory: Memory, now: int, end: int) -> Stretch:
    """Return what holds from a round on up to the change of a schedule."""
    round_us = memory.head.round_us
    rated, phases, written, records, positions = [], [], [], [], list[int]()
    whole = 1
    for number, row in enumerate(memory.tasks):
        schedules = [_in_force(found, now * round_us) for found in _schedules(memory, row)]
        if not schedules:
            continue
        rated.append(number)
        phases.append(schedules[0])
        if row["kind"] == f.SOURCE:
            whole = lcm(whole, _whole_records(int(row["unit"]), schedules[0], round_us))
        if row["kind"] == f.READER:
            records.append(memory.copy(int(row["log"]), f.KernelLog).unit)
            written.append(schedules[1])
            positions.append(int(row["log"]) + cell(f.KernelLog, "position"))
            whole = lcm(whole, _whole_records(records[-1], written[-1], round_us))
    return Stretch(
        end,
        whole,
        np.array(rated, np.int64),
        np.array(phases, np.int64).reshape(-1, PHASE_WIDTH),
        np.array(written, np.int64).reshape(-1, PHASE_WIDTH),
        np.array(records, np.int64),
        np.array(positions, np.int64),
    )


def _schedules(memory: Memory, row: Any) -> list[Ints]:
    """Return the rate of a task, and of a READER that at which its log is written."""
    if row["kind"] == f.CONNECTION or row["phase_count"] == 0:
        return []
    found = [_rows(memory, int(row["phases"]), int(row["phase_count"]))]
    if row["kind"] == f.READER:
        log = memory.copy(int(row["log"]), f.KernelLog)
        found.append(_rows(memory, log.arrivals, log.arrival_count))
    return found


def _rows(memory: Memory, at: int, count: int) -> Ints:
    return memory.cells[at : at + PHASE_WIDTH * count].reshape(count, PHASE_WIDTH)


def _in_force(phases: Ints, now_us: int) -> Ints:
    """Return the phase of a moment."""
    found: Ints = phases[np.flatnonzero(phases[:, PHASE_START] <= now_us)[-1]]
    return found


def _whole_records(unit: int, phase: Ints, round_us: int) -> int:
    """Return after how many rounds a rate has come to a whole number of records."""
    return unit // gcd(unit, int(phase[PHASE_RATE]) * round_us)


def _work_by(phases: Ints, us: int) -> Ints:
    found: Ints = phases[:, PHASE_BASE] + phases[:, PHASE_RATE] * (us - phases[:, PHASE_START])
    return found


@dataclass(frozen=True)
class Flushers:
    """The flushers of a job's partitions, as far as it makes a difference when they run.

    Attributes
    ----------
    first_us, period_us : ndarray of int64
        When each runs first, and then again.
    """

    first_us: Ints
    period_us: Ints

    @classmethod
    def of(cls, memory: Memory) -> Flushers:
        """Return those of a memory.

        One whose period is no longer than a round runs in every round.
        """
        head, phases = memory.head, memory.partitions["flush_phase"]
        interval = max(0, head.flush_us)  # neither after every round nor never
        own = {phase: flush_period_us(interval, phase) for phase in np.unique(phases).tolist()}
        own = {phase: period for phase, period in own.items() if period > head.round_us}
        first = [phase if phase > 0 else interval for phase in own]
        return cls(np.array(first, np.int64), np.array(list(own.values()), np.int64))

    def until_next(self, now_us: int) -> Ints:
        """Return how long each still waits, microseconds."""
        ticks = np.maximum(0, (now_us - self.first_us) // self.period_us + 1)
        return self.first_us + ticks * self.period_us - now_us

    def whole(self, round_us: int) -> int:
        """Return after how many rounds all of them are where they were, at least 1."""
        periods = np.unique(self.period_us).tolist()
        return lcm(1, *(period // gcd(period, round_us) for period in periods))
