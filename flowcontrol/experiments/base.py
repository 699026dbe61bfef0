"""The scenario that an experiment varies."""

from dataclasses import replace

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, check_clock
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import Base, Given, Overrides, as_base
from flowcontrol.virtual import choose_round_us


def job_for(scenario: Scenario, source: str, clock: Clock = "virtual") -> Job:
    """Return the job of a scenario, laid out as a clock would.

    Raises ScenarioError if the clock does not emulate it; ``source`` is its name there.
    """
    problems = check_clock(scenario, clock)
    if problems:
        raise ScenarioError(problems, source)
    round_us = choose_round_us(scenario) if clock == "virtual" else None
    return build_physical_graph(scenario, round_us=round_us)


def varied_base(given: Given, overrides: Overrides = ()) -> Base:
    """Return the scenario to be varied.

    ``overrides``: changes for all variants: values by key, or ``KEY=VALUE`` each.

    Raises ScenarioError if the file cannot be read or has several jobs, or a change cannot be made.
    """
    base = as_base(given, overrides)
    if "jobs" in base.mapping:
        text = "several jobs: they cannot be varied yet; take a scenario with stages and edges"
        raise ScenarioError([Problem("jobs", text)], base.source)
    if base.mapping.get("scaling") is not None:
        text = "a controller changes the parallelism: leave scaling out of what is varied"
        raise ScenarioError([Problem("scaling", text)], base.source)
    # Of many runs nobody reads the messages or the samples, and a system may have none.
    left_out = {"trace", "monitoring"}
    return replace(base, mapping={k: v for k, v in base.mapping.items() if k not in left_out})


def with_chosen_round(base: Base) -> Base:
    """Return a scenario without its ``round_ms``, so that the clock chooses."""
    return replace(base, mapping={k: v for k, v in base.mapping.items() if k != "round_ms"})
