"""The result tables of checkpoints, of processors and of event time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy import typing as npt

from flowcontrol.arrays import Ints, pa
from flowcontrol.layout.job import Job
from flowcontrol.memory.fields import ABSENT
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import KernelTime, KernelWindow
from flowcontrol.protocol.checkpoints.coordinator import CheckpointCoordinator
from flowcontrol.protocol.checkpoints.requests import CheckpointStatistics, TaskStatistics
from flowcontrol.protocol.tasks.processors import WHOLE_ROUND
from flowcontrol.records import CHECKPOINT_RESULTS, PROCESSES, TIME
from flowcontrol.results.figures import Counted
from flowcontrol.scenario.schedule import Span, merged
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME

IN_PROGRESS: Final = "in_progress"
CUT_OFF: Final = "aborted"
"""Status of a checkpoint that was in progress when the run ended."""
CHECKPOINT: Final = "checkpoint"
SAVEPOINT: Final = "savepoint"


def checkpoint_tables(job: Job, coordinator: CheckpointCoordinator) -> dict[str, pa.Table]:
    """Return the tables ``checkpoints`` and ``checkpoint_tasks`` of a run.

    ``coordinator``: at the end of the run; its tasks are numbers, its times microseconds
    (:class:`~flowcontrol.control.checkpoints.CheckpointControl`).

    Returns the rows by checkpoint number, then by stage and subtask in the order of the job.
    """
    found = [coordinator.statistics(id) for id in coordinator.ids]
    columns = _checkpoints(found), _tasks(job, coordinator, found)
    return {
        name: pa.table(own, schema=table.arrow_schema())
        for (name, table), own in zip(CHECKPOINT_RESULTS.items(), columns, strict=True)
    }


def _checkpoints(found: list[CheckpointStatistics]) -> dict[str, Any]:
    ended = [(one.ended, one.status != IN_PROGRESS) for one in found]
    return {
        "checkpoint_id": [one.id for one in found],
        "kind": [CHECKPOINT if one.kind == CHECKPOINT else SAVEPOINT for one in found],
        "status": [CUT_OFF if one.status == IN_PROGRESS else one.status for one in found],
        "triggered_s": [one.triggered / 1e6 for one in found],
        "ended_s": [None if at is None else at / 1e6 for at, _ in ended],
        "e2e_ms": [
            one.end_to_end / 1e3 if is_over else None
            for one, (_, is_over) in zip(found, ended, strict=True)
        ],
        "is_unaligned": [one.unaligned for one in found],
        "state_bytes": [one.checkpointed_size for one in found],
        "processed_bytes": [one.processed for one in found],
        "persisted_bytes": [one.persisted for one in found],
        "acknowledged": [one.acknowledged for one in found],
        "subtasks": [one.subtasks for one in found],
    }


def _tasks(
    job: Job, coordinator: CheckpointCoordinator, found: list[CheckpointStatistics]
) -> dict[str, Any]:
    names = [(plan.name, index) for plan, index in job.subtasks]
    rows = []
    for one in found:
        reports: dict[Any, TaskStatistics] = coordinator.task_statistics(one.id)
        rows += [(one.id, one.triggered, task, *reports[task]) for task in sorted(reports)]
    cells = np.array(rows, np.int64).reshape(len(rows), 3 + len(TaskStatistics._fields)).T
    checkpoints, triggered, tasks = cells[:3]
    own = TaskStatistics(*cells[3:])
    return {
        "checkpoint_id": checkpoints,
        "stage": [names[task][0] for task in tasks],
        "subtask": [names[task][1] for task in tasks],
        "acknowledged_s": own.acknowledged / 1e6,
        "e2e_ms": (own.acknowledged - triggered) / 1e3,
        "start_delay_ms": _ms(own.start_delay),
        "alignment_ms": _ms(own.alignment),
        "sync_ms": _ms(own.sync),
        "async_ms": _ms(own.async_),
        "processed_bytes": _known(own.processed),
        "persisted_bytes": _known(own.persisted),
        "state_bytes": _known(own.checkpointed_size),
    }


def _ms(durations_us: Any) -> pa.Array:
    """Return durations in milliseconds; null where a task does not know it."""
    return pa.array(durations_us / 1e3, mask=durations_us < 0)


def _known(nbytes: Any) -> pa.Array:
    """Return sizes; null where a task does not know it."""
    return pa.array(nbytes, mask=nbytes < 0)


def process_table(job: Job, rounds: int, used: Sequence[Sequence[int]] = ()) -> pa.Table:
    """Return the table ``processes`` of a run.

    ``used``: at each sample, what the tasks of each task manager had used of its processors so far,
    parts of a round (:data:`flowcontrol.protocol.tasks.processors.WHOLE_ROUND`); by default nobody
    counted.
    """
    managers, cores = range(job.scenario.cluster.task_managers), job.scenario.cluster.cores
    stalls = [_stalled(job, manager) for manager in managers]
    rows, done = list[dict[str, float | None]](), [0] * len(managers)
    loads: list[float | None] = [None for _ in managers]
    counted = 0
    for number, (t_s, first, last) in enumerate(job.samples(rounds)):
        if used and last + 1 > counted:
            length = (last + 1 - counted) * WHOLE_ROUND
            now, counted = used[number], last + 1
            loads = [(b - a) / length for a, b in zip(done, now, strict=True)]
            done = list(now)
        start, end = first * job.round_us, (last + 1) * job.round_us
        for manager in managers:
            load = loads[manager]
            stalled = sum(max(0, min(b, end) - max(a, start)) for a, b in stalls[manager])
            rows.append(
                {
                    "t_s": t_s,
                    "task_manager": manager,
                    "load": load,
                    "cpu_share": None if load is None or cores is None else load / float(cores),
                    "gc_ms_per_s": 1000 * stalled / (end - start),
                }
            )
    return PROCESSES.of_rows(rows)


def _stalled(job: Job, manager: int) -> tuple[Span, ...]:
    """Return when a subtask of a task manager is stalled by the scenario, in the order of time."""
    return merged(
        span
        for stage in job.scenario.stages
        for subtask, own in enumerate(stage.placement)
        for span in stage.stalled(subtask)
        if own == manager
    )


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
