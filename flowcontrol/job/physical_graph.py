"""A scenario laid out: subtasks on task managers, channels, gates and partitions with sizes."""

from flowcontrol.job.buffers import Demand, demands_of, largest_sizes, size_buffers
from flowcontrol.job.checkpoint_settings import settings_of
from flowcontrol.job.control_start import check_start
from flowcontrol.job.fault_settings import faults_of
from flowcontrol.job.graph import graph_of
from flowcontrol.job.job import Job
from flowcontrol.job.limits import check_limits
from flowcontrol.scenario import Scenario


def build_physical_graph(scenario: Scenario, *, round_us: int | None = None) -> Job:
    """Lay a scenario out.

    Parameters
    ----------
    scenario : Scenario
        Read and checked.
    round_us : int, optional
        Emulated time of a round, microseconds; by default the live clock's.

    Returns
    -------
    Job
        Ready to run.

    Raises
    ------
    ScenarioError
        If a task manager has too few network buffers, with Flink's text and figures. Where
        jobs start and stop, that is seen when they start. If something is to happen to tasks
        before they run (:mod:`flowcontrol.job.control_start`), or if the run could count to more
        than 64 bits hold (:mod:`flowcontrol.job.limits`).
    ValueError
        If the round is no whole number of microseconds, or less than one.
    """
    round_us = scenario.live_round_us if round_us is None else round_us
    given: object = round_us  # from a notebook it may be anything
    if not isinstance(given, int) or given < 1:
        raise ValueError(f"round_us is {given!r}: state whole microseconds, at least 1")
    rounds = -(-scenario.duration_us // round_us)
    check_start(scenario)
    links, stages = graph_of(scenario)
    sized = largest_sizes if scenario.shares_memory else size_buffers
    sizes = sized(scenario, stages)
    names = {member.stage.name: plan for plan in stages for member in plan.members}
    how = settings_of(scenario), faults_of(scenario)
    job = Job(scenario, round_us, rounds, stages, links, sizes, *how, names)
    check_limits(job)
    return job


def demands_by_job(scenario: Scenario) -> dict[str, list[Demand]]:
    """Return what the gates and partitions of each job ask for, in order of creation.

    Parameters
    ----------
    scenario : Scenario
        Read and checked. Without ``jobs`` its one job is called "".
    """
    owners = {name: job.name for job in scenario.jobs for name in job.stages}
    found: dict[str, list[Demand]] = {}
    for plan in graph_of(scenario)[1]:
        found.setdefault(owners.get(plan.name, ""), []).extend(demands_of(scenario, plan))
    return found
