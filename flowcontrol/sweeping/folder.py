"""The folder of a sweep: made, continued, replaced or refused, as that of a run is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flowcontrol.emulation.rules_version import rules_version
from flowcontrol.folders import Kind, OwnedFolder, open_owned
from flowcontrol.sweeping.checks import Variant
from flowcontrol.sweeping.paths import SweepPaths
from flowcontrol.sweeping.plan import Plan

KIND: Final = Kind("sweep", "sweep.json", "sweep", frozenset({"version", "variants", "varied"}))


@dataclass(frozen=True)
class SweepFolder:
    """A folder that this process may write a sweep to.

    Attributes
    ----------
    paths : SweepPaths
        Where things stand.
    """

    paths: SweepPaths
    _owned: OwnedFolder

    @property
    def is_resumed(self) -> bool:
        """Whether the same sweep was begun, or finished, in it before."""
        return self._owned.is_resumed

    @property
    def sweep_id(self) -> str:
        """Identity of the sweep; the same when it is continued."""
        return str(self._owned.described["sweep"])

    def mark(self, *, finished: bool) -> None:
        """Note whether every variant is there."""
        self._owned.mark(finished=finished)

    def close(self) -> None:
        """Let other processes use the folder."""
        self._owned.close()


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
) -> SweepFolder:
    """Make the folder of a sweep ready.

    Parameters
    ----------
    root : Path or str
        The folder.
    plan : Plan
        What is to be run.
    variants : sequence of Variant
        All of them.
    named : bool
        Whether the user named the folder: then another sweep's results in it are not replaced.
    overwrite : bool
        Replace whatever sweep stands there.

    Returns
    -------
    SweepFolder
        Locked for this process.

    Raises
    ------
    ScenarioError
        If the folder cannot be made, another process writes to it, or it holds something that
        must not be replaced. Nothing was written.
    """
    described = describe(plan, variants)
    owned = open_owned(
        root,
        KIND,
        described,
        is_continued=lambda found: found["sweep"] == described["sweep"] and not overwrite,
        why_kept=lambda found: None if overwrite else _why_kept(root, found, named),
    )
    return SweepFolder(SweepPaths(owned.root), owned)


def _why_kept(root: Path | str, found: Mapping[str, Any], named: bool) -> str | None:
    """Say why a sweep must not be replaced unless the user says so; None if it may be."""
    if found["finished"] and not named:
        return None
    state = "a finished" if found["finished"] else "an unfinished"
    what = f"{found['variants']:,} variants over {', '.join(found['varied'])}"
    return (
        f"{root} holds {state} sweep of another kind ({what}, by version {found['version']}): "
        "name another folder, or replace it with --overwrite"
    )
