"""Checking that a clock can run a scenario, and laying it out."""

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, check_clock
from flowcontrol.scenario.clocks import Clock


def job_for(scenario: Scenario, clock: Clock, round_us: int | None = None) -> Job:
    """Check that a clock can run a scenario, and lay it out.

    ``round_us``: emulated time of a round, microseconds; by default the clock's own choice.

    Raises ScenarioError if the clock refuses it.
    """
    problems = check_clock(scenario, clock)
    if problems:
        raise ScenarioError(problems, scenario.name)
    if round_us is None and clock == "virtual":
        from flowcontrol.virtual import choose_round_us

        round_us = choose_round_us(scenario)
    return build_physical_graph(scenario, round_us=round_us)
