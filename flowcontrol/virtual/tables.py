"""The result tables of a virtual run, read off the kernel's memory at each sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flowcontrol.job import Job
from flowcontrol.job.figures import input_usages, latency_figures, usage
from flowcontrol.job.graph import Member
from flowcontrol.job.source_logs import Arrivals
from flowcontrol.operators.states import TASK_INPUT, Operator
from flowcontrol.protocol.partition_kinds import PIPELINED
from flowcontrol.protocol.sender_rules import credit_of, reported_backlog
from flowcontrol.protocol.sides import KIND_RESTORED
from flowcontrol.protocol.state import cell, width
from flowcontrol.records import MARKER, RECORD, RESULTS
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import dtype
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.views import source_log
from flowcontrol.virtual.window_results import WindowResults

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Columns = dict[str, Any]
Log = npt.NDArray[np.void]
"""Entries of the log of ages."""


_CONSTANT = ("receiver", "gate", "index")
"""What stays of a channel's place at its receiver."""


@dataclass(frozen=True)
class _Row:
    """A row of the table ``stages``: one subtask of one stage, perhaps in the task of another."""

    task: int
    subtask: int
    number: int
    member: Member


class _Fields:
    """Fields of some entries of a block, in some order, each gathered when it is asked for.

    An entry has dozens of fields and a table needs a few: gathering whole entries would take most
    of the time of a sample where there are a million channels.
    """

    def __init__(self, block: Any, places: Ints) -> None:
        self._block, self._places = block, places

    def __getitem__(self, name: str) -> Any:
        return self._block[name][self._places]


class Tables:
    """Collects the rows of all samples.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    memory : Memory
        Of its run.
    absent : set of str, optional
        Stages whose job does not run at present: their levels are 0, their counters stand.
    """

    def __init__(self, job: Job, memory: Memory, absent: set[str] | None = None) -> None:
        self._job, self._memory = job, memory
        self._counts_records = job.record_transport is not None
        self._absent = set() if absent is None else absent
        links, places = job.links, memory.places
        self._outs = _joined([places.outs[link.name] for link in links])
        self._ins = _joined([places.ins[link.name] for link in links])
        self._ends_in = {name: self._at_senders[name] for name in _CONSTANT}
        self._ends: Columns = {
            "edge": [name for link in links for name in [link.name] * link.width],
            "sender": _joined([link.ends("sender") for link in links]),
            "receiver": _joined([link.ends("receiver") for link in links]),
        }
        self._stages_of_senders = [
            name for link in links for name in [link.edge.sender] * link.width
        ]
        bytes_of = [np.full(link.width, link.record_bytes) for link in links]
        self._record_bytes = _joined(bytes_of)
        self._rows = [
            _Row(memory.places.tasks[plan.name] + index, index, number, member)
            for plan in job.stages
            for number, member in enumerate(plan.members)
            for index in range(member.stage.parallelism)
        ]
        self._tasks = np.array([row.task for row in self._rows], np.int64)
        behind = memory.head.tasks  # what tasks see of markers is logged behind all their ages
        self._seen: dict[int, list[tuple[str, _Row]]] = {}
        for row in self._rows:
            records, markers = (self._seen.setdefault(row.task + n, []) for n in (0, behind))
            if row.member.is_sink:
                records.append((RECORD, row))
            if row.number > 0 or not row.member.stage.is_source:
                markers.append((MARKER, row))
        self._row_of_gate, self._row_of_partition = self._owners()
        self._partition_of_row = np.full(len(self._rows), -1, np.int64)
        for number in reversed(range(len(self._row_of_partition))):
            self._partition_of_row[self._row_of_partition[number]] = number
        self._is_sink = np.array([row.member.is_sink for row in self._rows])
        self._is_source = np.array(
            [row.number == 0 and row.member.stage.is_source for row in self._rows]
        )
        self._in_at = self._counters([row.member.input for row in self._rows])
        self._out_at = self._counters([row.member.output for row in self._rows])
        self._logs = {
            number: arrivals
            for number, row in enumerate(self._rows)
            if row.number == 0
            and (arrivals := Arrivals.of(job, job.stage(row.member.stage.name), row.subtask))
        }
        self._carried = np.zeros((5, len(self._rows)), np.int64)
        self._before = self._cumulative()
        self._ages = np.zeros(0, dtype(f.Age))
        self.results = WindowResults(memory)
        self._parts: dict[str, list[Columns]] = {"stages": [], "channels": [], "latency": []}

    @property
    def _at_senders(self) -> _Fields:
        """All channels at their senders, in the order of the table ``channels``."""
        return _Fields(self._memory.outs, self._outs)

    @property
    def _at_receivers(self) -> _Fields:
        """All channels at their receivers, in that order."""
        return _Fields(self._memory.ins, self._ins)

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
                parts += [{**part, "t_s": np.full_like(part["t_s"], t_s)} for part in parts[-1:]]
            return
        self._parts["stages"].append(self._stages(t_s, rounds))
        self._parts["channels"].append(self._channels(t_s))
        self._parts["latency"].append(self._latency(t_s))

    def add_columns(self, columns: dict[str, Columns], cumulative: Ints) -> None:
        """Add the columns of a sample, by table, instead of taking it.

        ``cumulative``: what :attr:`cumulative` is then.
        """
        for name, parts in self._parts.items():
            parts.append(columns[name])
        self._before, self._ages = cumulative, np.zeros(0, dtype(f.Age))

    @property
    def cumulative(self) -> Ints:
        """What each row has counted up to the last sample; shape (5, rows)."""
        return self._before

    def latest_columns(self) -> dict[str, Columns]:
        """Return the columns of the last sample, by table."""
        return {name: parts[-1] for name, parts in self._parts.items()}

    def latest(self) -> Columns:
        """Return the columns of the last sample of the table ``stages``."""
        return self._parts["stages"][-1]

    def hold(self) -> Callable[[], None]:
        """Return what is to be called when tasks have begun anew: counters of results go on."""
        before = self._cumulative()

        def go_on() -> None:
            self._carried += before - self._cumulative()

        return go_on

    def finish(self) -> dict[str, pa.Table]:
        """Return the tables ``stages``, ``channels`` and ``latency``."""
        import pyarrow as pa

        found = {}
        for name, parts in self._parts.items():
            schema = RESULTS[name].arrow_schema()
            columns = [_column([part[field.name] for part in parts]) for field in schema]
            arrays = [pa.array(own, field.type) for own, field in zip(columns, schema, strict=True)]
            found[name] = pa.table(arrays, schema)
        return found

    def _owners(self) -> tuple[Ints, Ints]:
        """Row of the stage that owns each gate, and each partition."""
        first = {
            row.member.stage.name: number for number, row in reversed(list(enumerate(self._rows)))
        }
        places, ends = self._memory.places, {link.name: link.edge for link in self._job.links}
        gates = [first[ends[edge].receiver] + index for edge, index in places.gates]
        parts = [first[ends[edge].sender] + index for edge, index in places.partitions]
        return np.array(gates, np.int64), np.array(parts, np.int64)

    def _counters(self, operators: Sequence[int]) -> Ints:
        """Return where the records are counted that an operator of each row's task puts out."""
        head, tasks = self._memory.head, self._memory.tasks
        taken = head.tasks_at + width(f.KernelTask) * self._tasks + cell(f.KernelTask, "taken")
        listed = tasks["operators_at"][self._tasks] + np.maximum(operators, 0)
        is_input = np.array(operators) == TASK_INPUT
        places = self._memory.cells[np.where(is_input, 0, listed)]
        return np.where(is_input, taken, places + cell(Operator, "records_out"))

    def _cumulative(self) -> Ints:
        """Per row: records in, records out, and the task's three times; shape (5, rows)."""
        tasks = self._memory.tasks[self._tasks]
        cells = self._memory.cells
        records_in = np.where(self._is_source, 0, cells[self._in_at])
        put_out = np.where(self._partition_of_row < 0, cells[self._out_at], self._written())
        records_out = np.where(self._is_sink, 0, put_out)
        times = np.stack([tasks[name] for name in ("busy", "idle", "blocked")])
        return np.vstack([records_in, records_out, times]) + self._carried

    def _written(self) -> Ints:
        """Records that each row's first output has written whole; a broadcast one counts once."""
        partitions, outs = self._memory.partitions, self._memory.outs
        written = np.zeros(len(partitions) + 1, np.int64)
        counts = (outs["place"] == 0) | (partitions["is_broadcast"][outs["partition"]] == 0)
        np.add.at(written, outs["partition"][counts], outs["written"][counts])
        return written[self._partition_of_row]

    def _stages(self, t_s: float, rounds: int) -> Columns:
        now, seconds = self._cumulative(), rounds * self._job.round_us / 1e6
        growth = (now - self._before) / seconds
        self._before = now
        return {
            "t_s": np.full(len(self._rows), t_s),
            "stage": [row.member.stage.name for row in self._rows],
            "subtask": [row.subtask for row in self._rows],
            "records_in": now[0],
            "records_out": now[1],
            "rate_in": growth[0],
            "rate_out": growth[1],
            "busy_ms_per_s": growth[2] / 1000,
            "idle_ms_per_s": growth[3] / 1000,
            "backpressured_ms_per_s": growth[4] / 1000,
            **self._levels(),
        }

    def _levels(self) -> Columns:
        """Levels of all rows; 0 where the job does not run."""
        levels = {**self._input_levels(), **self._output_levels(), **self._log_levels()}
        if self._absent:
            gone = np.array([row.member.stage.name in self._absent for row in self._rows])
            levels = {name: np.where(gone, 0, values) for name, values in levels.items()}
        if self._memory.head.may_fail == 1:
            gone = self._memory.tasks["status"][self._tasks] == f.ABSENT
            levels = {name: np.where(gone, 0, values) for name, values in levels.items()}
            levels |= self._log_levels()  # a log grows whether or not anybody reads it
        return levels

    def _input_levels(self) -> Columns:
        """Usages and queues of the tasks' gates (reference section 10)."""
        count, memory = len(self._rows), self._memory
        exclusive, exclusive_used, queued = (np.zeros(count, np.int64) for _ in range(3))
        into, waits = self._at_receivers, self._queued()
        initial, free = np.maximum(0, into["initial"]), np.maximum(0, into["exclusive"])
        if not self._counts_records:
            waits = waits + np.where(into["initial"] < 0, self._ready(), 0)
        rows = self._row_of_gate[self._ends_in["gate"]]
        np.add.at(exclusive, rows, initial)
        np.add.at(exclusive_used, rows, initial - free)
        np.add.at(queued, rows, waits)
        gates = memory.gates
        floating, floating_used = (np.zeros(count, np.int64) for _ in range(2))
        np.add.at(floating, self._row_of_gate, gates["pool"]["size"])
        np.add.at(floating_used, self._row_of_gate, gates["pool"]["in_use"])
        return {
            **input_usages(exclusive, exclusive_used, floating, floating_used),
            "input_queue_buffers": queued,
        }

    def _output_levels(self) -> Columns:
        """Usages and queues of the tasks' result partitions."""
        count, memory = len(self._rows), self._memory
        size, used, queued = (np.zeros(count, np.int64) for _ in range(3))
        partitions, outs, rows = memory.partitions, memory.outs, self._row_of_partition
        np.add.at(size, rows, partitions["pool"]["size"])
        np.add.at(used, rows, partitions["pool"]["in_use"])
        np.add.at(queued, rows[outs["partition"]], outs["buffers"])
        return {
            "out_pool_usage": usage(used, size),
            "output_queue_buffers": queued,
            "output_pool_size": size,
            "output_pool_used": used,
        }

    def _log_levels(self) -> Columns:
        """What waits in the logs of sources, and for how long."""
        memory = self._memory
        lag_records, lag_s = np.zeros(len(self._rows), np.int64), np.zeros(len(self._rows))
        end_us = memory.head.round * self._job.round_us
        for number, arrivals in self._logs.items():
            log = source_log(memory.cells, int(memory.tasks["log"][self._tasks[number]]))
            lag_records[number], lag_s[number] = arrivals.levels(log, end_us)
        return {"lag_records": lag_records, "lag_s": lag_s}

    def _ready(self) -> Ints:
        """Messages that each channel's sender holds: the open buffer counts if it is flushed."""
        out = self._at_senders
        is_open = out["is_open"]
        flushed = (is_open == 1) & (out["is_flushed"] == 1) & (out["unread"] > 0)
        return np.asarray(out["buffers"] - is_open - out["empty"] + flushed, np.int64)

    def _backlog(self) -> Ints:
        """Messages that each channel's sender announces; where it announces none, those it has."""
        memory, out = self._memory, self._at_senders
        kinds = memory.partitions["kind"][out["partition"]]
        if self._counts_records or memory.head.is_tcp == 1:
            return self._ready()
        shown = (out[name] for name in ("is_flushed", "is_finished", "ends_in_event", "is_blocked"))
        announced = reported_backlog(out["buffers"], *shown)
        return np.where(kinds > PIPELINED, self._ready(), announced)

    def _queued(self) -> Ints:
        """Buffers that wait at each channel's receiver; records, of a transport of those."""
        into = self._at_receivers
        if self._counts_records:
            return np.asarray(into["arrived"] - into["processed"])
        return np.asarray(into["arrived"] - into["consumed"] - self._is_read())

    def _is_read(self) -> Ints:
        """Tell of each channel whether its receiver reads a buffer of it: 1 if so."""
        tasks = _Fields(self._memory.tasks, self._ends_in["receiver"])
        is_gate = tasks["first_gate"] + tasks["gate"] == self._ends_in["gate"]
        is_own = is_gate & (tasks["channel"] == self._ends_in["index"])
        in_hand = tasks["left"] + tasks["marks"] > 0
        has_buffer = in_hand & (tasks["buffer"] != KIND_RESTORED)
        return np.asarray(has_buffer & is_own, np.int64)

    def _channels(self, t_s: float) -> Columns:
        memory = self._memory
        out, into = self._at_senders, self._at_receivers
        ready, sent = self._ready(), out["sent"]
        local = into["initial"] < 0
        queued = self._queued()
        uncredited = local | (memory.head.is_tcp == 1)
        exclusive_used = into["initial"] - into["exclusive"]
        floating = into["floating"] + queued + self._is_read() - exclusive_used
        flying = out["written"] - into["processed"]
        levels = {
            # A limit that falls, as Jet's does, may be below what was sent before.
            "credit": np.where(uncredited, 0, np.maximum(0, credit_of(out["announced"], sent))),
            "backlog": self._backlog(),
            "exclusive_free": into["exclusive"],
            "floating_held": np.where(local, 0, floating),
            "queued": queued,
            "in_flight_records": flying,
            "in_flight_bytes": flying * self._record_bytes,
        }
        if self._absent:
            gone = np.isin(self._stages_of_senders, list(self._absent))
            levels = {name: np.where(gone, 0, values) for name, values in levels.items()}
        if memory.head.may_fail == 1:
            status = memory.tasks["status"]
            ends = memory.outs["sender"][self._outs], self._ends_in["receiver"]
            gone = (status[ends[0]] == f.ABSENT) | (status[ends[1]] == f.ABSENT)
            levels = {name: np.where(gone, 0, values) for name, values in levels.items()}
        return {
            "t_s": np.full(len(sent), t_s),
            **self._ends,
            "written": sent + ready,
            "released": sent + ready,
            "announced": np.where(uncredited, sent + ready, into["announced"]),
            "sent": sent,
            "consumed": into["consumed"],
            **levels,
        }

    def drain(self) -> None:
        """Empty the logs, keeping what they say: ages until the next sample."""
        memory = self._memory
        self.results.drain()
        log = np.concatenate([self._ages, memory.ages[: memory.head.ages_count]])
        memory.head.ages_count = 0
        if not len(log):
            self._ages = log
            return
        span = log["age"].max() + 1
        key = log["task"] * span + log["age"]
        first = key.min()
        if key.max() - first < len(log):  # as most often; sums below 2^53 are exact
            counts = np.bincount(key - first, log["count"])
            found = np.flatnonzero(counts)
            self._ages = np.zeros(len(found), log.dtype)
            self._ages["task"], self._ages["age"] = np.divmod(found + first, span)
            self._ages["count"] = counts[found]
            return
        order = np.argsort(key)  # one key sorts thrice as quickly as two
        key = key[order]
        firsts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        self._ages = log[order[firsts]]
        self._ages["count"] = np.add.reduceat(log["count"][order], firsts)

    def take_ages(self) -> Log:
        """Return the ages that tasks have logged since the sample before, and forget them."""
        self.drain()
        log, self._ages = self._ages, np.zeros(0, dtype(f.Age))
        return log

    def give_ages(self, log: Log) -> None:
        """Take ages as if tasks had logged them."""
        self._ages = np.concatenate([self._ages, log])

    def _latency(self, t_s: float) -> Columns:
        """Figures of the ages that tasks have logged since the sample before."""
        log = self.take_ages()
        found: Columns = {field.name: [] for field in RESULTS["latency"].columns}
        for task in np.unique(log["task"]):
            own = log[log["task"] == task]
            figures = latency_figures(own["age"], own["count"], self._job.round_us / 1000)
            for kind, row in self._seen[int(task)]:
                place = {"t_s": t_s, "stage": row.member.stage.name, "subtask": row.subtask}
                for name, value in {**place, "kind": kind, **figures}.items():
                    found[name].append(value)
        return found


def _column(parts: list[Any]) -> Any:
    """Return a column of all samples: of arrays an array, else a list."""
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    lists = (part if isinstance(part, list) else part.tolist() for part in parts)
    return [value for part in lists for value in part]


def _joined(parts: list[Ints]) -> Ints:
    """Return arrays one behind the other; a job may have no edge."""
    return np.concatenate([np.zeros(0, np.int64), *parts])
