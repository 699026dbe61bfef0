"""Whether sources that a throttle lets read in batches keep up: to wait is not to be held back.

Between two triggers such a source stands still, and what waits for it grows; a batch that begins
fills queues and makes stages busy. All of that says nothing as long as each batch takes what waits.
A source is in time if it is no further behind than a trigger and a sample interval explain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import numpy as np

from flowcontrol.analysis.panel import Array, Panel, mean_over_time
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.system import THROTTLE_PARTS

_MS_PER_S: Final = 1000.0

FULL: Final = 0.9
"""Busy share from which a stage has no time to make up for what a batch takes besides records."""


def reads_in_batches(scenario: Scenario) -> bool:
    """Tell whether sources read what their throttle admits at a trigger, and then wait."""
    return THROTTLE_PARTS[scenario.system.throttle].has_log


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
    if overhead_ms := values.get("overhead_ms", 0):
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
