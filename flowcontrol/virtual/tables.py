"""The result tables of a virtual run, read off the kernel's memory at each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flowcontrol.emulation import Job
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol import rows as w
from flowcontrol.records import RESULTS
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Tables"]

Ints = npt.NDArray[np.int64]
Columns = dict[str, Any]


@dataclass(frozen=True)
class _Edge:
    """Where the figures of an edge's channels stand, in the order of the edge."""

    name: str
    record_bytes: int
    senders: Ints
    receivers: Ints
    outs: Ints
    ins: Ints
    routed: Ints
    queued: Ints
    tasks: Ints
    gate_of_task: Ints
    index: Ints


class Tables:
    """Collects the rows of all samples.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    memory : Memory
        Of its run.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        self._job, self._memory = job, memory
        self._edges = [self._edge(number) for number in range(len(job.links))]
        self._stage_names = [
            plan.name for plan in job.stages for _ in range(plan.stage.parallelism)
        ]
        self._subtasks = np.array(
            [index for plan in job.stages for index in range(plan.stage.parallelism)], np.int64
        )
        self._is_source = np.array(
            [plan.is_source for plan in job.stages for _ in range(plan.stage.parallelism)]
        )
        self._before = self._cumulative()
        self._parts: dict[str, list[Columns]] = {"stages": [], "channels": [], "latency": []}

    def add(self, t_s: float, rounds: int) -> None:
        """Take a sample of the present state.

        Parameters
        ----------
        t_s : float
            Time of the sample, s.
        rounds : int
            Rounds since the sample before; 0 repeats its rows.
        """
        if rounds == 0:
            for parts in self._parts.values():
                if parts:
                    parts.append({**parts[-1], "t_s": np.full_like(parts[-1]["t_s"], t_s)})
            return
        self._parts["stages"].append(self._stages(t_s, rounds))
        for edge in self._edges:
            self._parts["channels"].append(self._channels(edge, t_s))
        self._parts["latency"].append(self._latency(t_s))

    def finish(self) -> dict[str, pa.Table]:
        """Return the tables ``stages``, ``channels`` and ``latency``."""
        import pyarrow as pa

        found = {}
        for name, parts in self._parts.items():
            schema = RESULTS[name].arrow_schema()
            batches = [
                pa.table([pa.array(part[field.name], field.type) for field in schema], schema)
                for part in parts
            ]
            found[name] = pa.concat_tables(batches) if batches else schema.empty_table()
        return found

    def _edge(self, number: int) -> _Edge:
        link, places, memory = self._job.links[number], self._memory.places, self._memory
        outs, ins = places.outs[link.name], places.ins[link.name]
        partitions, gates = memory.partitions, memory.gates
        out = memory.outs[outs]
        part = partitions[out[:, f.O_PARTITION]]
        gate = gates[out[:, f.O_GATE]]
        queued = gate[:, f.G_RECORDS] + out[:, f.O_INDEX] * gate[:, f.G_QUEUE_WIDTH]
        tasks = out[:, f.O_TASK]
        return _Edge(
            link.name,
            link.record_bytes,
            link.ends("sender"),
            link.ends("receiver"),
            outs,
            ins,
            part[:, f.P_ROUTED] + out[:, f.O_PLACE],
            queued + w.FIFO_COUNT,
            tasks,
            out[:, f.O_GATE] - memory.tasks[tasks, f.T_GATE0],
            out[:, f.O_INDEX],
        )

    def _cumulative(self) -> Ints:
        """Per task: records in, records out, and its three times; shape (5, tasks)."""
        tasks, partitions = self._memory.tasks, self._memory.partitions
        records_in = np.where(self._is_source, 0, tasks[:, r.TASK_IN])
        first = np.minimum(tasks[:, f.T_PARTITION0], max(0, len(partitions) - 1))
        emitted = partitions[first, f.P_EMITTED] if len(partitions) else np.zeros_like(first)
        records_out = np.where(tasks[:, f.T_PARTITIONS] > 0, emitted, 0)
        times = tasks[:, [f.T_BUSY, f.T_IDLE, f.T_BLOCKED]].T
        return np.vstack([records_in, records_out, times]).astype(np.int64)

    def _stages(self, t_s: float, rounds: int) -> Columns:
        now, seconds = self._cumulative(), rounds * self._job.round_us / 1e6
        growth = (now - self._before) / seconds
        self._before = now
        return {
            "t_s": np.full(len(self._subtasks), t_s),
            "stage": self._stage_names,
            "subtask": self._subtasks,
            "records_in": now[0],
            "records_out": now[1],
            "rate_in": growth[0],
            "rate_out": growth[1],
            "busy_ms_per_s": growth[2] / 1000,
            "idle_ms_per_s": growth[3] / 1000,
            "backpressured_ms_per_s": growth[4] / 1000,
            **self._input_levels(),
            **self._output_levels(),
        }

    def _input_levels(self) -> Columns:
        """Usages and queues of the tasks' gates (reference section 10)."""
        count, memory = len(self._subtasks), self._memory
        exclusive, exclusive_used, queued = (np.zeros(count, np.int64) for _ in range(3))
        for edge in self._edges:
            into = memory.ins[edge.ins]
            initial = np.maximum(0, into[:, w.CH_INITIAL])
            local = into[:, w.CH_INITIAL] < 0
            waits = memory.cells[edge.queued] + np.where(local, self._ready(edge), 0)
            np.add.at(exclusive, edge.tasks, initial)
            np.add.at(exclusive_used, edge.tasks, initial - np.maximum(0, into[:, w.CH_EXCLUSIVE]))
            np.add.at(queued, edge.tasks, waits)
        gates = memory.gates
        floating, floating_used = (np.zeros(count, np.int64) for _ in range(2))
        np.add.at(floating, gates[:, f.G_TASK], gates[:, f.G_POOL + w.POOL_SIZE])
        np.add.at(floating_used, gates[:, f.G_TASK], gates[:, f.G_POOL + w.POOL_IN_USE])
        return {
            "in_pool_usage": _share(exclusive_used + floating_used, exclusive + floating),
            "floating_buffers_usage": _share(floating_used, floating),
            "exclusive_buffers_usage": _share(exclusive_used, exclusive),
            "input_queue_buffers": queued,
        }

    def _output_levels(self) -> Columns:
        """Usages and queues of the tasks' result partitions."""
        count, memory = len(self._subtasks), self._memory
        size, used, queued = (np.zeros(count, np.int64) for _ in range(3))
        partitions, outs = memory.partitions, memory.outs
        np.add.at(size, partitions[:, f.P_TASK], partitions[:, f.P_POOL + w.POOL_SIZE])
        np.add.at(used, partitions[:, f.P_TASK], partitions[:, f.P_POOL + w.POOL_IN_USE])
        np.add.at(queued, outs[:, f.O_SENDER], outs[:, r.OUT_BUFFERS])
        return {
            "out_pool_usage": _share(used, size),
            "output_queue_buffers": queued,
            "output_pool_size": size,
            "output_pool_used": used,
        }

    def _ready(self, edge: _Edge) -> Ints:
        """Messages that each channel's sender holds: the open buffer counts if it is flushed."""
        out = self._memory.outs[edge.outs]
        is_open = out[:, r.OUT_OPEN]
        flushed = (is_open == 1) & (out[:, r.OUT_FLUSH] == 1) & (out[:, r.OUT_UNREAD] > 0)
        return np.asarray(out[:, r.OUT_BUFFERS] - is_open + flushed, np.int64)

    def _channels(self, edge: _Edge, t_s: float) -> Columns:
        memory = self._memory
        out, into, tasks = memory.outs[edge.outs], memory.ins[edge.ins], memory.tasks[edge.tasks]
        ready, sent = self._ready(edge), out[:, r.OUT_SENT]
        local = into[:, w.CH_INITIAL] < 0
        queued = memory.cells[edge.queued]
        is_read = (
            (tasks[:, r.TASK_LEFT] > 0)
            & (tasks[:, r.TASK_GATE] == edge.gate_of_task)
            & (tasks[:, r.TASK_CHANNEL] == edge.index)
        )
        exclusive_used = into[:, w.CH_INITIAL] - into[:, w.CH_EXCLUSIVE]
        floating = into[:, w.CH_FLOATING] + queued + is_read - exclusive_used
        flying = memory.cells[edge.routed] - into[:, f.I_CURSORS + r.IN_TAKEN]
        count = len(edge.outs)
        return {
            "t_s": np.full(count, t_s),
            "edge": [edge.name] * count,
            "sender": edge.senders,
            "receiver": edge.receivers,
            "written": sent + ready,
            "released": sent + ready,
            "announced": np.where(local, sent + ready, into[:, f.I_CURSORS + r.IN_ANNOUNCED]),
            "sent": sent.copy(),
            "consumed": into[:, f.I_CURSORS + r.IN_CONSUMED].copy(),
            "credit": np.where(local, 0, out[:, r.OUT_ANNOUNCED] - sent),
            "backlog": ready,
            "exclusive_free": into[:, w.CH_EXCLUSIVE].copy(),
            "floating_held": np.where(local, 0, floating),
            "queued": queued,
            "in_flight_records": flying,
            "in_flight_bytes": flying * edge.record_bytes,
        }

    def _latency(self, t_s: float) -> Columns:
        """Figures of the ages that the sinks have logged; empties the log."""
        cells = self._memory.cells
        count, first = int(cells[f.H_AGES_COUNT]), int(cells[f.H_AGES])
        log = cells[first : first + count * f.A_WIDTH].reshape(count, f.A_WIDTH).copy()
        cells[f.H_AGES_COUNT] = 0
        found: Columns = {field.name: [] for field in RESULTS["latency"].columns}
        for task in np.unique(log[:, f.A_TASK]):
            own = log[log[:, f.A_TASK] == task]
            own = own[np.argsort(own[:, f.A_AGE], kind="stable")]
            figures = _percentiles(own[:, f.A_AGE], own[:, f.A_COUNT], self._job.round_us / 1000)
            found["t_s"].append(t_s)
            found["stage"].append(self._stage_names[task])
            found["subtask"].append(int(self._subtasks[task]))
            for name, value in figures.items():
                found[name].append(value)
        return found


def _percentiles(ages: Ints, counts: Ints, round_ms: float) -> Columns:
    """Figures of sorted ages, rounds, and how many records had each: nearest-rank, ms."""
    upto = np.cumsum(counts)
    total = int(upto[-1])
    mean = float((ages * counts).sum() / total) * round_ms
    figures: Columns = {"count": total, "mean_ms": mean}
    for name, share in (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("max_ms", 100)):
        rank = -(-total * share // 100)
        figures[name] = float(ages[np.searchsorted(upto, rank)]) * round_ms
    return figures


def _share(part: Ints, whole: Ints) -> npt.NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
