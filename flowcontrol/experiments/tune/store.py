"""The folder of a search: its identity, and the table with a row a point."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.base import Paths, open_experiment, short_hash
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.tune.judge import Verdict
from flowcontrol.experiments.tune.plan import TunePlan, tuning_table
from flowcontrol.folders import Kind, OwnedFolder
from flowcontrol.version import OF_FIGURES, rules_version

if TYPE_CHECKING:
    import pyarrow as pa


KIND: Final = Kind(
    "search", "tuning.json", "search", frozenset({"version", "varied", "goals", "runs"})
)


@dataclass(frozen=True)
class TunePaths(Paths):
    """Paths in the folder of a search."""

    @property
    def tuning(self) -> Path:
        """The Delta table with a row a point."""
        return self.root / "tuning"

    @property
    def best(self) -> Path:
        """The chosen scenario."""
        return self.root / "best.yaml"

    @property
    def summary(self) -> Path:
        """The figures of the result."""
        return self.root / "summary.json"


def describe(plan: TunePlan) -> dict[str, Any]:
    """Return the identity of a search: two are the same if ``search`` is equal.

    It covers the scenario, the values, the goals, the seed and the batch, and the versions of the
    rules and of Optuna, and not the number of runs: a search of more runs goes on.
    """
    goals = [f"{one.direction} {one.measure.name}" for one in plan.goals.objectives]
    goals += [one.text for one in plan.goals.constraints]
    rules = rules_version(*OF_FIGURES)
    what = [
        [rules, _optuna_version(), plan.seed, plan.batch, goals],
        [[varied.key, varied.values] for varied in plan.sweep.varied],
        [dict(plan.base.mapping), plan.base.folder],
    ]
    text = json.dumps(what, sort_keys=True, default=str)
    return {
        "search": short_hash(text),
        "version": rules,
        "scenario": str(plan.base.mapping.get("name", "")),
        "varied": {varied.key: varied.column for varied in plan.sweep.varied},
        "goals": goals,
        "runs": plan.runs,
    }


def _optuna_version() -> str:
    try:
        return version("optuna")
    except PackageNotFoundError:
        return "none"


def open_folder(root: Path | str, plan: TunePlan, *, named: bool, overwrite: bool) -> OwnedFolder:
    """Make the folder of a search ready, as :func:`open_experiment` does."""
    return open_experiment(
        root,
        KIND,
        describe(plan),
        named=named,
        overwrite=overwrite,
        keeps_finished=True,
        content=_content,
    )


def _content(found: Mapping[str, Any]) -> str:
    goals = ", ".join(found["goals"])
    keys = ", ".join(found["varied"])
    return f"of another kind ({goals} over {keys}, by version {found['version']})"


def tuning_rows(plan: TunePlan, verdict: Verdict, measures: tuple[Metric, ...]) -> pa.Table:
    """Return the table of a search, a row a point in the order of the search."""
    import pyarrow as pa

    front = {id(one) for one in verdict.front}
    rows = []
    for number, outcome in enumerate(verdict.outcomes, start=1):
        pairs = zip(plan.sweep.varied, outcome.point, strict=True)
        rows.append(
            {
                "run": number,
                "variant": outcome.variant,
                **{varied.column: varied.typed(value) for varied, value in pairs},
                **{one.column.name: outcome.value(one) for one in measures},
                "state": "refused" if outcome.reason else "run",
                "reason": outcome.reason,
                "feasible": verdict.is_feasible(outcome),
                "missed_by": verdict.miss(outcome),
                "on_front": id(outcome) in front,
                "is_best": outcome is verdict.best,
                "bottleneck": outcome.bottleneck,
            }
        )
    schema = tuning_table(plan.sweep.varied, measures).arrow_schema()
    return pa.Table.from_pylist(rows, schema=schema)
