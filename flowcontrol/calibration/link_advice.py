"""Advice on a link: changes that its ledger suggests, tried on the scenario made from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from flowcontrol.calibration.batches import read_progress
from flowcontrol.calibration.draft import Cost, Draft
from flowcontrol.calibration.link_ledger import fit_link, link_load
from flowcontrol.calibration.link_rules import LinkRules
from flowcontrol.calibration.spark_progress import cost_of
from flowcontrol.experiments.advise import Advice, advise

if TYPE_CHECKING:
    from flowcontrol.experiments.advise.gain import Goal


def advise_link(
    path: str | Path,
    progress: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    goal: Goal | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Advice:
    """Propose changes of a link, each run on the scenario that its ledger makes.

    - ``overrides``: changes of that scenario first, ``KEY=VALUE`` each.
    - ``goal``: what to improve; by default what the link lacks.
    - ``out``: folder of the results; by default ``out/<name of the link>-advice``.
    - ``quiet``: show no progress.

    Raises ScenarioError if there is no link, too little went through it, or the folder is refused.
    Nothing was written.
    """
    draft = fit_link(path, progress)
    rules = LinkRules(link_load(path), _batch(progress))
    return advise(
        draft.mapping,
        overrides=overrides,
        goal=goal,
        out=out,
        overwrite=overwrite,
        quiet=quiet,
        rules=(rules.changes,),
    )


def _batch(progress: str | Path | None) -> tuple[Cost, float] | None:
    """Return what a batch costs, and its rows on average; None if nothing says it."""
    if progress is None:
        return None
    batches, _, source = read_progress(progress)
    return cost_of(Draft({}, source), batches, "stages.x"), fmean(one.rows for one in batches)
