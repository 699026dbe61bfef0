"""One system, run on a scenario: the same file with another ``system``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.base import Base
from flowcontrol.experiments.compare.figures import Facts, figures_of
from flowcontrol.experiments.compare.limits import job_limits
from flowcontrol.experiments.compare.outcome import Lines, Outcome
from flowcontrol.experiments.compare.starving import find_starved
from flowcontrol.experiments.run import Run, Simulate, virtual_clock
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.report.rundata import RunData
from flowcontrol.report.series import summed, thinned
from flowcontrol.scenario import Scenario, check_clock

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from flowcontrol.experiments.compare.plan import Clock


def scenario_of(base: Base, system: str) -> Scenario:
    """Return a scenario under another system; nothing else in it changes.

    Raises
    ------
    ScenarioError
        If the system does not go with it.
    """
    return base.scenario([(("system",), system)])


def check_one(base: Base, system: str, clock: Clock) -> Job:
    """Return the job of a system, laid out as its clock would.

    Raises
    ------
    ScenarioError
        If the clock does not emulate the system, or not with this scenario.
    """
    scenario = scenario_of(base, system)
    problems = check_clock(scenario, clock)
    if problems:
        raise ScenarioError(problems, base.source)
    if clock == "live":
        return build_physical_graph(scenario)
    from flowcontrol.virtual import choose_round_us

    return build_physical_graph(scenario, round_us=choose_round_us(scenario))


def run_one(base: Base, system: str, clock: Clock, runner: Simulate | None = None) -> Outcome:
    """Run one system.

    Parameters
    ----------
    base : Base
        The scenario.
    system : str
        Name of a preset, which replaces the scenario's own.
    clock : {"live", "virtual"}
        Which clock.
    runner : callable, optional
        Runs a scenario; by default the virtual clock.

    Returns
    -------
    Outcome
        Of whatever happened: one that is refused, or that fails, has its reason and no figures.
    """
    try:
        job = check_one(base, system, clock)
    except ScenarioError as error:
        return Outcome(system, "refused", refusal(error))
    try:
        return _outcome(system, job, (runner or virtual_clock())(job.scenario))
    except Exception as error:
        return Outcome(system, "failed", f"{type(error).__name__}: {error}")


def refusal(error: ScenarioError) -> str:
    """Return in one line why a scenario was refused."""
    return "; ".join(map(str, error.problems))


def _outcome(system: str, job: Job, run: Run) -> Outcome:
    from flowcontrol.virtual.compiled import is_compiled

    limits = job_limits(job)
    return Outcome(
        system,
        "ran",
        figures=figures_of(run.tables, job.scenario, limits, Facts.of(run)),
        lines=_lines(run.tables, job.scenario),
        starved=tuple(find_starved(run.tables, job, limits)),
        rounds=run.rounds,
        round_ms=run.round_us / 1000,
        wall_s=run.wall_s,
        is_compiled=is_compiled(),
    )


def _lines(tables: Mapping[str, pa.Table], scenario: Scenario) -> Lines:
    data = RunData.of(tables, scenario)
    sources = [stage.name for stage in scenario.stages if not scenario.inputs(stage.name)]
    sinks = [stage.name for stage in scenario.stages if not scenario.outputs(stage.name)]
    t_s, emitted = _rate(data.stages, sources, "rate_out")
    return Lines(
        t_s,
        emitted,
        _rate(data.stages, sinks, "rate_in")[1],
        thinned(summed(data.channels, "in_flight_records"), "in_flight_records")[1],
    )


def _rate(stages: pd.DataFrame, names: list[str], column: str) -> tuple[list[float], list[float]]:
    return thinned(summed(stages[stages["stage"].isin(names)], column), column)
