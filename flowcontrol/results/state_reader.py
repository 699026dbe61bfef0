"""The kernel's memory read after a round, as the typed state that both clocks have in common."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from flowcontrol.control.between import Between
from flowcontrol.kernel.views import FINISHED, INPUT_CELLS, OUTPUT_CELLS, RECEIVED, UNDER_WAY
from flowcontrol.layout.graph import Channel, JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.memory import fields as f
from flowcontrol.memory.links import connections_of
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import KernelCheckpoints, KernelTime, KernelWindow
from flowcontrol.memory.places import Ints
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.protocol.network.subpartition_rules import channel_backlog, ready_messages
from flowcontrol.protocol.tasks.processors import TaskProcessor
from flowcontrol.results.figures import Counted, finished_buffers, spill_state
from flowcontrol.results.windows import WindowResults, results_by_task
from flowcontrol.state import rows as w
from flowcontrol.state.declared import width
from flowcontrol.state.network import (
    GlobalPool,
    InputChannel,
    Message,
    ReceivedMessage,
    Ring,
    Subpartition,
    Task,
)
from flowcontrol.state.queues import plain
from flowcontrol.state.tasks import SourceLog
from flowcontrol.state.windows import ColumnValues, Windows
from flowcontrol.systems.barrier_buffer import AsideMessage, BarrierBuffer
from flowcontrol.systems.tcp import NOBODY, TcpConnection, TcpMessage
from flowcontrol.systems.throttles.throttled_source import ThrottledSource
from flowcontrol.systems.transports.transport import ChannelGrant
from flowcontrol.trace import channel_state as cs
from flowcontrol.trace import round_state as rs

_TOLD: dict[int, type[cs.Told]] = {
    f.ADD_CREDIT: cs.AddCredit,
    f.NEW_BUFFER_SIZE: cs.NewBufferSize,
    f.RESUME_CONSUMPTION: cs.ResumeConsumption,
}
"""What a receiver tells a sender, by what the kernel calls it."""

TIMES = ("busy", "idle", "blocked")
COUNTED = (*TIMES, "taken")


class StateReader:
    """Reads the state of a run on the virtual clock.

    ``memory``: of its run. What a round did is counted from here on.
    """

    def __init__(
        self,
        job: Job,
        memory: Memory,
        between: Between | None = None,
        results: WindowResults | None = None,
    ) -> None:
        self._job, self._memory, self._log = job, memory, results
        self._throttle = between.throttle if between is not None else None
        self._coordination = between.coordination if between is not None else None
        self._results: dict[int, tuple[rs.Result, ...]] = {}
        self._carried: dict[int, dict[int, cs.MessageUnderWay]] = {}
        self._is_tcp = memory.head.is_tcp == 1
        self._counts_records = job.record_transport is not None
        outs = memory.outs
        self._routed_at = memory.partitions["routed"][outs["partition"]] + outs["place"]
        self._counted = Counted(self._counters)
        if between is not None and between.recovery is not None:
            between.recovery.attempts.hooks.append(self._counted.hold)
        self._before = self._counted()
        self._growth: dict[str, list[int]] = {}

    def read(self) -> rs.RoundState:
        """Return the state now; what each task did is counted since it was read before."""
        self._load()
        now, before = self._counted(), self._before
        self._before = now
        ends = np.cumsum([*[len(self._tasks)] * len(COUNTED), len(self._ins)])
        names = (*COUNTED, "processed", "routed")
        self._growth = {
            name: grown.tolist()
            for name, grown in zip(names, np.split(now - before, ends), strict=True)
        }
        number, round_us = self._next - 1, self._job.round_us
        if self._log is not None:
            self._results = results_by_task(self._log.take())
        tasks = tuple(self._task(plan, index) for plan, index in self._job.subtasks)
        return rs.RoundState(
            number,
            number * round_us,
            (number + 1) * round_us,
            tasks,
            _connection_states(self._job, self._memory),
        )

    def _load(self) -> None:
        """Copy what stands in blocks; what stands elsewhere is read where it is asked for."""
        memory = self._memory
        self._next = memory.head.round
        self._tasks = memory.copies(memory.tasks, Task)
        self._task_rows = memory.copies(memory.tasks, f.KernelTask)
        self._gates = memory.copies(memory.gates, f.KernelGate)
        self._partitions = memory.copies(memory.partitions, f.KernelPartition)
        self._ins = memory.copies(memory.ins, InputChannel)
        self._in_rows = memory.copies(memory.ins, f.KernelInputChannel)
        self._outs = memory.copies(memory.outs, Subpartition)
        self._out_rows = memory.copies(memory.outs, f.KernelSubpartition)
        self._routed = memory.cells[self._routed_at].tolist()
        self._on_wires = self._messages_on_wires() if self._is_tcp else {}

    def _messages_on_wires(self) -> dict[int, list[cs.MessageUnderWay]]:
        """Return what connections without credits carry, by number of the channel at its sender."""
        memory, found = self._memory, dict[int, list[cs.MessageUnderWay]]()
        for place, row in enumerate(_connections(memory)):
            wire = memory.copy(row.phases, TcpConnection)
            ring = memory.table(row.phases + width(TcpConnection), row.phase_count, TcpMessage)
            carried = list(_with_messages(ring, wire, self._carried.get(place, {}), memory))
            self._carried[place] = {number: way for number, _, way in carried}
            for _, channel, way in carried:
                if channel != NOBODY:
                    found.setdefault(channel, []).append(way)
        return found

    def _counters(self) -> Ints:
        """Return what only grows: by task, and by channel at its receiver and at its sender."""
        memory = self._memory
        of_tasks = (memory.tasks[name] for name in COUNTED)
        return np.concatenate([*of_tasks, memory.ins["processed"], memory.cells[self._routed_at]])

    def _task(self, plan: JobVertex, index: int) -> rs.TaskState:
        memory, place = self._memory, self._memory.places.tasks[plan.name] + index
        row, controller = self._task_rows[place], None
        if row.throttle > 0:
            controller = {} if self._throttle is None else self._throttle.controller.state()
        busy_us, idle_us, backpressured_us = (self._growth[name][place] for name in TIMES)
        return rs.TaskState(
            stage=plan.name,
            subtask=index,
            task_manager=plan.stage.placement[index],
            is_running=row.status != f.ABSENT,
            state=self._tasks[place],
            operators=tuple(memory.operators(row)),
            taken=self._growth["taken"][place],
            busy_us=busy_us,
            idle_us=idle_us,
            backpressured_us=backpressured_us,
            union=memory.read(row, "union"),
            gates=tuple(self._gate(link, index) for link in plan.inputs),
            partitions=tuple(self._partition(link, index) for link in plan.outputs),
            holds_senders=row.is_held == 1,
            source=memory.found(row.throttle, ThrottledSource),
            log=memory.found(row.log, SourceLog),
            controller=controller,
            checkpoints=self._checkpoints(place, row),
            time=self._time(row),
            window=self._window(place, row),
            processor=memory.found(row.processor, TaskProcessor),
        )

    def _time(self, row: f.KernelTask) -> rs.TimeState | None:
        """Return what a task holds of event time; None of one without."""
        held = self._memory.found(row.time, KernelTime)
        if held is None:
            return None
        gates = self._gates[row.first_gate : row.first_gate + row.gates]
        inputs = [gate.first_channel + i for gate in gates for i in range(gate.channels)]
        in_flight = (self._elements(self._out_rows[self._in_rows[into].out]) for into in inputs)
        return rs.TimeState(
            held.own, self._memory.read(held, "channels"), row.stamp, tuple(in_flight)
        )

    def _window(self, number: int, row: f.KernelTask) -> rs.WindowState | None:
        """Return what a task holds of windows; None of one without."""
        memory, held = self._memory, self._memory.found(row.window, KernelWindow)
        if held is None:
            return None
        entries, further, seen = (
            memory.read(held, name) for name in ("entries", "further", "operators")
        )
        windows = Windows(held.settings, held.store, entries, [], [], [], further, [])
        cells = held.settings.further * width(ColumnValues)
        results = [
            one._replace(further=one.further[:cells]) for one in self._results.get(number, ())
        ]
        return rs.window_state(held.own, windows, results, seen)

    def _elements(self, out: f.KernelSubpartition) -> rs.Elements:
        """Return what is in a channel."""
        found = self._memory.linked(self._memory.runs, out.runs.head)
        found = found[["kind", "stamp", "count"]].tolist()
        return tuple(pair for *pair, count in found for pair in [tuple(pair)] * max(1, count))

    def _checkpoints(self, number: int, row: f.KernelTask) -> rs.CheckpointState | None:
        """Return what a task holds of checkpoints; None of one without."""
        if self._coordination is None:
            return None
        memory, held = self._memory, self._memory.copy(row.checkpoints, KernelCheckpoints)
        channels, tracked, triggers, aborted = (
            memory.read(held, name) for name in ("channels", "tracked", "triggers", "aborted")
        )
        head = memory.copy(held.tracked, Ring).head
        reports = self._coordination.reports_in(self._next - 1)
        own = tuple(report for report in reports if report.task == number)
        aside = memory.found(held.aside, BarrierBuffer)
        return rs.CheckpointState(
            held.own,
            held.alignment,
            channels,
            tracked,
            head,
            triggers,
            aborted,
            own,
            None if aside is None else self._aside(aside),
        )

    def _aside(self, own: BarrierBuffer) -> rs.AsideState:
        """Return what a task has put aside behind barriers."""
        memory = self._memory
        found = (
            memory.copies(memory.linked(memory.asides, one.head), AsideMessage)
            for one in (own.behind, own.again, own.writing)
        )
        return rs.AsideState(own, *map(tuple, found))

    # ------------------------------------------------------------------ the receiver's side

    def _gate(self, link: JobEdge, index: int) -> cs.GateState:
        row = self._gates[self._memory.places.gates[link.name, index]]
        return cs.GateState(
            link.name,
            row.pool,
            self._memory.copy(row.global_at, GlobalPool),
            self._memory.read(row, "waiting"),
            self._memory.read(row, "order"),
            tuple(
                self._input(channel, row, place)
                for place, channel in enumerate(link.incoming(index))
            ),
        )

    def _input(self, channel: Channel, gate: f.KernelGate, place: int) -> cs.InputChannelState:
        memory, own, grant = self._memory, gate.first_channel + place, None
        if self._counts_records:
            grant = memory.copy(gate.grants + place * width(ChannelGrant), ChannelGrant)
        return cs.InputChannelState(
            channel.sender,
            channel.receiver,
            channel.is_local,
            self._ins[own],
            tuple(memory.ring(self._inputs_at(own) + RECEIVED, ReceivedMessage)),
            self._growth["processed"][own],
            tuple(self._told(self._in_rows[own])),
            grant,
        )

    def _inputs_at(self, number: int) -> int:
        """Return where a channel stands at its receiver."""
        return self._memory.head.inputs_at + number * INPUT_CELLS

    def _told(self, row: f.KernelInputChannel) -> list[cs.Told]:
        """Return what a channel's receiver has told its sender, and is under way."""
        if row.credits_most > 0:
            under_way = self._memory.read(row, "credits")
            return [_TOLD[credit.kind](credit.value, credit.round) for credit in under_way]
        out, found = self._out_rows[row.out], list[cs.Told]()
        if row.announced != out.announced and not self._is_tcp:
            found.append(cs.AddCredit(row.announced, self._next))
        if row.buffer_size not in (0, out.desired_buffer_size):
            found.append(cs.NewBufferSize(row.buffer_size, self._next))
        if row.resumed != out.resumed:
            found.append(cs.ResumeConsumption(row.resumed, self._next))
        return found

    # ------------------------------------------------------------------ the sender's side

    def _partition(self, link: JobEdge, index: int) -> cs.PartitionState:
        memory = self._memory
        row = self._partitions[memory.places.partitions[link.name, index]]
        segments = memory.copy(row.global_at, GlobalPool)
        return cs.PartitionState(
            link.name,
            row.pool,
            segments,
            memory.read(row, "pending"),
            row.left_bytes,
            tuple(
                self._subpartition(channel, row, place)
                for place, channel in enumerate(link.outgoing(index))
            ),
            spill_state(memory, row),
        )

    def _subpartition(
        self, channel: Channel, row: f.KernelPartition, place: int
    ) -> cs.SubpartitionState:
        own = row.first_channel + place
        at = self._memory.head.outputs_at + own * OUTPUT_CELLS
        return cs.SubpartitionState(
            channel.sender,
            channel.receiver,
            channel.is_local,
            self._outs[own],
            tuple(self._memory.ring(at + FINISHED, Message)),
            tuple(self._memory.values(row.held + place * row.held_width, row.held_width)),
            ready_messages(self._outs[own]),
            self._backlog(row, self._outs[own]),
            cs.credit_at_sender(self._job, channel.is_local, self._outs[own]),
            self._routed[own],
            self._growth["routed"][own],
            self._sent(own),
            finished_buffers(self._memory, row, place),
        )

    def _backlog(self, row: f.KernelPartition, out: Subpartition) -> int:
        """Return what a subpartition reports; where it reports nothing, what is ready."""
        if self._counts_records or self._is_tcp or row.kind > PIPELINED:
            return ready_messages(out)
        return channel_backlog(out)

    def _sent(self, out: int) -> tuple[cs.MessageUnderWay, ...]:
        """Return the messages of a channel that are under way."""
        if self._is_tcp and not self._out_rows[out].is_local:
            return tuple(self._on_wires.get(out, ()))
        at = self._inputs_at(self._out_rows[out].input) + UNDER_WAY
        under_way = self._memory.ring(at, f.KernelMessage)
        return tuple(cs.MessageUnderWay(plain(sent), sent.round) for sent in under_way)


def _with_messages(
    ring: Any, wire: TcpConnection, before: dict[int, cs.MessageUnderWay], memory: Memory
) -> Iterator[tuple[int, int, cs.MessageUnderWay]]:
    """Yield what a connection carries: number, channel at its sender, and the message.

    A socket may hold a thousand messages, of which a round changes a few: the others are those of
    the state before.
    """
    numbers = np.arange(wire.delivered, wire.written)
    rows = ring[numbers % len(ring)]
    rounds = np.where(numbers < wire.entered, rows["round"], -1).tolist()
    channels = rows["channel"].tolist()
    for place, number in enumerate(numbers.tolist()):
        way = before.get(number)
        if way is None:
            [sent] = memory.copies(rows[[place]], TcpMessage)
            way = cs.MessageUnderWay(plain(sent), rounds[place])
        elif way.arrives != rounds[place]:
            way = replace(way, arrives=rounds[place])
        yield number, channels[place], way


def _connection_states(job: Job, memory: Memory) -> tuple[rs.ConnectionState, ...]:
    """Return the connections, in their order behind the tasks."""
    pairs = connections_of(job)
    if not pairs:
        return ()
    names = {
        int(out): cs.ChannelId(link.name, channel.sender, channel.receiver)
        for link in job.links
        for out, channel in zip(memory.places.outs[link.name], link.channels, strict=True)
    }
    rows, found = _connections(memory), []
    for row, (here, there, edge) in zip(rows, pairs, strict=True):
        waiting = memory.values(row.union, w.FIFO_SLOTS + row.gates)
        tcp = memory.copy(row.phases, TcpConnection) if memory.head.is_tcp == 1 else None
        turns = tuple(names[out] for out in waiting)
        found.append(rs.ConnectionState(here, there, edge, row.ready, turns, tcp))
    return tuple(found)


def _connections(memory: Memory) -> list[f.KernelTask]:
    rows = memory.tasks
    return memory.copies(rows[rows["kind"] == f.CONNECTION], f.KernelTask)
