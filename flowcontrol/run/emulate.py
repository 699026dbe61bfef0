"""Emulate a scenario: check it, run it, write tables, summary and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from flowcontrol import notices
from flowcontrol.analysis import summarise
from flowcontrol.files import write_atomically
from flowcontrol.layout.job import Job
from flowcontrol.layout.plan import window_warnings
from flowcontrol.layout.replay import NO_ROWS, Replayed
from flowcontrol.notices import PATIENCE_S, is_quiet
from flowcontrol.notices import quiet as silenced
from flowcontrol.report.progress import RunProgress
from flowcontrol.report.result import Result
from flowcontrol.report.terminal import subtask_table
from flowcontrol.results.run import Run
from flowcontrol.run.jobs import job_for
from flowcontrol.run.remedies import add_guarantees, add_remedies
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import Given, Overrides, as_scenario
from flowcontrol.scenario.remarks import scenario_warnings
from flowcontrol.topics.shown import add_topics, print_advice, print_answer, write_report
from flowcontrol.trace.message_table import Window, messages_of
from flowcontrol.trace.messages import Message

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from rich.console import Console

    from flowcontrol.live.folder import RunFolder


class Progress(Protocol):
    """An object that is told how far a run is."""

    def update(self, rounds_done: int, rows: int) -> None:
        """Show the rounds done and the records that reached the sinks."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult(Result, Run):
    """A run with its results on disk; the same call resumes one that is not finished.

    Attributes
    ----------
    path : Path
        Folder of the results.
    summary : dict
        As in ``summary.json``.
    """

    kind = "run of"

    path: Path
    summary: dict[str, Any]

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.job.scenario.name

    @cached_property
    def sentence(self) -> str:
        """The bottleneck and why."""
        return str(self.summary["sentence"])

    def show(
        self, console: Console | None = None, *, by: Literal["stage", "subtask"] = "stage"
    ) -> None:
        """Print a row a stage, or a subtask, the bottleneck, and what would help."""
        self.show_answer(console, by=by)
        print_advice(self.summary, console)

    def show_answer(
        self, console: Console | None = None, *, by: Literal["stage", "subtask"] = "stage"
    ) -> None:
        """Print what is known before anything is tried that might help."""
        table = subtask_table(self.tables, self.job.scenario) if by == "subtask" else None
        print_answer(self.summary, console, table)


ShowRun = Callable[[Job], AbstractContextManager[Progress]]
"""Called with the job when it starts; the value is told of its progress."""


def emulate(
    scenario: Given,
    *,
    overrides: Overrides = (),
    out: Path | str | None = None,
    clock: Clock = "live",
    overwrite: bool = False,
    spark: SparkSession | None = None,
    progress: ShowRun | None = None,
    warn: Callable[[str], None] | None = None,
    quiet: bool = False,
    advice: bool | None = None,
    answer: Callable[[RunResult], object] | None = None,
) -> RunResult:
    """Run a scenario and write its results.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario: values by key, ``{"stages.sink.service_rate": 300}``, or
        ``KEY=VALUE`` each.
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
        Called with the job when it starts; returns a context manager, whose value is updated with
        the rounds done and the records that reached the sinks. By default it
        is a bar on standard error, once a run has taken 2 s.
    warn : callable, optional
        Called with each warning, such as a rate beyond a channel's window; by default it is a
        line on standard error.
    quiet : bool, default False
        Show no progress and no warnings, and do not say what takes long.
    advice : bool, optional
        True: try out what would help, some thirty runs more, and put it into summary and page, as
        the command does; virtual clock only. False: run the scenario and nothing else. By default
        what would help slow checkpoints, and the other guarantees of a job that fails, are tried.
    answer : callable, optional
        Called with the result as soon as it is known: before ``advice`` is worked out, which takes
        as long again, and before anything is written.

    Returns
    -------
    RunResult
        The results as written.

    Raises
    ------
    ScenarioError
        If the scenario, a row that it replays, or the folder is refused. Nothing was written.
    RunError
        If the run failed after it had started.

    Examples
    --------
    >>> result = emulate("conf/experiment.yaml", out="out/try")  # doctest: +SKIP
    >>> result.summary["bottleneck"]  # doctest: +SKIP
    'consumer'
    """
    with silenced(quiet):
        job = job_for(as_scenario(scenario, overrides), clock)
        root = Path("out") / f"{job.scenario.name}-{clock}" if out is None else out
        for remark in (*scenario_warnings(job.scenario), *window_warnings(job)):
            (warn or notices.warn)(remark)
        shown = progress or show_run()
        return _run(job, root, spark, clock, out is not None, overwrite, shown, advice, answer)


def show_run(after_s: float = PATIENCE_S) -> ShowRun:
    """Return how a run's progress is shown, once it has taken some time; not if it is quiet."""
    if is_quiet():
        return hidden
    return lambda job: RunProgress(job.rounds, job.round_us / 1e6, after_s=after_s)


def _run(
    job: Job,
    root: Path | str,
    spark: SparkSession | None,
    clock: Clock,
    named: bool,
    overwrite: bool,
    progress: ShowRun,
    advice: bool | None,
    answer: Callable[[RunResult], object] | None,
) -> RunResult:
    from flowcontrol.live.folder import open_folder

    replayed = _rows(job, clock)
    folder = open_folder(root, job.scenario, named=named, overwrite=overwrite, clock=clock)
    try:
        begin = _CLOCKS[clock](job, spark, replayed)
        with progress(job) as shown:
            run = begin(folder, shown.update)
        if run.again is None:
            run = replace(run, again=partial(_run_again, job))
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
        add_topics(run, summary)
        is_whole = clock == "virtual" and run.is_finished and job.scenario.scaling is None
        if summary["bottleneck_detail"].get("is_of_round"):
            summary["sentence"] += f" {_other_rounds(job)}"
            advice = False
        elif is_whole and advice is not False:
            add_remedies(summary, job.scenario)
            add_guarantees(summary, job.scenario)
        result = RunResult(**vars(run), path=folder.paths.root, summary=summary)
        if answer is not None:
            answer(result)
        if advice and is_whole and not summary.get("delivery", {}).get("losses"):
            from flowcontrol.run.remedies import add_advice

            add_advice(summary, job, run.tables)
        _write_results(folder.paths.root, run.tables, summary, job.scenario)
        if run.is_finished:
            folder.mark(finished=True)
        return result
    finally:
        folder.close()


Begin = Callable[["RunFolder", Callable[[int, int], None]], Run]
"""Runs all rounds in a folder; told of as they are done."""


def _rows(job: Job, clock: Clock) -> Replayed:
    """Read what rules must know of replayed rows, before anything is written: one may not fit.

    The live clock's executors read them again; it knows at once of rows that cannot fail.
    """
    from flowcontrol.layout.replay import read_replayed

    inputs = [plan.stage.input for plan in job.stages if plan.stage.input is not None]
    may_fail = any(one.format == "csv" for one in inputs) or job.scenario.has_stamps
    return read_replayed(job) if inputs and (may_fail or clock == "virtual") else NO_ROWS


def _live(job: Job, spark: SparkSession | None, _: Replayed) -> Begin:
    """Start Spark, so that its time is not the rounds'."""
    from flowcontrol.spark.session import get_session

    session = spark or get_session(f"flowcontrol {job.scenario.name}", short_jobs=True)
    from flowcontrol.live.queries import run_live  # imports pyspark, which is there by now

    return lambda folder, watch: run_live(session, job, folder, watch)


def _virtual(job: Job, _: SparkSession | None, replayed: Replayed) -> Begin:
    """Compile what the job needs, so that its time is not the rounds'."""
    from flowcontrol.virtual import prepare_job, run_job

    if job.scenario.scaling is not None:
        from flowcontrol.scaling.runs.scaled import first_job, run_scaled

        prepare_job(first_job(job))
        return lambda folder, watch: run_scaled(job, progress=watch)
    prepare_job(job)
    return lambda folder, watch: run_job(job, progress=watch, replayed=replayed)


_CLOCKS = {"live": _live, "virtual": _virtual}


def _run_again(job: Job, window: Window) -> list[Message]:
    """Run a job's stages as the live clock does, without Spark; return a window's messages.

    Raises RunError if the rows that a source is to replay cannot be read.
    """
    from flowcontrol.layout.replay import read_replayed
    from flowcontrol.live.whole import staged_states

    return list(messages_of(job, window, staged_states(job, read_replayed(job))))


def _round_error(job: Job) -> dict[str, Any]:
    """Return the error that whole rounds add to the figures, for the summary."""
    from flowcontrol.virtual.choose import discretisation

    error = discretisation(job)
    return {
        "round_is_chosen": error.is_chosen,
        "round_error_ms": error.latency_ms,
        "round_error_share": error.throughput,
    }


def _other_rounds(job: Job) -> str:
    """Return how to run a job with rounds that do not limit it."""
    from flowcontrol.virtual import choose_round_us

    round_us = choose_round_us(job.scenario.model_copy(update={"round_ms": None}))
    if round_us >= job.round_us:
        return f"State a round_ms below {job.round_us / 1000:g}."
    return (
        f"Leave round_ms out (--set round_ms=null), and the virtual clock takes rounds of "
        f"{round_us / 1000:g} ms."
    )


def _write_results(
    root: Path, tables: dict[str, pa.Table], summary: dict[str, Any], scenario: Scenario
) -> None:
    from deltalake import write_deltalake

    for name, table in tables.items():
        write_deltalake(str(root / name), table, mode="overwrite")
    write_atomically(root / "summary.json", json.dumps(summary, indent=2) + "\n")
    write_report(root / "report.html", tables, summary, scenario)


def hidden(_: Job) -> AbstractContextManager[Progress]:
    """Return progress that is not shown."""
    return nullcontext(_Silent())


class _Silent:
    """Progress that is not shown."""

    def update(self, rounds_done: int, rows: int) -> None:
        """Do nothing."""
