"""The moments of a run's metrics, and what meters and gauges of time show at each of them.

Flink updates its views every 5 s, whatever a reporter's interval. A figure is then that of the
newest sample: the tables of a run have no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flowcontrol.protocol.monitoring import UPDATE_S, MeterView, TimerGaugeView

Floats = npt.NDArray[np.float64]

_SLACK_S = 1e-9


@dataclass(frozen=True)
class Moments:
    """When metrics are looked at."""

    samples: Floats  # Times of all samples of the run, ascending, s
    # By update of the views, every 5 s: the index of the newest sample; -1: there is none yet.
    updates: tuple[int, ...]
    # By moment: the index of its sample, and how many updates the views have had.
    shown: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, samples: Sequence[float]) -> Moments:
        """Return the moments of a run with these samples, ascending, s."""
        times = np.asarray(samples, np.float64)
        if len(times) == 0:
            return cls(times, (), ())
        count = int((times[-1] + _SLACK_S) // UPDATE_S)
        grid = UPDATE_S * np.arange(1, count + 1) + _SLACK_S
        updates = (np.searchsorted(times, grid, side="right") - 1).tolist()
        shown = {index: number for number, index in reversed([*enumerate(updates, 1)])}
        shown.pop(-1, None)
        shown.setdefault(len(times) - 1, count)
        return cls(times, tuple(updates), tuple(sorted(shown.items())))

    @property
    def times(self) -> Floats:
        """Time of each moment, s."""
        return self.samples[[index for index, _ in self.shown]]

    def levels(self, values: Floats) -> Floats:
        """Return a figure at each moment, given it at each sample."""
        return values[[index for index, _ in self.shown]]

    def meter(self, counts: Floats) -> Floats:
        """Return what a meter shows of a counter, given it at each sample."""
        view, rates = MeterView(), [0.0]
        for index in self.updates:
            view.update(int(counts[index]) if index >= 0 else 0)
            rates.append(view.rate)
        return np.array([rates[number] for _, number in self.shown])

    def gauge(self, total_ms: Floats) -> Floats:
        """Return what a gauge of time shows, given the time so far at each sample, ms."""
        view, values = TimerGaugeView(), [0]
        for index in self.updates:
            view.update(int(total_ms[index]) if index >= 0 else 0)
            values.append(view.value)
        return np.array([values[number] for _, number in self.shown], np.float64)
