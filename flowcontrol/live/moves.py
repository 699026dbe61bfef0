"""What tasks did in a round, from the journal that the interpreted kernel keeps of rows."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from flowcontrol.job import JobVertex
from flowcontrol.job.graph import Member
from flowcontrol.job.window_state import Result
from flowcontrol.live.work import EdgeWork, Ints, SubtaskRound, Take, WindowWork, writers_of
from flowcontrol.operators.selectivity import Selectivity
from flowcontrol.operators.states import TASK_INPUT
from flowcontrol.protocol.states import CheckpointReport
from flowcontrol.replicas.replica import Replica
from flowcontrol.replicas.shares import Shares
from flowcontrol.virtual import views as v
from flowcontrol.virtual.journal import FIRED, LATE, ROUTED, TAKEN, Move


def works_of(replica: Replica, plan: JobVertex, shares: Shares) -> list[SubtaskRound]:
    """Return what the subtasks of a stage did in the round that they have just run.

    Parameters
    ----------
    replica : Replica
        In which they run.
    plan : JobVertex
        The stage.
    shares : Shares
        What they have published.
    """
    by_task = defaultdict[int, list[Move]](list)
    for move in replica.moves:
        by_task[move.task].append(move)
    return [
        _Reader(replica, plan, index, task, by_task[task]).read(shares)
        for index, task in enumerate(replica.own)
    ]


class _Reader:
    """Reads the moves of one subtask."""

    def __init__(
        self, replica: Replica, plan: JobVertex, index: int, task: int, moves: list[Move]
    ) -> None:
        self._replica, self._memory = replica, replica.memory
        self._plan, self._index, self._number, self._moves = plan, index, task, moves
        self._task = v.task_row(self._memory.head, task)

    def read(self, shares: Shares) -> SubtaskRound:
        """Return what the subtask did."""
        task, first = self._task, self._replica.taken_before[self._number]
        takes = self._takes()
        reports = [CheckpointReport(*row) for row in shares.reports if row[0] == self._number]
        return SubtaskRound(
            self._replica.job,
            self._plan,
            self._index,
            task.taken,
            first,
            task.taken - first,
            takes,
            [self._edge(place) for place in range(task.partitions)],
            *self._cursors(),
            reports,
            [self._reaching(member) for member in writers_of(self._plan)],
            None if task.has_window == 0 else self._windows(shares),
        )

    def _takes(self) -> list[Take]:
        m, task, counts = self._memory.head, self._task, list[list[int]]()
        for move in self._moves:
            if move.kind != TAKEN:
                continue
            if counts and counts[-1][:2] == [move.first, move.second]:
                counts[-1][2] += move.records
            else:
                counts.append([move.first, move.second, move.records])
        sums = defaultdict[tuple[int, int], int](int)
        for gate, channel, count in counts:
            sums[gate, channel] += count
        ends = {}
        for gate, channel in sums:
            number = v.gate_row(m, task.first_gate + gate).first_channel + channel
            ends[gate, channel] = v.in_row(m, number).processed - sums[gate, channel]
        found = []
        for gate, channel, count in counts:
            found.append(Take(gate, channel, ends[gate, channel], count))
            ends[gate, channel] += count
        return found

    def _edge(self, place: int) -> EdgeWork:
        m = self._memory.head
        part = v.partition_row(m, self._task.first_partition + place)
        first, count = part.first_channel, part.channels
        before, fired, own = self._replica.taken_before[self._number], 0, list[list[int]]()
        for move in self._moves:
            fired += move.kind == FIRED
            if move.kind == ROUTED and first <= move.first < first + count:
                made = fired if self._task.has_window == 1 else move.second - before
                own.append([move.first - first, move.records, made])
        channels, records, ends = np.array(own, np.int64).reshape(-1, 3).T
        routes = np.repeat(channels, records)
        parents = np.arange(len(routes)) + np.repeat(ends - np.cumsum(records), records)
        pending = self._memory.values(part.pending, part.pending_width)
        waiting = [pending.count(i) for i in range(count)]
        if part.is_broadcast == 1:  # every channel gets every record
            routes, parents = np.tile(np.arange(count), len(routes)), np.repeat(parents, count)
            waiting = [len(pending)] * count
        emitted = np.bincount(routes, minlength=count).tolist()
        written = [v.out_row(m, first + i).written + waiting[i] for i in range(count)]
        return EdgeWork(
            routes,
            parents,
            tuple(end - new for end, new in zip(written, emitted, strict=True)),
            tuple(emitted),
        )

    def _reaching(self, member: Member) -> Ints:
        """Return of which record, or result, each row is made that reaches a sink of the task.

        What an operator puts out follows from how much it has taken in.
        """
        first = self._replica.taken_before[self._number]
        count = self._task.taken - first
        if self._task.has_window == 1:
            m = self._memory.head
            count = sum(move.kind == FIRED for move in self._moves)
            first = v.operator_at(m, m[self._task.operators_at]).records_out - count
        path, number = list[Selectivity](), member.input
        while number != TASK_INPUT and isinstance(one := self._plan.operators[number], Selectivity):
            path.append(one)
            number = one.input
        ends = np.arange(first, first + count + 1)
        for one in reversed(path):
            whole, rest = np.divmod(ends, one.denominator)
            ends = whole * one.numerator + rest * one.numerator // one.denominator
        return np.repeat(np.arange(count), np.diff(ends))

    def _cursors(self) -> tuple[list[list[int]], list[list[int]]]:
        m, task = self._memory.head, self._task
        consumed, read = [], []
        for gate in range(task.gates):
            row = v.gate_row(m, task.first_gate + gate)
            own = range(row.channels)
            consumed.append([v.in_row(m, row.first_channel + i).consumed for i in own])
            in_hand = task.left > 0 and task.gate == gate
            read.append([task.read if in_hand and task.channel == i else 0 for i in own])
        return consumed, read

    def _windows(self, shares: Shares) -> WindowWork:
        fired = [move for move in self._moves if move.kind == FIRED]
        results = [_result(row) for row in shares.results if row[0] == self._number]
        late = [move.records for move in self._moves if move.kind == LATE]
        return WindowWork(results, [move.first for move in fired], late)


def _result(row: list[int]) -> Result:
    """Return a result by its entry in the kernel's log."""
    _, key, start, end, count, number, valued, total, least, most, wraps, *further = row
    return Result(key, start, end, count, number, valued, total, least, most, wraps, tuple(further))
