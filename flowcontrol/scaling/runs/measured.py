"""What a controller sees of the job that runs: counters and times of its subtasks, by sample.

Counters begin at 0 with each start of the job, as Flink's do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Figures = npt.NDArray[np.float64]

_COLUMNS = ("records_in", "records_out", "busy_ms_per_s", "backpressured_ms_per_s", "lag_records")
_SHARES = slice(2, 4)


class Grown(NamedTuple):
    """What the subtasks of a stage did in a time, each an array over the subtasks."""

    seconds: float  # Its length
    records_in: Figures  # records_in, records_out: records that were taken up, and put out
    records_out: Figures
    # Time in which they worked, and in which they were back-pressured.
    busy_s: Figures
    blocked_s: Figures


@dataclass
class Measured:
    """Samples of one attempt of the job."""

    moments: list[float] = field(default_factory=list)  # Of the samples (s)
    _samples: list[dict[str, Figures]] = field(default_factory=list)

    def add(self, t_s: float, since_s: float, columns: Mapping[str, Any]) -> None:
        """Take in a sample: the columns of the table ``stages``, and the length of its interval."""
        stages = np.array(columns["stage"])
        rows = np.stack([np.asarray(columns[name], np.float64) for name in _COLUMNS], axis=1)
        rows[:, _SHARES] *= since_s / 1000
        found = {}
        for stage in dict.fromkeys(columns["stage"]):
            own = rows[stages == stage]
            if self._samples:
                own[:, _SHARES] += self._samples[-1][stage][:, _SHARES]
            found[str(stage)] = own
        self.moments.append(t_s)
        self._samples.append(found)

    def total(self, stage: str, column: int) -> Figures:
        """Return a column of the last sample."""
        return self._samples[-1][stage][:, column]

    def records_in(self, stage: str) -> float:
        """Return the records that all subtasks of a stage have taken up."""
        return float(self.total(stage, 0).sum())

    def records_out(self, stage: str) -> float:
        """Return the records that all subtasks of a stage have put out."""
        return float(self.total(stage, 1).sum())

    def busy_s(self, stage: str) -> float:
        """Return the time in which the subtasks of a stage have worked, added up, s."""
        return float(self.total(stage, 2).sum())

    def lag_records(self, stage: str) -> float:
        """Return the records that wait in the logs of a source."""
        return float(self.total(stage, 4).sum())

    def since(self, stage: str, t_s: float) -> Grown:
        """Return what the subtasks of a stage have done since the last sample at or before."""
        first = max((n for n, at in enumerate(self.moments) if at <= t_s + 1e-9), default=None)
        last = self._samples[-1][stage]
        begin = np.zeros_like(last) if first is None else self._samples[first][stage]
        began_s = t_s if first is None else self.moments[first]
        grown = (last - begin)[:, :4].T
        return Grown(self.moments[-1] - began_s, *grown)
