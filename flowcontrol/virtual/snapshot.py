"""The kernel's state as ledger rows, exactly as :mod:`flowcontrol.emulation.snapshot` has them.

For comparing the clocks: equal states are equal rows.
"""

from __future__ import annotations

from typing import Any

from flowcontrol.control import Controller
from flowcontrol.emulation import Job, Subtask
from flowcontrol.emulation.record_subtask import RecordSubtask, new_subtask
from flowcontrol.emulation.rows import refill
from flowcontrol.emulation.snapshot import receiver_rows, sender_rows
from flowcontrol.policies.record_transport import ChannelGrant
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.queues import in_order, refill_queue
from flowcontrol.protocol.state import assign, columns
from flowcontrol.protocol.states import Message, Subpartition, Task
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.views import (
    channel_grants,
    finished_queues,
    gate_row,
    in_row,
    in_rows,
    partition_row,
    received_queues,
    throttled_source,
    wire_queue,
)

__all__ = ["KernelRows"]

Rows = list[dict[str, Any]]


class KernelRows:
    """Ledger rows of a run on the virtual clock.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    memory : Memory
        Of its run; read after each round.
    controller : Controller, optional
        What slows its sources.
    """

    def __init__(self, job: Job, memory: Memory, controller: Controller | None = None) -> None:
        self._job, self._memory, self.controller = job, memory, controller
        self._subtasks = [
            new_subtask(job, plan, index)
            for plan in job.stages
            for index in range(plan.stage.parallelism)
        ]
        self._before = [self._counts(subtask) for subtask in self._subtasks]

    def rows(self) -> dict[str, dict[str, Rows]]:
        """Return the rows after the round just run, by edge and side."""
        found: dict[str, dict[str, Rows]] = {
            link.name: {"sender": [], "receiver": []} for link in self._job.links
        }
        for number, subtask in enumerate(self._subtasks):
            self._load(subtask, number)
            for i, (link, _) in enumerate(subtask.in_links):
                found[link.name]["receiver"] += receiver_rows(subtask, i)
            for i, (link, _) in enumerate(subtask.out_links):
                found[link.name]["sender"] += sender_rows(subtask, i)
        return found

    def _counts(self, subtask: Subtask) -> dict[str, list[Any]]:
        """What grows: to be told from round to round."""
        memory = self._memory
        places = memory.places
        task = memory.tasks[places.tasks[subtask.plan.name] + subtask.index]
        return {
            "times": [int(task[column]) for column in ("busy", "idle", "blocked")],
            "taken": [
                [int(row.processed) for row in self._ins(link.name, subtask.index)]
                for link, _ in subtask.in_links
            ],
            "routed": [self._routed(link.name, subtask.index) for link, _ in subtask.out_links],
        }

    def _ins(self, edge: str, receiver: int) -> Any:
        head = self._memory.head
        gate = gate_row(head, self._memory.places.gates[edge, receiver])
        first = gate.first_channel
        return in_rows(head, head.inputs_at, head.channels)[first : first + gate.channels]

    def _routed(self, edge: str, sender: int) -> list[int]:
        part = partition_row(self._memory.head, self._memory.places.partitions[edge, sender])
        return self._memory.cells[part.routed : part.routed + part.channels].tolist()

    def _load(self, subtask: Subtask, number: int) -> None:
        """Put a subtask into the state that the memory holds."""
        memory = self._memory
        task = memory.tasks[number]
        now, before = self._counts(subtask), self._before[number]
        for name in columns(Task):
            setattr(subtask.task, name, int(task[name]))
        subtask.times_us = [a - b for a, b in zip(now["times"], before["times"], strict=True)]
        subtask.taken = _growth(now["taken"], before["taken"])
        subtask.routed = _growth(now["routed"], before["routed"])
        self._before[number] = now
        length = w.FIFO_SLOTS + max(1, len(subtask.gates))
        refill(subtask.union, memory.values(int(task["union"]), length))
        for i, (link, _) in enumerate(subtask.in_links):
            self._load_gate(subtask.gates[i], link.name, subtask.index)
            if isinstance(subtask, RecordSubtask):
                subtask.held = int(task["is_held"])
                self._load_grants(subtask.grants[i], link.name, subtask.index)
        if subtask.source is not None:
            assign(subtask.source, throttled_source(memory.cells, int(task["throttle"])))
            subtask.controller_state = {} if self.controller is None else self.controller.state()
        subtask.messages = []
        for i, (link, _) in enumerate(subtask.out_links):
            self._load_partition(subtask, i, link.name)

    def _load_gate(self, gate: r.Gate, edge: str, receiver: int) -> None:
        memory = self._memory
        g = gate_row(memory.head, memory.places.gates[edge, receiver])
        assign(gate.pool, g.pool)
        assign(gate.segments, g.segments)
        length = w.FIFO_SLOTS + g.channels
        refill(gate.waiting, memory.values(g.waiting, length))
        refill(gate.order, memory.values(g.order, length))
        queues = received_queues(memory.head, g.queues, g.channels, g.queue_most)
        for i, row in enumerate(self._ins(edge, receiver)):
            assign(gate.channels[i], row)
            refill_queue(gate.queues[i], in_order(queues[i]))

    def _load_grants(self, grants: list[ChannelGrant], edge: str, receiver: int) -> None:
        memory = self._memory
        first = gate_row(memory.head, memory.places.gates[edge, receiver]).grants
        kept = channel_grants(memory.cells, first, len(grants))
        for state, other in zip(grants, kept, strict=True):
            assign(state, other)

    def _load_partition(self, subtask: Subtask, number: int, edge: str) -> None:
        memory, part = self._memory, subtask.partitions[number]
        p = partition_row(memory.head, memory.places.partitions[edge, subtask.index])
        assign(part.pool, p.pool)
        assign(part.segments, p.segments)
        subtask.pending[number] = memory.values(p.pending, p.pending_width)
        subtask.left_bytes[number] = p.left_bytes
        subtask.routers[number].restore(self._routed(edge, subtask.index))
        sent: list[list[Message]] = []
        queues = finished_queues(memory.head, p.queues, p.channels, p.queue_most)
        held_width = p.held_width
        for i in range(p.channels):
            row = memory.outs[p.first_channel + i]
            for name in columns(Subpartition):
                setattr(part.channels[i], name, int(row[name]))
            refill_queue(part.queues[i], in_order(queues[i]))
            if held_width > w.FIFO_SLOTS:
                held = memory.values(p.held + i * held_width, held_width)
                refill(part.held[i], held)
            sent.append(self._sent_now(int(row["input"])))
        subtask.messages.append(sent)

    def _sent_now(self, channel: int) -> list[Message]:
        """Messages of a channel that were sent in the round just run, in their order."""
        into = in_row(self._memory.head, channel)
        under_way = in_order(wire_queue(self._memory.head, into.transit, into.transit_most))
        return [Message(one.kind, one.records, one.nbytes, one.backlog) for one in under_way]


def _growth(now: list[list[int]], before: list[list[int]]) -> list[list[int]]:
    return [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(now, before, strict=True)]
