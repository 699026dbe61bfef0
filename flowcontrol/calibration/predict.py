"""Figures that a run of a fitted scenario predicts, beside those that were observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.analysis.bottleneck import find_bottleneck
from flowcontrol.analysis.figures import figures
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.run_view import RunView
from flowcontrol.calibration.draft import Observed
from flowcontrol.scenario import Scenario

# --- The figures of a run of a fitted scenario, in the form of the input of the fit.


Predicted = dict[tuple[str, str], float]
"""Figures by place and name, as :class:`~flowcontrol.calibration.draft.Observed` has them."""


def predict(tables: Tables, scenario: Scenario, warm_up_s: float) -> Predicted:
    """Return the figures of a run after its warm-up."""
    view = RunView(scenario, tables)
    samples = view.tables.panel("stages")["t_s"]
    # A counter is known at samples: a window that begins between two of them would divide what was
    # counted since the sample before it by less time than that took.
    window = (float(max(samples[samples <= warm_up_s], default=0.0)), view.end_s)
    found: Predicted = {}
    for stage in scenario.stages:
        own = view.stage(stage.name, window)
        rate = "rate_out" if stage.is_source else "rate_in"
        for one in figures("calibrate", of_job=False):
            name = one.column.name
            if name.startswith("in_flight"):
                found[f"->{stage.name}", name] = one.value(own)
                continue
            if name in ("rate_in", "rate_out") and name != rate:
                continue
            found[stage.name, name] = one.value(own)
            for subtask in own.subtasks:
                found[f"{stage.name}/{subtask.subtask}", name] = getattr(subtask, name)
    for edge in scenario.edges:
        flight = view.edge(edge.name, window)
        for name in ("in_flight_records", "in_flight_buffers"):
            found[edge.name, name] = flight[name]
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


# --- Predicted against observed: each figure with its tolerance.


@dataclass(frozen=True)
class Tolerance:
    """By how much a figure may differ."""

    share: float  # Of what was observed
    floor: float  # At least, in the figure's unit

    def of(self, value: float) -> float:
        """Return by how much a figure of this value may differ, in its unit."""
        return max(self.share * abs(value), self.floor)


TOLERANCES: Final = {
    **{
        one.column.name: Tolerance(*one.tolerance)
        for one in figures("calibrate", of_job=False)
        if one.tolerance is not None
    },
    # A task takes some milliseconds to write and to acknowledge, whatever it writes.
    "checkpoint_e2e_ms": Tolerance(0.05, 15.0),
    "marker_latency_ms": Tolerance(0.05, 5.0),
    "batch_ms": Tolerance(0.03, 0.0),
    "rows_per_s": Tolerance(0.03, 0.0),
    "rows": Tolerance(0.03, 0.0),
}
"""Of each figure: 3 % of a throughput, 5 points of a share of time, 5 % of what is in flight."""


@dataclass(frozen=True)
class Row:
    """One figure, predicted beside observed."""

    place: str  # place, name, unit: which figure, and its unit
    name: str
    unit: str
    observed: float  # observed, predicted: by the input, and by the run
    predicted: float
    tolerance: float  # By how much they may differ, in the same unit

    @property
    def error(self) -> float:
        """Predicted less observed."""
        return self.predicted - self.observed

    @property
    def is_within(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.error) <= self.tolerance

    def to_json(self) -> dict[str, Any]:
        """Return it as in ``calibration.json``."""
        return {
            "place": self.place,
            "name": self.name,
            "unit": self.unit,
            "observed": self.observed,
            "predicted": self.predicted,
            "tolerance": self.tolerance,
            "is_within": self.is_within,
        }


def beside(observed: Sequence[Observed], predicted: Predicted) -> list[Row]:
    """Return each observed figure beside what was predicted; what was not is left out."""
    return [
        Row(
            one.place,
            one.name,
            one.unit,
            one.value,
            predicted[one.place, one.name],
            max(TOLERANCES[one.name].of(one.value), one.error),
        )
        for one in observed
        if (one.place, one.name) in predicted
    ]
