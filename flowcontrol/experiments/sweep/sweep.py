"""Run a sweep: check all variants, run what is missing, write table and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flowcontrol import notices
from flowcontrol.errors import RunError
from flowcontrol.experiments.base import Paths, varied_base
from flowcontrol.experiments.executor import (
    Progress,
    ShowProgress,
    Simulate,
    check_processes,
    make_executor,
    shown_late,
)
from flowcontrol.experiments.sweep.metric import Metric, read_metrics
from flowcontrol.experiments.sweep.overview import SweepResult
from flowcontrol.experiments.sweep.page import sweep_page
from flowcontrol.experiments.sweep.plan import Plan, Vary, divided_totals, make_plan
from flowcontrol.experiments.sweep.shares import check_shared, cores, shares_of
from flowcontrol.experiments.sweep.store import VariantRunner, open_folder, read_results
from flowcontrol.experiments.sweep.variants import Variant, check_variants
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
        Values of each key: a list, or a text as on the command line; or ``KEY=VALUES`` each.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario that hold for all variants: values by key, or ``KEY=VALUE`` each.
    out, overwrite : Path or str, optional; bool, default False
        Folder, by default ``out/<scenario name>-sweep``, where the same sweep continues; replace.
    replications : int, default 1
        Runs of each combination, with the scenario's seed, the next one, and so on.
    sample, seed : int, optional
        Run only ``sample`` combinations, drawn with this seed (1).
    metrics : str or sequence of str, default ()
        Metrics, ``STAGE.COLUMN`` each, by default rate and latency of a sink; the first one ranks.
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
    say = warn or notices.warn
    with silenced(quiet):
        base = varied_base(scenario, overrides)
        plan = make_plan(base, vary, replications=replications, sample=sample, seed=seed)
        for text in divided_totals(base, plan.varied):
            say(text)
        variants, chosen = _checked(plan, metrics)
        folder = _open(plan, variants, out, overwrite=overwrite)
        try:
            own, make = folder.identity, partial(make_executor, spark, processes)
            runs = VariantRunner(plan, Paths(folder.root), own, make, simulate, say)
            runner = _Runner(variants, folder, runs)
            runner.run(progress or shown_late("variants"))
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
        self, variants: Sequence[Variant], folder: OwnedFolder, runner: VariantRunner
    ) -> None:
        self.paths, self.collector = runner.paths, runner.collector
        self._variants, self._folder, self._runner = variants, folder, runner
        self._has_warned = False

    def run(self, progress: ShowProgress) -> None:
        """Run the missing variants; Spark is started only if there are any."""
        missing = self._runner.missing(self._variants)
        if not missing:
            return
        self._folder.mark(finished=False)
        parts = reduce(or_, (variant.parts for variant in missing))
        self._runner.start(parts)
        with progress(len(self._variants), len(self.collector.done)) as bar:
            self._runner.run(missing, parts, partial(self._poll, bar), "variants")

    def _poll(self, bar: Progress) -> str:
        """Commit the workers' results; return the progress as text."""
        collector = self.collector
        collector.collect()
        bar.update(len(collector.done), len(collector.failed))
        if self._runner.simulate is None and not collector.is_compiled and not self._has_warned:
            self._runner.warn(_SLOW)
            self._has_warned = True
        return f"{len(collector.done):,} of {len(self._variants):,} variants are in the table"

    def finish(self) -> None:
        """Mark the sweep as finished; RunError if it is not."""
        missing = self._runner.missing(self._variants)
        if not missing:
            self.collector.clear()
            self._folder.mark(finished=True)
            return
        first = self._runner.first_failed(
            missing, f"{len(missing):,} variants were run but their rows are"
        )
        raise RunError(
            f"{len(missing):,} of {len(self._variants):,} variants failed, first "
            f"({self._runner.plan.text(first.point)}): {self.collector.failed[first.id]}; the "
            "others are in the table, and the same command retries these"
        )
