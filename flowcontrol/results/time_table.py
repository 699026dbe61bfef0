"""The result table of event time, read off the memory at each sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import typing as npt

from flowcontrol.arrays import Ints, pa
from flowcontrol.layout.job import Job
from flowcontrol.memory.fields import ABSENT
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import KernelTime, KernelWindow
from flowcontrol.records import TIME
from flowcontrol.results.figures import Counted
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME


class TimeTable:
    """Collects the rows of the table ``time``, sample by sample.

    All stages of a chain have what their task has; windows and pauses are those of its first one.
    Spark's watermark is that of a query: all stages have it that its windows are connected with.

    - ``job``: the scenario, laid out; it has event time.
    - ``memory``: of its run, before the first round.
    - ``counted``: of each task late records, results, and microseconds for which it has stood
      paused.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        self._job, self._memory = job, memory
        self._samples: list[pa.Table] = []
        rows = [
            (plan.name, member.stage.name, index)
            for plan in job.stages
            for member in plan.members
            for index in range(member.stage.parallelism)
        ]
        first = memory.places.tasks
        self._tasks = np.array([first[head] + index for head, _, index in rows], np.int64)
        self._all = memory.tasks[: int((memory.tasks["time"] > 0).sum())]
        self._is_head = np.array([head == stage for head, stage, _ in rows])
        self._queries = _queries(job, first, [head for head, _, _ in rows])
        self._stages = np.array([stage for _, stage, _ in rows])
        self._subtasks = [index for _, _, index in rows]
        self.counted = Counted(self._counters)
        self._before = 0, self.counted()[2]
        timed_by = {stage: job.scenario.timed_by(stage) for stage in set(self._stages.tolist())}
        self._timed = [
            (self._stages == stage, np.isin(self._stages, [stage, *sources]))
            for stage, sources in timed_by.items()
            if sources
        ]
        self._furthest = np.full(len(rows), MIN_TIME)

    def add(self, t_s: float, rounds: int) -> None:
        """Add a sample at a time, when so many rounds are done."""
        is_gone, own = self._all["status"] == ABSENT, self._time()
        watermark, is_idle = (
            np.where(self._all["gates"] > 0, own["valve"][name], own["generator"][name])
            for name in ("watermark", "is_idle")
        )
        marks = self._watermarks(np.where(is_gone, MIN_TIME, watermark))
        is_missing = (marks == MIN_TIME) | (marks == MAX_TIME)
        whole = np.where(is_missing, 0, marks)
        late, fired, paused = self.counted()
        window = self._windows()
        kept = np.where(is_gone, 0, window["store"]["open"] - window["own"]["batch"]["late"])
        done, before = self._before
        self._before = rounds, paused
        of_heads = {
            "paused_ms_per_s": 1000.0 * (paused - before) / ((rounds - done) * self._job.round_us),
            "late_records": late,
            "open_windows": kept,
            "window_state_bytes": kept * window["own"]["bytes_per_key"],
            "fired": fired,
        }
        columns = {
            "t_s": np.full(len(marks), t_s),
            "stage": self._stages,
            "subtask": self._subtasks,
            "watermark_s": pa.array(whole / 1000, mask=is_missing),
            "watermark_lag_ms": self._lags(t_s, whole, is_missing),
            "is_idle": (~is_gone & (is_idle == 1))[self._tasks],
            **{name: own[self._tasks] * self._is_head for name, own in of_heads.items()},
        }
        self._samples.append(pa.table(columns, TIME.arrow_schema()))

    def table(self) -> pa.Table:
        """Return the rows so far: by sample, then as those of the table ``stages``."""
        empty = TIME.arrow_schema().empty_table()
        return pa.concat_tables(self._samples) if self._samples else empty

    def _time(self) -> Any:
        return self._memory.states(self._all["time"], KernelTime)["own"]

    def _windows(self) -> Any:
        """Return the windows of each task; all is 0 of one without."""
        has_window = self._all["window"] > 0
        held = self._memory.states(self._all["window"][has_window], KernelWindow)
        found = np.zeros(len(self._all), held.dtype)
        found[has_window] = held
        return found

    def _counters(self) -> Ints:
        store = self._windows()["store"]
        return np.array([store["late"], store["fired"], self._time()["paused_us"]])

    def _watermarks(self, own: Ints) -> Ints:
        """Return the watermark of each row, ms, by those of the tasks."""
        if self._queries is None:
            return own[self._tasks]
        return np.array([own[query].min(initial=MAX_TIME) for query in self._queries])

    def _lags(self, t_s: float, marks: Ints, is_missing: npt.NDArray[np.bool_]) -> pa.Array:
        """Return how far each watermark is behind the clock, or the furthest one of its sources.

        What a stage has, its sources have given out, also between two samples.
        """
        lags, self._furthest = (
            1000 * t_s - marks,
            np.where(is_missing, self._furthest, np.maximum(self._furthest, marks)),
        )
        is_unknown = is_missing.copy()
        for own, sources in self._timed:
            furthest = self._furthest[sources].max()
            lags[own] = furthest - marks[own]
            is_unknown[own] |= furthest == MIN_TIME
        return pa.array(lags, mask=is_unknown)


def _queries(job: Job, first: dict[str, int], heads: list[str]) -> list[list[int]] | None:
    """Return of each row a task of each query that its stage belongs to; None: time is Flink's."""
    scenario = job.scenario
    if scenario.time_model != "spark":
        return None
    windows = [one.name for one in scenario.stages if one.window is not None]
    parts = {name: {name, *scenario.upstream(name), *scenario.downstream(name)} for name in windows}
    return [[first[name] for name in windows if head in parts[name]] for head in heads]
