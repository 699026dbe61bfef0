"""What a search is for: one or two figures to bring down or up, and what has to hold."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from flowcontrol.analysis.figures import SECOND_HALF, scenario_figures
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.sweep.columns import figure_named, swept
from flowcontrol.experiments.sweep.metric import Metric, read_metrics
from flowcontrol.layout.plan import network_memory
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.problems import known, show
from flowcontrol.scenario.syntax import MEMORY_UNITS, TIME_UNITS_NS

MOST_OBJECTIVES: Final = 2
"""Figures to bring down or up: a front of more is no picture."""

_UNMEASURED: Final = 10.0
"""Relative miss of a figure that has no value: nothing arrived, no checkpoint completed."""

_NS_PER_S, _NS_PER_MS, _MS_PER_S = 1e9, 1e6, 1000.0


Direction = Literal["minimise", "maximise"]


@dataclass(frozen=True)
class Objective:
    """A figure to bring down or up."""

    direction: Direction  # Which way
    measure: Metric  # The figure

    @property
    def sign(self) -> int:
        """Factor with which less is better."""
        return 1 if self.direction == "minimise" else -1


@dataclass(frozen=True)
class Constraint:
    """What has to hold."""

    measure: Metric  # The figure
    is_most: bool  # Whether ``limit`` is the most, else the least, that is allowed
    limit: float  # In the unit of the figure

    @property
    def text(self) -> str:
        """As the command line has it, in the unit of the figure."""
        return f"{self.measure.name}{'<=' if self.is_most else '>='}{self.limit:.10g}"

    def miss(self, value: float | None) -> float:
        """Return by how much of the limit a value misses it; 0 if it holds."""
        if value is None:
            return _UNMEASURED
        over = value - self.limit if self.is_most else self.limit - value
        return max(0.0, over / (abs(self.limit) or 1.0))


@dataclass(frozen=True)
class Goals:
    """What a search is for."""

    objectives: tuple[Objective, ...]  # One or two
    constraints: tuple[Constraint, ...]  # All of them have to hold

    @property
    def measures(self) -> tuple[Metric, ...]:
        """All figures that they read, each once."""
        found = (*(one.measure for one in self.objectives), *(c.measure for c in self.constraints))
        return tuple(dict.fromkeys(found))


def read_goals(
    objectives: Sequence[tuple[str, str]], constraints: Sequence[str], scenario: Scenario
) -> Goals:
    """Read what a search is for.

    ``constraints``: ``sink.latency_p99_ms<=200`` each; a number may have a unit: ``200ms``.

    Raises ScenarioError with every problem of these arguments.
    """
    problems: list[Problem] = []
    aims = [_objective(direction, text, scenario, problems) for direction, text in objectives]
    limits = [_constraint(text, scenario, problems) for text in constraints]
    found = Goals(
        tuple(one for one in aims if one is not None),
        tuple(dict.fromkeys(one for one in limits if one is not None)),
    )
    problems += _contradictions(found, len(objectives))
    if problems:
        raise ScenarioError(problems, "command")
    return found


def _objective(
    direction: str, text: str, scenario: Scenario, problems: list[Problem]
) -> Objective | None:
    place = f"--{direction} {text}"
    if direction not in ("minimise", "maximise"):
        problems.append(Problem(place, "objectives are minimise or maximise"))
        return None
    try:
        way: Direction = "minimise" if direction == "minimise" else "maximise"
        return Objective(way, read_figure(text, place, scenario))
    except ScenarioError as error:
        problems += error.problems
        return None


_CONSTRAINT: Final = re.compile(r"\s*([^<>=!\s]+)\s*([<>=!]+)\s*(.*?)\s*")
_LIMIT: Final = re.compile(
    r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))\s*(.*)", re.I
)


def _constraint(text: str, scenario: Scenario, problems: list[Problem]) -> Constraint | None:
    place = f"--subject-to {show(text)}"
    parts = _CONSTRAINT.fullmatch(text)
    if parts is None or parts[2] not in ("<=", ">="):
        found = "is not a" if parts is None else f"{parts[2]} is not an operator: write a"
        example = "FIGURE<=LIMIT or FIGURE>=LIMIT, such as sink.latency_p99_ms<=200"
        start = "" if parts is not None else "it "
        problems.append(Problem(place, f"{start}{found} {example}"))
        return None
    try:
        measure = read_figure(parts[1], place, scenario)
    except ScenarioError as error:
        problems += error.problems
        return None
    try:
        limit = read_limit(parts[3], measure)
        _check_sense(measure, parts[2] == "<=", limit)
    except ValueError as error:
        problems.append(Problem(place, str(error)))
        return None
    return Constraint(measure, parts[2] == "<=", limit)


_KINDS: Final[dict[str, tuple[str, dict[str, float]]]] = {
    "ms": ("200ms or 0.2s", {unit: ns / _NS_PER_MS for unit, ns in TIME_UNITS_NS.items()}),
    "s": ("1500ms or 1.5s", {unit: ns / _NS_PER_S for unit, ns in TIME_UNITS_NS.items()}),
    "bytes": ("512kb or 4mb", {unit: float(size) for unit, size in MEMORY_UNITS.items()}),
    "ms/s": ("200 or 20%", {"%": _MS_PER_S / 100}),
    "": ("0.2 or 20%", {"%": 0.01}),
}
"""By unit of a figure: an example of a limit, and other units with their factors."""


def read_limit(text: str, measure: Metric) -> float:
    """Return a limit in the unit of its figure.

    ``text``: a number, perhaps with a unit: the figure's, or another one of the same kind.

    Raises ValueError if it is not a finite number, or the unit is of another kind.
    """
    example, units = _KINDS.get(measure.unit, (f"100 or '100 {measure.unit}'", {}))
    means = f"{measure.name} is {f'in {measure.unit}' if measure.unit else 'a ratio'}"
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(f"{show(text)} is not a limit: {means}: write a number, such as {example}")
    number, unit = float(match[1]), match[2]
    if not math.isfinite(number):
        raise ValueError(f"{show(text)} is not a finite number: {means}: write {example}")
    if unit in ("", measure.unit):
        return number
    if unit.lower() not in units:
        raise ValueError(f"{show(text)}: {means}, not in {show(unit)}: write {example}")
    return number * units[unit.lower()]


def _check_sense(measure: Metric, is_most: bool, limit: float) -> None:
    """Raise ValueError for a limit beyond what the figure can be."""
    most = _MS_PER_S if measure.unit == "ms/s" else math.inf
    range_ = f"{measure.name} is at least 0" + (
        f" and at most {most:g} {measure.unit}" * (most < math.inf)
    )
    if limit < 0 if is_most else limit > most:
        raise ValueError(f"{limit:g} can never hold: {range_}")
    if limit >= most if is_most else limit <= 0:
        raise ValueError(f"{limit:g} holds always: {range_}: leave it out, or state another limit")


def _contradictions(goals: Goals, stated: int) -> list[Problem]:
    """Return what is wrong between goals that can be read."""
    problems: list[Problem] = []
    if not stated:
        text = "nothing to search for: state --minimise FIGURE or --maximise FIGURE"
        problems.append(Problem("--minimise", f"{text}, such as --minimise memory"))
    if stated > MOST_OBJECTIVES:
        text = f"{stated} figures to bring down or up: state at most {MOST_OBJECTIVES}"
        problems.append(Problem("--minimise", f"{text}, and limits for others (--subject-to)"))
    names = [one.measure.name for one in goals.objectives]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            text = f"{name} is named twice: state it once"
            problems.append(Problem(f"--minimise {name}", text))
    for least in goals.constraints:
        for most in goals.constraints:
            if (
                least.measure == most.measure
                and not least.is_most
                and most.is_most
                and least.limit > most.limit
            ):
                text = f"can never hold together with {most.text}: change one of them"
                problems.append(Problem(f"--subject-to {show(least.text)}", text))
    return problems


# --- The figures that a search reads: those of a sweep, and those that need no run


MEMORY: Final = "memory"


def known_before() -> dict[str, Metric]:
    """Return the figures that a scenario alone decides, by name."""
    return {one.column.name: Metric("", one) for one in scenario_figures()}


def read_figure(text: str, place: str, scenario: Scenario) -> Metric:
    """Return the figure of a name.

    ``text``: ``memory``, ``slots``, or a metric of a sweep: ``STAGE.COLUMN`` or ``COLUMN``.

    Raises ScenarioError if there is no such figure, with the nearest one, or the scenario does not
    have it.
    """
    name, before = text.strip(), known_before()
    columns = [one.column.name for one in swept()]
    try:
        if name in before:
            if name == MEMORY:
                network_memory(scenario)
            return before[name]
        if "." not in name and name.removesuffix(SECOND_HALF) not in columns:
            reason = known(name, [*before, *columns], "figure")
            text = f"{reason}, each but the first two also with {SECOND_HALF} behind it"
            raise ScenarioError([Problem(place, text)], "command")
        (metric,) = read_metrics([name], scenario)
        return metric
    except ScenarioError as error:
        found = [Problem(place, problem.message) for problem in error.problems]
        raise ScenarioError(found, "command") from error


def throughput_of(scenario: Scenario) -> Metric:
    """Return the rate at which the first sink takes records, which stands beside every search."""
    return Metric(scenario.sinks[0].name, figure_named("rate_in"))


def latency_of(scenario: Scenario) -> Metric:
    """Return the 99th percentile of the latency at the first sink."""
    return Metric(scenario.sinks[0].name, figure_named("latency_p99_ms"))


def figures_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float | None]:
    """Return the figures of a run from its rows of the table of a sweep."""
    return {(row["stage"], name): value for row in rows for name, value in row.items()}
