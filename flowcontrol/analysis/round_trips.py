"""Whether an exchange is limited by its job, or only by the length of the rounds of a run.

A credit and the buffer that it lets go take two rounds at least, however short the network's
latency. A window of credits that is small against two rounds limits a run, and not its job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

import numpy as np

from flowcontrol.analysis.panel import Array, Panel
from flowcontrol.scenario import Edge, Scenario

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
