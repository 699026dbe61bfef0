"""Run a sweep: check all variants, run what is missing, write table and report."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flowcontrol import notices
from flowcontrol.errors import RunError
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.executor import Executor, Simulate, check_processes, make_executor
from flowcontrol.experiments.folder import Paths
from flowcontrol.experiments.follow import (
    Progress,
    ShowProgress,
    follow,
    shown_late,
    unseen_results,
)
from flowcontrol.experiments.sweep.metric import Metric, read_metrics
from flowcontrol.experiments.sweep.overview import SweepResult
from flowcontrol.experiments.sweep.page import sweep_page
from flowcontrol.experiments.sweep.plan import Plan, Vary, divided_totals, make_plan
from flowcontrol.experiments.sweep.shares import check_shared, cores, shares_of
from flowcontrol.experiments.sweep.store import Collector, open_folder, read_results
from flowcontrol.experiments.sweep.variants import Variant, check_variants, into_chunks
from flowcontrol.experiments.sweep.worker import SweepWork
from flowcontrol.files import write_atomically
from flowcontrol.folders import OwnedFolder
from flowcontrol.notices import PATIENCE_S, announce_step
from flowcontrol.notices import quiet as silenced
from flowcontrol.scenario.given import Given, Overrides, Texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECK_S: Final = 0.004
"""Time that the check of a point usually takes, s."""

_SLOW: Final = (
    "the workers have no numba, so the virtual clock is interpreted there, some hundred times "
    "slower; install numba in the Python of the executors"
)


def sweep(
    scenario: Given,
    vary: Vary,
    *,
    overrides: Overrides = (),
    out: Path | str | None = None,
    replications: int = 1,
    sample: int | None = None,
    seed: int = 1,
    metrics: Texts = (),
    overwrite: bool = False,
    spark: SparkSession | None = None,
    processes: int | None = None,
    progress: ShowProgress | None = None,
    warn: Callable[[str], None] | None = None,
    quiet: bool = False,
    simulate: Simulate | None = None,
) -> SweepResult:
    """Run many variants of a scenario on the virtual clock, spread over Spark.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    vary : mapping of str to values, or sequence of (str, values) or str
        Values of each varied key: a list, or a text as on the command line (``"1000:10000:50"``);
        or ``KEY=VALUES`` each.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario that hold for all variants: values by key, or ``KEY=VALUE`` each.
    out : Path or str, optional
        Folder of the results, by default ``out/<scenario name>-sweep``; the same sweep continues.
    replications : int, default 1
        Runs of each combination, with the scenario's seed, the next one, and so on.
    sample, seed : int, optional
        Run only ``sample`` combinations, drawn with this seed (1).
    metrics : str or sequence of str, default ()
        Metrics of the report, ``STAGE.COLUMN`` each, by default throughput and latency of a sink;
        points are ranked by the first one.
    overwrite : bool, default False
        Replace the sweep in ``out``.
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
    SweepResult
        The results as written.

    Raises
    ------
    ScenarioError
        If a variant, an argument or the folder is refused. Nothing was run or written.
    RunError
        If some variants failed; the others are in the table, and the same call retries them.

    Examples
    --------
    >>> vary = {"stages.consumer.service_rate": [300, 600, 1200]}
    >>> sweep("conf/experiment.yaml", vary).table.to_pandas()  # doctest: +SKIP
    """
    check_processes(processes)
    with silenced(quiet):
        base = varied_base(scenario, overrides)
        plan = make_plan(base, vary, replications=replications, sample=sample, seed=seed)
        for text in divided_totals(base, plan.varied):
            (warn or notices.warn)(text)
        variants, chosen = _checked(plan, metrics)
        folder = _open(plan, variants, out, overwrite=overwrite)
        try:
            runner = _Runner(plan, variants, folder, simulate, warn or notices.warn)
            runner.run(lambda: make_executor(spark, processes), progress or shown_late("variants"))
            return _written(runner, plan, chosen)
        finally:
            folder.close()


def _checked(plan: Plan, metrics: Texts) -> tuple[list[Variant], tuple[Metric, ...]]:
    """Return the variants of a plan, none of which is refused, and the metrics."""
    shares = len(shares_of(plan, cores()))
    usual_s = plan.size * plan.replications * _CHECK_S / shares
    if usual_s > PATIENCE_S:
        what = f"checking {plan.size:,} points before the first one runs"
        announce_step(what, f"{usual_s:.0f} to {3 * usual_s:.0f} s")
    variants = check_variants(plan, check_shared)
    return variants, read_metrics(metrics, plan.scenario(variants[0].point))


def _open(
    plan: Plan, variants: Sequence[Variant], out: Path | str | None, *, overwrite: bool
) -> OwnedFolder:
    name = plan.scenario(variants[0].point).name  # all variants have this name
    root = Path("out") / f"{name}-sweep" if out is None else out
    return open_folder(root, plan, variants, named=out is not None, overwrite=overwrite)


def _written(runner: _Runner, plan: Plan, metrics: tuple[Metric, ...]) -> SweepResult:
    """Write the page, then mark the sweep as finished if no variant is missing."""
    paths = runner.paths
    result = SweepResult(paths.root, plan, metrics, read_results(paths))
    if result.table.num_rows:
        write_atomically(paths.report, sweep_page(result.table, plan, metrics))
    runner.finish()
    return result


class _Runner:
    """Runs the missing variants of a sweep and collects their rows."""

    def __init__(
        self,
        plan: Plan,
        variants: Sequence[Variant],
        folder: OwnedFolder,
        simulate: Simulate | None,
        warn: Callable[[str], None],
    ) -> None:
        self.paths = Paths(folder.root)
        self._plan, self._variants, self._folder = plan, variants, folder
        self._simulate, self._warn, self._has_warned = simulate, warn, False
        self._run_id = uuid.uuid4().hex[:12]
        self._collector = Collector(self.paths, plan, folder.identity, self._run_id)

    def run(self, executor: Callable[[], Executor], progress: ShowProgress) -> None:
        """Run the missing variants; Spark is started only if there are any."""
        done = self._collector.done
        missing = [variant for variant in self._variants if variant.id not in done]
        if not missing:
            return
        self._folder.mark(finished=False)
        runner, parts = executor(), reduce(or_, (variant.parts for variant in missing))
        chunks = into_chunks(missing, runner.workers, self._plan.seed)
        work = SweepWork(self.paths, self._run_id, chunks, self._simulate, parts, self._plan)
        if self._simulate is None:
            runner.warm_up(parts)
        with progress(len(self._variants), len(done)) as bar:
            try:
                follow(runner, work, partial(self._poll, bar), self._warn, "variants")
            except BaseException:
                self._collector.look_again()  # it may have been interrupted itself
                self._collector.collect()
                raise

    def _poll(self, bar: Progress) -> str:
        """Commit the workers' results; return the progress as text."""
        collector = self._collector
        collector.collect()
        bar.update(len(collector.done), len(collector.failed))
        if self._simulate is None and not collector.is_compiled and not self._has_warned:
            self._warn(_SLOW)
            self._has_warned = True
        return f"{len(collector.done):,} of {len(self._variants):,} variants are in the table"

    def finish(self) -> None:
        """Mark the sweep as finished; RunError if it is not."""
        missing = [v for v in self._variants if v.id not in self._collector.done]
        if not missing:
            self._collector.clear()
            self._folder.mark(finished=True)
            return
        errors = self._collector.failed
        first = next((variant for variant in missing if variant.id in errors), None)
        if first is None:
            what = f"{len(missing):,} variants were run but their rows are"
            raise unseen_results(what, self.paths.root)
        raise RunError(
            f"{len(missing):,} of {len(self._variants):,} variants failed, first "
            f"({self._plan.text(first.point)}): {errors[first.id]}; the others are in the table, "
            "and the same command retries these"
        )
