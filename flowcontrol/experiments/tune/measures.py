"""The figures that a search reads: those of a sweep, and two that need no run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.footprint import network_memory, slots_used
from flowcontrol.experiments.sweep.columns import FIGURES, SECOND_HALF, figure_named
from flowcontrol.experiments.sweep.metric import Metric, read_metrics
from flowcontrol.records import Column
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.problems import known

Figures = Mapping[tuple[str, str], float | None]
"""Figures of a run by stage and column; null where there was nothing to measure."""


@dataclass(frozen=True)
class Measure:
    """One figure of a variant."""

    name: str  # As the command line has it: ``sink.latency_p99_ms``, ``memory``
    column: Column  # Its column in the table, with type, unit and meaning
    is_higher_better: bool  # Which end is good
    metric: Metric | None = None  # The figure of a run; None where the scenario alone decides

    @property
    def unit(self) -> str:
        """Unit of its values."""
        return self.column.unit

    @property
    def needs_run(self) -> bool:
        """Whether it is known after a run only."""
        return self.metric is not None

    def value(self, scenario: Scenario, figures: Figures) -> float | None:
        """Return the value of a variant; None where it has none."""
        if self.metric is None:
            return _OF_SCENARIO[self.name](scenario)
        return figures[self.metric.stage, self.metric.figure.column.name]


MEMORY: Final = Measure(
    "memory",
    Column(
        "memory",
        "int64",
        "bytes",
        "Network memory that the job is granted on all task managers together: exclusive buffers "
        "of remote channels, and the pools of gates and result partitions.",
    ),
    is_higher_better=False,
)
SLOTS: Final = Measure(
    "slots",
    Column("slots", "int64", "slots", "Slots that the job occupies on all task managers together."),
    is_higher_better=False,
)
_OF_SCENARIO: Final[dict[str, Callable[[Scenario], int]]] = {
    MEMORY.name: network_memory,
    SLOTS.name: slots_used,
}
_KNOWN: Final = {one.name: one for one in (MEMORY, SLOTS)}


def read_measure(text: str, place: str, scenario: Scenario) -> Measure:
    """Return the figure of a name.

    ``text``: ``memory``, ``slots``, or a metric of a sweep: ``STAGE.COLUMN`` or ``COLUMN``.

    Raises ScenarioError if there is no such figure, with the nearest one, or the scenario has it
    not.
    """
    name = text.strip()
    if name in _KNOWN:
        if name == MEMORY.name:
            _check_memory(place, scenario)
        return _KNOWN[name]
    if "." not in name and figure_named(name) is None:
        names = [*_KNOWN, *(figure.column.name for figure in FIGURES)]
        reason = f"{known(name, names, 'figure')}, each but the first two also with {SECOND_HALF}"
        raise ScenarioError([Problem(place, f"{reason} behind it")], "command")
    try:
        (metric,) = read_metrics([name], scenario)
    except ScenarioError as error:
        found = [Problem(place, problem.message) for problem in error.problems]
        raise ScenarioError(found, "command") from error
    return measure_of(metric)


def measure_of(metric: Metric) -> Measure:
    """Return a figure of a stage as a measure."""
    column = metric.figure.column
    name = metric.name.replace(".", "_").replace("-", "_")
    own = Column(name, column.type, column.unit, column.meaning, nullable=True)
    return Measure(metric.name, own, metric.is_higher_better, metric)


def throughput_of(scenario: Scenario) -> Measure:
    """Return the rate at which the first sink takes records, which stands beside every search."""
    figure = figure_named("rate_in")
    if figure is None:
        raise AssertionError("a sweep has no rate_in")
    return measure_of(Metric(scenario.sinks[0].name, figure))


def latency_of(scenario: Scenario) -> Measure:
    """Return the 99th percentile of the latency at the first sink."""
    figure = figure_named("latency_p99_ms")
    if figure is None:
        raise AssertionError("a sweep has no latency_p99_ms")
    return measure_of(Metric(scenario.sinks[0].name, figure))


def _check_memory(place: str, scenario: Scenario) -> None:
    try:
        network_memory(scenario)
    except ScenarioError as error:
        found = [Problem(place, problem.message) for problem in error.problems]
        raise ScenarioError(found, "command") from error


def figures_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float | None]:
    """Return the figures of a run from its rows of the table of a sweep."""
    return {(row["stage"], name): value for row in rows for name, value in row.items()}


Direction = Literal["minimise", "maximise"]
