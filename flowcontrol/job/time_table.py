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
        self._tasks = np.array([order[head, index] for head, _, index in rows], np.int64)
        self._stages = [stage for _, stage, _ in rows]
        self._subtasks = [index for _, _, index in rows]

    def add(self, t_s: float, watermarks: Sequence[int] | Ints, idle: Sequence[int] | Ints) -> None:
        """Add a sample.

        Parameters
        ----------
        t_s : float
            When it is, s.
        watermarks, idle : sequence of int
            The watermark of each task of the job, ms, and 1 if it is idle; tasks in the order of
            the job, and all stages of a chain have what their task has.
        """
        import pyarrow as pa

        marks = np.asarray(watermarks, np.int64)[self._tasks]
        is_missing = (marks == MIN_TIME) | (marks == MAX_TIME)
        whole = np.where(is_missing, 0, marks)
        count, zeros = len(marks), np.zeros(len(marks), np.int64)
        columns = {
            "t_s": np.full(count, t_s),
            "stage": self._stages,
            "subtask": self._subtasks,
            "watermark_s": pa.array(whole / 1000, mask=is_missing),
            "watermark_lag_ms": pa.array(1000 * t_s - whole, mask=is_missing),
            "is_idle": np.asarray(idle)[self._tasks] == 1,
            "paused_ms_per_s": np.zeros(count),
            "late_records": zeros,
            "open_windows": zeros,
            "window_state_bytes": zeros,
            "fired": zeros,
        }
        self._samples.append(pa.table(columns, TIME.arrow_schema()))

    def table(self) -> pa.Table:
        """Return the rows so far: by sample, then as those of the table ``stages``."""
        import pyarrow as pa

        empty = TIME.arrow_schema().empty_table()
        return pa.concat_tables(self._samples) if self._samples else empty
