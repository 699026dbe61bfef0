"""The figures of a run per stage and per edge, as summary.json has them.

Each figure covers the whole run and its second half, when a run that starts empty has settled.
Figures combine over the subtasks of a stage and over time as follows:

====================  ==========================  =============================================
figure                over subtasks or channels   over time
====================  ==========================  =============================================
records, messages     sum                         growth within the window
rates                 sum                         that growth over the window's length
shares of time        mean                        mean weighted by the length of the intervals
pool usages           mean                        the same, of the levels at the samples
queues, pools         sum                         the same; ``max`` is that of the sums
lag_records           sum                         the same
lag_s                 largest                     the same
latencies             see ``latencies.py``        see ``latencies.py``
====================  ==========================  =============================================

Beside them stands what a sum or mean over the subtasks hides: ``max_over_subtasks`` has each figure
of the subtask with the most of it, ``data_skew_percent`` and ``records_in_max_over_mean`` say how
evenly records are spread (see ``per_subtask.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowcontrol.analysis.bottleneck import find_bottleneck
from flowcontrol.analysis.causes import find_causes
from flowcontrol.analysis.checkpoints import checkpoint_summary
from flowcontrol.analysis.event_time import event_time_summary
from flowcontrol.analysis.frames import (
    Panels,
    Tables,
    end_of,
    in_flight_buffers,
    panels_of,
    second_half_start,
)
from flowcontrol.analysis.hot import find_hot
from flowcontrol.analysis.lag import find_lags
from flowcontrol.analysis.latencies import combine_latencies, latency_panel
from flowcontrol.analysis.limits import find_limits
from flowcontrol.analysis.panel import Panel, Window, mean_over_time
from flowcontrol.analysis.per_subtask import largest, spread, subtask_figures
from flowcontrol.analysis.pressure import worst_pressure
from flowcontrol.analysis.triggers import waits_as_idle
from flowcontrol.records import MARKER
from flowcontrol.scenario import Scenario

_SHARES = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
_USAGES = ("in_pool_usage", "out_pool_usage", "floating_buffers_usage", "exclusive_buffers_usage")
_LEVELS = ("input_queue_buffers", "output_queue_buffers", "output_pool_size", "output_pool_used")
_EDGE_MEANS = ("credit", "backlog", "floating_held", "queued")
_EDGE_PEAKS = ("in_flight_buffers", "in_flight_records", "in_flight_bytes")
_DIGITS = 6
"""Decimals in summary.json: more than the figures are accurate to, fewer than a double has."""


def summarise(
    tables: Tables,
    scenario: Scenario,
    *,
    clock: str,
    rounds: int,
    wall_s: float,
    round_ms: float,
    with_causes: bool = True,
) -> dict[str, Any]:
    """Summarise a run from its result tables.

    - ``tables``: ``stages``, ``channels`` and ``latency``, as declared in
      :mod:`flowcontrol.records`. An interrupted run has fewer samples, or none.
    - ``scenario``: the scenario that was run: its stages and edges give order and names.
    - ``wall_s`` (s): wall-clock time of the run.
    - ``round_ms`` (ms): emulated time of a round.
    - ``with_causes``: whether to look for causes; a sweep has no use for them.

    Returns plain JSON: ``name``, ``clock``, ``rounds``, ``round_ms``, ``counts`` (``buffers`` or
    ``records``: what messages, queues and credits are), ``wall_s``, ``emulated_s``, ``windows``
    (from, until in s), ``bottleneck`` (name of a stage or null), ``sentence``, ``details``
    (sentences that stand below it), ``bottleneck_detail``, ``causes``
    (:class:`flowcontrol.analysis.causes.Cause`, the strongest first), ``stages`` and ``edges``;
    ``lags`` of sources that read a log (:class:`flowcontrol.analysis.lag.Lag`); ``hot``, the
    subtask with the most records of each stage where they are uneven
    (:class:`flowcontrol.analysis.hot.Hot`); with such tables ``checkpoints`` and ``event_time``,
    whose sentences join ``details`` where they matter
    (:func:`flowcontrol.analysis.event_time.event_time_summary`). A stage has ``parallelism``,
    ``pressure``, ``whole`` and ``second_half``, an edge ``channels``, ``whole`` and
    ``second_half``; the figures are named as the columns they come from. With latency markers both
    parts of a stage have ``markers`` beside ``latency``. Raises ValueError if a table lacks a
    column.
    """
    tables = panels_of(tables)
    end = end_of(tables)
    windows = {"whole": (0.0, end), "second_half": (second_half_start(tables), end)}
    summary: dict[str, Any] = {
        "name": scenario.name,
        "clock": clock,
        "rounds": rounds,
        "round_ms": round_ms,
        "counts": "records" if scenario.system.counts_records else "buffers",
        "wall_s": wall_s,
        "emulated_s": end,
        "windows": {name: {"from_s": a, "until_s": b} for name, (a, b) in windows.items()},
        **_findings(tables, scenario, round(round_ms * 1000), with_causes=with_causes),
        "stages": _stages(tables, scenario, windows),
        "edges": _edges(tables, scenario, windows),
    }
    if "checkpoints" in tables:
        summary["checkpoints"] = checkpoint_summary(tables, scenario, round_ms)
    if "time" in tables:
        summary["event_time"] = event_time_summary(tables, scenario, round_ms)
        if "is_of_round" not in summary["bottleneck_detail"]:
            summary["details"] += summary["event_time"]["matter"]
    rounded: dict[str, Any] = _rounded(summary)
    return rounded


def _findings(
    tables: Tables, scenario: Scenario, round_us: int, *, with_causes: bool
) -> dict[str, Any]:
    """Return what limits a run and why, whose logs grow, and which subtasks are hot."""
    limits = find_limits(tables, scenario, round_us)
    found = find_bottleneck(tables, scenario, limits, round_us)
    causes = find_causes(tables, scenario, limits) if with_causes else ()
    lags, hot = find_lags(tables, scenario), find_hot(tables, scenario)
    return {
        "bottleneck": found.stage,
        "sentence": found.sentence,
        "details": list(found.details),
        "bottleneck_detail": found.detail(),
        **({"causes": [one.document() for one in causes]} if with_causes else {}),
        **({"lags": [lag.document() for lag in lags]} if lags else {}),
        **({"hot": [one.document() for one in hot]} if hot else {}),
    }


def _stages(panels: Panels, scenario: Scenario, windows: Mapping[str, Window]) -> dict[str, Any]:
    """Return the figures of every stage, in the order of the scenario."""
    samples, latencies = waits_as_idle(panels.panel("stages"), scenario), latency_panel(panels)
    markers = latency_panel(panels, MARKER)
    stages = {}
    for stage in scenario.stages:
        rows, times = (panel.of("stage", stage.name) for panel in (samples, latencies))
        figures = {
            name: _stage_window(rows, window) | {"latency": combine_latencies(times.within(window))}
            for name, window in windows.items()
        }
        if scenario.options.latency_interval_us > 0:
            seen = markers.of("stage", stage.name)
            for name, window in windows.items():
                figures[name] |= {"markers": combine_latencies(seen.within(window))}
        if stage.reads_log:
            for name, window in windows.items():
                figures[name] |= _lag_window(rows.within(window))
        pressure = figures["whole"]["pressure"]
        stages[stage.name] = {"parallelism": stage.parallelism, "pressure": pressure, **figures}
    return stages


def _stage_window(samples: Panel, window: Window) -> dict[str, Any]:
    """Return the figures of one stage in one window, but for the latencies."""
    rows = samples.within(window)
    length = window[1] - window[0]
    subtasks = subtask_figures(samples, window)
    records_in = sum(subtask.records_in for subtask in subtasks)
    records_out = sum(subtask.records_out for subtask in subtasks)
    most = largest(subtasks)
    busiest = max(subtasks, key=lambda subtask: subtask.busy_ms_per_s, default=None)
    means = rows.means((*_SHARES, *_USAGES)) | rows.per_sample(_LEVELS).means(_LEVELS)
    return {
        "records_in": records_in,
        "records_out": records_out,
        "rate_in": records_in / length if length > 0 else 0.0,
        "rate_out": records_out / length if length > 0 else 0.0,
        **{name: means[name] for name in _SHARES},
        "worst_backpressured_ms_per_s": most["backpressured_ms_per_s"],
        "busiest_busy_ms_per_s": most["busy_ms_per_s"],
        "busiest_subtask": None if busiest is None else busiest.subtask,
        "pressure": worst_pressure(s.backpressured_ms_per_s for s in subtasks).value,
        **{name: means[name] for name in (*_USAGES, *_LEVELS)},
        **spread(subtasks),
        "max_over_subtasks": most,
    }


def _lag_window(rows: Panel) -> dict[str, Any]:
    """Return how far a source was behind its log in a window."""
    records, worst = rows.per_sample(["lag_records"]), rows.per_sample(["lag_s"], "max")
    return {
        "lag_records": mean_over_time(records, "lag_records"),
        "lag_s": mean_over_time(worst, "lag_s"),
        "max_lag_records": int(records["lag_records"].max(initial=0)),
        "max_lag_s": float(worst["lag_s"].max(initial=0.0)),
    }


def _edges(panels: Panels, scenario: Scenario, windows: Mapping[str, Window]) -> dict[str, Any]:
    """Return the figures of every edge, its channels taken together."""
    channels = panels.panel("channels")
    samples = channels.with_columns(
        in_flight_buffers=in_flight_buffers(channels, scenario),
        waits_for_credit=(channels["credit"] == 0) & (channels["backlog"] > 0),
    )
    return {edge.name: _edge(samples.of("edge", edge.name), windows) for edge in scenario.edges}


def _edge(samples: Panel, windows: Mapping[str, Window]) -> dict[str, Any]:
    """Return the figures of one edge.

    ``waiting_for_credit`` is the share of channels and samples with a backlog and no credit;
    ``messages`` counts sent messages.
    """
    found: dict[str, Any] = {"channels": len(samples.by("sender", "receiver").starts)}
    for name, window in windows.items():
        rows = samples.within(window)
        sums = rows.per_sample([*_EDGE_MEANS, *_EDGE_PEAKS])
        _, [sent] = samples.growth(["sender", "receiver"], ["sent"], window)
        found[name] = {
            "messages": int(sent.sum()),
            "waiting_for_credit": mean_over_time(rows, "waits_for_credit"),
            **sums.means([*_EDGE_MEANS, *_EDGE_PEAKS]),
            **{f"max_{peak}": int(sums[peak].max(initial=0)) for peak in _EDGE_PEAKS},
        }
    return found


def _rounded(value: Any) -> Any:
    """Return plain JSON with rounded floats."""
    if isinstance(value, float):  # as most are
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value
