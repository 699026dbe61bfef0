"""Advise: what a job lacks, what was tried, and what each change does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.advise.adviser import Adviser
from flowcontrol.experiments.advise.figures import GOALS, Goal
from flowcontrol.experiments.advise.page import advice_page
from flowcontrol.experiments.advise.result import Advice
from flowcontrol.experiments.advise.rules import RULES, Rule
from flowcontrol.experiments.base import job_for, varied_base, with_chosen_round
from flowcontrol.experiments.executor import Simulate, judging_clock
from flowcontrol.experiments.folder import open_experiment
from flowcontrol.experiments.follow import ShowProgress, shown_late
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, OwnedFolder
from flowcontrol.notices import quiet as silenced
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Given, Overrides
from flowcontrol.version import OF_FIGURES, rules_version

KIND: Final = Kind("advice", "advice.json", "advice", frozenset({"scenario", "goal"}))


def advise(
    scenario: Given,
    *,
    overrides: Overrides = (),
    goal: Goal | None = None,
    out: Path | str | None = None,
    overwrite: bool = False,
    simulate: Simulate | None = None,
    rules: Sequence[Rule] = RULES,
    progress: ShowProgress | None = None,
    quiet: bool = False,
) -> Advice:
    """Propose changes of a scenario, each of which was run.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario itself: values by key, or ``KEY=VALUE`` each.
    goal : {"throughput", "latency", "checkpoints", "memory"}, optional
        What to improve; by default what the job lacks
        (:func:`~flowcontrol.experiments.advise.gain.goal_of`).
    out : Path or str, optional
        Folder of the results; by default ``out/<scenario name>-advice``. Advice on the same
        scenario is found anew.
    overwrite : bool, default False
        Replace other advice in ``out``.
    simulate : callable, optional
        Runs a scenario; by default the virtual clock.
    rules : sequence of callable, default RULES
        What suggests changes, given a :class:`~flowcontrol.experiments.advise.changes.Subject`.
    progress : callable, optional
        Shows progress; by default on standard error, once it has taken 2 s.
    quiet : bool, default False
        Show no progress, and do not say what takes long.

    Returns
    -------
    Advice
        What was run, the best first: gain for cost.

    Raises
    ------
    ScenarioError
        If the virtual clock refuses the scenario, it has several jobs, or the goal or the folder
        is refused. Nothing was written.
    RunError
        If the run of the scenario as it is fails.

    Examples
    --------
    >>> advice = advise("conf/three-stages.yaml", out="out/try")  # doctest: +SKIP
    >>> advice.proposals[0].change.name  # doctest: +SKIP
    '4 subtasks of sink instead of 1'
    """
    if goal is not None and goal not in GOALS:
        text = f"{goal!r} is not a goal: use one of {', '.join(GOALS)}"
        raise ScenarioError([Problem("--for", text)], "command")
    with silenced(quiet):
        base = varied_base(scenario, overrides)
    checked = job_for(base.scenario(), base.source).scenario
    folder = _open(checked, goal, out, overwrite=overwrite)
    try:
        with silenced(quiet):
            run = (simulate or judging_clock())(checked)
            if checked.round_ms is not None and run.round_us != checked.live_round_us:
                base = with_chosen_round(base)
                checked = base.scenario()
            adviser = Adviser(base, checked, run.tables, goal, lambda _: True, simulate, rules)
            found = adviser.advice(progress or shown_late("changes"))
        return _written(folder, found, checked)
    finally:
        folder.close()


def _open(
    scenario: Scenario, goal: Goal | None, out: Path | str | None, *, overwrite: bool
) -> OwnedFolder:
    text = json.dumps([rules_version(*OF_FIGURES), goal, scenario.canonical()])
    described = {
        "advice": hashlib.sha256(text.encode()).hexdigest()[:16],
        "scenario": scenario.name,
        "goal": goal,
    }
    return open_experiment(
        Path("out") / f"{scenario.name}-advice" if out is None else out,
        KIND,
        described,
        named=out is not None,
        overwrite=overwrite,
        keeps_finished=True,
        content=lambda found: f"on {found['scenario']}",
    )


def _written(folder: OwnedFolder, found: Advice, scenario: Scenario) -> Advice:
    """Write the page and the advice, which is also what says what the folder holds."""
    result = replace(found, path=folder.root)
    write_atomically(folder.root / "report.html", advice_page(result, scenario))
    folder.described |= result.summary
    folder.mark(finished=True)
    return result
