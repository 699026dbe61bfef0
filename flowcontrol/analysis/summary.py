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

from typing import Any

from flowcontrol.analysis.bottleneck import find_bottleneck, worst_pressure
from flowcontrol.analysis.causes import find_causes
from flowcontrol.analysis.checkpoints import checkpoint_summary
from flowcontrol.analysis.event_time import event_time_summary
from flowcontrol.analysis.figures import figures, values_of
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.lag import find_lags
from flowcontrol.analysis.limits import find_limits
from flowcontrol.analysis.run_view import RunView, StageView
from flowcontrol.analysis.subtasks import find_hot
from flowcontrol.scenario import Scenario, Stage

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
    (:class:`flowcontrol.analysis.subtasks.Hot`); with such tables ``checkpoints`` and
    ``event_time``, whose sentences join ``details`` where they matter
    (:func:`flowcontrol.analysis.event_time.event_time_summary`). A stage has ``parallelism``,
    ``pressure``, ``whole`` and ``second_half``, an edge ``channels``, ``whole`` and
    ``second_half``; the figures are named as the columns they come from. With latency markers both
    parts of a stage have ``markers`` beside ``latency``. Raises ValueError if a table lacks a
    column.
    """
    view = RunView(scenario, tables)
    tables, windows = view.tables, view.windows
    summary: dict[str, Any] = {
        "name": scenario.name,
        "clock": clock,
        "rounds": rounds,
        "round_ms": round_ms,
        "counts": "records" if scenario.system.counts_records else "buffers",
        "wall_s": wall_s,
        "emulated_s": view.end_s,
        "windows": {name: {"from_s": a, "until_s": b} for name, (a, b) in windows.items()},
        **_findings(tables, scenario, round(round_ms * 1000), with_causes=with_causes),
        "stages": {stage.name: _stage(view, stage) for stage in scenario.stages},
        "edges": {edge.name: _edge(view, edge.name) for edge in scenario.edges},
    }
    if own := values_of(view, "summary"):
        summary["figures"] = own
    if "checkpoints" in tables:
        summary["checkpoints"] = checkpoint_summary(tables, scenario, round_ms)
    if "time" in tables:
        summary["event_time"] = event_time_summary(tables, scenario, round_ms)
        if "is_of_round" not in summary["bottleneck_detail"]:
            summary["details"] += summary["event_time"]["matter"]
    found: dict[str, Any] = rounded(summary)
    return found


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


def _stage(view: RunView, stage: Stage) -> dict[str, Any]:
    """Return the figures of a stage, those of both windows and what stands beside them."""
    found = {name: _window(view.stage(stage.name, own)) for name, own in view.windows.items()}
    pressure = found["whole"]["pressure"]
    return {"parallelism": stage.parallelism, "pressure": pressure, **found}


def _window(view: StageView) -> dict[str, Any]:
    """Return the figures of a stage in a window."""
    busiest = max(view.subtasks, key=lambda subtask: subtask.busy_ms_per_s, default=None)
    markers = view.run.scenario.options.latency_interval_us > 0
    return {
        **{
            one.at("summary").name: one.value(view)
            for one in figures("summary", of_job=False)
            if one.needs != "log" or view.stage.reads_log
        },
        "busiest_subtask": None if busiest is None else busiest.subtask,
        "pressure": worst_pressure(s.backpressured_ms_per_s for s in view.subtasks).value,
        "max_over_subtasks": view.most,
        "latency": view.latency,
        **({"markers": view.marker_latency} if markers else {}),
    }


def _edge(view: RunView, name: str) -> dict[str, Any]:
    """Return the figures of an edge."""
    channels = len(view.channels.of("edge", name).by("sender", "receiver").starts)
    return {"channels": channels, **{w: view.edge(name, own) for w, own in view.windows.items()}}


def rounded(value: Any) -> Any:
    """Return plain JSON with rounded floats."""
    if isinstance(value, float):  # as most are
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, (list, tuple)) else value
