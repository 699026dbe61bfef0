"""The samples that the autoscaler collects from a job, and its window.

Source: Flink Kubernetes operator, ``ScalingMetricCollector`` and ``ScalingMetrics``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from graphlib import CycleError, TopologicalSorter
from math import floor, inf, isfinite, isinf, isnan, nan
from typing import Any, Final

from flowcontrol.scenario.scaling_models import AutoscalerSettings

SECOND: Final = 1_000_000
"""Microseconds."""

_FIGURES: Final = (
    "numRecordsIn",
    "numRecordsOut",
    "pendingRecords",
    "numRecordsInPerSecond",
    "numRecordsOutPerSecond",
    "busyTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "accumulatedBusyTime",
)
_DECIMALS: Final = Decimal("0.001")
_WHOLE: Final = 2.0**53
"""From here on every double is a whole number."""
_KNOWN: Final = {"parallelism", "max_parallelism", "inputs", "partitions", *_FIGURES}


def round_metric(value: float) -> float:
    """Round a metric to three decimals, half up, but never to 0.

    Source: ``ScalingMetrics.roundMetric``, called for every metric that is collected and for every
    one that is evaluated: 80 records/s over a mean of busy times near 0.8 are 100 records/s, not a
    little less, for which a vertex would grow by a subtask.
    """
    if not isfinite(value) or abs(value) >= _WHOLE:
        return value
    return float(Decimal(str(value)).quantize(_DECIMALS, ROUND_HALF_UP)) or value


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One vertex at one moment, each figure rounded as Flink rounds it."""

    parallelism: int  # parallelism, max_parallelism: of the vertex
    max_parallelism: int
    partitions: int  # Of a source; 0: none
    inputs: Mapping[str, str]  # How each upstream vertex ships records to it, ``hash`` if keyed
    # Since it started, of all subtasks; NaN: not known. Of a source without an input figure, what
    # it put out.
    records_in: float
    records_out: float
    lag: float  # Records that wait in the logs of a source; 0 of any other vertex
    rate_in: float  # Of all subtasks; NaN: not known (records/s)
    busy: float  # Share of time in which the busiest subtask worked
    busy_ms: float  # Busy time of all subtasks since they started; NaN: not known (ms)
    # True rate of a source as measured while it catches up; NaN: not measured (records/s).
    observed: float


@dataclass
class Window:
    """The samples since the job runs."""

    running_s: float | None = None  # When the job began to run; None before the first sample
    # Moment and vertices, in the order of time.
    samples: list[tuple[float, dict[str, Sample]]] = field(default_factory=list)

    @property
    def latest(self) -> dict[str, Sample]:
        """Vertices of the last sample."""
        return self.samples[-1][1]

    def add(self, t_s: float, vertices: Mapping[str, Any], settings: AutoscalerSettings) -> bool:
        """Add a sample; begin anew where a parallelism has changed, and tell whether it has.

        - ``t_s`` (s): not before the sample before.
        - ``vertices``: flink's figures by vertex, as ``FlinkAutoscaler.observe`` takes them.

        Raises ValueError if the moment is before the last one, or a figure is missing, unknown or
        impossible.
        """
        if self.samples and t_s <= self.samples[-1][0]:
            raise ValueError(
                f"t_s: {t_s:g} is not after the sample before, {self.samples[-1][0]:g}"
            )
        read = {name: _Reader(name, dict(figures)) for name, figures in vertices.items()}
        _check_inputs(read)
        had = {n: one.parallelism for n, one in self.latest.items()} if self.samples else None
        has = {name: reader.count("parallelism", 1) for name, reader in read.items()}
        is_new = had != has
        if is_new:
            self.running_s = t_s
            self.samples.clear()
        found = {n: one.sample(settings, self._observed(n, settings)) for n, one in read.items()}
        self.samples.append((t_s, found))
        return is_new

    def full_at(self, settings: AutoscalerSettings) -> float | None:
        """Return from when on the window is full, s; None while the job stabilises."""
        if self.running_s is None:
            return None
        stable_s = self.running_s + settings.stabilization_interval / SECOND
        firsts = (t_s for t_s, _ in self.samples if t_s >= stable_s)
        first_s = next(firsts, None)
        return None if first_s is None else first_s + settings.metrics_window / SECOND

    def trim(self, now_s: float, settings: AutoscalerSettings) -> None:
        """Drop what is older than the window."""
        first_s = now_s - settings.metrics_window / SECOND
        self.samples[:] = [one for one in self.samples if one[0] >= first_s]

    def rate(self, vertex: str, of: Callable[[Sample], float]) -> float:
        """Return how much a counter grew from the first to the last sample that has it, 1/s."""
        known = [(t_s, of(one[vertex])) for t_s, one in self.samples]
        known = [(t_s, value) for t_s, value in known if not isnan(value)]
        if len(known) < 2:
            return nan
        (first_s, first), (last_s, last) = known[0], known[-1]
        return (last - first) / (last_s - first_s)

    def mean(self, vertex: str, of: Callable[[Sample], float], least: int = 1) -> float:
        """Return the mean of a figure; NaN of fewer finite ones than ``least``."""
        values = [of(one[vertex]) for _, one in self.samples]
        finite = [value for value in values if isfinite(value)]
        if not finite:
            return inf if any(isinf(value) for value in values) else nan
        return nan if len(finite) < least else sum(finite) / len(finite)

    def _observed(self, vertex: str, settings: AutoscalerSettings) -> float:
        """Return the mean rate measured so far, which goes on where nothing is measured."""
        least = settings.observed_true_processing_rate_min_observations
        return self.mean(vertex, lambda one: one.observed, least) if self.samples else nan


@dataclass(frozen=True)
class _Reader:
    """Reads the figures of one vertex."""

    vertex: str
    figures: Mapping[str, Any]

    def sample(self, settings: AutoscalerSettings, observed: float) -> Sample:
        unknown = sorted(set(self.figures) - _KNOWN)
        if unknown:
            known = ", ".join(sorted(_KNOWN))
            raise ValueError(f"{self.vertex}.{unknown[0]}: unknown figure (known: {known})")
        is_source = not self._inputs()
        records_out = self.figure("numRecordsOut")
        records_in, rate_in = self.figure("numRecordsIn"), self.figure("numRecordsInPerSecond")
        if is_source and not records_in > 0 and not isnan(records_out):
            records_in = records_out
        if is_source and not rate_in > 0 and "numRecordsOutPerSecond" in self.figures:
            rate_in = self.figure("numRecordsOutPerSecond")
        pending = self.figure("pendingRecords") if is_source else nan
        lag = 0.0 if isnan(pending) else pending
        busy_ms = self.figure("accumulatedBusyTime")
        if settings.metrics_busy_time_aggregator == "avg" and isnan(busy_ms):
            place = f"{self.vertex}.accumulatedBusyTime"
            raise ValueError(f"{place}: missing, which metrics.busy-time.aggregator AVG needs")
        return Sample(
            parallelism=self.count("parallelism", 1),
            max_parallelism=self.count("max_parallelism", 1),
            partitions=self.count("partitions", 0) if "partitions" in self.figures else 0,
            inputs=self._inputs(),
            records_in=round_metric(records_in),
            records_out=round_metric(records_out),
            lag=round_metric(lag),
            rate_in=round_metric(rate_in),
            busy=round_metric(self.figure("busyTimeMsPerSecond") / 1000),
            busy_ms=round_metric(busy_ms),
            observed=round_metric(
                self._measured(rate_in, lag, settings, observed) if is_source else nan
            ),
        )

    def _measured(
        self, rate_in: float, lag: float, settings: AutoscalerSettings, before: float
    ) -> float:
        """Return the true rate of a source, measured while it catches up."""
        if isnan(rate_in):
            return nan
        if rate_in == 0:
            return inf
        if lag < settings.observed_true_processing_rate_lag_threshold // SECOND * rate_in:
            return before
        blocked = self.figure("backPressuredTimeMsPerSecond")
        blocked = 0.0 if isnan(blocked) else blocked
        return before if blocked >= 1000 else rate_in / (1 - blocked / 1000)

    def _inputs(self) -> dict[str, str]:
        found = self.figures.get("inputs") or {}
        return {str(name): str(ship).lower() for name, ship in found.items()}

    def figure(self, name: str) -> float:
        """Return a figure; NaN where it is missing, None or NaN."""
        value = self.figures.get(name)
        if value is None:
            return nan
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            place = f"{self.vertex}.{name}"
            raise ValueError(f"{place}: {value!r} is out of range: needs a number, at least 0")
        return float(value)

    def count(self, name: str, least: int) -> int:
        """Return a whole number."""
        value = self.figures.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            place = f"{self.vertex}.{name}"
            raise ValueError(
                f"{place}: {value!r} is out of range: needs a whole number, at least {least}"
            )
        return value


def _check_inputs(read: Mapping[str, _Reader]) -> None:
    if not read:
        raise ValueError("vertices: none: a job has at least one")
    for name, reader in read.items():
        for sender in reader.figures.get("inputs") or {}:
            if sender not in read:
                raise ValueError(f"{name}.inputs: {sender!r} is not a vertex of the job")


# --- What the autoscaler works out of its window: rates of a vertex, wanted and possible.
#
# Source: Flink Kubernetes operator, ``ScalingMetricEvaluator`` and ``AutoScalerUtils``.


@dataclass(frozen=True)
class Evaluated:
    """What is known of a vertex, each figure rounded as Flink rounds it."""

    # What it can process: infinite if nothing came in, NaN if that is not known (records/s).
    true_rate: float
    target: float  # What comes in, and what its sources' logs grow by (records/s)
    catch_up: float  # What it must process beyond that so that the backlog goes in time (records/s)
    # Capacity below which it scales up, and above which it scales down (records/s).
    low: float = nan
    high: float = nan

    @property
    def is_outside(self) -> bool:
        """Whether it must scale."""
        return self.true_rate < self.low or self.true_rate > self.high


def capacity(
    one: Evaluated,
    settings: AutoscalerSettings,
    utilisation: float,
    restart_us: int,
    *,
    with_restart: bool,
) -> float:
    """Return what a vertex must be able to process at a utilisation, records/s.

    Parameters
    ----------
    one : Evaluated
        Its target and catch-up rate.
    settings : AutoscalerSettings
        What the keys say.
    utilisation : float
        Share of time that it is to be busy, taken as 0 to 1.
    restart_us : int, us
        Expected time of a restart.
    with_restart : bool
        Whether it must make up for one too.

    Returns
    -------
    float
        A whole number, or infinite at a utilisation of 0; NaN if the target is not known.
    """
    used = min(1.0, max(0.0, utilisation))
    if isnan(one.catch_up) or isnan(one.target):
        return nan
    if used == 0:
        return inf
    catch_up_s = settings.catch_up_duration // SECOND
    restart = one.target * (restart_us // SECOND) / catch_up_s if with_restart and catch_up_s else 0
    return float(floor(one.catch_up + restart + one.target / used + 0.5))


def evaluate(
    window: Window, settings: AutoscalerSettings, restart_us: int
) -> dict[str, Evaluated] | None:
    """Return what is known of every vertex, senders first; None without a source's rate.

    ``restart_us`` (us): expected time of a restart.

    Raises ValueError if the inputs of the vertices are a cycle.
    """
    found: dict[str, Evaluated] = {}
    is_behind = _is_behind(window, settings)
    for vertex in _in_order(window):
        target, catch_up = map(round_metric, _wanted(window, settings, vertex, found))
        if isnan(target) and not window.latest[vertex].inputs:
            return None
        true_rate = round_metric(_true_rate(window, settings, vertex))
        one = Evaluated(true_rate, target, catch_up)
        low, high = (0.0, 1.0) if is_behind else settings.band
        found[vertex] = Evaluated(
            true_rate,
            target,
            catch_up,
            capacity(one, settings, high, restart_us, with_restart=False),
            capacity(one, settings, low, restart_us, with_restart=True),
        )
    return found


def _in_order(window: Window) -> list[str]:
    senders = {name: list(one.inputs) for name, one in window.latest.items()}
    try:
        return list(TopologicalSorter(senders).static_order())
    except CycleError as error:
        raise ValueError(f"inputs: {' -> '.join(error.args[1])} is a cycle") from None


def _is_behind(window: Window, settings: AutoscalerSettings) -> bool:
    """Tell whether a source has a backlog of more than the threshold."""
    most_s = settings.backlog_processing_lag_threshold // SECOND
    for vertex, one in window.latest.items():
        rate = window.rate(vertex, lambda sample: sample.records_in)
        is_known = not one.inputs and not isnan(rate) and one.lag > 0
        if is_known and (rate == 0 or one.lag / rate > most_s):
            return True
    return False


def _wanted(
    window: Window, settings: AutoscalerSettings, vertex: str, found: dict[str, Evaluated]
) -> tuple[float, float]:
    """Return target and catch-up rate of a vertex, records/s."""
    own = window.latest[vertex]
    if not own.inputs:
        grown = window.rate(vertex, lambda one: one.records_in) + window.rate(
            vertex, lambda one: one.lag
        )
        catch_up_s = settings.catch_up_duration // SECOND
        target = grown if isnan(grown) else max(0.0, grown)
        return target, own.lag / catch_up_s if catch_up_s else 0.0
    ratios = {sender: _ratio(window, sender, vertex) for sender in own.inputs}
    target = sum(found[sender].target * ratio for sender, ratio in ratios.items())
    return target, sum(found[sender].catch_up * ratio for sender, ratio in ratios.items())


def _ratio(window: Window, sender: str, receiver: str) -> float:
    """Return the records of an edge for each record that its sender takes in."""
    taken = window.rate(sender, lambda one: one.records_in)
    if not taken > 0:
        return 0.0
    sent = _edge_rate(window, sender, receiver)
    return sent / taken if sent > 0 else 0.0


def _edge_rate(window: Window, sender: str, receiver: str) -> float:
    """Return the records of an edge, records/s; Flink measures vertices only."""
    latest = window.latest
    others = [name for name in latest[receiver].inputs if name != sender]
    is_only = [sum(name in one.inputs for one in latest.values()) == 1 for name in others]
    if not all(is_only):
        return window.rate(sender, lambda one: one.records_out)
    taken = window.rate(receiver, lambda one: one.records_in)
    return taken - sum(window.rate(name, lambda one: one.records_out) for name in others)


def _true_rate(window: Window, settings: AutoscalerSettings, vertex: str) -> float:
    """Return what a vertex can process, records/s, by busy time or as measured."""
    by_counter = window.rate(vertex, lambda one: one.records_in)
    if settings.metrics_busy_time_aggregator == "avg":
        busy_ms = window.rate(vertex, lambda one: one.busy_ms)
        busy, rate = busy_ms / 1000 / window.latest[vertex].parallelism, by_counter
    else:
        busy = window.mean(vertex, lambda one: one.busy)
        is_old = settings.version == "1.15"
        rate = by_counter if is_old else window.mean(vertex, lambda one: one.rate_in)
    is_endless = rate == 0 or (rate > 0 and busy == 0)
    by_busy = inf if is_endless else rate / busy if busy else nan
    least = settings.observed_true_processing_rate_min_observations
    observed = window.mean(vertex, lambda one: one.observed, least)
    if isnan(observed):
        return by_busy
    if isinf(by_busy) or isnan(by_busy):
        return observed
    above = 1 + settings.observed_true_processing_rate_switch_threshold
    return observed if by_busy > observed * above else by_busy
