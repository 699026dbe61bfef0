"""The folder of a sweep: what makes it the same sweep, and where things stand in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flowcontrol.experiments.folder import open_experiment
from flowcontrol.experiments.sweep.checks import Variant
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.folders import Kind, OwnedFolder
from flowcontrol.job.rules_version import rules_version

KIND: Final = Kind("sweep", "sweep.json", "sweep", frozenset({"version", "variants", "varied"}))


@dataclass(frozen=True)
class SweepPaths:
    """Where things stand in the folder of a sweep.

    Attributes
    ----------
    root : Path
        Absolute: workers have other current folders.
    """

    root: Path

    @property
    def results(self) -> Path:
        """The Delta table."""
        return self.root / "results"

    @property
    def notes(self) -> Path:
        """What workers tell the driver; gone when the sweep is finished."""
        return self.root / ".notes"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    def stop_file(self, run_id: str) -> Path:
        """There when the workers of a run are to stop."""
        return self.notes / f"{run_id}.stop"


def describe(plan: Plan, variants: Sequence[Variant]) -> dict[str, Any]:
    """Return what a sweep is: two are the same if ``sweep`` is equal.

    The variants decide, in whichever order they were stated, the columns, and the rules: figures of
    two models do not belong in one table.
    """
    columns = sorted((varied.key, varied.column) for varied in plan.varied)
    rules = rules_version("virtual")
    text = json.dumps([rules, columns, sorted(variant.id for variant in variants)])
    return {
        "sweep": hashlib.sha256(text.encode()).hexdigest()[:16],
        "version": rules,
        "scenario": str(plan.base.mapping.get("name", "")),
        "varied": {varied.key: varied.column for varied in plan.varied},
        "variants": len(variants),
        "replications": plan.replications,
    }


def open_folder(
    root: Path | str, plan: Plan, variants: Sequence[Variant], *, named: bool, overwrite: bool
) -> OwnedFolder:
    """Make the folder of a sweep ready, as :func:`open_experiment` does."""
    return open_experiment(
        root,
        KIND,
        describe(plan, variants),
        named=named,
        overwrite=overwrite,
        keeps_finished=True,
        content=_content,
    )


def _content(found: Mapping[str, Any]) -> str:
    what = f"{found['variants']:,} variants over {', '.join(found['varied'])}"
    return f"of another kind ({what}, by version {found['version']})"
