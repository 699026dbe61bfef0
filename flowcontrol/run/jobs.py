"""A scenario laid out for a clock, and stepped: the whole state of its job after each round."""

from collections.abc import Iterator

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, check_clock
from flowcontrol.scenario.clocks import Clock, without_scaling
from flowcontrol.scenario.given import Given, Overrides, as_scenario
from flowcontrol.trace.round_state import RoundState


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


def rounds(
    scenario: Given,
    *,
    overrides: Overrides = (),
    round_us: int | None = None,
    clock: Clock = "virtual",
) -> Iterator[RoundState]:
    """Run a scenario round by round; yield the state of the whole job after each.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario: values by key, or ``KEY=VALUE`` each.
    round_us : int, optional
        Emulated time of a round, microseconds; by default what :func:`flowcontrol.emulate` takes
        on this clock.
    clock : {"virtual", "live"}, default "virtual"
        ``live`` runs each stage as the live clock does, in this process, without Spark and without
        rows: slower, in plain Python, and only for scenarios that the live clock accepts. The
        states of both clocks are equal except for a throttle's commands, which the live clock makes
        one round later.

    Returns
    -------
    iterator of RoundState
        Each step runs one round. Nothing is written.

    Raises
    ------
    ScenarioError
        At once, if the clock refuses the scenario.
    ValueError
        At once, if ``round_us`` is not a whole number above 0.
    RunError
        At once, if the rows of a replayed input cannot be read; from the iterator, if the run
        exceeds the size of its logs, or at its end if none of its jobs could run.

    Examples
    --------
    >>> state = next(rounds("conf/experiment.yaml"))  # doctest: +SKIP
    >>> state.task("producer").taken  # doctest: +SKIP
    120
    """
    from flowcontrol.layout.replay import read_replayed

    read = as_scenario(scenario, overrides)
    problems = without_scaling(read, "a run that is stepped")
    if problems:
        raise ScenarioError(problems, read.name)
    job = job_for(read, clock, round_us)
    if clock == "live":
        from flowcontrol.live.whole import staged_states

        return staged_states(job, read_replayed(job))
    from flowcontrol.results.running import step

    return step(job)
