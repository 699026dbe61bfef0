"""When a job runs, by what its start takes; and what may not happen before."""

from collections.abc import Iterator

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.protocol.control import durations
from flowcontrol.scenario import Scenario


def start_us(scenario: Scenario) -> int:
    """Return when all tasks of a job run, microseconds after the start of the run."""
    return durations(scenario.cluster.control_latency_us).start


def check_start(scenario: Scenario) -> None:
    """Refuse a scenario in which something happens to tasks that do not run yet.

    Parameters
    ----------
    scenario : Scenario
        Read and checked.

    Raises
    ------
    ScenarioError
        If its job never runs, or is to fail or to take a savepoint before it does.
    """
    if problems := list(_problems(scenario, start_us(scenario))):
        raise ScenarioError(problems, scenario.name)


def _problems(scenario: Scenario, start: int) -> Iterator[Problem]:
    latency = f"with control_latency_ms {scenario.cluster.control_latency_ms:g} the job runs from"
    latency = f"{latency} {start / 1e6:g} s on"
    if start >= scenario.duration_us:
        text = f"{scenario.duration_us / 1e6:g} is too short: {latency}: state a longer one"
        yield Problem("duration_s", text)
    for key in ("failures", "savepoints"):
        for index, one in enumerate(getattr(scenario, key)):
            if one.at_us < start:
                text = f"{one.at_us / 1e6:g} is too early: {latency}: choose a later time"
                yield Problem(f"{key}[{index}].at_s", text)
