"""Connections and processors, which serve the tasks of several processes behind a round.

Each process has them, and runs them on what all tasks have published: they come to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowcontrol.protocol import rows as w
from flowcontrol.protocol.rows import fifo_push
from flowcontrol.protocol.state import width
from flowcontrol.replicas.shares import Machines, Shares
from flowcontrol.replicas.standing import Standing
from flowcontrol.systems.tcp_connection import TcpMessage
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.areas import outputs_of
from flowcontrol.virtual.cells import row
from flowcontrol.virtual.connections import CONNECTION_CELLS
from flowcontrol.virtual.loop import serve_machines
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.processor_fields import KernelProcessors
from flowcontrol.virtual.turns import serve_now
from flowcontrol.virtual.wheel import sleep, wake


class SharedMachines:
    """What tasks of several processes share, in the memory of one of them.

    Parameters
    ----------
    memory : Memory
        Before its first round.
    standing : Standing
        What it was then.
    own : sequence of int
        The tasks that run here.

    Attributes
    ----------
    state : Machines
        As it was before the round.
    sent : dict of int to list of (int, int)
        By channel of own tasks that has a connection: kind and records of each message that this
        has sent behind the round before.
    is_any : bool
        Whether there is something.
    """

    def __init__(self, memory: Memory, standing: Standing, own: Sequence[int]) -> None:
        self._memory, self._standing, self._own = memory, standing, own
        m = self._head = memory.head
        self._connections = [
            task for task in range(m.tasks) if v.task_row(m, task).kind == f.CONNECTION
        ]
        self._cells, self._waiting = self._all_cells(), dict[int, int]()
        self.sent = dict[int, list[tuple[int, int]]]()
        self.is_any = len(self._cells) > 0
        self._agreed, self.state = np.zeros(0, np.int64), Machines()

    def take(self) -> tuple[list[int], list[int]]:
        """Return what own tasks want of connections; put these back to what all agree on."""
        m, cells = self._head, self._memory.cells
        if not self.is_any:
            return [], []
        served = [m[m.active + m.tasks + i] for i in range(m.served)]
        m.served = 0
        queued: list[int] = []
        for number in self._connections:
            one = v.task_row(m, number)
            known = self._waiting.get(number, 0)
            queued += self._memory.values(one.union, w.FIFO_SLOTS + one.gates)[known:]
        cells[self._cells] = self._agreed
        return queued, served

    def agree(self) -> None:
        """Note what is shared, as all processes have it before a round."""
        m, cells = self._head, self._memory.cells
        if not self.is_any:
            return
        self._agreed = cells[self._cells]
        self._waiting = {
            number: m[v.task_row(m, number).union + w.FIFO_COUNT] for number in self._connections
        }
        wakes = [[number, v.task_row(m, number).wake] for number in self._connections]
        self.state = Machines(self._standing.differing(self._cells), wakes)

    def serve(self, shares: Shares) -> None:
        """Have connections and processors serve all tasks behind the round that these have run."""
        m = self._head
        if not self.is_any or not shares.tasks:
            return
        number = m.round - 1
        m.now = number
        wires = {
            channel: v.wire_queue(m, v.out_row(m, channel).input)
            for task in self._own
            for channel in outputs_of(self._memory, task)
            if v.out_row(m, channel).connection >= 0
        }
        before = {channel: wire.ends.count for channel, wire in wires.items()}
        for channel in sorted(shares.queued, key=lambda out: v.out_row(m, out).sender):
            one = v.task_row(m, v.out_row(m, channel).connection)
            fifo_push(row(m, one.union, w.FIFO_SLOTS + one.gates), channel)
        due = [task for task, at in shares.machines.wakes if at == number]
        for task in sorted({*due, *shares.served}):
            serve_now(m, task)
        every: Any = row(m, m.active, 2 * m.tasks)
        for i, task in enumerate(self._own):
            every[i] = task
        serve_machines(m, every, len(self._own))
        self.sent = {
            channel: _newest(wire, wire.ends.count - before[channel])
            for channel, wire in wires.items()
        }

    def restore(self, machines: Machines) -> None:
        """Put them where they were before the last round."""
        m = self._head
        self._standing.put(machines.cells)
        for machine, at in machines.wakes:
            sleep(m, machine)
            if at > m.now:
                wake(m, machine, at)

    def _all_cells(self) -> Ints:
        """Return the cells of what serves the tasks behind a round."""
        m, places = self._head, [np.zeros(0, np.int64)]
        for number in self._connections:
            one = v.task_row(m, number)
            places.append(self._standing.task_row(number))
            places.append(one.union + np.arange(w.FIFO_SLOTS + one.gates))
            if m.is_tcp == 1:
                length = CONNECTION_CELLS + one.phase_count * width(TcpMessage)
                places.append(one.phases + np.arange(length))
        if m.has_processors == 1:
            length = m.managers * width(KernelProcessors)
            places.append(m.managers_at + np.arange(length))
        return np.concatenate(places)


def _newest(queue: Any, count: int) -> list[tuple[int, int]]:
    """Return kind and records of the newest messages of a queue."""
    ends = queue.ends
    places = [(ends.head + place) % ends.span for place in range(ends.count - count, ends.count)]
    return [(int(queue.slots[i].kind), int(queue.slots[i].records)) for i in places]
