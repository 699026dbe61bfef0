"""Search the values of some keys for the best scenario: read, run, judge, write."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol import notices
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.executor import Simulate, check_processes, make_executor
from flowcontrol.experiments.follow import ShowProgress, shown_late
from flowcontrol.experiments.sweep.plan import Vary, divided_totals
from flowcontrol.experiments.tune.best_file import best_text
from flowcontrol.experiments.tune.explore import Outcome, explore
from flowcontrol.experiments.tune.judge import Verdict, axes_of
from flowcontrol.experiments.tune.page import tuning_page
from flowcontrol.experiments.tune.plan import BATCH, RUNS, TunePlan, make_tune_plan
from flowcontrol.experiments.tune.result import Tuning
from flowcontrol.experiments.tune.runner import Runner
from flowcontrol.experiments.tune.search import check_optuna
from flowcontrol.experiments.tune.store import open_folder, tuning_rows
from flowcontrol.files import write_atomically
from flowcontrol.notices import quiet as silenced
from flowcontrol.scenario.given import Given, Overrides, Texts, as_list

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tune(
    scenario: Given,
    vary: Vary,
    *,
    minimise: Texts = (),
    maximise: Texts = (),
    subject_to: Texts = (),
    objectives: Sequence[tuple[str, str]] = (),
    overrides: Overrides = (),
    runs: int = RUNS,
    batch: int = BATCH,
    seed: int = 1,
    out: Path | str | None = None,
    overwrite: bool = False,
    spark: SparkSession | None = None,
    processes: int | None = None,
    progress: ShowProgress | None = None,
    warn: Callable[[str], None] | None = None,
    quiet: bool = False,
    simulate: Simulate | None = None,
) -> Tuning:
    """Search for the best values of some keys by runs on the virtual clock, spread over Spark.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    vary : mapping of str to values, or sequence of (str, values) or str
        Values to choose from of each key, as for a sweep.
    minimise, maximise : str or sequence of str, default ()
        One or two figures in all: ``memory`` (network memory, bytes), ``slots``, or a metric of a
        sweep such as ``sink.latency_p99_ms``.
    subject_to : str or sequence of str, default ()
        What has to hold: ``"sink.latency_p99_ms<=200"`` each.
    objectives : sequence of (direction, figure), default ()
        In the place of ``minimise`` and ``maximise``, where their order matters: the first one
        is the horizontal axis of the picture.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario that hold for all points: values by key, or ``KEY=VALUE`` each.
    runs : int, default 200
        Points to run; fewer if there are no more.
    batch : int, default 10
        Points asked for at a time: as many can run side by side. What is found depends on it, and
        not on the number of workers.
    seed : int, default 1
        Of the search.
    out : Path or str, optional
        Folder of the results, by default ``out/<scenario name>-tune``; the same search continues.
    overwrite : bool, default False
        Replace the search in ``out``.
    spark : SparkSession, optional
        By default the running session, else a new one.
    processes : int, optional
        Run in this number of local processes, without Spark.
    progress, warn : callable, optional
        Show progress, and each warning; by default on standard error, progress after 2 s.
    quiet : bool, default False
        Show no progress and no warnings, and do not say what takes long.
    simulate : callable, optional
        Runs one scenario; by default :func:`flowcontrol.virtual.simulate`.

    Returns
    -------
    Tuning
        The results as written.

    Raises
    ------
    ScenarioError
        If a value, a figure, a limit or the folder is refused. Nothing was run or written.
    RunError
        If a run failed, or Optuna is not installed; the same call goes on where it was.

    Examples
    --------
    >>> vary = {"buffers-per-channel": [2, 4, 8], "floating-buffers-per-gate": [4, 8]}
    >>> tune(
    ...     "conf/three-stages.yaml", vary, minimise="memory", subject_to="sink.rate_in>=300"
    ... ).best  # doctest: +SKIP
    """
    check_processes(processes)
    check_optuna()
    aims = [*objectives, *_aims("minimise", minimise), *_aims("maximise", maximise)]
    with silenced(quiet):
        base, limits = varied_base(scenario, overrides), as_list(subject_to)
        plan = make_tune_plan(base, vary, aims, limits, runs=runs, batch=batch, seed=seed)
        for text in divided_totals(base, plan.space.varied):
            (warn or notices.warn)(text)
        root = Path("out") / f"{plan.example.name}-tune" if out is None else out
        folder = open_folder(root, plan, named=out is not None, overwrite=overwrite)
        executor = partial(make_executor, spark, processes, is_kept=True)
        try:
            folder.mark(finished=False)
            runner = Runner(plan, folder, executor, simulate, warn or notices.warn)
            result = _searched(plan, runner, progress or shown_late("runs"))
            folder.mark(finished=True)
            return result
        finally:
            folder.close()


def _aims(direction: str, figures: Texts) -> list[tuple[str, str]]:
    return [(direction, text) for text in as_list(figures)]


def _searched(plan: TunePlan, runner: Runner, progress: ShowProgress) -> Tuning:
    """Search, judge and write what was found."""
    try:
        outcomes, given = _run(plan, runner, progress)
    finally:
        runner.close()
    verdict = Verdict(plan.goals, axes_of(plan.goals, plan.example), tuple(outcomes))
    table = tuning_rows(plan, verdict, runner.measures)
    result = Tuning(runner.paths.root, plan, verdict, given, table)
    _write(result, runner)
    return result


def _run(
    plan: TunePlan, runner: Runner, progress: ShowProgress
) -> tuple[list[Outcome], Outcome | None]:
    """Search, and run the scenario as given if no point is it."""
    with progress(min(plan.runs, plan.space.size), 0) as bar:
        runner.bar = bar
        outcomes = explore(plan, runner.run)
        if plan.given is None:
            return outcomes, None
        same = [one for one in outcomes if one.point == plan.given_point]
        return outcomes, same[0] if same else runner.run_given(plan.given)


def _write(result: Tuning, runner: Runner) -> None:
    """Write table, page, figures and the chosen scenario."""
    from deltalake import write_deltalake

    paths = runner.paths
    write_deltalake(str(paths.tuning), result.table, mode="overwrite")
    write_atomically(paths.report, tuning_page(result))
    write_atomically(paths.summary, json.dumps(result.summary, indent=1, allow_nan=False) + "\n")
    if result.verdict.best is None:
        paths.best.unlink(missing_ok=True)
    else:
        write_atomically(paths.best, best_text(result))
    runner.clear()
