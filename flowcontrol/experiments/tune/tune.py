"""Search the values of some keys for the best scenario: read, run, judge, write."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowcontrol import notices
from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.base import job_for, varied_base
from flowcontrol.experiments.executor import (
    Executor,
    Progress,
    ShowProgress,
    Simulate,
    check_processes,
    make_executor,
    shown_late,
)
from flowcontrol.experiments.sweep.metric import Figures, Metric
from flowcontrol.experiments.sweep.plan import Plan, Point, Vary, divided_totals
from flowcontrol.experiments.sweep.store import VariantRunner, read_results, run_variant
from flowcontrol.experiments.sweep.variants import Variant, estimated_cost, variant_id
from flowcontrol.experiments.tune.goals import figures_of
from flowcontrol.experiments.tune.judge import Verdict, axes_of, kept_measures
from flowcontrol.experiments.tune.page import best_text, tuning_page
from flowcontrol.experiments.tune.plan import BATCH, RUNS, TunePlan, make_tune_plan
from flowcontrol.experiments.tune.result import Tuning
from flowcontrol.experiments.tune.search import Outcome, check_optuna, explore
from flowcontrol.experiments.tune.store import TunePaths, open_folder, tuning_rows
from flowcontrol.files import write_atomically
from flowcontrol.folders import OwnedFolder
from flowcontrol.memory.parts import parts_of
from flowcontrol.notices import quiet as silenced
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Given, Overrides, Texts, as_list

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# --- Run batches of points, spread as a sweep is, and read their figures from its table.


class Runner:
    """Runs the points of a search that its table has not yet.

    - ``measures``: figures that are kept of each run.
    - ``bar``: shows how many points are done.
    - ``done``: points that were run, or found in the table.
    """

    def __init__(self, plan: TunePlan, paths: TunePaths, runs: VariantRunner) -> None:
        self.paths, self.done = paths, 0
        self.bar: Progress | None = None
        self.measures = kept_measures(plan.goals, axes_of(plan.goals, plan.example), plan.example)
        self._plan, self._runs, self._collector = plan, runs, runs.collector

    def run(self, points: Sequence[Point], most: int) -> list[Outcome]:
        """Run points, at most so many; return what became of each up to the last that was run."""
        checked: list[tuple[Point, Scenario, Variant] | Outcome] = []
        for point in points:
            if sum(not isinstance(one, Outcome) for one in checked) == most:
                break
            checked.append(self._check(point))
        variants = [one[2] for one in checked if not isinstance(one, Outcome)]
        missing = {one.id: one for one in self._runs.missing(variants)}
        if missing:
            self._run_missing(list(missing.values()))
        rows = self._rows([one.id for one in variants])
        self.done += len(variants)
        self._show()
        return [one if isinstance(one, Outcome) else self._outcome(*one, rows) for one in checked]

    def run_given(self, scenario: Scenario) -> Outcome:
        """Run the scenario as given, here."""
        alone = Plan(self._plan.base, ())
        variant = Variant(variant_id(scenario), (), 0, scenario.seed, 1.0)
        rows = run_variant(alone, variant, self._runs.simulate)
        return _outcome((), variant.id, rows, scenario, self.measures)

    def close(self) -> None:
        """Let the executor's processes end."""
        self._runs.close()

    def clear(self) -> None:
        """Remove the notes of the workers: everything is in the table."""
        self._collector.clear()

    def _check(self, point: Point) -> tuple[Point, Scenario, Variant] | Outcome:
        """Return the variant of a point, or why it is refused."""
        sweep = self._plan.sweep
        try:
            scenario = sweep.scenario(point)
            job = job_for(scenario, sweep.base.source)
        except ScenarioError as error:
            return Outcome(point, "", {}, reason="; ".join(map(str, error.problems)))
        found = variant_id(scenario)
        cost, parts = estimated_cost(job), parts_of(job)
        return point, scenario, Variant(found, point, 0, scenario.seed, cost, parts)

    def _run_missing(self, variants: list[Variant]) -> None:
        parts = reduce(or_, (variant.parts for variant in variants), self._plan.parts)
        wanted = {variant.id for variant in variants}
        self._runs.run(variants, parts, partial(self._poll, wanted), "runs")
        self._check_done(variants)

    def _poll(self, wanted: set[str]) -> str:
        """Commit the workers' results; return the progress as text."""
        self._collector.collect()
        self._show(len(wanted & self._collector.done))
        return f"{len(self._collector.done):,} runs are in the table"

    def _show(self, more: int = 0) -> None:
        if self.bar is not None:
            self.bar.update(self.done + more, len(self._collector.failed))

    def _check_done(self, variants: list[Variant]) -> None:
        """Raise RunError if something was not run."""
        missing = self._runs.missing(variants)
        if not missing:
            return
        first = self._runs.first_failed(
            missing, f"{len(missing):,} runs were made but their rows are"
        )
        raise RunError(
            f"the run at ({self._plan.sweep.text(first.point)}) failed: "
            f"{self._collector.failed[first.id]}; {len(self._collector.done):,} others are in the "
            "table, and the same command goes on with this one"
        )

    def _rows(self, variants: list[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of some variants in the table of the sweep, by variant."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
        if variants:
            table = read_results(self.paths, filters=[("variant", "in", variants)])
            for row in table.to_pylist():
                found[row["variant"]].append(row)
        return found

    def _outcome(
        self, point: Point, scenario: Scenario, variant: Variant, rows: dict[str, Any]
    ) -> Outcome:
        return _outcome(point, variant.id, rows[variant.id], scenario, self.measures)


def _outcome(
    point: Point,
    variant: str,
    rows: list[dict[str, Any]],
    scenario: Scenario,
    measures: Sequence[Metric],
) -> Outcome:
    """Return what became of a run."""
    figures: Figures = figures_of(rows)
    values = {one.name: one.value(scenario, figures) for one in measures}
    return Outcome(point, variant, values, bottleneck=str(rows[0]["bottleneck"]))


# --- Search the values of some keys for the best scenario: read, run, judge, write.


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
        Both in one, where their order matters: the first is the picture's horizontal axis.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario that hold for all points: values by key, or ``KEY=VALUE`` each.
    runs, batch, seed : int, default 200, 10 and 1
        Points to run; points asked for at a time, which can run side by side; of the search.
    out, overwrite : Path or str, optional; bool, default False
        Folder, by default ``out/<scenario name>-tune``, where the same search continues; replace.
    spark, processes : SparkSession, int, optional
        By default the running session, else a new one; or so many local processes, without Spark.
    progress, warn : callable, optional
        Show progress, and each warning; by default on standard error, progress after 2 s.
    quiet : bool, default False
        Show no progress and no warnings.
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
        make = partial(make_executor, spark, processes, is_kept=True)
        try:
            return _searched(plan, folder, make, simulate, warn or notices.warn, progress)
        finally:
            folder.close()


def _aims(direction: str, figures: Texts) -> list[tuple[str, str]]:
    return [(direction, text) for text in as_list(figures)]


def _searched(
    plan: TunePlan,
    folder: OwnedFolder,
    make: Callable[[], Executor],
    simulate: Simulate | None,
    warn: Callable[[str], None],
    progress: ShowProgress | None,
) -> Tuning:
    """Search, judge and write what was found."""
    folder.mark(finished=False)
    paths = TunePaths(folder.root)
    variants = VariantRunner(plan.sweep, paths, folder.identity, make, simulate, warn)
    runner = Runner(plan, paths, variants)
    try:
        outcomes, given = _run(plan, runner, progress or shown_late("runs"))
    finally:
        runner.close()
    verdict = Verdict(plan.goals, axes_of(plan.goals, plan.example), tuple(outcomes))
    table = tuning_rows(plan, verdict, runner.measures)
    result = Tuning(paths.root, plan, verdict, given, table)
    _write(result, runner)
    folder.mark(finished=True)
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
