"""Compare systems: check them, run those that can be run, write tables and page."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flowcontrol import notices
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import Paths, open_experiment
from flowcontrol.experiments.compare.limits import LimitPhase, job_limits
from flowcontrol.experiments.compare.page import compare_page
from flowcontrol.experiments.compare.result import CompareResult
from flowcontrol.experiments.compare.run import (
    LEFT_OUT,
    CompareWork,
    Comparison,
    Outcome,
    check_one,
    plan_comparison,
    read_outcomes,
    refusal,
    run_one,
    suited,
    write_outcome,
)
from flowcontrol.experiments.executor import (
    Executor,
    Progress,
    ShowProgress,
    Simulate,
    check_processes,
    follow,
    make_executor,
    shown_late,
    unseen_results,
)
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, OwnedFolder
from flowcontrol.layout.job import Job
from flowcontrol.memory.parts import parts_of
from flowcontrol.notices import quiet as silenced
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import Given, Overrides, Texts
from flowcontrol.spark.session import is_launched, is_started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KIND: Final = Kind(
    "comparison", "comparison.json", "comparison", frozenset({"scenario", "clock", "systems"})
)

_RUN_ID: Final = "run"
"""Starts of a comparison share their results, so they have one name."""

LiveRunner = Callable[[Path], Simulate]
"""Returns a function that runs a scenario on the live clock in a folder."""


def compare(
    scenario: Given,
    systems: Texts | None = None,
    *,
    overrides: Overrides = (),
    clock: Clock = "virtual",
    out: Path | str | None = None,
    overwrite: bool = False,
    spark: SparkSession | None = None,
    processes: int | None = None,
    progress: ShowProgress | None = None,
    quiet: bool = False,
    runner: Simulate | None = None,
    live: LiveRunner | None = None,
) -> CompareResult:
    """Run several systems on one scenario.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file. Only its ``system`` is replaced.
    systems : str or sequence of str, optional
        Names of presets, a list or a text with commas; by default all of them.
    clock : {"virtual", "live"}, default "virtual"
        On the virtual clock systems are spread over Spark or processes, on the live clock they run
        in turn.
    out, overwrite : Path or str, optional; bool, default False
        Folder, by default ``out/<scenario name>-compare``, where the same call continues; replace.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario for all systems: values by key, or ``KEY=VALUE`` each.
    spark : SparkSession, optional
        By default the running session, else a new one. The virtual clock starts none, unless
        ``spark-submit`` or a platform started this process: it needs none.
    processes : int, optional
        Run in this number of local processes, without Spark. Virtual clock only; by default 1, this
        one, where Spark is not running.
    progress, quiet : callable, optional; bool, default False
        Shows progress, by default on standard error after 2 s; show none.
    runner, live : callable, optional
        Run one scenario on a clock; by default :func:`flowcontrol.emulate` does so live.

    Returns
    -------
    CompareResult
        The results as written; systems that were refused or failed have a reason.

    Raises
    ------
    ScenarioError
        If the scenario, the command, the folder or every system is refused. Nothing was written.
    RunError
        If the workers died. Finished systems are kept, and the same call continues.

    Examples
    --------
    >>> result = compare("conf/experiment.yaml", systems=["flink", "storm-1"])  # doctest: +SKIP
    >>> result.failed()  # doctest: +SKIP
    """
    with silenced(quiet):
        comparison = plan_comparison(scenario, systems=systems, clock=clock, overrides=overrides)
    check_processes(processes)
    jobs, refused = _check(comparison)
    folder = _open(comparison, out, overwrite=overwrite)
    try:
        paths = _paths(folder)
        missing = {system: jobs[system] for system in jobs if system not in _done(paths)}
        with silenced(quiet):
            _say_first(comparison, jobs, refused)
            show = progress or shown_late("systems")
            with show(len(jobs), len(jobs) - len(missing)) as bar:
                if clock == "live":
                    _run_live(comparison, missing, paths, live or _live_in, bar)
                elif missing:
                    work = _work(comparison, missing, paths, runner)
                    executor = make_executor(spark, _processes(spark, processes))
                    _run_virtual(work, executor, bar, len(jobs))
        found = {**refused, **read_outcomes(paths)}
        return _written(folder, comparison, found, job_limits(next(iter(jobs.values()))))
    finally:
        folder.close()


def _processes(spark: SparkSession | None, given: int | None) -> int | None:
    """Return the number of local processes; None: run on Spark, which somebody has started.

    Further processes would import a program that does not guard its main part again, and run it.
    """
    if given is not None or spark is not None or is_launched():
        return given
    return None if "pyspark" in sys.modules and is_started() else 1


def _paths(folder: OwnedFolder) -> Paths:
    """Return the paths of a comparison, ready for the systems that are still to run."""
    paths = Paths(folder.root)
    paths.notes.mkdir(exist_ok=True)
    paths.stop_file(_RUN_ID).unlink(missing_ok=True)
    folder.mark(finished=False)
    return paths


def _check(comparison: Comparison) -> tuple[dict[str, Job], dict[str, Outcome]]:
    """Return the jobs of the systems that can run, and the refusals of the others."""
    jobs: dict[str, Job] = {}
    refused: dict[str, Outcome] = {}
    problems: list[Problem] = []
    for system in comparison.systems:
        try:
            jobs[system] = check_one(comparison.base, system, comparison.clock)
        except ScenarioError as error:
            refused[system] = Outcome(system, "refused", refusal(error))
            problems += [Problem(f"{system}: {p.place}", p.message) for p in error.problems]
    if not jobs:
        raise ScenarioError(problems, comparison.base.source)
    return jobs, refused


def _say_first(
    comparison: Comparison, jobs: Mapping[str, Job], refused: Mapping[str, Outcome]
) -> None:
    """Say before anything runs which systems do not run the scenario, or not all of it."""
    for outcome in refused.values():
        notices.warn(f"{outcome.system} is not run: {outcome.reason}")
    fewer = [system for system in jobs if suited(comparison.base, system) is not comparison.base]
    if fewer:
        notices.warn(f"{', '.join(fewer)}: {LEFT_OUT}")


def _open(comparison: Comparison, out: Path | str | None, *, overwrite: bool) -> OwnedFolder:
    described = {
        "comparison": comparison.identity,
        "scenario": comparison.name,
        "clock": comparison.clock,
        "systems": list(comparison.systems),
    }
    return open_experiment(
        Path("out") / f"{comparison.name}-compare" if out is None else out,
        KIND,
        described,
        named=out is not None,
        overwrite=overwrite,
        keeps_finished=False,
        content=lambda found: (
            f"({found['scenario']}, {found['clock']} clock, {len(found['systems'])} systems)"
        ),
    )


def _done(paths: Paths) -> set[str]:
    """Return the systems that need not be run again."""
    return {name for name, outcome in read_outcomes(paths).items() if outcome.state == "ran"}


def _run_live(
    comparison: Comparison, systems: Iterable[str], paths: Paths, live: LiveRunner, bar: Progress
) -> None:
    """Run systems one after the other on the live clock."""
    for system in systems:
        runner = live(paths.root / "runs" / system)
        write_outcome(paths, run_one(comparison.base, system, "live", runner))
        bar.update(len(read_outcomes(paths)))


def _live_in(folder: Path) -> Simulate:
    """Return a function that runs a scenario on the live clock in a folder."""
    from flowcontrol.run.emulate import emulate, hidden

    def run(scenario: Scenario) -> Run:
        result = emulate(scenario, out=folder, clock="live", overwrite=True, progress=hidden)
        if not result.is_finished:
            raise KeyboardInterrupt
        return result

    return run


def _work(
    comparison: Comparison, jobs: Mapping[str, Job], paths: Paths, runner: Simulate | None
) -> CompareWork:
    """Return the work of systems on the virtual clock; each is a chunk."""
    parts = reduce(or_, map(parts_of, jobs.values()))
    return CompareWork(paths, _RUN_ID, tuple(jobs), runner, parts, comparison.base)


def _run_virtual(work: CompareWork, executor: Executor, bar: Progress, total: int) -> None:
    """Run systems side by side on the virtual clock."""
    if work.simulate is None:
        executor.warm_up(work.parts)

    def poll() -> str:
        done = len(read_outcomes(work.paths))
        bar.update(min(done, total))
        return f"{done} of {total} systems are done"

    follow(executor, work, poll, notices.warn, "systems")
    missing = set(work.chunks) - set(read_outcomes(work.paths))
    if missing:
        names = ", ".join(sorted(missing))
        raise unseen_results(f"{names}: run, but their results are", work.paths.notes)


def _written(
    folder: OwnedFolder,
    comparison: Comparison,
    found: Mapping[str, Outcome],
    limits: list[LimitPhase] | None,
) -> CompareResult:
    """Write tables and page; mark the comparison as finished if no system failed."""
    from deltalake import write_deltalake

    outcomes = tuple(found[system] for system in comparison.systems)
    result = CompareResult(folder.root, comparison, outcomes, limits)
    for name, table in result.tables.items():
        write_deltalake(str(result.path / name), table, mode="overwrite")
    write_atomically(result.path / "report.html", compare_page(comparison, outcomes, limits))
    if not result.failed():
        shutil.rmtree(folder.root / ".notes")
        folder.mark(finished=True)
    return result
