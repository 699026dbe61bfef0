"""Where in a memory what moves in which way is, as the fields declare it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowcontrol.operators.states import TASK_INPUT, Operator
from flowcontrol.operators.table import OPERATORS
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.motions import Motion, cells_of_motion
from flowcontrol.protocol.state import cell, width
from flowcontrol.protocol.states import Message, ReceivedMessage
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.periods.rings import Rings
from flowcontrol.virtual.periods.runs import Runs
from flowcontrol.virtual.places import Ints

GROWING = (
    Motion.MESSAGES,
    Motion.CREDITS,
    Motion.LENT,
    Motion.RECORDS,
    Motion.SHARED,
    Motion.TOTAL,
    Motion.ROUND,
    Motion.MOMENT,
    Motion.WORK,
)


@dataclass(frozen=True)
class States:
    """States of one class.

    Attributes
    ----------
    at : ndarray of int64, shape (states,)
        Where each begins.
    cls : type
        Their class.
    """

    at: Ints
    cls: type[Any]

    def of_motion(self, *motions: Motion) -> Ints:
        """Return the cells that move in some ways, shape (states, cells of one)."""
        return self.at[:, None] + np.array(cells_of_motion(self.cls, *motions), np.int64)

    def field(self, name: str) -> Ints:
        """Return the cell of a field of each."""
        return self.at + cell(self.cls, name)


@dataclass(frozen=True)
class Layout:
    """Where in a memory what moves in which way is.

    Attributes
    ----------
    levels : ndarray of int64
        Cells that have to be what they were: all that nothing else is said of.
    pairs : list of (ndarray of int64, ndarray of int64)
        Cells that grow, and those that each is compared with.
    grows : ndarray of int64
        Cells that grow, those of queues left out.
    moments : ndarray of int64
        Of these, microseconds.
    rings : list of Rings
        All queues.
    runs : Runs
        The records in flight.
    tasks, partitions, outs, logs : States
        Of the memory.
    """

    levels: Ints
    pairs: list[tuple[Ints, Ints]]
    grows: Ints
    moments: Ints
    rings: list[Rings]
    runs: Runs
    tasks: States
    partitions: States
    outs: States
    logs: States

    @classmethod
    def of(cls, memory: Memory) -> Layout:
        """Return the layout of a memory."""
        head, cells = memory.head, memory.cells
        tasks = _block(head.tasks_at, head.tasks, f.KernelTask)
        gates = _block(head.gates_at, head.gates, f.KernelGate)
        partitions = _block(head.partitions_at, head.partitions, f.KernelPartition)
        ins = _block(head.inputs_at, head.channels, f.KernelInputChannel)
        outs = _block(head.outputs_at, head.channels, f.KernelSubpartition)
        places = cells[tasks.field("log")]
        logs = States(places[places > 0], f.KernelLog)
        operators = _operators(memory)
        own = [_block(0, 1, KernelMemory), tasks, gates, partitions, ins, outs, logs, *operators]
        rings = _rings(memory, ins, outs)
        routed = [
            at + np.arange(count)
            for at, count in cells[
                np.stack([partitions.field("routed"), partitions.field("channels")], 1)
            ].tolist()
        ]
        grows = _joined([states.of_motion(*GROWING) for states in own] + routed)
        is_level = np.ones(len(cells), bool)
        is_level[grows] = False
        is_level[_joined([states.of_motion(Motion.SCRATCH) for states in own])] = False
        is_level[_joined([ring.cells() for ring in rings])] = False
        for at, length in _lists(head):
            is_level[at : at + length] = False
        heads = [outs.at + cell(f.KernelSubpartition, "runs") + cell(f.RunList, "head")]
        heads += [logs.at + cell(f.KernelLog, "runs") + cell(f.RunList, "head")]
        return cls(
            np.flatnonzero(is_level),
            [*_pairs_of_channels(cells, ins, outs, partitions), *_pairs_of_tasks(memory)],
            grows,
            _joined([states.of_motion(Motion.MOMENT) for states in own]),
            rings,
            Runs(_joined(heads), head.runs),
            tasks,
            partitions,
            outs,
            logs,
        )


def _block(at: int, count: int, cls: type[Any]) -> States:
    return States(at + width(cls) * np.arange(count), cls)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *(part.ravel() for part in parts)])


def _lists(head: KernelMemory) -> list[tuple[int, int]]:
    """Return where the clock's own lists are, and how long."""
    return [
        (head.runs, head.runs_most * width(f.Run)),
        (head.ages, head.ages_most * width(f.Age)),
        (head.wheel, f.WHEEL_SLOTS),
        (head.wheel_bits, f.WHEEL_SLOTS // w.WORD),
        (head.active, 2 * head.tasks),
    ]


def _operators(memory: Memory) -> list[States]:
    """Return the operators of all tasks, by their kind."""
    found = np.array([at for row in memory.tasks for at in _operators_of(memory, row)], np.int64)
    kinds = memory.cells[found + cell(Operator, "kind")]
    return [States(found[kinds == kind], cls) for kind, cls in OPERATORS.items() if kind in kinds]


def _operators_of(memory: Memory, row: Any) -> list[int]:
    first = int(row["operators_at"])
    return [int(at) for at in memory.cells[first : first + int(row["operators"])]]


def _rings(memory: Memory, ins: States, outs: States) -> list[Rings]:
    """Return all queues of a memory."""
    cells = memory.cells
    sent = outs.field("sent")[cells[ins.field("out")]]
    later = cells[ins.field("credits_most")] > 0
    received = np.repeat(memory.gates["queue_most"], memory.gates["channels"])
    finished = np.repeat(memory.partitions["queue_most"], memory.partitions["channels"])
    found = [
        Rings.of_channels(
            cells, ins.field("under_way"), cells[ins.field("transit_most")], f.KernelMessage
        ),
        Rings.of_channels(cells, ins.field("received"), received, ReceivedMessage),
        Rings.of_channels(cells, outs.field("finished"), finished, Message),
        Rings(
            cells[ins.field("credits")][later],
            cells[ins.field("credits_most")][later],
            f.KernelCredit,
            sent[later],
        ),
    ]
    plain: list[tuple[int, int]] = []
    for row in memory.tasks:
        plain.append((int(row["union"]), max(1, int(row["gates"]))))
    for row in memory.gates:
        plain += [(int(row["waiting"]), int(row["channels"]))]
        plain += [(int(row["order"]), int(row["channels"]))]
    for row in memory.partitions:
        plain.append((int(row["pending"]), int(row["pending_width"]) - w.FIFO_SLOTS))
        each_held = int(row["held_width"])
        held = (int(row["held"]) + each_held * place for place in range(int(row["channels"])))
        plain += [(at, each_held - w.FIFO_SLOTS) for at in held]
    at_and_most = np.array(plain, np.int64).reshape(-1, 2)
    return [*found, Rings(at_and_most[:, 0], at_and_most[:, 1])]


def _pairs_of_channels(
    cells: Ints, ins: States, outs: States, partitions: States
) -> list[tuple[Ints, Ints]]:
    """Return what grows of channels, beside what it is compared with."""
    order = cells[ins.field("out")]
    pairs = []
    for motion, base in ((Motion.MESSAGES, "sent"), (Motion.RECORDS, "written")):
        for states, which in ((ins, order), (outs, np.arange(len(outs.at)))):
            found = states.of_motion(motion)
            pairs.append((found, outs.field(base)[which][:, None] + 0 * found))
    is_local = cells[outs.field("is_local")] == 1
    for motion, counts in ((Motion.CREDITS, ~is_local), (Motion.LENT, is_local)):
        for states, which in ((ins, order), (outs, np.arange(len(outs.at)))):
            found = states.of_motion(motion)[counts[which]]
            pairs.append((found, outs.field("sent")[which][counts[which]][:, None] + 0 * found))
    found = outs.of_motion(Motion.SHARED)
    first = cells[partitions.field("first_channel")][cells[outs.field("partition")]]
    pairs.append((found, found[first]))
    return [(found.ravel(), base.ravel()) for found, base in pairs]


def _pairs_of_tasks(memory: Memory) -> list[tuple[Ints, Ints]]:
    """Return what grows of tasks and their logs, beside what it is compared with."""
    found: list[tuple[int, int]] = []
    head = memory.head
    for number, row in enumerate(memory.tasks):
        at = head.tasks_at + number * width(f.KernelTask)
        places = _operators_of(memory, row)

        def put_out_by(
            operator: int, taken: int = at + cell(f.KernelTask, "taken"), own: Any = places
        ) -> int:
            if operator == TASK_INPUT:
                return taken
            return int(own[operator]) + cell(Operator, "records_out")

        for place in places:
            source = put_out_by(int(memory.cells[place + cell(Operator, "input")]))
            found.append((place + cell(Operator, "records_in"), source))
        first = int(row["first_partition"])
        for partition in range(first, first + int(row["partitions"])):
            writer = head.partitions_at + partition * width(f.KernelPartition)
            source = put_out_by(int(memory.partitions["operator"][partition]))
            found.append((writer + cell(f.KernelPartition, "emitted"), source))
        if row["log"] > 0:
            ends = (int(row["log"]) + cell(f.KernelLog, name) for name in ("end", "position"))
            found.append((next(ends), next(ends)))
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return [(pairs[:, 0], pairs[:, 1])]
