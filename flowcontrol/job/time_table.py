"""The result table of event time, of either clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flowcontrol.job.job import Job
from flowcontrol.protocol.event_time import MAX_TIME, MIN_TIME
from flowcontrol.records import TIME

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WINDOW_COLUMNS = ("late_records", "open_windows", "window_state_bytes", "fired")
"""What a task with windows has in the table, in this order."""
NO_WINDOWS: tuple[Sequence[int], ...] = ()


@dataclass
class TimeTable:
    """Collects the rows of the table ``time``, sample by sample.

    Attributes
    ----------
    job : Job
        The scenario, laid out; it has event time.
    """

    job: Job
    _samples: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        rows = [
            (plan.name, member.stage.name, index)
            for plan in self.job.stages
            for member in plan.members
            for index in range(member.stage.parallelism)
        ]
        order = {
            (plan.name, index): number
            for number, (plan, index) in enumerate(
                (plan, index) for plan in self.job.stages for index in range(plan.stage.parallelism)
            )
        }
        self._is_head = np.array([head == stage for head, stage, _ in rows])
        self._tasks = np.array([order[head, index] for head, _, index in rows], np.int64)
        self._queries = _queries(self.job, order, [head for head, _, _ in rows])
        self._stages = [stage for _, stage, _ in rows]
        self._subtasks = [index for _, _, index in rows]
        self._paused: tuple[int, Ints] = 0, np.zeros(len(rows), np.int64)
        self._share: Floats = np.zeros(len(rows))
        timed_by = {stage: self.job.scenario.timed_by(stage) for stage in set(self._stages)}
        stages = np.array(self._stages)
        self._timed = [
            (stages == stage, np.isin(stages, [stage, *sources]))
            for stage, sources in timed_by.items()
            if sources
        ]
        self._furthest = np.full(len(rows), MIN_TIME)

    def add(
        self,
        t_s: float,
        watermarks: Sequence[int] | Ints,
        idle: Sequence[int] | Ints,
        windows: Sequence[Sequence[int]] | Ints = NO_WINDOWS,
        paused: Sequence[int] | Ints = (),
        *,
        rounds: int,
    ) -> None:
        """Add a sample.

        Parameters
        ----------
        t_s : float
            When it is, s.
        watermarks, idle : sequence of int
            The watermark of each task of the job, ms, and 1 if it is idle; tasks in the order of
            the job, and all stages of a chain have what their task has. Spark's is that of a
            query: all stages have it that its windows are connected with.
        windows : sequence of sequence of int, optional
            Of each task, in the same order: late records, windows that it holds, their bytes, and
            results so far. Only the first stage of a chain may have windows. By default none has.
        paused : sequence of int, optional
            For how long each task, in the same order, has been paused so far, microseconds: that
            of the source which heads its chain. By default none ever was.
        rounds : int
            How many rounds were done by then: the sample covers those since the one before.
        """
        import pyarrow as pa

        own = np.asarray(watermarks, np.int64)
        marks = own[self._tasks]
        if self._queries is not None:
            marks = np.array([own[query].min(initial=MAX_TIME) for query in self._queries])
        is_missing = (marks == MIN_TIME) | (marks == MAX_TIME)
        whole = np.where(is_missing, 0, marks)
        count, held = len(marks), np.zeros((len(WINDOW_COLUMNS), len(marks)), np.int64)
        if len(windows) > 0:
            held = np.asarray(windows, np.int64).T[:, self._tasks] * self._is_head
        columns = {
            "t_s": np.full(count, t_s),
            "stage": self._stages,
            "subtask": self._subtasks,
            "watermark_s": pa.array(whole / 1000, mask=is_missing),
            "watermark_lag_ms": self._lags(t_s, whole, is_missing),
            "is_idle": np.asarray(idle)[self._tasks] == 1,
            "paused_ms_per_s": self._paused_share(rounds, paused) * self._is_head,
            **dict(zip(WINDOW_COLUMNS, held, strict=True)),
        }
        self._samples.append(pa.table(columns, TIME.arrow_schema()))

    def _paused_share(self, rounds: int, paused: Sequence[int] | Ints) -> Floats:
        """Return for which share of the rounds since the sample before tasks were paused, ms/s."""
        done, before = self._paused
        if len(paused) > 0:
            now = np.asarray(paused, np.int64)[self._tasks]
            self._paused = rounds, now
            self._share = 1000.0 * (now - before) / ((rounds - done) * self.job.round_us)
        return self._share

    def _lags(self, t_s: float, marks: Ints, is_missing: npt.NDArray[np.bool_]) -> pa.Array:
        """Return how far each watermark is behind the clock, or the furthest one of its sources.

        What a stage has, its sources have given out, also between two samples.
        """
        import pyarrow as pa

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

    def table(self) -> pa.Table:
        """Return the rows so far: by sample, then as those of the table ``stages``."""
        import pyarrow as pa

        empty = TIME.arrow_schema().empty_table()
        return pa.concat_tables(self._samples) if self._samples else empty


def _queries(
    job: Job, order: dict[tuple[str, int], int], heads: Sequence[str]
) -> list[list[int]] | None:
    """Return of each row a task of each query that its stage belongs to; None: time is Flink's."""
    scenario = job.scenario
    if scenario.time_model != "spark":
        return None
    windows = [one.name for one in scenario.stages if one.window is not None]
    parts = {name: {name, *scenario.upstream(name), *scenario.downstream(name)} for name in windows}
    return [[order[name, 0] for name in windows if head in parts[name]] for head in heads]
