"""Waits other than backpressure: for round trips, for a connection's wire, for triggers.

A credit and the buffer that it lets go take two rounds at least, however short the network's
latency. A window of credits that is small against two rounds limits a run, and not its job.

Between two triggers a source that reads in batches stands still, and what waits for it grows; a
batch that begins fills queues and makes stages busy. All of that says nothing as long as each batch
takes what waits. A source is in time if it is no further behind than a trigger and a sample
interval explain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

import numpy as np

from flowcontrol.analysis.panel import Array, Panel, mean_over_time
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.system import THROTTLE_PARTS

ROUND: Final = "the length of a round"
"""The name of what limits then; no stage or edge has such a name."""


def round_us_of(scenario: Scenario, round_us: int | None = None) -> int | None:
    """Return the length of a run's rounds, microseconds: the given one, or that of the scenario.

    None if neither is known: the virtual clock has chosen one that limits nothing.
    """
    return round_us or (None if scenario.round_ms is None else scenario.live_round_us)


def stretches(
    channels: Panel, scenario: Scenario, round_us: int | None
) -> Mapping[float, Mapping[str, float]]:
    """Return by sample and edge how much longer a round trip of credits takes than in the job.

    - ``channels``: the table ``channels``.
    - ``round_us``: length of its rounds, microseconds; None if it limits nothing.

    Returns the least factor over the channels of an edge that wait for a round trip, infinite where
    the job has no latency; an edge without such a channel is left out. Under credits these are the
    channels that have a backlog, no credit, and nothing queued. Other transports do not say who
    waits, so all of their channels count, unless a bandwidth may be what they wait for.
    """
    found: dict[float, dict[str, float]] = defaultdict(dict)
    if round_us is None:
        return found
    for edge in scenario.edges:
        rows = channels.of("edge", edge.name)
        waits = _waits(rows, scenario)
        if not waits.any():
            continue
        factors = _factors(rows, edge, scenario, round_us)[waits]
        for t_s, factor in zip(rows["t_s"][waits].tolist(), factors.tolist(), strict=True):
            found[t_s][edge.name] = min(factor, found[t_s].get(edge.name, inf))
    return found


def is_of_round(stretch: float, blocked: float, busy: float) -> bool:
    """Tell whether an exchange limits only because its round trips are stretched.

    A window carries as many times more as its round trip is shorter. If that is more than the
    sender, never blocked, would put out, or than the receiver, always busy, would take up, then
    the exchange does not limit the job.

    ``stretch``: factor by which they are longer than in the job; 1 if they are not.
    """
    return stretch * (1 - blocked) >= 1 or stretch * busy >= 1


def _waits(rows: Panel, scenario: Scenario) -> Array:
    """Tell which channels wait for a round trip."""
    if scenario.system.transport == "credit":
        waits: Array = (rows["backlog"] > 0) & (rows["credit"] == 0) & (rows["queued"] == 0)
        return waits
    return np.full(len(rows), scenario.cluster.bandwidth_bytes_per_s is None)


def _factors(rows: Panel, edge: Edge, scenario: Scenario, round_us: int) -> Array:
    """Return by how much the trips of channels are stretched; the local ones have no latency.

    A subtask that a controller has added is taken to be on a task manager of its own.
    """
    latency_us = scenario.cluster.network_latency_us
    here, there = (scenario.stage(name).placement for name in (edge.sender, edge.receiver))
    is_local = np.zeros((_most(rows["sender"], here), _most(rows["receiver"], there)), bool)
    is_local[: len(here), : len(there)] = np.equal.outer(here, there)
    rounded_us = max(1, -(-latency_us // round_us)) * round_us
    remote = rounded_us / latency_us if latency_us else inf
    return np.where(is_local[rows["sender"], rows["receiver"]], inf, remote)


def _most(subtasks: Array, placement: Sequence[int]) -> int:
    """Return how many subtasks a stage had at the most."""
    return max(int(subtasks.max(initial=-1)) + 1, len(placement))


SATURATED: Final = 0.8
"""Share of a bandwidth from which it limits; headers and whole rounds take the rest."""


class Connection(NamedTuple):
    """An ordered pair of task managers."""

    sender: int
    receiver: int
    bytes_per_s: float  # Bytes of records that it carried, mean over the samples


def busiest_connection(scenario: Scenario, edge: Edge, samples: Panel) -> Connection | None:
    """Return the connection of an exchange that carries most, with all that shares it.

    Records are taken to be spread evenly over the senders of a receiving subtask.

    ``samples``: rows of the table ``stages``.

    Returns None if the exchange is local.
    """
    loads: dict[tuple[int, int], float] = defaultdict(float)
    for other in scenario.edges:
        for pair, load in _loads(scenario, other, samples).items():
            loads[pair] += load
    own = [pair for pair in _loads(scenario, edge, samples) if pair[0] != pair[1]]
    if not own:
        return None
    pair = max(own, key=lambda pair: loads[pair])
    return Connection(*pair, loads[pair])


def _loads(scenario: Scenario, edge: Edge, samples: Panel) -> dict[tuple[int, int], float]:
    """Return the bytes/s of an exchange between each two task managers."""
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    inputs = len(scenario.inputs(edge.receiver))
    loads: dict[tuple[int, int], float] = defaultdict(float)
    for subtask, there in enumerate(receiver.placement):
        rows = samples.of("stage", edge.receiver).of("subtask", subtask)
        rate = mean_over_time(rows, "rate_in") / inputs
        is_forward = edge.partitioner == "forward"
        senders = sender.placement[subtask : subtask + 1] if is_forward else sender.placement
        for here in senders:
            loads[here, there] += rate * sender.record_bytes / len(senders)
    return loads


_MS_PER_S: Final = 1000.0

FULL: Final = 0.9
"""Busy share from which a stage has no time to make up for what a batch takes besides records."""


def reads_in_batches(scenario: Scenario) -> bool:
    """Tell whether sources read what their throttle admits at a trigger, and then wait."""
    part = THROTTLE_PARTS[scenario.system.throttle]
    return part.has_log and "interval_ms" in part.parameters


def most_behind_s(samples: Panel, scenario: Scenario) -> float:
    """Return how far behind its log a source that keeps up may be.

    ``samples``: the table ``stages`` of a run.

    Returns a sample interval; with batches also the interval of their triggers, and what a batch
    takes or waits for: its overhead o lasts o / (1 - b) with the records that come meanwhile, b
    being the busy share of the busiest stage; its least records come at the rate of the sources
    (s).
    """
    most_s = float(scenario.sample_interval_s)
    if not reads_in_batches(scenario):
        return most_s
    values = scenario.system.throttle_values
    most_s += values["interval_ms"] / _MS_PER_S
    if overhead_ms := values.get("overhead_ms", 0) + values.get("start_ms", 0):
        busy = max(_busy(samples, stage.name) for stage in scenario.stages)
        most_s += overhead_ms / _MS_PER_S / (1 - busy if busy < FULL else 1)
    if least := values.get("min_records", 0):
        rates = [
            mean_over_time(samples.of("stage", stage.name), "rate_out") * stage.parallelism
            for stage in scenario.sources
        ]
        longest_s = values["max_delay_ms"] / _MS_PER_S
        most_s += min(longest_s, least / sum(rates)) if any(rates) else longest_s
    return most_s


def in_time_with_triggers(samples: Panel, scenario: Scenario) -> Mapping[float, frozenset[str]]:
    """Return by sample the stages whose sources are all in time with their triggers.

    - ``samples``: the table ``stages`` of a run.
    - ``scenario``: what was run; nothing is in it without a throttle in batches.
    """
    if not reads_in_batches(scenario):
        return {}
    most_s = most_behind_s(samples, scenario)
    late: dict[float, set[str]] = defaultdict(set)
    for source in scenario.sources:
        worst = samples.of("stage", source.name).per_sample(["lag_s"], "max")
        for t_s in worst["t_s"][is_late(worst, most_s)].tolist():
            late[t_s].add(source.name)
    above = {
        stage.name: {one.name for one in scenario.sources_of(stage.name)}
        for stage in scenario.stages
    }
    return {
        t_s: frozenset(name for name, sources in above.items() if not sources & late[t_s])
        for t_s in samples.per_sample([])["t_s"].tolist()
    }


def waits_as_idle(samples: Panel, scenario: Scenario) -> Panel:
    """Return the table ``stages`` in which waiting for a trigger is idle time, and not blocked.

    ``samples``: the table ``stages`` of a run.
    """
    in_time = in_time_with_triggers(samples, scenario)
    if not in_time:
        return samples
    blocked = samples["backpressured_ms_per_s"]
    pairs = zip(samples["t_s"].tolist(), samples["stage"].tolist(), strict=True)
    waits = np.array([stage in in_time[t_s] for t_s, stage in pairs], bool)
    return samples.with_columns(
        backpressured_ms_per_s=np.where(waits, 0.0, blocked),
        idle_ms_per_s=samples["idle_ms_per_s"] + np.where(waits, blocked, 0.0),
    )


def is_late(worst: Panel, most_s: float) -> Array:
    """Tell at which samples a source is not in time.

    A trigger is judged as a whole: who is too far behind at one moment is not in time just before
    and after it either, when a batch has taken a part of what waits.

    - ``worst``: a row per sample with its largest ``lag_s``.
    - ``most_s`` (s): how far behind it may be.
    """
    times = worst["t_s"]
    beyond = times[worst["lag_s"] > most_s]
    since, until = (np.searchsorted(beyond, times + way * most_s) for way in (-1, 1))
    found: Array = until > since
    return found


def _busy(samples: Panel, stage: str) -> float:
    """Return the mean busy share of a stage's busiest subtask."""
    rows = samples.of("stage", stage)
    subtasks = set(rows["subtask"].tolist())
    means = (mean_over_time(rows.of("subtask", one), "busy_ms_per_s") for one in subtasks)
    return max(means, default=0.0) / 1000
