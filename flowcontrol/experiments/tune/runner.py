"""Run batches of points, spread as a sweep is, and read their figures from its table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.base import job_for
from flowcontrol.experiments.executor import Executor, Simulate
from flowcontrol.experiments.follow import Progress, follow, unseen_results
from flowcontrol.experiments.sweep.metric import Figures, Metric
from flowcontrol.experiments.sweep.plan import Plan, Point
from flowcontrol.experiments.sweep.store import Collector, read_results
from flowcontrol.experiments.sweep.variants import Variant, estimated_cost, into_chunks, variant_id
from flowcontrol.experiments.sweep.worker import SweepWork, run_variant
from flowcontrol.experiments.tune.explore import Outcome
from flowcontrol.experiments.tune.goals import figures_of
from flowcontrol.experiments.tune.judge import axes_of, kept_measures
from flowcontrol.experiments.tune.plan import TunePlan
from flowcontrol.experiments.tune.store import TunePaths
from flowcontrol.folders import OwnedFolder
from flowcontrol.memory.parts import parts_of
from flowcontrol.scenario import Scenario


class Runner:
    """Runs the points of a search that its table has not yet.

    - ``executor``: makes the executor; called once, if there is anything to run.
    - ``simulate``: runs one scenario; None: the virtual clock.
    - ``warn``: called with a message when the search stops.
    - ``measures``: figures that are kept of each run.
    - ``bar``: shows how many points are done.
    - ``done``: points that were run, or found in the table.
    """

    def __init__(
        self,
        plan: TunePlan,
        folder: OwnedFolder,
        executor: Callable[[], Executor],
        simulate: Simulate | None,
        warn: Callable[[str], None],
    ) -> None:
        self.paths = TunePaths(folder.root)
        self.bar: Progress | None = None
        self.done = 0
        self._plan = plan
        axes = axes_of(plan.goals, plan.example)
        self.measures = kept_measures(plan.goals, axes, plan.example)
        self._make_executor, self._simulate, self._warn = executor, simulate, warn
        self._executor: Executor | None = None
        self._run_id = uuid.uuid4().hex[:12]
        self._collector = Collector(self.paths, plan.sweep, folder.identity, self._run_id)

    def run(self, points: Sequence[Point], most: int) -> list[Outcome]:
        """Run points, at most so many; return what became of each up to the last that was run."""
        checked: list[tuple[Point, Scenario, Variant] | Outcome] = []
        for point in points:
            if sum(not isinstance(one, Outcome) for one in checked) == most:
                break
            checked.append(self._check(point))
        variants = [one[2] for one in checked if not isinstance(one, Outcome)]
        missing = {one.id: one for one in variants if one.id not in self._collector.done}
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
        rows = run_variant(alone, variant, self._simulate)
        return _outcome((), variant.id, rows, scenario, self.measures)

    def close(self) -> None:
        """Let the executor's processes end."""
        if self._executor is not None:
            self._executor.close()

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
        parts = self._plan.parts
        for variant in variants:
            parts |= variant.parts
        if self._executor is None:
            self._executor = self._make_executor()
            if self._simulate is None:
                self._executor.warm_up(parts)
        chunks = into_chunks(variants, self._executor.workers, self._plan.seed)
        work = SweepWork(self.paths, self._run_id, chunks, self._simulate, parts, self._plan.sweep)
        wanted = {variant.id for variant in variants}
        try:
            follow(self._executor, work, partial(self._poll, wanted), self._warn, "runs")
        except BaseException:
            self._collector.look_again()  # it may have been interrupted itself
            self._collector.collect()
            raise
        self._collector.collect()
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
        missing = [one for one in variants if one.id not in self._collector.done]
        if not missing:
            return
        errors = self._collector.failed
        first = next((one for one in missing if one.id in errors), None)
        if first is None:
            raise unseen_results(
                f"{len(missing):,} runs were made but their rows are", self.paths.root
            )
        raise RunError(
            f"the run at ({self._plan.sweep.text(first.point)}) failed: {errors[first.id]}; "
            f"{len(self._collector.done):,} others are in the table, and the same command goes on "
            "with this one"
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
