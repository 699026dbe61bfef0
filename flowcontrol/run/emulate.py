"""Emulate a scenario: check it, run it, write tables, summary and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flowcontrol.analysis import summarise
from flowcontrol.errors import ScenarioError
from flowcontrol.files import write_atomically
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.job.credit_window import window_warnings
from flowcontrol.job.run import Run
from flowcontrol.report import write_report
from flowcontrol.scenario import Scenario, check_clock, load_scenario
from flowcontrol.scenario.clocks import Clock

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from flowcontrol.live.folder import RunFolder


class Progress(Protocol):
    """An object that is told how far a run is."""

    def update(self, rounds_done: int, rows: int) -> None:
        """Show the rounds done and the records that reached the sinks."""


@dataclass(frozen=True, kw_only=True)
class RunResult(Run):
    """A run with its results on disk; the same call resumes one that is not finished.

    Attributes
    ----------
    path : Path
        Folder of the results.
    summary : dict
        As in ``summary.json``.
    """

    path: Path
    summary: dict[str, Any]


def emulate(
    scenario: Scenario | str | Path,
    *,
    out: Path | str | None = None,
    clock: Clock = "live",
    overwrite: bool = False,
    spark: SparkSession | None = None,
    progress: Callable[[Job], AbstractContextManager[Progress]] | None = None,
    warn: Callable[[str], None] | None = None,
) -> RunResult:
    """Run a scenario and write its results.

    Parameters
    ----------
    scenario : Scenario, or str or Path
        A scenario, or the file of one.
    out : Path or str, optional
        Folder of the results; by default ``out/<scenario name>-<clock>``. An unfinished run
        of the same scenario in it is resumed.
    clock : {"live", "virtual"}, default "live"
        Which clock drives the rounds.
    overwrite : bool, default False
        Replace the run in the folder ``out``.
    spark : SparkSession, optional
        By default the running one, else a new one.
    progress : callable, optional
        Called with the job when it starts; returns a context manager, such as
        :class:`flowcontrol.report.RunProgress`, whose value is updated with the rounds done and
        the records that reached the sinks.
    warn : callable, optional
        Called with each warning, such as a rate beyond a channel's window.

    Returns
    -------
    RunResult
        The results as written.

    Raises
    ------
    ScenarioError
        If the scenario or the folder is refused. Nothing was written.
    RunError
        If the run failed after it had started.

    Examples
    --------
    >>> result = emulate("conf/experiment.yaml", out="out/try")  # doctest: +SKIP
    >>> result.summary["bottleneck"]  # doctest: +SKIP
    'consumer'
    """
    job = job_for(scenario, clock)
    for remark in window_warnings(job):
        (warn or _ignore)(remark)
    root = Path("out") / f"{job.scenario.name}-{clock}" if out is None else out
    return _run(job, root, spark, clock, out is not None, overwrite, progress)


def _run(
    job: Job,
    root: Path | str,
    spark: SparkSession | None,
    clock: Clock,
    named: bool,
    overwrite: bool,
    progress: Callable[[Job], AbstractContextManager[Progress]] | None,
) -> RunResult:
    from flowcontrol.live.folder import open_folder

    folder = open_folder(root, job.scenario, named=named, overwrite=overwrite)
    try:
        with progress(job) if progress is not None else nullcontext() as shown:
            run = _CLOCKS[clock](job, folder, spark, _ignore if shown is None else shown.update)
        summary = summarise(
            run.tables,
            job.scenario,
            clock=clock,
            rounds=run.rounds,
            wall_s=run.wall_s,
            round_ms=job.round_us / 1000,
        )
        if clock == "virtual":
            summary.update(_round_error(job))
        for edge, figures in run.partitions.items():
            summary["edges"][edge]["partition"] = figures
        if run.heap_exhausted_s is not None:
            summary["heap_exhausted_s"] = run.heap_exhausted_s
        if run.jobs:
            summary["jobs"] = list(run.jobs)
        _write_results(folder.paths.root, run.tables, summary, job.scenario)
        if run.is_finished:
            folder.mark(finished=True)
        return RunResult(**vars(run), path=folder.paths.root, summary=summary)
    finally:
        folder.close()


def _live(
    job: Job, folder: RunFolder, spark: SparkSession | None, watch: Callable[[int, int], None]
) -> Run:
    from flowcontrol.live.queries import run_live
    from flowcontrol.spark.session import get_session

    session = spark or get_session(f"flowcontrol {job.scenario.name}")
    return run_live(session, job, folder, watch)


def _virtual(
    job: Job, folder: RunFolder, spark: SparkSession | None, watch: Callable[[int, int], None]
) -> Run:
    from flowcontrol.virtual import run_job

    return run_job(job, progress=watch)


_CLOCKS = {"live": _live, "virtual": _virtual}


def job_for(scenario: Scenario | str | Path, clock: Clock, round_us: int | None = None) -> Job:
    """Read a scenario if need be, check that a clock can run it, and lay it out.

    Parameters
    ----------
    scenario : Scenario, or str or Path
        A scenario, or the file of one.
    clock : {"live", "virtual"}
        The clock to run it.
    round_us : int, optional
        Emulated time of a round, microseconds; by default the clock's own choice.

    Raises
    ------
    ScenarioError
        If the clock refuses it.
    """
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario)
    problems = check_clock(scenario, clock)
    if problems:
        raise ScenarioError(problems, scenario.name)
    if round_us is None and clock == "virtual":
        from flowcontrol.virtual import choose_round_us

        round_us = choose_round_us(scenario)
    return build_physical_graph(scenario, round_us=round_us)


def _round_error(job: Job) -> dict[str, Any]:
    """Return the error that whole rounds add to the figures, for the summary."""
    from flowcontrol.virtual.choose import discretisation

    error = discretisation(job)
    return {
        "round_is_chosen": error.is_chosen,
        "round_error_ms": error.latency_ms,
        "round_error_share": error.throughput,
    }


def _write_results(
    root: Path, tables: dict[str, pa.Table], summary: dict[str, Any], scenario: Scenario
) -> None:
    from deltalake import write_deltalake

    for name, table in tables.items():
        write_deltalake(str(root / name), table, mode="overwrite")
    write_atomically(root / "summary.json", json.dumps(summary, indent=2) + "\n")
    write_report(root / "report.html", tables, summary, scenario)


def _ignore(*_: object) -> None:
    """Do nothing."""
