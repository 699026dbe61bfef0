"""Which rows tasks moved in a round, and which attempt of a task moves them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from flowcontrol.control.between import Between
from flowcontrol.control.task_orders import Restart
from flowcontrol.kernel import views as v
from flowcontrol.kernel.ages import ANSWERED, FIRED, LATE, ROUTED, SNAPSHOT, TAKEN, Move
from flowcontrol.kernel.reports import window_bytes
from flowcontrol.kernel.waits import first_of_each, waiting_from
from flowcontrol.layout.fault_tolerance import task_states
from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.task_settings import is_timed
from flowcontrol.ledger.ledger import KeptCut, StateView
from flowcontrol.live.replica import Replica
from flowcontrol.live.shares import Shares
from flowcontrol.live.sink import SinkMail
from flowcontrol.live.stage_rows import EdgeWork, Ints, SubtaskRound, Take, WindowWork, writers_of
from flowcontrol.protocol.tasks.operators import Selectivity
from flowcontrol.state.declared import Kept
from flowcontrol.state.network import CheckpointReport
from flowcontrol.state.tasks import TASK_INPUT
from flowcontrol.trace.round_state import Result

# --- What tasks did in a round, from the journal that the interpreted kernel keeps of rows


def works_of(replica: Replica, plan: JobVertex, shares: Shares) -> list[SubtaskRound]:
    """Return what the subtasks of a stage did in the round that they have just run."""
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
        has_rows = task.has_requests == 1 and bool(task.awaits == 1 or writers_of(self._plan))
        answered, cuts = self._answered() if has_rows else (None, {})
        count = task.taken - first if answered is None else sum(one.records for one in answered)
        reports = [CheckpointReport(*row) for row in shares.reports if row[0] == self._number]
        return SubtaskRound(
            self._replica.job,
            self._plan,
            self._index,
            task.taken,
            first,
            count,
            takes,
            [self._edge(place) for place in range(task.partitions)],
            *self._cursors(),
            reports,
            [
                self._reaching(member) if answered is None else np.arange(count)
                for member in writers_of(self._plan)
            ],
            None if task.has_window == 0 else self._windows(shares),
            answered,
            cuts,
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

    def _answered(self) -> tuple[list[Take], dict[int, int]]:
        """Return the records that have left the queue, or that the destination has stored.

        And how many of them had so at each checkpoint that was taken.
        """
        m, task, found, cuts = self._memory.head, self._task, list[Take](), dict[int, int]()
        gates = [v.gate_row(m, task.first_gate + i).first_channel for i in range(task.gates)]
        for move in self._moves:
            if move.kind == ANSWERED:
                gate = sum(first <= move.first for first in gates) - 1
                place = gate, move.first - gates[gate], move.second
                found.append(Take(*place, move.records, move.due, move.heard, move.attempts))
            elif move.kind == SNAPSHOT:
                cuts[move.first] = sum(one.records for one in found)
        return found, cuts

    def _edge(self, place: int) -> EdgeWork:
        m = self._memory.head
        part = v.partition_row(m, self._task.first_partition + place)
        first, count = part.first_channel, part.channels
        before, fired, own = self._replica.taken_before[self._number], 0, list[list[int]]()
        for move in self._moves:
            fired += move.kind in {FIRED, ANSWERED}
            if move.kind == ROUTED and first <= move.first < first + count:
                is_own = self._task.has_window == 0 and self._task.awaits == 0
                made = move.second - before if is_own else fired
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


# --- What a stage of the live clock has to know of its tasks' attempts, for the rows that it
# moves


class InFlight(NamedTuple):
    """What was in flight to a subtask when it began anew."""

    began: int  # Round from which its latency counts: that in which the checkpoint was triggered
    until: list[list[int]]  # Per gate and channel: number of the record behind the last one


class StageRestarts(Kept):
    """The checkpoints and the attempts of a stage's tasks.

    - ``between``: what acts between its rounds.
    - ``state``: what is kept of checkpoints; None: the job has none.
    - ``mail``: what the stage's subtasks hear of checkpoints that are complete.
    - ``noted``: what they held at the checkpoints that they took in the round.
    - ``in_flight_to``: subtasks to which records were in flight that they have not taken up.
    - ``emitted``: of a source: how many records the earlier attempts of its subtasks have emitted.
    """

    _kept = ("mail", "in_flight_to", "emitted")
    _values = (InFlight,)

    def __init__(
        self, plan: JobVertex, replica: Replica, between: Between | None, state: StateView | None
    ) -> None:
        self._job, self._plan, self._state = replica.job, plan, state
        self._replica, self._memory = replica, replica.memory
        self._coordination = None if between is None else between.coordination
        self._recovery = None if between is None else between.recovery
        self._first, count = replica.own[0], len(replica.own)
        self._sizes = task_states(self._job)[self._first : self._first + count]
        self.mail = SinkMail(self._job, plan)
        self.noted = list[KeptCut]()
        self.in_flight_to, self.emitted = dict[int, InFlight](), dict[int, int]()
        self._restarted = dict[int, int]()
        self._needed, self._next_id = frozenset[int](), 0
        if self._coordination is not None:
            self._coordination.control.on_notification = self.mail.note
        if self._recovery is not None:
            self._recovery.control.watcher = self.mail
            self._recovery.attempts.watchers.append(self._begin_anew)

    # ------------------------------------------------------------------ a round

    def begin_round(self) -> None:
        """Forget what was of the round before."""
        self.noted.clear()
        self._restarted.clear()
        for index in [index for index in self.in_flight_to if self._has_taken(index)]:
            del self.in_flight_to[index]
        self._note_needed()

    def deliver(self, number: int) -> None:
        """Find out what subtasks hear in a round, once all has acted that acts before it."""
        recovery = self._recovery

        def runs(index: int) -> bool:
            return recovery is None or recovery.control.is_deployed(self._first + index)

        self.mail.deliver(number, runs, self._restarted)

    def end_round(self, number: int, shares: Shares) -> None:
        """Note what subtasks have kept of checkpoints in a round."""
        for task, share in shares.tasks.items():
            for checkpoint, *cells in sorted(share.cuts):
                self._note(number, task, checkpoint, cells)

    def _note(self, number: int, task: int, checkpoint: int, cells: list[int]) -> None:
        m, index = self._memory.head, task - self._first
        row = v.task_row(m, task)
        nbytes = sum(self._sizes[index].full(cells[0])) + window_bytes(m, row)
        kept = dict[int, int]()
        if self._recovery is not None:
            kept = first_of_each(self._recovery.attempts.kept_entries(task, cells))
        channels, processed = self._channels(task), list[list[int]]()
        for gate, own in enumerate(channels):
            first = len(cells) - sum(len(one) for one in channels[gate:])
            counts = zip(own, cells[first : first + len(own)], strict=True)
            processed.append([min(count, kept.get(channel, count)) for channel, count in counts])
        text = json.dumps({"cells": cells, "processed": processed}, separators=(",", ":"))
        self.noted.append(KeptCut(checkpoint, self._plan.name, index, number, nbytes, text))

    def _begin_anew(self, tasks: list[int], checkpoint: int) -> Callable[[], None]:
        """Take notice of tasks that begin anew, before they do; return what is called then."""
        assert self._recovery is not None
        attempts, number = self._recovery.attempts, self._memory.head.round
        own = [task for task in tasks if task in self._replica.own]
        for task in own:
            is_first = checkpoint >= 0 and not attempts.has_cut(task, checkpoint)
            if is_first and attempts.is_finished(task):  # its end counts, next time too
                self._note(number, task, checkpoint, attempts.last_cells(task))
            if self._plan.is_source:
                index = task - self._first
                self.emitted[index] = max(self.emitted.get(index, 0), attempts.taken(task))

        def go_on() -> None:
            for task in own:
                index = task - self._first
                self._restarted[index] = checkpoint
                if checkpoint >= 0:
                    self.in_flight_to[index] = InFlight(
                        self._began(checkpoint), self._written(task)
                    )
                else:
                    self.in_flight_to.pop(index, None)

        return go_on

    def _began(self, checkpoint: int) -> int:
        """Return the round in which a checkpoint was triggered."""
        assert self._coordination is not None
        coordinator = self._coordination.control.coordinator
        return coordinator.trigger_of(checkpoint)[0] // self._job.round_us

    def _channels(self, task: int) -> list[range]:
        m = self._memory.head
        row = v.task_row(m, task)
        gates = [v.gate_row(m, row.first_gate + i) for i in range(row.gates)]
        return [range(one.first_channel, one.first_channel + one.channels) for one in gates]

    def _written(self, task: int) -> list[list[int]]:
        m = self._memory.head
        return [
            [v.out_row(m, v.in_row(m, channel).out).written for channel in own]
            for own in self._channels(task)
        ]

    def _has_taken(self, index: int) -> bool:
        """Tell whether a subtask has taken up what was in flight to it."""
        m, task = self._memory.head, self._first + index
        row = v.task_row(m, task)
        waiting = {} if row.has_requests == 0 else waiting_from(m, row)
        ends = zip(self._channels(task), self.in_flight_to[index].until, strict=True)
        return all(
            waiting.get(channel, v.in_row(m, channel).processed) >= end
            for own, until in ends
            for channel, end in zip(own, until, strict=True)
        )

    # ------------------------------------------------------------------ what is needed

    def _note_needed(self) -> None:
        """Note from which checkpoints an attempt may yet begin, as of the round before.

        A stage that still runs that round, or begins this one, needs no others.
        """
        if self._coordination is None:
            return
        own, every = self._coordination.control.coordinator, self._every_restart()
        restored = [one.checkpoint for one in every if one.running < 0 and not one.is_superseded]
        self._needed = frozenset({own.latest_completed, *own.pending, *restored})
        self._next_id = own.next_id

    def is_needed(self, checkpoint: int) -> bool:
        """Tell whether an attempt may yet begin from a checkpoint, in this round or later."""
        return checkpoint in self._needed or checkpoint >= self._next_id

    def began_after(self, number: int) -> bool:
        """Tell whether tasks have begun anew after a round: their channels count from a cut on."""
        return any(one.running > number for one in self._every_restart())

    def _every_restart(self) -> list[Restart]:
        return [] if self._recovery is None else self._recovery.control.restarts

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Return what the rounds to come need, as JSON takes it.

        What checkpoints hold besides counts was logged in this round and in others before.
        """
        own = self._recovery
        logged = [[], []] if own is None else own.attempts.logs.take_fresh()
        return {**super().state(), "logged": logged}

    def go_on_from(
        self, state: Mapping[str, Any], logged: Callable[[int], list[list[list[int]]]]
    ) -> None:
        """Go on from what :meth:`state` returned, and from what the table of the state keeps.

        - ``state``: of the last round.
        - ``logged``: given a round, returns what was logged in it.
        """
        self.restore({name: one for name, one in state.items() if name != "logged"})
        recovery = self._recovery
        if recovery is None or self._state is None:
            return
        self._note_needed()
        self._state.refresh(at_once=True)
        number = self._memory.head.round
        cuts = [cut for cut in self._state.all_cuts(self.is_needed) if cut.batch_id < number]
        for one in cuts:
            task = self._memory.places.tasks[one.stage] + one.subtask
            recovery.attempts.put_back(one.checkpoint_id, task, json.loads(one.cut)["cells"])
        own = [one.batch_id for one in cuts if one.stage == self._plan.name]
        if is_timed(self._job):
            for before in range(min(own, default=number), number):
                recovery.attempts.logs.put_back(*logged(before))
