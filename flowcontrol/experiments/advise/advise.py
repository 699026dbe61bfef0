"""Advise: what a job lacks, what was tried, and what each change does; and its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.wording import seconds
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.advise.adviser import Adviser
from flowcontrol.experiments.advise.result import GOALS, Advice, Goal
from flowcontrol.experiments.advise.rules import RULES, Rule
from flowcontrol.experiments.base import (
    job_for,
    open_experiment,
    short_hash,
    varied_base,
    with_chosen_round,
)
from flowcontrol.experiments.executor import ShowProgress, Simulate, judging_clock, shown_late
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, OwnedFolder
from flowcontrol.notices import quiet as silenced
from flowcontrol.report.advice import AS_IT_IS, advice_section
from flowcontrol.report.figures import BLUE, GREY, VERMILLION, Chart, axis, scatter
from flowcontrol.report.markup import chart_section, page
from flowcontrol.report.stage_table import CLOCKS
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Given, Overrides
from flowcontrol.version import OF_FIGURES, rules_version

if TYPE_CHECKING:
    from flowcontrol.experiments.advise.result import Proposal
    from flowcontrol.report.figures import Figure


# --- report.html of advice: one self-contained page.


_EXPLAINED: Final = (
    "Every change that was run: what all sinks took up, against the 99th percentile of latency. "
    "Right and low is best. Diamond: the scenario as it is; circles: changes that help; crosses: "
    "changes that do not. Point at one to see which it is."
)


def advice_page(found: Advice, scenario: Scenario) -> str:
    """Return the page of advice."""
    chart = Chart("trade", "Throughput against latency", _EXPLAINED, _trade(found))
    runs = len(found.proposals) + 1
    return page(
        "flowcontrol.experiments.advise",
        [chart],
        title=f"{found.name}: advice",
        run=f"{CLOCKS['virtual']} · {runs} runs of {seconds(scenario.duration_s)} s emulated each",
        sentence=found.finding,
        noscript="The chart needs JavaScript; the table does not.",
        advice=advice_section(found.summary),
        charts=chart_section(chart),
        scenario=escape(scenario.to_yaml()),
    )


def _trade(found: Advice) -> Figure:
    """Return the runs as points; none where no record came to a sink."""
    helping = [one for one in found.proposals if one.helps]
    others = [one for one in found.proposals if not one.helps]
    data = [
        _points("changes that help", helping, BLUE, "circle"),
        _points("changes that do not", others, GREY, "x-thin-open"),
    ]
    before = found.before
    if before.latency_p99_ms is not None:
        marker = {"color": VERMILLION, "symbol": "diamond", "size": 12}
        point = [before.throughput], [before.latency_p99_ms]
        data.append(scatter(AS_IT_IS, *point, mode="markers", marker=marker, text=[AS_IT_IS]))
    layout = {
        "height": 420,
        "margin": {"l": 70, "r": 20, "t": 40, "b": 60},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "xaxis": axis("throughput (records/s)"),
        "yaxis": axis("latency p99 (ms)"),
    }
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _points(name: str, shown: Sequence[Proposal], colour: str, symbol: str) -> Figure:
    drawn = [one for one in shown if one.figures.latency_p99_ms is not None]
    return scatter(
        name,
        [one.figures.throughput for one in drawn],
        [one.figures.latency_p99_ms for one in drawn],
        mode="markers",
        marker={"color": colour, "symbol": symbol, "size": 9, "line": {"width": 1.5}},
        text=[one.change.name for one in drawn],
    )


# --- Advise: what a job lacks, which changes were run, and what each does.


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
        (:func:`~flowcontrol.experiments.advise.result.goal_of`).
    out : Path or str, optional
        Folder of the results; by default ``out/<scenario name>-advice``. Advice on the same
        scenario is found anew.
    overwrite : bool, default False
        Replace other advice in ``out``.
    simulate : callable, optional
        Runs a scenario; by default the virtual clock.
    rules : sequence of callable, default RULES
        What suggests changes, given a :class:`~flowcontrol.experiments.advise.result.Subject`.
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
    described = {"advice": short_hash(text), "scenario": scenario.name, "goal": goal}
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
