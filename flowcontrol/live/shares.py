"""What tasks and shared machines publish after a round, and where it stands in a memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flowcontrol.kernel import views as v
from flowcontrol.kernel.loop import serve_machines
from flowcontrol.kernel.machines import CONNECTION_CELLS
from flowcontrol.kernel.messages import serve_now
from flowcontrol.kernel.views import (
    Area,
    areas_beside_task,
    areas_of_input,
    areas_of_output,
    credits_of,
    outputs_of,
    sleep,
    wake,
)
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import row, sparse
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import KernelProcessors, SpillingPartition
from flowcontrol.memory.places import Ints
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.state import rows as w
from flowcontrol.state.declared import cell, columns, width
from flowcontrol.state.rows import fifo_push
from flowcontrol.systems.tcp import TcpMessage
from flowcontrol.systems.throttles.throttled_source import ThrottledSource

# --- What tasks publish after a round, for the other tasks and to go on from


Cells = list[int]
"""Places and values by turns, of what is not as it was before the first round."""
Runs = list[list[int]]
"""Records in flight, oldest first: round of emission, count, stamp and kind of each run."""

COUNTED = "arrived", "grants", "transfers"
"""Counts of the memory's head, of all tasks together."""


@dataclass
class ChannelShare:
    """A channel at its receiver or at its sender, after a round."""

    cells: Cells = field(default_factory=list)  # Its row
    # Cells of its queues: at a receiver what it has received, and what was under way to it; at a
    # sender buffers that are not sent, and credit under way to it.
    queues: Cells = field(default_factory=list)
    # At a receiver the records in it when the round began, as far as they were not taken up; at a
    # sender those that were written in the round.
    runs: Runs = field(default_factory=list)
    # What was sent in the round: the fields of each ``KernelMessage``, or of each ``KernelCredit``
    # that the receiver has told its sender.
    messages: list[list[int]] = field(default_factory=list)
    # The sender of a receiver is to look at it, where that sees its counts at once.
    has_news: bool = False


@dataclass
class TaskShare:
    """A task after a round."""

    # What belongs to it, its gates and its partitions, but to none of their channels.
    cells: Cells = field(default_factory=list)
    wake: int = -1  # Round in which it is looked at next; -1: in none
    # Its channels, by their numbers at this side.
    inputs: dict[int, ChannelShare] = field(default_factory=dict)
    outputs: dict[int, ChannelShare] = field(default_factory=dict)
    # When the records fell due that wait in the log of a throttled source.
    runs: Runs = field(default_factory=list)
    # Of each checkpoint that it has taken in the round: its id, and the cells that it keeps.
    cuts: list[list[int]] = field(default_factory=list)

    def channels(self) -> Iterator[tuple[str, int, ChannelShare]]:
        """Yield its channels, each with its side and its number there."""
        for side, own in (("input", self.inputs), ("output", self.outputs)):
            for channel, share in own.items():
                yield side, channel, share


@dataclass
class Machines:
    """Connections and processors before a round, which serve the tasks behind it."""

    cells: Cells = field(default_factory=list)  # What belongs to them
    # Those that are to be looked at, and in which round.
    wakes: list[list[int]] = field(default_factory=list)
    is_complete: bool = True  # False: the cells are only those that the round has changed


@dataclass
class Shares:
    """What tasks have published after a round."""

    tasks: dict[int, TaskShare] = field(default_factory=dict)  # By task
    ages: list[list[int]] = field(default_factory=list)  # Entries of the log of ages
    results: list[list[int]] = field(default_factory=list)  # Of the log of the results of windows
    # What they have reported to the coordinator.
    reports: list[list[int]] = field(default_factory=list)
    # What the round has added to the memory's counts (:data:`COUNTED`).
    counted: list[int] = field(default_factory=lambda: [0] * len(COUNTED))
    # Channels that they have put into the queues of connections, by their numbers at the sender.
    queued: list[int] = field(default_factory=list)
    served: list[int] = field(default_factory=list)  # Connections that they have had served
    # What tasks share, as it was before the round; the same wherever they run.
    machines: Machines = field(default_factory=Machines)
    # Which jobs run and what they hold, as JSON takes it; of jobs that start and stop.
    jobs: dict[str, Any] = field(default_factory=dict)

    def add(self, others: Shares) -> None:
        """Add what other tasks have published after the same round."""
        self.tasks |= others.tasks
        self.ages += others.ages
        self.results += others.results
        self.reports += others.reports
        self.counted = [a + b for a, b in zip(self.counted, others.counted, strict=True)]
        self.queued += others.queued
        self.served += others.served
        self.jobs |= others.jobs
        if others.machines.cells or others.machines.wakes:
            self.machines = others.machines


# --- Where tasks and their channels stand in a memory, and what of it differs from its beginning


class Standing:
    """A memory, and what it was before its first round.

    - ``memory``: before its first round.
    - ``image``: what it was then.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory, self._head = memory, memory.head
        self.image = sparse(memory.cells)
        self._found: dict[tuple[str, int], Ints] = {}

    # ------------------------------------------------------------------ what it holds

    def differing(self, places: Ints) -> Cells:
        """Return which cells are not as they were before the first round, and what they hold."""
        here = self._memory.cells[places]
        fresh = np.flatnonzero(here != self.image[places])
        pairs = np.empty(2 * len(fresh), np.int64)
        pairs[::2], pairs[1::2] = places[fresh], here[fresh]
        found: Cells = pairs.tolist()
        return found

    def first(self) -> Ints:
        """Return a copy of the memory before its first round."""
        return sparse(self.image)

    def reset(self, places: Ints) -> None:
        """Have cells be as they were before the first round."""
        self._memory.cells[places] = self.image[places]

    def put(self, pairs: Cells) -> None:
        """Have cells hold what they held."""
        flat = np.array(pairs, np.int64)
        self._memory.cells[flat[::2]] = flat[1::2]

    def show(self, places: Ints, pairs: Cells) -> None:
        """Have cells be as they were before the first round, but for those that hold something."""
        self.reset(places)
        self.put(pairs)

    def show_queues(self, side: str, channel: int, pairs: Cells) -> None:
        """Have queues hold what they held: first where their slots are, then what is in these."""
        rings = self.row(_RINGS[side], channel)
        self.show(rings, pairs)
        self.show(
            self.queues(side, channel)[len(rings) :], pairs
        )  # behind the slots, as they are now

    # ------------------------------------------------------------------ where it is

    def task_row(self, task: int) -> Ints:
        """Return the cells of a task's row."""
        return self._head.tasks_at + task * width(f.KernelTask) + _TASK_ROW

    def beside(self, task: int) -> Ints:
        """Return the cells of a task, its gates and its partitions, without their channels."""
        found = self._found.get(("task", task))
        if found is not None:
            return found
        m, one = self._head, self._memory.tasks[task]
        places = [self.task_row(task)]
        for base, at, count, cls in (
            (m.gates_at, "first_gate", "gates", f.KernelGate),
            (m.partitions_at, "first_partition", "partitions", f.KernelPartition),
        ):
            begin = base + int(one[at]) * width(cls)
            places.append(np.arange(begin, begin + int(one[count]) * width(cls)))
        if one["log"] > 0:
            places.append(int(one["log"]) + _LOG_ROW)
        if one["throttle"] > 0:
            places.append(int(one["throttle"]) + np.arange(width(ThrottledSource)))
        first, parts = int(one["first_partition"]), self._memory.partitions
        for part in parts[first : first + int(one["partitions"])]:
            if part["kind"] == PIPELINED:
                places.append(int(part["spill"]) + np.arange(width(SpillingPartition)))
        areas = areas_beside_task(self._memory, task)
        places += map(np.arange, *_ends(areas))
        found = np.concatenate(places)
        if one["window"] == 0 and one["requests"] == 0:  # what they hold grows
            self._found["task", task] = found
        return found

    def row(self, part: str, channel: int) -> Ints:
        """Return the cells of a part of a channel's row: of its side, or of the queues there."""
        if (found := self._found.get((part, channel))) is None:
            side, cells = _PARTS[part]
            base, each = {
                "in": (self._head.inputs_at, v.INPUT_CELLS),
                "out": (self._head.outputs_at, v.OUTPUT_CELLS),
            }[side]
            found = self._found[part, channel] = base + channel * each + cells
        return found

    def queues(self, side: str, channel: int) -> Ints:
        """Return the cells of a channel's queues at a side, as large as they are now."""
        memory, m = self._memory, self._head
        if side == "input":
            areas = list(areas_of_input(memory, channel))
        else:
            into = v.out_row(m, channel).input
            areas = [*areas_of_output(memory, channel), *credits_of(memory, into)]
        return np.concatenate([self.row(_RINGS[side], channel), *map(np.arange, *_ends(areas))])

    def share(self, side: str, channel: int) -> ChannelShare:
        """Return a channel at a side, as far as cells have it."""
        cells = self.differing(self.row(side, channel))
        return ChannelShare(cells, self.differing(self.queues(side, channel)))


def _ends(areas: Iterable[Area]) -> tuple[list[int], list[int]]:
    """Return the first cells of areas, and those behind their last ones."""
    every = list(areas)
    return [first for first, _ in every], [first + length for first, length in every]


def _cells(cls: type[Any], names: Sequence[str]) -> Ints:
    """Return the cells of some fields of a row."""
    order = list(columns(cls))
    ends = [cell(cls, name) for name in order[1:]] + [width(cls)]
    spans = {name: (cell(cls, name), end) for name, end in zip(order, ends, strict=True)}
    return np.concatenate([np.arange(*spans[name]) for name in names])


def _but(cls: type[Any], *left: str) -> Ints:
    """Return the cells of a row but for some fields."""
    return _cells(cls, [name for name in columns(cls) if name not in left])


_PARTS = {
    "input": ("in", _but(f.KernelInputChannel, "received", "under_way")),
    "received": ("in", _cells(f.KernelInputChannel, ["received", "under_way"])),
    "output": ("out", _but(f.KernelSubpartition, "finished", "runs")),
    "finished": ("out", _cells(f.KernelSubpartition, ["finished"])),
}
"""Cells of the rows of channels; where its runs are is a matter of each process."""
_RINGS = {"input": "received", "output": "finished"}
_LOG_ROW = _but(f.KernelLog, "runs", "position")
"""How far the source is stands among its areas."""
_TASK_ROW = _but(f.KernelTask, "wake", "next", "previous")
"""What of a task is not where it is on the wheel of its own process."""


# --- Connections and processors, which serve the tasks of several processes behind a round.
#
# Each process has them, and runs them on what all tasks have published: they come to the
# same.


class SharedMachines:
    """What tasks of several processes share, in the memory of one of them.

    - ``memory``: before its first round.
    - ``state``: as it was before the round.
    - ``sent``: by channel of own tasks that has a connection: kind and records of each message that
      this has sent behind the round before.
    - ``is_any``: whether there is something.
    """

    def __init__(self, memory: Memory, standing: Standing, own: Sequence[int]) -> None:
        self._memory, self._standing, self._own = memory, standing, own
        m = self._head = memory.head
        self._connections = [
            task for task in range(m.tasks) if v.task_row(m, task).kind == f.CONNECTION
        ]
        self._cells, self._waiting = self._all_cells(), dict[int, int]()
        self.sent = dict[int, list[list[int]]]()
        self.is_any = len(self._cells) > 0
        self._agreed, self.state = np.zeros(0, np.int64), Machines()

    def take(self) -> tuple[list[int], list[int]]:
        """Return what own tasks want of connections; put these back to what all agree on."""
        m, cells = self._head, self._memory.cells
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
            channel: sent_as(waiting_in(wire)[before[channel] :]) for channel, wire in wires.items()
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


def waiting_in(queue: Any) -> list[Any]:
    """Return what is in a queue, the oldest first."""
    ends = queue.ends
    return [queue.slots[(ends.head + i) % ends.span] for i in range(ends.count)]


def sent_as(messages: Iterable[Any]) -> list[list[int]]:
    """Return kind and records of messages."""
    return [[int(one.kind), int(one.records)] for one in messages]
