"""The complete state of one subtask, and its part of a round in plain integers.

A :class:`Subtask` owns the rows that the rules work on. It knows neither Spark nor Delta:
what the neighbours did a round ago comes in as numbers, what it did goes out as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from flowcontrol.errors import ProtocolError
from flowcontrol.job.job import Job, Link, StagePlan
from flowcontrol.job.routing import Router
from flowcontrol.job.rows import new_gate, new_partition
from flowcontrol.job.work import WorkClock, emission_cost_ns, flush_phase_us
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol.queues import is_event
from flowcontrol.protocol.ratios import fewest, times
from flowcontrol.protocol.rows import FIFO_SLOTS
from flowcontrol.protocol.service import NEVER, has_ended, stands_still
from flowcontrol.protocol.states import Message, Task
from flowcontrol.protocol.subpartition_rules import announce_backlog, channel_backlog, head_is_event
from flowcontrol.protocol.times import (
    blocked_relay_us,
    blocked_source_us,
    busy_us,
    emitting_us,
    flush_ticks,
    is_blocked,
)
from flowcontrol.systems.throttles import throttled_source as s

__all__ = ["BACKPRESSURED", "BUSY", "IDLE", "Incoming", "Outgoing", "Subtask", "Work"]

Ints = npt.NDArray[np.int64]

CAPACITY, STARVED, BLOCKED = range(3)
"""Why a task stopped in a round: capacity used up, no input, output unavailable."""

BUSY, IDLE, BACKPRESSURED = range(3)
"""Places in :attr:`Subtask.times_us`."""


@dataclass(frozen=True)
class Incoming:
    """What a receiver sees of one channel's sender: its state a round ago.

    Attributes
    ----------
    sent : int
        Messages ever sent.
    messages : sequence of Message
        Those of that round, in order.
    """

    sent: int
    messages: Sequence[Message]


@dataclass(frozen=True)
class Outgoing:
    """What a sender sees of one channel's receiver: its cursors a round ago."""

    announced: int
    consumed: int


@dataclass
class Work:
    """What a subtask did in a round, as far as rows have to move.

    Attributes
    ----------
    takes : list of (int, int, int)
        Runs of records taken up, in order: gate, channel of the gate, records. Empty for a
        source.
    first, records : int
        Number of the first record taken up (a source: emitted) in the round, and how many.
    routes : list of ndarray of int64
        Per output edge: subpartition of each output record, in order.
    parents : list of ndarray of int64
        Per output edge: which of the records taken up each output record is made of.
    """

    takes: list[tuple[int, int, int]] = field(default_factory=list)
    first: int = 0
    records: int = 0
    routes: list[Ints] = field(default_factory=list)
    parents: list[Ints] = field(default_factory=list)


class Subtask:
    """One subtask: its gates, its result partitions, and the task between them.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : StagePlan
        Its stage.
    index : int
        Which subtask of the stage.
    tables : sequence of (ndarray or None), optional
        Per output edge, subpartition of each replayed row in order.
    input_records : int, optional
        Rows that a replaying source has to emit; None is no end.
    """

    def __init__(
        self,
        job: Job,
        plan: StagePlan,
        index: int,
        *,
        tables: Sequence[Ints | None] | None = None,
        input_records: int | None = None,
    ) -> None:
        self.job, self.plan, self.index = job, plan, index
        self.in_links = [(link, link.incoming(index)) for link in plan.inputs]
        self.out_links = [(link, link.outgoing(index)) for link in plan.outputs]
        self.gates = [new_gate(job, link, index, own) for link, own in self.in_links]
        self.partitions = [new_partition(job, link, index, own) for link, own in self.out_links]
        self.union = [0] * (FIFO_SLOTS + max(1, len(self.gates)))
        inputs = sum(len(own) for _, own in self.in_links)
        self.task = Task(open_inputs=max(1, inputs))
        self.pending: list[list[int]] = [[] for _ in self.out_links]
        self.left_bytes = [0] * len(self.out_links)
        self.messages: list[list[list[Message]]] = [[] for _ in self.out_links]
        self.taken = [[0] * len(own) for _, own in self.in_links]
        self.routed = [[0] * len(own) for _, own in self.out_links]
        self.times_us = [0, 0, 0]
        self._is_source, self._due = plan.is_source, 0
        self.source: s.ThrottledSource | None = None
        self.controller_state: dict[str, Any] = {}
        if plan.is_source and job.scenario.system.throttle != "none":
            self.source = s.ThrottledSource()
        tables = tables or [None] * len(self.out_links)
        self.routers = [
            Router(link, index, job.scenario.seed, table)
            for (link, _), table in zip(self.out_links, tables, strict=True)
        ]
        options = job.scenario.options
        self._input_records = input_records
        self._buffer_bytes = options.segment_bytes
        self._quota = options.max_buffers_per_channel
        self._flush_us = options.flush_interval_us
        self._paths = [plan.path(link) for link in plan.outputs]
        self._clock = WorkClock.of(job, plan, index)
        rated = plan.is_source or self._clock is not None
        self._cost_ns = emission_cost_ns(job, plan)
        self._stalls = [] if rated else [list(span) for span in plan.stalled(index)]
        self._flush_phases = [flush_phase_us(job, link, index) for link in plan.outputs]

    def step(
        self,
        number: int,
        incoming: Sequence[Sequence[Incoming]],
        outgoing: Sequence[Sequence[Outgoing]],
    ) -> Work:
        """Run round ``number`` on what the neighbours did in the round before.

        Parameters
        ----------
        number : int
            Round, from 0.
        incoming : sequence of sequence of Incoming
            Per gate and channel.
        outgoing : sequence of sequence of Outgoing
            Per partition and subpartition.

        Returns
        -------
        Work
            Which rows move.

        Raises
        ------
        ProtocolError
            If a neighbour broke the protocol: a message without a buffer, or a gap.
        """
        self._receive(incoming)
        self._hear(outgoing)
        work = Work(first=self.task.taken)
        cursors = [[row.processed for row in gate.channels] for gate in self.gates]
        counts = [list(router.counts) for router in self.routers]
        routes: list[list[int]] = [[] for _ in self.routers]
        start, end = self._works(number)
        if self._is_source and self.source is not None:
            reason = self._emit_throttled(number, end, self.source, routes)
        elif self._is_source:
            reason = self._emit(end, routes)
        elif stands_still(self._stalls, number * self.job.round_us) != NEVER:
            reason = CAPACITY
        else:
            reason = self._serve(end, work, routes)
        work.records = self.task.taken - work.first
        self._account(start, end, work.records, reason)
        self.taken = [
            [row.processed - old for row, old in zip(gate.channels, before, strict=True)]
            for gate, before in zip(self.gates, cursors, strict=True)
        ]
        self.routed = [
            [new - old for new, old in zip(router.counts, before, strict=True)]
            for router, before in zip(self.routers, counts, strict=True)
        ]
        self._name_rows(work, routes)
        self._finish(number)
        self._flush(number)
        self._send()
        self._announce(number)
        return work

    def _finish(self, number: int) -> None:
        """Finish the task if nothing comes any more and all is written; queue the ends."""
        if self._is_source and self._has_ended(number):
            self.task.open_inputs = 0
        if not any(self.pending) and r.finish_task(self.task):
            for part in self.partitions:
                r.finish_partition(part)

    def _has_ended(self, number: int) -> bool:
        """Whether nothing falls due at a source after a round, and nothing waits there."""
        if self._clock is None or (self.source is not None and s.has_waiting(self.source)):
            return False
        end_us = (number + 1) * self.job.round_us
        limit = -1 if self._input_records is None else self._input_records
        return has_ended(self._clock.phases, end_us, self.task.taken, limit) == 1

    def _announce(self, number: int) -> None:
        """Announce the credit that channels have gained in the round."""
        for gate in self.gates:
            for channel in range(len(gate.channels)):
                r.announce_credit(gate, channel)

    def _receive(self, incoming: Sequence[Sequence[Incoming]]) -> None:
        for number, (gate, seen) in enumerate(zip(self.gates, incoming, strict=True)):
            for channel, state in enumerate(seen):
                arrived = gate.channels[channel].arrived
                if arrived + self._messages_of(state) != state.sent:
                    raise ProtocolError(self._broken(number, channel, state))
                for message in state.messages:
                    if not self._store(number, channel, message):
                        raise ProtocolError(self._broken(number, channel, state))

    @staticmethod
    def _messages_of(state: Incoming) -> int:
        """By how much the messages of a round raise the cursor ``sent``."""
        return sum(not is_event(message) for message in state.messages)

    def _store(self, number: int, channel: int, message: Message) -> bool:
        """Store an arriving message; False if there is no buffer for it."""
        return r.receive(self.task, self.gates[number], self.union, number, channel, message) == 1

    def _broken(self, gate: int, channel: int, state: Incoming) -> str:
        link, own = self.in_links[gate]
        row = self.gates[gate].channels[channel]
        return (
            f"channel {link.name} {own[channel].sender}->{self.index}: {len(state.messages)} "
            f"messages came, sent is {state.sent}, arrived {row.arrived}, announced "
            f"{row.announced}: a message has no buffer, or one is missing"
        )

    def _hear(self, outgoing: Sequence[Sequence[Outgoing]]) -> None:
        for (_, own), part, seen in zip(self.out_links, self.partitions, outgoing, strict=True):
            for index, state in enumerate(seen):
                if own[index].is_local:
                    r.free_local(part, index, state.consumed, self._quota)
                else:
                    part.channels[index].announced = state.announced

    def _works(self, number: int) -> tuple[int, int]:
        """Work allowed by the start and by the end of the round; saves up none of the past."""
        if self._clock is None:
            return 0, 0
        start, end = (self._clock.work_by(n * self.job.round_us) for n in (number, number + 1))
        if self._is_source:
            self._clock.skip_to(self.task, start)
        else:
            self.task.ready = max(self.task.ready, start)
        return start, end

    def _emit(self, end: int, routes: list[list[int]]) -> int:
        """Emit what falls due until the output is unavailable; what is due then is lost."""
        self._due = 0
        if self._clock is None:
            return BLOCKED
        while True:
            if not self._write_pending():
                self._due += self._clock.skip_to(self.task, end)
                return BLOCKED
            most = self._clock.due(self.task, end)
            if self._input_records is not None:
                most = min(most, self._input_records - self.task.taken)
            if most == 0:
                return CAPACITY
            if not self._outputs_available():
                self._due += self._clock.skip_to(self.task, end)
                return BLOCKED
            count = self._emit_some(most, routes)
            self._due += count
            self._clock.spend(self.task, count)

    def _emit_throttled(
        self, number: int, end: int, state: s.ThrottledSource, routes: list[list[int]]
    ) -> int:
        """Emit what the command in force allows of what waits."""
        self._due = 0
        if self._clock is None:
            return BLOCKED
        round_ns = self.job.round_us * 1000
        fresh, emitted = self._clock.skip_to(self.task, end), self.task.taken
        if self._input_records is not None and state.has_log:
            fresh = min(fresh, self._input_records - state.offered)
        waiting = s.offer(state, fresh)
        most = s.may_emit(state, waiting, emitted, number * round_ns, (number + 1) * round_ns)
        if self._input_records is not None:
            most = min(most, self._input_records - emitted)
        done = 0
        while self._write_pending() and done < most and self._outputs_available():
            done += self._emit_some(most - done, routes)
        s.after_emitting(state, waiting, done, number * round_ns)
        self._due = waiting
        return CAPACITY if done == waiting and not any(self.pending) else BLOCKED

    def _serve(self, end: int, work: Work, routes: list[list[int]]) -> int:
        """Take records up, and write what they yield when they are done, until something stops."""
        clock = self._clock
        while True:
            if clock is not None and any(self.pending) and self.task.ready > end:
                return CAPACITY
            if not self._write_pending():
                return BLOCKED
            if clock is not None and self.task.ready >= end:
                return CAPACITY
            if not self._outputs_available():
                return BLOCKED
            if r.next_input(self.task, self.gates, self.union) == 0:
                return STARVED
            count = 1 if self.partitions else self.task.left
            if clock is not None:
                count = min(count, clock.startable(self.task, end))
            _note_run(work.takes, self.task.gate, self.task.channel, count)
            r.take_record(self.task, self.gates, count)
            self._route(routes)
            if clock is not None:
                clock.spend(self.task, count)

    def _emit_some(self, most: int, routes: list[list[int]]) -> int:
        """Emit one record, or all that fit into the one open buffer without filling it.

        Several at once only where all go to one channel of one edge: then nothing that a
        task looks at between two records changes.
        """
        if len(self.routers) == 1 and self.routers[0].width == 1 and not self._paths[0]:
            size = self.out_links[0][0].record_bytes
            count = self._write_some(size, most)
            if count > 0:
                self.task.taken += count
                self.routers[0].advance(0, count)
                routes[0].extend([0] * count)
                return count
        self.task.taken += 1
        self._route(routes)
        return 1

    def _route(self, routes: list[list[int]]) -> None:
        """Route all that the records taken up yield; it is written as buffers can be had."""
        outputs = zip(self.routers, self._paths, self.pending, routes, strict=True)
        for router, path, pending, route in outputs:
            due = self.task.taken
            for part in path:
                due = times(due, part.numerator, part.denominator)
            while router.emitted < due:
                channel = router.peek()
                router.advance(channel)
                pending.append(channel)
                route.append(channel)

    def _write_pending(self) -> bool:
        """Write what is pending, an edge after the other; False if the task is blocked in it."""
        for number, pending in enumerate(self.pending):
            size = self.out_links[number][0].record_bytes
            while pending:
                if r.stays_blocked(self.partitions[number].pool, self.left_bytes[number]) == 1:
                    return False
                left = self._write(number, pending[0], self.left_bytes[number] or size)
                self.left_bytes[number] = left
                if left > 0:
                    return False
                pending.pop(0)
        return True

    def _write(self, number: int, channel: int, nbytes: int) -> int:
        """Write bytes of a record to a channel, or to all; return those left over."""
        part = self.partitions[number]
        if part.is_broadcast:
            return r.write_broadcast(part, nbytes, self._quota, self._buffer_bytes)
        return r.write_bytes(part, channel, nbytes, self._quota, self._buffer_bytes)

    def _write_some(self, size: int, most: int) -> int:
        """Write records of that size that fit into the only channel's open buffer."""
        return r.write_whole_records(self.partitions[0], 0, size, most)

    def _outputs_available(self) -> bool:
        return all(r.partition_is_available(part) for part in self.partitions)

    def _account(self, start: int, end: int, done: int, reason: int) -> None:
        """Share the round out over busy, idle and back-pressured (reference section 9)."""
        whole, available = self.job.round_us, int(self._outputs_available())
        blocked, waiting = int(reason == BLOCKED), self.task.queued
        if self._is_source:
            lost = blocked_source_us(whole, self._due, done, blocked, available)
            busy = emitting_us(whole - lost, done, self._cost_ns)
            self.times_us = [busy, whole - busy - lost, lost]
        elif self._clock is None:
            lost = blocked_relay_us(whole, waiting, done, blocked)
            busy = whole if reason == CAPACITY and waiting > 0 else 0
            self.times_us = [busy, whole - busy - lost, lost]
        else:
            ready, pending = self.task.ready, int(any(self.pending))
            busy = busy_us(whole, start, end, ready, waiting + pending, blocked, available)
            rest = is_blocked(start, end, blocked, available)
            self.times_us = [busy, 0, 0]
            self.times_us[BACKPRESSURED if rest else IDLE] += whole - busy

    def _name_rows(self, work: Work, routes: list[list[int]]) -> None:
        """Say which record taken up each output of the round is made of."""
        for router, path, route in zip(self.routers, self._paths, routes, strict=True):
            first = router.emitted - len(route) + 1
            taken = np.arange(first, router.emitted + 1, dtype=np.int64)
            for part in reversed(path):  # fewest records that yield so many
                taken = fewest(taken, part.numerator, part.denominator)
            work.routes.append(np.asarray(route, dtype=np.int64))
            work.parents.append(taken - 1 - work.first)

    def _flush(self, number: int) -> None:
        """Let the periodic flusher run if its period ends in the round (reference 2.6)."""
        if self._flush_us < 0:
            return
        start = number * self.job.round_us
        for part, phase in zip(self.partitions, self._flush_phases, strict=True):
            if flush_ticks(start, start + self.job.round_us, self._flush_us, phase) > 0:
                for channel in range(len(part.channels)):
                    r.flush(part, channel)

    def _send(self) -> None:
        """Send what credit allows; hand a local consumer what its queue may hold."""
        self.messages = []
        for (link, own), part in zip(self.out_links, self.partitions, strict=True):
            sent: list[list[Message]] = [[] for _ in own]
            for index, channel in enumerate(own):
                message = Message()
                while self._take(link, part, index, channel.is_local, message) > 0:
                    sent[index].append(message)
                    message = Message()
            self.messages.append(sent)

    def _take(
        self, link: Link, part: r.Partition, index: int, is_local: bool, message: Message
    ) -> int:
        """Take the next message that a subpartition may send, an announcement first; 0: none."""
        row, event = part.channels[index], head_is_event(part.channels[index], part.queues[index])
        if announce_backlog(row, channel_backlog(row), event, message) == 1:
            return 1
        return r.send_message(part, index, self._quota, int(is_local), message)


def _note_run(takes: list[tuple[int, int, int]], gate: int, channel: int, count: int) -> None:
    """Append a run of records, joined to the last one where it is of the same channel."""
    if takes and takes[-1][:2] == (gate, channel):
        takes[-1] = (gate, channel, takes[-1][2] + count)
    else:
        takes.append((gate, channel, count))
