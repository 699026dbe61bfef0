"""Make the rows of a sweep's table from the summary of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowcontrol.experiments.sweep.columns import FIGURES, SECOND_HALF
from flowcontrol.scenario import Scenario

_LATENCY = "latency_"
_IN_FLIGHT = ("in_flight_buffers", "in_flight_records", "in_flight_bytes", "max_in_flight_records")


def variant_rows(
    summary: Mapping[str, Any], scenario: Scenario, given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return a row for each stage of a run.

    Parameters
    ----------
    summary : mapping
        From :func:`flowcontrol.analysis.summarise`.
    scenario : Scenario
        What was run.
    given : mapping
        The columns that all rows share: variant, varied values, replication, seed.

    Returns
    -------
    list of dict
        In the order of the scenario's stages; every column of the table.
    """
    shared = {
        **given,
        "bottleneck": _bottleneck(summary),
        "rounds": summary["rounds"],
        "round_ms": summary["round_ms"],
        "wall_s": summary["wall_s"],
    }
    return [
        {
            **shared,
            "stage": stage.name,
            "parallelism": stage.parallelism,
            "pressure": summary["stages"][stage.name]["pressure"],
            **_figures(summary, scenario, stage.name, "whole", ""),
            **_figures(summary, scenario, stage.name, "second_half", SECOND_HALF),
        }
        for stage in scenario.stages
    ]


def _bottleneck(summary: Mapping[str, Any]) -> str:
    """Return the stage or the edge that limited; empty for none."""
    detail = summary["bottleneck_detail"]
    return str(summary["bottleneck"] or detail.get("edge") or detail.get("throttle") or "")


def _figures(
    summary: Mapping[str, Any], scenario: Scenario, stage: str, window: str, suffix: str
) -> dict[str, Any]:
    """Return the figures of a stage in one window, by column."""
    found = dict(summary["stages"][stage][window])
    latency = found["latency"] or {}
    edges = [summary["edges"][edge.name][window] for edge in scenario.inputs(stage)]
    found |= {name: _sum(edges, name) for name in _IN_FLIGHT}
    found |= {_LATENCY + name: value for name, value in latency.items()}
    return {
        figure.column.name + suffix: _typed(found.get(figure.column.name), figure.column.type)
        for figure in FIGURES
    }


def _sum(edges: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(sum(edge[name] for edge in edges))


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    return int(value) if kind == "int64" else float(value)
