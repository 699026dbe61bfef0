"""What the autoscaler remembers: scalings of a vertex, scale-downs that wait, restarts.

Source: Flink Kubernetes operator, ``DelayedScaleDown``, ``JobVertexScaler``,
``ScalingHistoryUtils``, ``AutoScalerUtils`` and ``ScalingTracking``.
"""

from dataclasses import dataclass, field
from math import ceil, isnan
from typing import NamedTuple

from flowcontrol.scaling.samples import SECOND
from flowcontrol.scenario.scaling_models import AutoscalerSettings


class Scaling(NamedTuple):
    """A scaling of a vertex that was done."""

    t_s: float
    old: int
    new: int
    true_rate: float
    expected_rate: float


@dataclass
class Past:
    """The scalings of one vertex, the last ones."""

    scalings: list[Scaling] = field(default_factory=list)

    def forget(self, now_s: float, settings: AutoscalerSettings) -> None:
        """Drop what is too old, or too many."""
        first_s = now_s - settings.history_max_age / SECOND
        young = [one for one in self.scalings if one.t_s >= first_s]
        self.scalings[:] = young[-settings.history_max_count :]

    def coefficient(self, settings: AutoscalerSettings) -> float:
        """Return what a subtask more counts for, by least squares; 1 while that is not known."""
        known = self.scalings
        if not known or len(known) < settings.observed_scalability_min_observations:
            return 1.0
        if any(isnan(one.true_rate) for one in known):
            return 1.0
        # of several with the smallest parallelism, the last
        smallest = min(reversed(known), key=lambda one: one.old)
        base = smallest.true_rate / smallest.old
        squares = sum(one.old**2 for one in known)
        share = sum(one.old * one.true_rate for one in known) / (squares * base)
        share = max(settings.observed_scalability_coefficient_min, min(1.0, share))
        # BigDecimal of the shortest text of the double: what is not in its text is not rounded up
        return ceil(round(share * 100, 9)) / 100

    def is_ineffective(self, now: float, current: int, settings: AutoscalerSettings) -> bool:
        """Tell whether the last scale-up gained too little for another.

        ``now`` (records/s): True rate.
        """
        if not self.scalings or not settings.scaling_effectiveness_detection_enabled:
            return False
        last = self.scalings[-1]
        if current != last.new or last.new <= last.old:
            return False
        gained, expected = now - last.true_rate, last.expected_rate - last.true_rate
        if expected == 0:
            return not gained > 0
        # NaN is below every threshold, as in Java
        return not gained / expected >= settings.scaling_effectiveness_threshold


class Waiting(NamedTuple):
    """A scale-down that was recommended."""

    t_s: float
    parallelism: int
    is_outside: bool


@dataclass
class Delayed:
    """Scale-downs of one vertex that wait for their interval."""

    first_s: float  # When the first was recommended (s)
    waiting: list[Waiting] = field(default_factory=list)  # Each smaller than those before it

    def add(self, one: Waiting) -> None:
        """Add a recommendation in the place of all that are not larger."""
        while self.waiting and self.waiting[-1].parallelism <= one.parallelism:
            self.waiting.pop()
        self.waiting.append(one)

    def due(self, now_s: float, interval_s: float) -> Waiting | None:
        """Return the largest of the last interval; None until that has passed since the first."""
        begin_s = now_s - interval_s
        if begin_s < self.first_s:
            return None
        while self.waiting[0].t_s < begin_s:
            self.waiting.pop(0)
        return self.waiting[0]


@dataclass
class Restarts:
    """How long restarts took."""

    longest_us: int | None = None  # Of those that are over; None: none was seen (us)
    _begun: tuple[float, dict[str, int]] | None = None

    def begin(self, t_s: float, wanted: dict[str, int]) -> None:
        """Note that the job restarts with other parallelisms."""
        self._begun = t_s, wanted

    def end(self, t_s: float, parallelisms: dict[str, int]) -> None:
        """Note that the job runs again; it counts if it has the parallelisms that were wanted."""
        if self._begun is None:
            return
        (began_s, wanted), self._begun = self._begun, None
        if all(parallelisms.get(name) == new for name, new in wanted.items()):
            took_us = round((t_s - began_s) * SECOND)
            self.longest_us = max(took_us, self.longest_us or 0)

    def expected_us(self, settings: AutoscalerSettings) -> int:
        """Return what a restart is expected to take, microseconds."""
        if not settings.restart_time_tracking_enabled or self.longest_us is None:
            return settings.restart_time
        return min(self.longest_us, settings.restart_time_tracking_limit)
