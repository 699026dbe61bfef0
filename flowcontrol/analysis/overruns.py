"""Stages that are behind although they block nobody yet: never idle, and more and more waits.

Buffers hold what a stage does not get done until they are full. Until then its senders are not
blocked, while the latency of its records grows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from flowcontrol.analysis.panel import Array, Panel
from flowcontrol.analysis.subtasks import NEVER_IDLE, edges_into
from flowcontrol.scenario import Scenario

_MORE: Final = 0.05
"""Growth of what waits for a subtask, relative to what it takes up meanwhile, from which it is
behind; less comes and goes where it is just as fast as what is sent to it."""

_LASTING: Final = 0.05
"""Share of the run for which that must grow: a window's burst is worked off before the next one."""


def overruns(samples: Panel, channels: Panel, scenario: Scenario) -> Mapping[float, set[str]]:
    """Return by sample the stages that fall behind.

    ``samples``, ``channels``: the tables ``stages`` and ``channels``.

    Returns a stage with a subtask that is not idle for a while falls behind until the most waits
    for it, also in between where less does, as after each burst of a window. Of a transport that
    counts records the growth from sample to sample says the same, so there is none of these.
    """
    found: dict[float, set[str]] = defaultdict(set)
    if scenario.system.counts_records or not len(samples):
        return found
    least_s = _LASTING * float(samples["t_s"][-1])
    for stage in scenario.stages:
        edges = edges_into(scenario, stage.name)
        rows = samples.of("stage", stage.name)
        is_full = rows["busy_ms_per_s"] >= 1000 * NEVER_IDLE
        if not edges or any(edge.chain for edge in scenario.inputs(stage.name)):
            continue
        into = channels.among("edge", edges) if is_full.any() else channels
        for subtask in sorted(set(rows["subtask"][is_full].tolist())):
            for t_s in _behind(rows.of("subtask", subtask), into.of("receiver", subtask), least_s):
                found[t_s].add(stage.name)
    return found


def _behind(rows: Panel, into: Panel, least_s: float) -> Iterator[float]:
    """Yield the samples in which a subtask falls behind."""
    times = rows["t_s"]
    totals = into.per_sample(["in_flight_records"])
    at = dict(zip(totals["t_s"].tolist(), totals["in_flight_records"].tolist(), strict=True))
    waiting = np.array([at.get(t_s, 0) for t_s in times.tolist()], np.float64)
    before = np.concatenate([[0.0], waiting[:-1]])
    taken = rows["rate_in"] * rows["interval_s"]
    for first, last in _stretches(rows["busy_ms_per_s"] >= 1000 * NEVER_IDLE):
        top = first + int(np.argmax(waiting[first:last]))
        grows = first + np.flatnonzero((waiting > before)[first : top + 1])
        if len(grows) < 2:
            continue
        begin = int(grows[0])
        grown = waiting[top] - before[begin]
        length_s = float(rows["interval_s"][begin : top + 1].sum())
        if length_s >= least_s and grown > _MORE * taken[begin : top + 1].sum():
            yield from times[begin : top + 1].tolist()


def _stretches(is_true: Array) -> Iterator[tuple[int, int]]:
    """Yield where each stretch of what is true begins, and where it has ended."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_true, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
