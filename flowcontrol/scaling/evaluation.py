"""What the autoscaler works out of its window: rates of a vertex, wanted and possible.

Source: Flink Kubernetes operator, ``ScalingMetricEvaluator`` and ``AutoScalerUtils``.
"""

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import floor, inf, isinf, isnan, nan

from flowcontrol.scaling.samples import SECOND, Window, round_metric
from flowcontrol.scenario.scaling_models import AutoscalerSettings


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
