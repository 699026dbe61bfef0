"""What a run of a fitted scenario says, figure by figure, as the input of the fit says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.bottleneck import find_bottleneck
from flowcontrol.analysis.frames import Tables, mean_over_time, result_frame, summed
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

SHARES: Final = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
LEVELS: Final = (
    "in_pool_usage",
    "out_pool_usage",
    "floating_buffers_usage",
    "exclusive_buffers_usage",
)

Predicted = dict[tuple[str, str], float]
"""Figures by place and name, as :class:`~flowcontrol.calibration.draft.Observed` has them."""


def predict(tables: Tables, scenario: Scenario, warm_up_s: float) -> Predicted:
    """Return the figures of a run after its warm-up."""
    found: Predicted = {}
    stages = result_frame(tables, "stages")
    stages = stages[stages["t_s"] > warm_up_s]
    for stage in scenario.stages:
        rows = stages[stages["stage"] == stage.name]
        rate = "rate_out" if stage.is_source else "rate_in"
        found[stage.name, rate] = mean_over_time(rows, rate) * stage.parallelism
        for name, value in _means(rows, (*SHARES, *LEVELS)):
            found[stage.name, name] = value
        for subtask in range(stage.parallelism):
            own = rows[rows["subtask"] == subtask]
            for name, value in _means(own, (rate, *SHARES, *LEVELS)):
                found[f"{stage.name}/{subtask}", name] = value
    found |= _in_flight(tables, scenario, warm_up_s)
    found |= _times(tables, warm_up_s)
    return found


def bottleneck(tables: Tables, scenario: Scenario, warm_up_s: float) -> str | None:
    """Return the stage that limits after the warm-up; None if none does."""
    kept = {
        name: table.filter([at > warm_up_s for at in table["t_s"].to_pylist()])
        for name, table in tables.items()
        if name in {"stages", "channels"}
    }
    return find_bottleneck(kept, scenario).stage


def _means(rows: pd.DataFrame, names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for name in names:
        yield name, mean_over_time(rows, name)


def _in_flight(tables: Tables, scenario: Scenario, warm_up_s: float) -> Predicted:
    """Return the records in flight of each edge, and of all edges into a stage."""
    channels = result_frame(tables, "channels")
    channels = channels[channels["t_s"] > warm_up_s]
    channels = channels.assign(in_flight_buffers=channels["released"] - channels["consumed"])
    found: Predicted = {}
    for edge in scenario.edges:
        for name in ("in_flight_records", "in_flight_buffers"):
            rows = summed(channels[channels["edge"] == edge.name], name)
            level = mean_over_time(rows, name)
            found[edge.name, name] = level
            into = (f"->{edge.receiver}", name)
            found[into] = found.get(into, 0.0) + level
    return found


def _times(tables: Tables, warm_up_s: float) -> Predicted:
    """Return latencies of markers, and durations of checkpoints."""
    found: Predicted = {}
    rows = [row for row in tables["latency"].to_pylist() if row["t_s"] > warm_up_s]
    for stage in {row["stage"] for row in rows}:
        marks = [row for row in rows if row["stage"] == stage and row["kind"] == "marker"]
        count = sum(row["count"] for row in marks)
        if count:
            total = sum(row["mean_ms"] * row["count"] for row in marks)
            found[stage, "marker_latency_ms"] = total / count
    if "checkpoints" in tables:
        done = _completed(tables["checkpoints"].to_pylist(), warm_up_s)
        if done:
            found["job", "checkpoint_e2e_ms"] = sum(done) / len(done)
    return found


def _completed(rows: list[dict[str, Any]], warm_up_s: float) -> list[float]:
    return [
        row["e2e_ms"]
        for row in rows
        if row["status"] == "completed" and row["triggered_s"] > warm_up_s
    ]
