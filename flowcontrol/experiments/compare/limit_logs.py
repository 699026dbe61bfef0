"""What waits in the logs of sources while a job runs at its limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from flowcontrol.layout.job import Job

Floats = npt.NDArray[np.float64]

_LEAST: Final = 1e-6
"""Records, and records/s, that count as none: what doubles leave over."""


class Logs:
    """The logs of a job, empty at first; without any, nothing here changes a rate."""

    def __init__(self, job: Job) -> None:
        self._sources = [plan for plan in job.stages if plan.stage.reads_log]
        self._waiting = {plan.name: np.zeros(plan.stage.parallelism) for plan in self._sources}

    def _written(self, at_us: int) -> dict[str, Floats]:
        """Return what is written to each log at a moment, records/s."""
        return {
            plan.name: np.array([float(rate.rate_at(at_us)) for rate in plan.stage.arrival_rate])
            for plan in self._sources
            if plan.stage.arrival_rate is not None
        }

    def offered(
        self, rates: Mapping[str, tuple[float, ...]], at_us: int
    ) -> dict[str, tuple[float, ...]]:
        """Return the rates of all tasks, those of sources with a log by what there is to read.

        - ``rates`` (records/s): what each subtask of a stage can emit or take.
        - ``at_us``: the moment, microseconds.
        """
        found = dict(rates)
        for name, written in self._written(at_us).items():
            able = np.array(rates[name])
            waits = self._waiting[name] > 0
            found[name] = tuple(np.where(waits, able, np.minimum(able, written)).tolist())
        return found

    def read_until(
        self, into: Mapping[str, Floats], at_us: int, start_s: float, end_s: float
    ) -> float:
        """Let time pass until a log has been read to its end, or to the end of a phase.

        - ``into`` (records/s): what each subtask emits meanwhile.
        - ``at_us``: a moment of the phase, microseconds: what is written does not change in it.
        - ``start_s``, ``end_s`` (s): from when, and the end of the phase.

        When one of the logs is empty, or ``end_s``.
        """
        slopes = {name: rate - into[name] for name, rate in self._written(at_us).items()}
        for slope in slopes.values():
            slope[np.abs(slope) < _LEAST] = 0.0
        times = [
            waiting / -slope
            for name in slopes
            for waiting, slope in zip(self._waiting[name], slopes[name], strict=True)
            if slope < 0 < waiting
        ]
        until_s = min([end_s, *(start_s + float(time) for time in times)])
        for name, slope in slopes.items():
            left = self._waiting[name] + slope * (until_s - start_s)
            self._waiting[name] = np.where(left < _LEAST, 0.0, left)
        return until_s
