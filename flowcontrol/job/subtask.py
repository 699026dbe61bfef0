"""The complete state of one subtask, and its part of a round in plain integers.

A :class:`Subtask` owns the rows that the rules work on. It knows neither Spark nor Delta:
what the neighbours did a round ago comes in as numbers, what it did goes out as numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flowcontrol.errors import ProtocolError
from flowcontrol.job.checkpointed_task import CheckpointedTask
from flowcontrol.job.computing_task import ComputingTask
from flowcontrol.job.exchanged import Incoming, Outgoing, Work, note_run
from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.routing import Output, Router
from flowcontrol.job.row_keys import NO_KEYS, RowKeys
from flowcontrol.job.rows import new_gate, new_partition
from flowcontrol.job.sending_task import SendingTask
from flowcontrol.job.source_logs import Arrivals, has_log
from flowcontrol.job.timed_settings import pending_marks, writes_together
from flowcontrol.job.windowed_task import WindowedTask
from flowcontrol.job.work import ServiceCurve, emission_cost_ns, flush_phase_us
from flowcontrol.operators.checkpointing import (
    after_sending,
    look_at_mail,
    may_finish,
    note_writing,
    on_event,
)
from flowcontrol.operators.event_time import end_time
from flowcontrol.operators.pacing import let_pass, skip_due
from flowcontrol.operators.reading import NO_LIMIT, read_log
from flowcontrol.operators.snapshots import forgo
from flowcontrol.operators.source_log import begun, lag, unread
from flowcontrol.operators.states import (
    READER,
    RELAY,
    SERVER,
    SOURCE,
    Operator,
    SourceLog,
    StreamTask,
)
from flowcontrol.operators.task import (
    BLOCKED,
    CAPACITY,
    account,
    emit,
    emit_some,
    outputs_available,
    serve,
    write_pending,
)
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol.checkpoints.barriers import FINISHED
from flowcontrol.protocol.events import finish_partition, finish_task
from flowcontrol.protocol.pool_rules import pool_is_available
from flowcontrol.protocol.queues import is_event
from flowcontrol.protocol.rows import FIFO_SLOTS, Row, fifo
from flowcontrol.protocol.service import NEVER, has_ended, stands_still
from flowcontrol.protocol.sides import Gate
from flowcontrol.protocol.states import Message
from flowcontrol.protocol.subpartition_rules import hear_resumed
from flowcontrol.systems.throttles import throttled_source as s

Ints = npt.NDArray[np.int64]


class Subtask(WindowedTask, CheckpointedTask, ComputingTask, SendingTask):
    """One subtask: its gates, its result partitions, and the task between them.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        Its stage.
    index : int
        Which subtask of the stage.
    tables : sequence of (ndarray or None), optional
        Per output edge, subpartition of each replayed row in order.
    input_records : int, optional
        Rows that a replaying source has to emit; None is no end.
    stamps : ndarray of int64, optional
        Stamps of these rows, if they have event times or are in windows.
    keys : RowKeys, optional
        Which keys and values the ids of such stamps stand for.
    """

    def __init__(
        self,
        job: Job,
        plan: JobVertex,
        index: int,
        *,
        tables: Sequence[Ints | None] | None = None,
        input_records: int | None = None,
        stamps: Ints | None = None,
        keys: RowKeys = NO_KEYS,
    ) -> None:
        self.job, self.plan, self.index = job, plan, index
        self.in_links = [(link, link.incoming(index)) for link in plan.inputs]
        self.out_links = [(link, link.outgoing(index)) for link in plan.outputs]
        self.gates = [new_gate(job, link, index, own) for link, own in self.in_links]
        self.partitions = [new_partition(job, link, index, own) for link, own in self.out_links]
        self.union = [0] * (FIFO_SLOTS + max(1, len(self.gates)))
        inputs = sum(len(own) for _, own in self.in_links)
        self.task = StreamTask(
            partitions=len(self.out_links),
            operators=len(plan.operators),
            open_inputs=max(1, inputs),
        )
        self.is_running = True
        self._prepare_checkpoints(inputs)
        self._prepare_time(stamps)
        self._prepare_windows(keys)
        self.operators = plan.new_operators()
        self.messages: list[list[list[Message]]] = [[] for _ in self.out_links]
        self.taken = [[0] * len(own) for _, own in self.in_links]
        self.routed = [[0] * len(own) for _, own in self.out_links]
        self.work = Work()
        self.source: s.ThrottledSource | None = None
        self.controller_state: dict[str, Any] = {}
        if plan.is_source and job.scenario.system.throttle != "none":
            self.source = s.ThrottledSource()
        self.log = SourceLog() if has_log(job, plan) else None
        self.arrivals = Arrivals.of(
            job, plan, index, -1 if input_records is None else input_records
        )
        tables = tables or [None] * len(self.out_links)
        self.outputs = [self._output(i, table) for i, table in enumerate(tables)]
        options = job.scenario.options
        self._buffer_bytes = options.segment_bytes
        self._quota = options.max_buffers_per_channel
        self._flush_us = options.flush_interval_us
        self._curve = ServiceCurve.of(job, plan, index)
        self._prepare_processor()
        self._set_pace(-1 if input_records is None else input_records)
        rated = self.task.kind != RELAY
        self._stalls = [] if rated else [list(span) for span in plan.stalled(index)]
        self._flush_phases = [flush_phase_us(job, link, index) for link in plan.outputs]

    def _output(self, number: int, table: Ints | None) -> Output:
        (link, _), part = self.out_links[number], self.partitions[number]
        member = self.plan.member(link)
        return Output(
            pool=part.pool,
            operator=member.output,
            record_bytes=link.record_bytes,
            partition=part,
            router=Router(link, self.index, self.job.scenario.seed, table),
            pending=fifo(member.most_outputs + pending_marks(self.job, len(part.channels))),
        )

    def _set_pace(self, limit: int) -> None:
        """Say what decides how much the task does in a round."""
        task, curve = self.task, self._curve
        task.limit, task.is_single = limit, int(writes_together(self.job, self.plan, self.index))
        task.cost_ns = emission_cost_ns(self.job, self.plan)
        task.kind = SOURCE if self.plan.is_source else RELAY if curve is None else SERVER
        if self.arrivals is not None:
            task.kind = READER
        if curve is not None:
            task.unit, task.distribution = curve.unit, curve.kind

    @property
    def times_us(self) -> list[int]:
        """Busy, idle and back-pressured time of the round, microseconds."""
        return [self.task.busy, self.task.idle, self.task.blocked]

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
        self._begin_round(number)
        self._hear_marks(incoming)
        self._receive(incoming)
        self._hear(outgoing)
        task = self.task
        work = self.work = Work(first=task.taken)
        task.busy = task.idle = task.blocked = 0
        self._forget_results()
        for out in self.outputs:
            out.routes, out.parents = [], []
        cursors = [[row.processed for row in gate.channels] for gate in self.gates]
        counts = [list(out.router.counts) for out in self.outputs]
        start, allowed = self._works(number)
        if task.kind == SOURCE:  # before what is pending is written for a barrier
            let_pass(self, task, start)
        end = self._may_do(start, self.computes_until(start, allowed))
        if self.checkpoints is not None and not self._stands_still(number):
            look_at_mail(self, task, start, end)
        if self.time is not None and self.syncing_us() == 0:
            self._look_at_time(start, end)
            if self.window is not None and not self._stands_still(number):
                self._look_at_clock(start, end)
        reason = self._run(number, start, end)
        work.records = task.taken - work.first
        available = outputs_available(self, task)
        free = self.job.round_us - self.waits_for(start, allowed)
        syncing = min(free, self.syncing_us())
        account(task, free, start, end, work.records, reason, available, syncing)
        task.busy += self.job.round_us - free
        self.claim_processor(start, end, allowed)
        if self.time is not None:
            self._count_time()
        if self.checkpoints is not None:
            note_writing(self, task, work.first)
        forgo(task, end, allowed)
        self.taken = [
            [row.processed - old for row, old in zip(gate.channels, before, strict=True)]
            for gate, before in zip(self.gates, cursors, strict=True)
        ]
        self.routed = [
            [new - old for new, old in zip(out.router.counts, before, strict=True)]
            for out, before in zip(self.outputs, counts, strict=True)
        ]
        work.routes = [np.asarray(out.routes, dtype=np.int64) for out in self.outputs]
        work.parents = [np.asarray(out.parents, dtype=np.int64) for out in self.outputs]
        self._finish(number)
        self._flush(number)
        self._send()
        if self.checkpoints is not None:
            after_sending(self, task)
        self._announce(number)
        return work

    def rest(self) -> None:
        """Do nothing in a round: the task is not deployed; what is written to its log stays."""
        task, none = self.task, np.zeros(0, np.int64)
        nothing = [none for _ in self.outputs]
        self.work = Work(first=task.taken, routes=nothing, parents=nothing)
        task.busy = task.idle = task.blocked = 0
        self.messages = [[[] for _ in own] for _, own in self.out_links]
        self.taken = [[0] * len(own) for _, own in self.in_links]
        self.routed = [[0] * len(own) for _, own in self.out_links]
        self._forget_results()
        self._begin_round(-1)

    def wait(self, number: int) -> None:
        """Let a round pass in which the task is not deployed: its log grows all the same."""
        self.rest()
        if self.arrivals is not None and self.log is not None:
            self.arrivals.append_until(self.log, (number + 1) * self.job.round_us)

    def _finish(self, number: int) -> None:
        """Finish the task if nothing comes any more and all is written; queue the ends."""
        task = self.task
        if task.kind in {SOURCE, READER} and self._has_ended(number):
            task.open_inputs = 0
        if self.time is not None:
            end_time(self, task)
        if self.checkpoints is not None and may_finish(self, task) == 0:
            return
        if self._may_end_batches() and task.is_pending == 0 and finish_task(task) == 1:
            for i in range(len(self.partitions)):
                finish_partition(self.event_partition(i))
            if self.checkpoints is not None:
                self.report(FINISHED, 0, 0)

    def _has_ended(self, number: int) -> bool:
        """Whether nothing falls due at a source after a round, and nothing waits there."""
        curve = self._curve if self.arrivals is None else self.arrivals.curve
        in_hand = self.source is not None and self.source.waiting > 0
        if curve is None or in_hand or (self.log is not None and unread(self.log) > 0):
            return False
        end_us = (number + 1) * self.job.round_us
        return has_ended(curve.phases, end_us, self.task.taken, self.task.limit) == 1

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
        if self.checkpoints is not None:
            self.note_arrival(number, channel, message)
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
                if self.checkpoints is not None:
                    hear_resumed(part.channels[index], state.resumed)

    def _works(self, number: int) -> tuple[int, int]:
        """Work allowed by the start and by the end of the round."""
        if self._curve is None:
            return 0, 0
        start, end = (self._curve.work_by(n * self.job.round_us) for n in (number, number + 1))
        return start, end

    def _run(self, number: int, start: int, end: int) -> int:
        """Work for a round, with nothing saved up of the past; return why the task stopped."""
        task = self.task
        if self.arrivals is not None and self.log is not None:
            task.ready = max(task.ready, start)
            return self._read(number, end, self.arrivals, self.log)
        if task.kind == SOURCE:
            if self.source is not None:
                return self._emit_throttled(number, end, self.source)
            return emit(self, task, end)
        if self._stands_still(number) or self.syncing_us() > 0:
            return CAPACITY
        task.ready = max(task.ready, start)
        return serve(self, task, self.gates, self.union, end)

    def _stands_still(self, number: int) -> bool:
        """Whether the task does nothing in a round; of one without a rate."""
        return stands_still(self._stalls, number * self.job.round_us) != NEVER

    def _emit_throttled(self, number: int, end: int, state: s.ThrottledSource) -> int:
        """Emit what the command in force allows of what waits."""
        task, round_ns = self.task, self.job.round_us * 1000
        fresh, emitted = skip_due(self, task, end), task.taken
        if self.log is None:
            waiting = s.offer(state, fresh)
        else:
            self._append_due(self.log, fresh)
            waiting = lag(self.log)
        most = s.may_emit(state, waiting, emitted, number * round_ns, (number + 1) * round_ns)
        if task.limit >= 0:
            most = min(most, task.limit - emitted)
        done = 0
        while write_pending(self, task) and done < most and outputs_available(self, task):
            done += emit_some(self, task, most - done)
        s.after_emitting(state, done, number * round_ns)
        if self.log is None:
            s.hold(state, waiting, done)
        else:
            self.log.position += done
        task.due = waiting
        return CAPACITY if done == waiting and task.is_pending == 0 else BLOCKED

    def _read(self, number: int, end: int, arrivals: Arrivals, log: SourceLog) -> int:
        """Read what waits in the log, as far as the rate and a throttle's command allow."""
        round_ns, most, before = self.job.round_us * 1000, NO_LIMIT, begun(log)
        arrivals.append_until(log, (number + 1) * self.job.round_us)
        start_ns = number * round_ns
        if self.source is not None:
            most = s.may_emit(self.source, lag(log), before, start_ns, start_ns + round_ns)
        reason = read_log(self, self.task, log, end, most)
        if self.source is not None:
            s.after_emitting(self.source, begun(log) - before, start_ns)
        return reason

    # ------------------------------------------------------------------ as a Worker

    def operator(self, number: int) -> Operator:
        """Return an operator of the chain."""
        return self.operators[number]

    def writer(self, number: int) -> Output:
        """Return what writes to a result partition."""
        return self.outputs[number]

    def pending(self, writer: Output) -> list[int]:
        """Return the queue of the channels of records that are routed and not written."""
        return writer.pending

    def is_available(self, writer: Output) -> int:
        """Tell whether another record may be begun as far as a partition goes: 1 if so."""
        return pool_is_available(writer.pool)

    def write(self, writer: Output, channel: int, nbytes: int) -> int:
        """Write bytes of a record to a channel, or to all; return those left over."""
        return self._write(writer, channel, nbytes, 0)

    def write_mark(self, writer: Output, channel: int, nbytes: int) -> int:
        """Write bytes of a watermark or a status likewise."""
        return self._write(writer, channel, nbytes, 1)

    def _write(self, writer: Output, channel: int, nbytes: int, is_mark: int) -> int:
        part, quota = writer.partition, self._quota
        if part.is_broadcast:
            return r.write_broadcast(part, nbytes, quota, self._buffer_bytes, is_mark)
        return r.write_bytes(part, channel, nbytes, quota, self._buffer_bytes, is_mark)

    def write_whole(self, writer: Output, most: int) -> int:
        """Write the records that fit into the only channel's open buffer; return how many."""
        return r.write_whole_records(writer.partition, 0, writer.record_bytes, most)

    def next_channel(self, writer: Output) -> int:
        """Return the channel of the next record."""
        by_key = self._channel_by_key(writer)
        return writer.router.next_channel(writer.emitted) if by_key is None else by_key

    def note_routed(self, writer: Output, channel: int, count: int) -> None:
        """Note where rows go, and which of those taken up they are made of."""
        writer.router.advance(channel, count)
        writer.routes.extend([channel] * count)
        last = self._made_of()
        writer.parents.extend(range(last - count, last))
        if self.time is not None:
            self._note_stamps(writer, channel, count)

    def draw(self) -> int:
        """Return the work of the next record, units."""
        assert self._curve is not None
        self.task.draws += 1
        return self._curve.draw(self.task.draws - 1)

    def on_event(self) -> int:
        """Act on the event that the task has polled in its turn; 1 if it then stands still."""
        return on_event(self, self.task)

    def next_input(self, gates: Sequence[Gate], union: Row) -> int:
        """Make sure that the task has a record in hand, if there is one."""
        return r.next_input(self.task, gates, union)

    def note_taken(self, count: int) -> None:
        """Note which rows are taken up."""
        note_run(self.work.takes, self.task.gate, self.task.channel, count)
        if self.time is not None:
            self._take_stamps(count)

    def note_emitted(self, count: int) -> None:
        """Do nothing: the rows that a source emits are numbered by its count."""

    def note_put_out(self, operator: int, count: int) -> None:
        """Do nothing: operators count for themselves, and here nobody is chained."""

    def of_one_time(self, most: int) -> int:
        """Return how many records of the log may be read at once: rows have their own times."""
        return most
