"""The folder of a sweep: its identity and its paths."""

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
    """Paths in the folder of a sweep.

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
        """Notes of the workers for the driver; removed when the sweep is finished."""
        return self.root / ".notes"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    def stop_file(self, run_id: str) -> Path:
        """Created to stop the workers of a run."""
        return self.notes / f"{run_id}.stop"


def describe(plan: Plan, variants: Sequence[Variant]) -> dict[str, Any]:
    """Return the identity of a sweep: two are the same if ``sweep`` is equal.

    It covers the variants in any order, the columns, and the version of the rules, since one table
    must not hold the figures of two models.
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
