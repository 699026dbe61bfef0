"""The result tables of a virtual run, read off the kernel's memory at each sample."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy import typing as npt

from flowcontrol.arrays import pa
from flowcontrol.kernel.views import source_log
from flowcontrol.layout.job import Job
from flowcontrol.layout.work import Arrivals
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import dtype
from flowcontrol.memory.memory import Memory
from flowcontrol.records import ACKNOWLEDGED, CHANNELS, LATENCY, MARKER, RECORD, STAGES, Table
from flowcontrol.results.figures import Counted, Ints
from flowcontrol.results.run import latency_figures
from flowcontrol.results.sample_columns import Columns, Sample, SampleColumns
from flowcontrol.results.windows import WindowResults
from flowcontrol.state.declared import width

Log = npt.NDArray[np.void]
"""Entries of the log of ages; as long as they wait for it they are plain cells."""

_MOST_CELLS: Final = 1 << 18
"""Cells of samples, and of logs of ages, that are kept until they are worked off: 2 MB."""

_NO_AGES: Final = np.zeros(0, np.int64)


class Tables:
    """Collects the rows of all samples.

    - ``absent``: stages whose job does not run at present: their levels are 0, their counters
      stand.
    - ``counted``: records and times of each row of the table ``stages``.
    - ``results``: what collects the results of windows.
    """

    def __init__(self, job: Job, memory: Memory, absent: set[str] | None = None) -> None:
        self._job, self._memory = job, memory
        self._absent = set() if absent is None else absent
        self._shown = SampleColumns(job, memory)
        rows = self._shown.rows
        self._logs = {
            number: (arrivals, int(memory.tasks["log"][row.task]))
            for number, row in enumerate(rows)
            if row.number == 0
            and (arrivals := Arrivals.read_from(job, job.stage(row.member.stage.name), row.subtask))
        }
        self._no_log = np.zeros(len(rows), np.int64), np.zeros(len(rows))
        self.counted = Counted(self._cumulative)
        self._before = self.counted.begun
        self._ages: list[Ints] = []
        self._seers = _Seers(self._shown, memory)
        self.results = WindowResults(memory)
        self._pending: list[Sample] = []
        self._times: list[float] = []
        self._parts: dict[str, list[Columns]] = {"stages": [], "channels": [], "latency": []}

    def add(self, t_s: float, rounds: int) -> None:
        """Take a sample of the present state.

        ``rounds``: rounds since the sample before, at least 1.
        """
        sample = Sample(
            t_s,
            self._shown.gathered.take(),
            self._take_ages(),
            rounds * self._job.round_us / 1e6,
            self.counted.carried,
            frozenset(self._absent),
            *self._lags(),
        )
        self._pending.append(sample)
        if len(self._pending) * len(sample.cells) > _MOST_CELLS:
            self._work_off()

    def latest(self) -> Columns:
        """Return the columns of the last sample of the table ``stages``."""
        self._work_off()
        return {"stage": self._shown.stages, **self._last("stages")}

    def finish(self) -> dict[str, pa.Table]:
        """Return the tables ``stages``, ``channels`` and ``latency``."""
        self._work_off()
        rows, count = self._shown.rows, len(self._times)
        subtasks = np.array([row.subtask for row in rows], np.int64)
        owners = {
            STAGES: {"stage": self._shown.stages, "subtask": subtasks},
            CHANNELS: self._shown.ends,
        }
        found = {}
        for table, ends in owners.items():
            columns = _behind_each_other(self._parts[table.name])
            repeated = {
                name: pa.concat_arrays([pa.array(values)] * count)
                for name, values in ends.items()
                if count
            }
            each = len(next(iter(ends.values())))
            columns |= {"t_s": np.repeat(np.array(self._times, np.float64), each), **repeated}
            found[table.name] = _arrow(table, columns)
        found["latency"] = _arrow(LATENCY, _behind_each_other(self._parts["latency"]))
        return found

    def _cumulative(self) -> Any:
        """Return what tasks have counted since they began anew, shape (5, rows)."""
        at = self._shown.gathered.columns([self._shown.gathered.take()])
        return self._shown.cumulative(at)[:, 0]

    def _lags(self) -> tuple[Any, Any]:
        """Return what waits in the logs of sources, and for how long."""
        if not self._logs:
            return self._no_log
        lag_records, lag_s = (part.copy() for part in self._no_log)
        end_us = self._memory.head.round * self._job.round_us
        for number, (arrivals, place) in self._logs.items():
            log = source_log(self._memory.cells, place)
            lag_records[number], lag_s[number] = arrivals.levels(log, end_us)
        return lag_records, lag_s

    def _work_off(self) -> None:
        """Work out the columns of the samples that wait for it."""
        samples, self._pending = self._pending, []
        if not samples:
            return
        at = self._shown.gathered.columns([sample.cells for sample in samples])
        stages, self._before = self._shown.of_stages(at, self._before, samples)
        self._parts["stages"].append(stages)
        self._parts["channels"].append(self._shown.of_channels(at, samples))
        self._parts["latency"].append(self._latency(samples))
        self._times += [sample.t_s for sample in samples]

    def _last(self, name: str) -> Columns:
        return {column: values[-1] for column, values in self._parts[name][-1].items()}

    def drain(self) -> None:
        """Empty the logs, keeping what they say: ages until the next sample."""
        self.results.drain()
        head = self._memory.head
        count = head.ages_count
        if count == 0:
            return
        cells = self._memory.cells[head.ages : head.ages + width(f.Age) * count]
        self._ages.append(cells.copy())
        head.ages_count = 0
        if len(self._ages) > 1 and sum(map(len, self._ages)) > _MOST_CELLS:
            self._ages = [_added_up(_joined(self._ages)).view(np.int64)]

    def _take_ages(self) -> Ints:
        """Return the ages that tasks have logged since the sample before, and forget them."""
        self.drain()
        logs, self._ages = self._ages, []
        return logs[0] if len(logs) == 1 else np.concatenate([_NO_AGES, *logs])

    def _latency(self, samples: list[Sample]) -> Columns:
        """Figures of the ages that tasks have logged before each of some samples."""
        whole, logs = self._seers.count, [sample.ages for sample in samples]
        log = _joined(logs)
        counts = [len(own) // width(f.Age) for own in logs]
        log["task"] += np.repeat(whole * np.arange(len(logs)), counts)
        log = _added_up(log)
        if not len(log):
            return {name: [] for name in LATENCY.names}
        starts = _starts(log["task"])
        figures = latency_figures(log["age"], log["count"], starts, self._job.round_us / 1000)
        numbers, tasks = np.divmod(log["task"][starts], whole)
        groups, who = self._seers.of(tasks)
        times = np.array([sample.t_s for sample in samples])[numbers[groups]]
        shown = {name: [values[group] for group in groups] for name, values in figures.items()}
        return {"t_s": times.tolist(), **who, **shown}


class _Seers:
    """Who sees latencies: which rows the ages of a task stand for."""

    def __init__(self, shown: SampleColumns, memory: Memory) -> None:
        # What tasks see of markers is logged behind all their ages, chained sinks behind that, and
        # last what destinations acknowledge.
        tasks, chained = memory.head.tasks, memory.places.sinks
        answered = 2 * tasks + len(chained)
        self.count = answered + tasks
        found: list[list[tuple[str, str, int]]] = [[] for _ in range(self.count)]
        for row in shown.rows:
            name, subtask = row.member.stage.name, row.subtask
            if row.member.is_sink:
                number = chained.get((name, subtask))
                seer = row.task if number is None else 2 * tasks + number
                found[seer].append((RECORD, name, subtask))
            if row.member.stage.requests is not None:
                found[answered + row.task].append((ACKNOWLEDGED, name, subtask))
            if row.number > 0 or not row.member.stage.is_source:
                found[row.task + tasks].append((MARKER, name, subtask))
        self._found = found

    def of(self, tasks: Ints) -> tuple[list[int], Columns]:
        """Return the number of the group of each row, and whose row it is."""
        rows = [
            (group, *one) for group, task in enumerate(tasks.tolist()) for one in self._found[task]
        ]
        groups, kinds, stages, subtasks = ([row[at] for row in rows] for at in range(4))
        return groups, {"stage": stages, "subtask": subtasks, "kind": kinds}


def _joined(logs: list[Ints]) -> Log:
    """Return the entries of logs one behind the other."""
    return np.concatenate([_NO_AGES, *logs]).view(dtype(f.Age))


def _added_up(log: Log) -> Log:
    """Return a log in the order of task and age, with one entry of each age."""
    if not len(log):
        return log
    span = log["age"].max() + 1
    key = log["task"] * span + log["age"]
    first = key.min()
    if key.max() - first < len(log):  # as most often; sums below 2^53 are exact
        counts = np.bincount(key - first, log["count"])
        found = np.flatnonzero(counts)
        added = np.zeros(len(found), log.dtype)
        added["task"], added["age"] = np.divmod(found + first, span)
        added["count"] = counts[found]
        return added
    order = np.argsort(key)  # one key sorts thrice as quickly as two
    firsts = _starts(key[order])
    added = log[order[firsts]]
    added["count"] = np.add.reduceat(log["count"][order], firsts)
    return added


def _starts(ordered: Ints) -> Ints:
    """Return where runs of equal numbers begin."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def _behind_each_other(parts: list[Columns]) -> Columns:
    """Return the columns of all parts, sample by sample."""
    if not parts:
        return {}
    if len(parts) == 1:  # as of a short run
        return {name: np.ravel(values) for name, values in parts[0].items()}
    return {name: np.concatenate([np.ravel(part[name]) for part in parts]) for name in parts[0]}


def _arrow(table: Table, columns: Columns) -> pa.Table:
    """Return a table of Arrow; without rows where no sample was taken."""
    schema = table.arrow_schema()
    if not columns or not len(columns["t_s"]):
        return schema.empty_table()
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.table(arrays, schema)
