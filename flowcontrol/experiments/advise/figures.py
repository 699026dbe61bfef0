"""What a run is judged by: throughput, latency, data in flight, checkpoints, memory, slots."""

from __future__ import annotations

from typing import Final, Literal

from flowcontrol.analysis.figures import Figures, figures, values_of
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.run_view import RunView
from flowcontrol.scenario import Scenario

Goal = Literal["throughput", "latency", "checkpoints", "memory"]
"""What a change is to improve."""

GOALS: Final[tuple[Goal, ...]] = ("throughput", "latency", "checkpoints", "memory")

FIGURE_OF: Final[dict[Goal, str]] = {
    "throughput": "throughput",
    "latency": "latency_p99_ms",
    "checkpoints": "checkpoint_ms",
    "memory": "memory_bytes",
}
"""The figure that each goal is measured by."""


def measured(found: Figures, goal: Goal) -> float | None:
    """Return the figure that a goal is measured by."""
    value: float | None = found.values[FIGURE_OF[goal]]
    return value


def is_more_better(goal: Goal) -> bool:
    """Tell whether more of the figure of a goal is better."""
    own = (one for one in figures("advise", of_job=True))
    return next(one.better == "higher" for one in own if one.at("advise").name == FIGURE_OF[goal])


def figures_of(tables: Tables, scenario: Scenario) -> Figures:
    """Work out the figures of a run."""
    return Figures(values_of(RunView(scenario, tables), "advise"))
