"""Flink's autoscaler: takes a job's metrics and returns the vertices to scale.

Source: Flink Kubernetes operator, ``JobAutoScalerImpl``, ``ScalingExecutor`` and
``JobVertexScaler``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf, isnan
from typing import Any, Final, NamedTuple

from flowcontrol.scaling.alignment import align_parallelism
from flowcontrol.scaling.samples import (
    SECOND,
    Evaluated,
    Sample,
    Window,
    capacity,
    evaluate,
    round_metric,
)
from flowcontrol.scenario.scaling_models import AutoscalerSettings, read_autoscaler

# --- What the autoscaler remembers: scalings of a vertex, scale-downs that wait, restarts.
#
# Source: Flink Kubernetes operator, ``DelayedScaleDown``, ``JobVertexScaler``,
# ``ScalingHistoryUtils``, ``AutoScalerUtils`` and ``ScalingTracking``.


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


_LARGEST: Final = 2**31 - 1
"""Largest Java int."""


class Change(NamedTuple):
    """Another parallelism of a vertex."""

    old: int  # old, new: parallelism
    new: int
    outside: bool  # Whether its true rate lies outside its band
    expected_rate: float  # True rate that it is expected to have then (records/s)


class FlinkAutoscaler:
    """The autoscaler of the Flink Kubernetes operator.

    - ``options``: keys ``job.autoscaler.*`` with values in Flink's syntax.
    - ``settings``: what the keys say.
    - ``reason``: why the last :meth:`decide` scaled, or did not.
    - ``reasons``: why, by vertex that it scaled.

    Raises ValueError if a key or the version is refused.

    Examples
    --------
    >>> scaler = FlinkAutoscaler({"job.autoscaler.stabilization.interval": "0 s",
    ...     "job.autoscaler.metrics.window": "10 s", "job.autoscaler.catch-up.duration": "0 s"})
    >>> for t_s in (0, 10):
    ...     scaler.observe(t_s, {"map": {"parallelism": 2, "max_parallelism": 128, "inputs": {},
    ...         "numRecordsIn": 100 * t_s, "numRecordsOut": 0, "numRecordsInPerSecond": 100,
    ...         "busyTimeMsPerSecond": 1000, "pendingRecords": 10 * t_s}})
    >>> scaler.decide(10)
    {'map': Change(old=2, new=4, outside=True, expected_rate=200.0)}
    """

    def __init__(self, options: Mapping[str, object] | None = None, version: str = "head") -> None:
        self.settings: AutoscalerSettings = read_autoscaler(options or {}, version)
        self.reason, self.reasons = "nothing was observed yet", dict[str, str]()
        self._window = Window()
        self._past: dict[str, Past] = {}
        self._delayed: dict[str, Delayed] = {}
        self._restarts = Restarts()

    def observe(self, t_s: float, vertices: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in the metrics of a moment.

        The job counts as running from the first call on, and again from each in which a parallelism
        differs from that before: then what was collected is dropped.

        - ``t_s`` (s): after the moment before.
        - ``vertices``: by vertex: ``parallelism``, ``max_parallelism``, ``inputs`` (upstream
          vertex: how it ships, ``hash`` if keyed), ``partitions`` (0: none), and Flink's
          ``numRecordsIn``, ``numRecordsOut``, ``pendingRecords`` and ``numRecordsInPerSecond``
          (sums over the subtasks), ``busyTimeMsPerSecond`` (of the busiest subtask; of the least
          busy one under the aggregator MIN), ``backPressuredTimeMsPerSecond`` (mean). None: no such
          metric. Optional: ``numRecordsOutPerSecond``, the rate of a source that counts no input,
          and ``accumulatedBusyTime`` (ms, sum), which the aggregator AVG needs.

        Raises ValueError if the moment is not after the last one, or a figure is unknown, missing
        or impossible.
        """
        if self._window.add(t_s, vertices, self.settings):
            has = {name: one.parallelism for name, one in self._window.latest.items()}
            self._restarts.end(t_s, has)

    def decide(self, t_s: float) -> dict[str, Change]:
        """Return which vertices to scale now.

        ``t_s`` (s): not before the last sample.

        By vertex; empty if nothing is to be done, and :attr:`reason` says why. Raises ValueError if
        the moment is before the last sample, or the inputs are a cycle.
        """
        if not self._window.samples:
            return {}
        if t_s < self._window.samples[-1][0]:
            raise ValueError(f"t_s: {t_s:g} is before the last sample: decide at it, or later")
        full_s = self._window.full_at(self.settings)
        if full_s is None or t_s < full_s:
            self.reason = (
                "the job stabilises"
                if full_s is None
                else f"the window of metrics is full at {full_s:g} s"
            )
            return {}
        self._window.trim(t_s, self.settings)
        restart_us = self._restarts.expected_us(self.settings)
        found = evaluate(self._window, self.settings, restart_us) if self._window.samples else None
        if found is None:
            self.reason = "the rate of a source is not known"
            return {}
        for past in self._past.values():
            past.forget(t_s, self.settings)
        changes = {
            name: change
            for name, one in found.items()
            if name not in self.settings.vertex_exclude_ids
            and (change := self._change(t_s, name, one, restart_us)) is not None
        }
        return self._apply(t_s, changes, found)

    def _apply(
        self, t_s: float, changes: dict[str, Change], found: Mapping[str, Evaluated]
    ) -> dict[str, Change]:
        """Do all changes if any is of a vertex outside its band, and remember them."""
        if not changes:
            self.reason = "every vertex runs at its target parallelism"
            return {}
        if not any(change.outside for change in changes.values()):
            self.reason = "every vertex that would change is within its band"
            return {}
        self.reasons = {name: _why(name, found[name], one) for name, one in changes.items()}
        self.reason = ", ".join(self.reasons.values())
        if not self.settings.scaling_enabled:
            self.reason = f"scaling is not enabled: {self.reason}"
            return {}
        for name, change in changes.items():
            past = self._past.setdefault(name, Past())
            rates = found[name].true_rate, change.expected_rate
            past.scalings.append(Scaling(t_s, change.old, change.new, *rates))
        self._delayed.clear()
        self._restarts.begin(t_s, {name: change.new for name, change in changes.items()})
        return changes

    def _change(self, t_s: float, name: str, one: Evaluated, restart_us: int) -> Change | None:
        """Return the change of a vertex that is due; None if none is."""
        own, settings = self._window.latest[name], self.settings
        wanted = capacity(one, settings, settings.utilization_target, restart_us, with_restart=True)
        if isnan(one.true_rate) or isnan(wanted):
            return None
        past = self._past.get(name, Past())
        factor = self._factor(wanted, one.true_rate, past)
        new = self._parallelism(own, factor)
        if new == own.parallelism:
            self._delayed.pop(name, None)
            return None
        if new > own.parallelism:
            self._delayed.pop(name, None)
            if past.is_ineffective(one.true_rate, own.parallelism, settings):
                return None
            return _changed(own.parallelism, new, one.is_outside, one, factor, settings)
        due = self._due(t_s, name, Waiting(t_s, new, one.is_outside))
        if due is None:
            return None
        return _changed(own.parallelism, due.parallelism, due.is_outside, one, factor, settings)

    def _factor(self, wanted: float, true_rate: float, past: Past) -> float:
        """Return by how much the parallelism is to grow, within the limits of a step."""
        settings = self.settings
        factor = wanted / true_rate if true_rate else inf
        if settings.observed_scalability_enabled:
            factor /= past.coefficient(settings)
        least, most = 1 - settings.scale_down_max_factor, 1 + settings.scale_up_max_factor
        return least if factor < least else min(factor, most)

    def _parallelism(self, own: Sample, factor: float) -> int:
        """Return the parallelism that follows, within limits and aligned."""
        settings, current = self.settings, own.parallelism
        lower = min(current, settings.vertex_min_parallelism)
        upper = max(current, settings.vertex_max_parallelism)
        raw = min(ceil(min(factor * current, _LARGEST)), _LARGEST) if factor == factor else 0
        wanted = min(max(lower, raw), own.max_parallelism, upper)
        if not own.partitions and "hash" not in own.inputs.values():
            return wanted
        mode, version = settings.alignment
        if settings.version == "head" and mode != "off":  # FLINK-40389, under the old key as well
            wanted = min(wanted, own.partitions or wanted)
        limits = own.partitions, own.max_parallelism, mode, lower, upper, version
        return align_parallelism(current, wanted, *limits)

    def _due(self, t_s: float, name: str, wanted: Waiting) -> Waiting | None:
        """Return the scale-down that is due; None while it waits."""
        interval_s = self.settings.scale_down_interval / SECOND
        if interval_s <= 0:
            return wanted
        delayed = self._delayed.setdefault(name, Delayed(t_s))
        delayed.add(wanted)
        return delayed.due(t_s, interval_s)


def _changed(
    old: int, new: int, outside: bool, one: Evaluated, factor: float, settings: AutoscalerSettings
) -> Change:
    """Return a change with the rate that is expected of it."""
    is_capped = settings.version == "1.15"
    expected = one.true_rate * factor if is_capped else one.true_rate / old * new
    return Change(old, new, outside, round_metric(expected))


def _why(name: str, one: Evaluated, change: Change) -> str:
    """Return why a vertex changes, with figures."""
    rate = f"{name} can process {one.true_rate:.0f} records/s"
    if one.true_rate < one.low:
        return f"{rate}, and needs {one.low:.0f}"
    if one.true_rate > one.high:
        return f"{rate}, and {one.high:.0f} are enough"
    return f"{rate}, within its band" if not change.outside else f"{rate} since a while"
