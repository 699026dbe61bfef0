"""The three guarantees compared: the same job and failures with each, on the virtual clock."""

from __future__ import annotations

from typing import Any, Final

from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.run.jobs import job_for
from flowcontrol.run.remedies import MOST_STEPS
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.topics.delivery import delivery_summary, shown_rows

GUARANTEES: Final = ("at-most-once", "at-least-once", "exactly-once")

_SUMS: Final = ("written", "visible", "twice", "lost", "staged")


def add_guarantees(summary: dict[str, Any], scenario: Scenario) -> None:
    """Put what each guarantee would have shown into the summary of a run that failed.

    ``summary``: of a run; its ``delivery`` gets ``guarantees`` if something fails in the scenario
    and one of its sinks asks for another guarantee than at-least-once.
    """
    stated = any(stage.guarantee != "at-least-once" for stage in scenario.sinks)
    if "delivery" in summary and scenario.failures and stated and not scenario.jobs:
        found = compare_guarantees(scenario)
        if found:
            summary["delivery"]["guarantees"] = found


def compare_guarantees(scenario: Scenario, most_steps: int = MOST_STEPS) -> list[dict[str, Any]]:
    """Run a scenario with each guarantee of its sinks.

    ``most_steps``: rounds times subtasks and channels; a longer run is not tried.

    Of each ``guarantee``; ``written``, ``visible``, ``twice``, ``lost`` and ``staged`` of all sinks
    together at the end; ``visibility_p50_ms`` and ``visibility_max_ms``, the largest of the sinks,
    null if rows are visible at once; ``samples``, of each its time (s), and rows that are visible,
    visible twice and lost.
    """
    from flowcontrol.virtual import prepare_job, run_job

    found = []
    for guarantee in GUARANTEES:
        job = _job(scenario, guarantee)
        if job is None or job.steps > most_steps:
            return []
        prepare_job(job)
        try:
            run = run_job(job, track=False)
        except RunError:
            return []
        table = run.tables["delivery"]
        sinks = delivery_summary(table, job.scenario, run.staged, None, 0.0)["sinks"].values()
        one: dict[str, Any] = {"guarantee": guarantee}
        one |= {name: sum(own[name] for own in sinks) for name in _SUMS}
        for name in ("visibility_p50_ms", "visibility_max_ms"):
            one[name] = max((own[name] for own in sinks if own[name] is not None), default=None)
        one["samples"] = shown_rows(table, [stage.name for stage in scenario.sinks])
        found.append(one)
    return found


def _job(scenario: Scenario, guarantee: str) -> Job | None:
    """Return the job whose sinks have a guarantee; None if it is refused."""
    mapping, sinks = scenario.canonical(), {stage.name for stage in scenario.sinks}
    for stage in mapping["operators" if scenario.operators else "stages"]:
        if stage["name"] in sinks:
            stage["guarantee"] = guarantee
            if guarantee != "exactly-once":
                stage.pop("transaction_timeout_s", None)
    try:
        return job_for(parse_scenario(mapping), "virtual")
    except ScenarioError:
        return None
