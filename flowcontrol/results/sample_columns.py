"""The tables ``stages`` and ``channels``, computed from the memory at samples.

Figures have a row a sample and a column for each subtask, or channel, so the samples of a run are
worked out together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from flowcontrol.layout.graph import Member
from flowcontrol.layout.job import Job
from flowcontrol.memory import fields as f
from flowcontrol.memory.memory import Memory
from flowcontrol.protocol.network.credit_rules import credit_of, reported_backlog
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.results.figures import Gathered, Ints
from flowcontrol.results.run import input_usages, put_out_and_pending, usage
from flowcontrol.state.declared import cell, width
from flowcontrol.state.network import LocalPool
from flowcontrol.state.rows import FIFO_COUNT, KIND_RESTORED, fifo_values
from flowcontrol.state.tasks import TASK_INPUT, Operator

Columns = dict[str, Any]
"""Figures by column, each of shape (samples, subtasks or channels)."""

_OF_TASKS: Final = (
    "busy", "idle", "blocked", "status", "gate", "channel", "left", "marks", "goes_on", "buffer",
)  # fmt: skip
_OF_OUTS: Final = (
    "sent", "announced", "written", "buffers", "is_open", "is_flushed", "unread", "empty",
    "is_finished", "ends_in_event", "is_blocked",
)  # fmt: skip
_OF_INS: Final = (
    "initial", "exclusive", "arrived", "processed", "consumed", "floating", "announced",
)  # fmt: skip
_OF_POOLS: Final = ("size", "in_use")


@dataclass(frozen=True)
class Row:
    """A row of the table ``stages``: one subtask of one stage, perhaps in the task of another."""

    task: int
    subtask: int
    number: int
    member: Member


class Sample(NamedTuple):
    """What was taken of a run at a sample."""

    t_s: float  # When (s)
    cells: Ints  # What is shown of the memory (:class:`flowcontrol.results.figures.Gathered`)
    ages: Ints  # What tasks, as plain cells, have logged since the sample before
    seconds: float  # Since the sample before (s)
    carried: Ints  # What counters had counted before tasks began anew (shape (5, rows))
    absent: frozenset[str]  # Stages whose job does not run
    # What waits in the logs of sources, and for how long (shape (rows,)).
    lag_records: Any
    lag_s: Any


class _Sums:
    """Sums over those who belong together: values by member become values by group."""

    def __init__(self, group_of: Ints, groups: int) -> None:
        self._groups = groups
        self._order = np.argsort(group_of, kind="stable")
        self._found, self._starts = np.unique(group_of[self._order], return_index=True)

    def __call__(self, values: Ints) -> Ints:
        sums = np.zeros((len(values), self._groups), np.int64)
        if len(self._found):
            sums[:, self._found] = np.add.reduceat(values[:, self._order], self._starts, axis=1)
        return sums


class SampleColumns:
    """Works out the columns of samples.

    - ``rows``: of the table ``stages``.
    - ``gathered``: what it needs of the memory at a sample.
    - ``ends``: the columns of channels that name them.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        links, places, head = job.links, memory.places, memory.head
        self._counts_records = job.record_transport is not None
        self._is_tcp, self._may_fail = head.is_tcp == 1, head.may_fail == 1
        channels = [link.width for link in links]
        self.ends: Columns = {
            "edge": np.repeat(np.array([link.name for link in links], object), channels),
            "sender": _joined([link.ends("sender") for link in links]),
            "receiver": _joined([link.ends("receiver") for link in links]),
        }
        self._stages_of_senders = np.repeat(
            np.array([link.edge.sender for link in links], object), channels
        )
        self._record_bytes = np.repeat([link.record_bytes for link in links], channels)
        self.rows = [
            Row(places.tasks[plan.name] + index, index, number, member)
            for plan in job.stages
            for number, member in enumerate(plan.members)
            for index in range(member.stage.parallelism)
        ]
        self.stages = np.array([row.member.stage.name for row in self.rows], object)
        self._tasks = np.array([row.task for row in self.rows], np.int64)
        self._is_sink = np.array([row.member.is_sink for row in self.rows])
        self._is_source = np.array(
            [row.number == 0 and row.member.stage.is_source for row in self.rows]
        )
        outs = _joined([places.outs[link.name] for link in links])
        self._lay_out(job, memory, outs)
        self.gathered = self._gathered(
            memory, outs, _joined([places.ins[link.name] for link in links])
        )

    def _lay_out(self, job: Job, memory: Memory, outs: Ints) -> None:
        """Find who belongs to whom: channels, gates and partitions to rows."""
        out, tasks = memory.outs, memory.tasks
        partition, self._receiver = out["partition"][outs], out["receiver"][outs]
        gate, self._sender = out["gate"][outs], out["sender"][outs]
        self._gate_in_task = gate - tasks["first_gate"][self._receiver]
        self._index = out["index"][outs]
        self._kinds = memory.partitions["kind"][partition]
        count, first = len(self.rows), dict[str, int]()
        for number, row in enumerate(self.rows):
            first.setdefault(row.member.stage.name, number)
        ends = {link.name: link.edge for link in job.links}
        row_of_gate, row_of_partition = (
            np.array([first[getattr(ends[edge], side)] + i for edge, i in found], np.int64)
            for side, found in (
                ("receiver", memory.places.gates),
                ("sender", memory.places.partitions),
            )
        )
        self._by_gate, self._by_partition = (
            _Sums(row_of_gate, count),
            _Sums(row_of_partition, count),
        )
        self._into = _Sums(row_of_gate[gate], count)
        self._out_of = _Sums(row_of_partition[partition], count)
        # Records are counted at a row's first output, those of a broadcast at one channel of it.
        first_output = np.full(count, -1, np.int64)
        first_output[row_of_partition[::-1]] = np.arange(len(row_of_partition))[::-1]
        counts = (out["place"][outs] == 0) | (memory.partitions["is_broadcast"][partition] == 0)
        counts &= first_output[row_of_partition[partition]] == partition
        self._counted = np.flatnonzero(counts)
        self._written_by = _Sums(row_of_partition[partition[self._counted]], count)
        self._has_output = first_output >= 0
        first_of = first_output[row_of_partition]
        self._later = {
            int(number): int(first_of[number])
            for number in np.flatnonzero(first_of != np.arange(len(first_of)))
        }
        self._channels_of = {
            number: own[np.argsort(out["place"][outs][own])]
            for number in self._later
            for own in [np.flatnonzero(partition == number)]
        }
        self._is_broadcast = memory.partitions["is_broadcast"] == 1

    def _gathered(self, memory: Memory, outs: Ints, ins: Ints) -> Gathered:
        head = memory.head
        states = {
            "task": (f.KernelTask, head.tasks_at, np.arange(head.tasks), _OF_TASKS),
            "out": (f.KernelSubpartition, head.outputs_at, outs, _OF_OUTS),
            "in": (f.KernelInputChannel, head.inputs_at, ins, _OF_INS),
        }
        pools = {
            "gate": (f.KernelGate, head.gates_at, head.gates),
            "partition": (f.KernelPartition, head.partitions_at, head.partitions),
        }
        places: Columns = {}
        for kind, (cls, at, numbers, names) in states.items():
            firsts = at + width(cls) * numbers
            places |= {f"{kind} {name}": firsts + cell(cls, name) for name in names}
        for kind, (cls, at, count) in pools.items():
            firsts = at + width(cls) * np.arange(count) + cell(cls, "pool")
            places |= {f"{kind} {name}": firsts + cell(LocalPool, name) for name in _OF_POOLS}
        for number in {*self._later, *self._later.values()}:
            part = memory.partitions[number]
            places[f"pending {number}"] = part["pending"] + np.arange(part["pending_width"])
        places["records in"] = self._counters(memory, [row.member.input for row in self.rows])
        places["records out"] = self._counters(memory, [row.member.output for row in self.rows])
        return Gathered(memory.cells, places)

    def _counters(self, memory: Memory, operators: Sequence[int]) -> Ints:
        """Return where the records are counted that an operator of each row's task puts out."""
        taken = memory.head.tasks_at + width(f.KernelTask) * self._tasks
        listed = memory.tasks["operators_at"][self._tasks] + np.maximum(operators, 0)
        is_input = np.array(operators) == TASK_INPUT
        places = memory.cells[np.where(is_input, 0, listed)]
        return np.where(
            is_input, taken + cell(f.KernelTask, "taken"), places + cell(Operator, "records_out")
        )

    def cumulative(self, at: Columns) -> Any:
        """Return records in, records out, and the tasks' three times, shape (5, samples, rows)."""
        written = self._written_by(at["out written"][:, self._counted])
        put_out = np.where(self._has_output, written, at["records out"])
        return np.array(
            [
                np.where(self._is_source, 0, at["records in"]),
                np.where(self._is_sink, 0, put_out),
                *(at[f"task {name}"][:, self._tasks] for name in ("busy", "idle", "blocked")),
            ]
        )

    def of_stages(self, at: Columns, before: Any, samples: Sequence[Sample]) -> tuple[Columns, Any]:
        """Return the columns of the table ``stages``, and the counters of the last sample.

        ``before`` (shape (5, rows)): counters at the sample before.
        """
        carried = np.array([sample.carried for sample in samples]).swapaxes(0, 1)
        now = self.cumulative(at) + carried
        seconds = np.array([sample.seconds for sample in samples])[:, None]
        growth = np.diff(now, axis=1, prepend=before[:, None]) / seconds
        return {
            "records_in": now[0],
            "records_out": now[1],
            "rate_in": growth[0],
            "rate_out": growth[1],
            "busy_ms_per_s": growth[2] / 1000,
            "idle_ms_per_s": growth[3] / 1000,
            "backpressured_ms_per_s": growth[4] / 1000,
            **self._levels(at, samples),
        }, now[:, -1]

    def _levels(self, at: Columns, samples: Sequence[Sample]) -> Columns:
        """Levels of all rows; 0 where the job does not run."""
        logs = {
            "lag_records": np.array([sample.lag_records for sample in samples]),
            "lag_s": np.array([sample.lag_s for sample in samples]),
        }
        levels = {**self._input_levels(at), **self._output_levels(at), **logs}
        levels = _without(levels, _gone(self.stages, samples))
        if self._may_fail:
            levels = _without(levels, at["task status"][:, self._tasks] == f.ABSENT)
            levels |= logs  # a log grows whether or not anybody reads it
        return levels

    def _input_levels(self, at: Columns) -> Columns:
        """Usages and queues of the tasks' gates (reference section 10)."""
        initial, exclusive = np.maximum(0, at["in initial"]), np.maximum(0, at["in exclusive"])
        waits = self._queued(at)
        if not self._counts_records:
            waits = waits + np.where(at["in initial"] < 0, self._ready(at), 0)
        size, in_use = (self._by_gate(at[f"gate {name}"]) for name in _OF_POOLS)
        return {
            **input_usages(self._into(initial), self._into(initial - exclusive), size, in_use),
            "input_queue_buffers": self._into(waits),
        }

    def _output_levels(self, at: Columns) -> Columns:
        """Usages and queues of the tasks' result partitions."""
        size, used = (self._by_partition(at[f"partition {name}"]) for name in _OF_POOLS)
        return {
            "out_pool_usage": usage(used, size),
            "output_queue_buffers": self._out_of(at["out buffers"]),
            "output_pool_size": size,
            "output_pool_used": used,
        }

    def of_channels(self, at: Columns, samples: Sequence[Sample]) -> Columns:
        """Return the columns of the table ``channels`` that change; see :meth:`of_stages`."""
        ready, sent, queued = self._ready(at), at["out sent"], self._queued(at)
        is_local = at["in initial"] < 0
        uncredited = is_local | self._is_tcp
        exclusive_used = at["in initial"] - at["in exclusive"]
        floating = at["in floating"] + queued + self._is_read(at) - exclusive_used
        flying = at["out written"] - at["in processed"] + self._between_edges(at)
        # A limit that falls, as Jet's does, may be below what was sent before.
        credit = np.maximum(0, credit_of(at["out announced"], sent))
        levels = {
            "credit": np.where(uncredited, 0, credit),
            "backlog": self._backlog(at, ready),
            "exclusive_free": at["in exclusive"],
            "floating_held": np.where(is_local, 0, floating),
            "queued": queued,
            "in_flight_records": flying,
            "in_flight_bytes": flying * self._record_bytes,
        }
        levels = _without(levels, _gone(self._stages_of_senders, samples))
        if self._may_fail:
            gone = at["task status"] == f.ABSENT
            levels = _without(levels, gone[:, self._sender] | gone[:, self._receiver])
        return {
            "written": sent + ready,
            "released": sent + ready,
            "announced": np.where(uncredited, sent + ready, at["in announced"]),
            "sent": sent,
            "consumed": at["in consumed"],
            **levels,
        }

    def _between_edges(self, at: Columns) -> Ints:
        """Records of each channel that their stage has put out, and not yet written to it."""
        found = np.zeros_like(at["out written"])
        for number, first in self._later.items():
            pending, before = at[f"pending {number}"], at[f"pending {first}"]
            channels = self._channels_of[number]
            for sample in np.flatnonzero(pending[:, FIFO_COUNT] > 0):
                for channel in put_out_and_pending(
                    fifo_values(before[sample]), fifo_values(pending[sample])
                ):
                    own = channels if self._is_broadcast[number] else channels[channel]
                    found[sample, own] += 1
        return found

    def _ready(self, at: Columns) -> Ints:
        """Messages that each channel's sender holds: the open buffer counts if it is flushed."""
        is_open = at["out is_open"]
        flushed = (is_open == 1) & (at["out is_flushed"] == 1) & (at["out unread"] > 0)
        found: Ints = at["out buffers"] - is_open - at["out empty"] + flushed
        return found

    def _backlog(self, at: Columns, ready: Ints) -> Ints:
        """Messages that each channel's sender announces; where it announces none, those it has."""
        if self._counts_records or self._is_tcp:
            return ready
        names = ("buffers", "is_flushed", "is_finished", "ends_in_event", "is_blocked")
        announced = reported_backlog(*(at[f"out {name}"] for name in names))
        return np.where(self._kinds > PIPELINED, ready, announced)

    def _queued(self, at: Columns) -> Ints:
        """Buffers that wait at each channel's receiver; records, of a transport of those."""
        arrived: Ints = at["in arrived"]
        if self._counts_records:
            return arrived - at["in processed"]
        return arrived - at["in consumed"] - self._is_read(at)

    def _is_read(self, at: Columns) -> Ints:
        """Tell of each channel whether its receiver reads a buffer of it: 1 if so."""
        in_hand = at["task left"] + at["task marks"] + at["task goes_on"] > 0
        has_buffer = in_hand & (at["task buffer"] != KIND_RESTORED)
        is_gate = at["task gate"][:, self._receiver] == self._gate_in_task
        is_own = is_gate & (at["task channel"][:, self._receiver] == self._index)
        return np.asarray(has_buffer[:, self._receiver] & is_own, np.int64)


def _gone(stages: Any, samples: Sequence[Sample]) -> Any:
    """Return where a stage is absent, shape (samples, stages), or None if none ever is."""
    if not any(sample.absent for sample in samples):
        return None
    names = stages.astype(str)
    return np.array([np.isin(names, sorted(sample.absent)) for sample in samples])


def _without(levels: Columns, gone: Any) -> Columns:
    """Return levels that are 0 where something is gone."""
    if gone is None:
        return levels
    return {name: np.where(gone, 0, values) for name, values in levels.items()}


def _joined(parts: list[Ints]) -> Ints:
    """Return arrays one behind the other; a job may have no edge."""
    return np.concatenate([np.zeros(0, np.int64), *parts])
