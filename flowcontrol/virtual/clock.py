"""Run a scenario on the virtual clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import ScenarioError
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.job.heap import heap_exhausted_s
from flowcontrol.scenario import Scenario, check_clock
from flowcontrol.virtual.kinds import partition_figures
from flowcontrol.virtual.log_sizes import LogSizes
from flowcontrol.virtual.replay import read_replayed
from flowcontrol.virtual.running import Running

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class VirtualRun:
    """What a run on the virtual clock yields.

    Attributes
    ----------
    job : Job
        What was run.
    rounds : int
        Its rounds.
    wall_s : float
        Real time it took, s.
    tables : dict of str to pyarrow.Table
        ``stages``, ``channels`` and ``latency``.
    transfers : int
        Messages sent over all channels.
    control_messages : int
        Messages that carried no data: announced credit, grants, and what a throttle says.
    partitions : dict of str to dict
        By edge, what a result partition that is not pipelined and bounded did: memory, bytes
        spilled and read, when its consumers started, who waited for whom.
    jobs : tuple of dict
        What became of each job, if the scenario has ``jobs``: name, start_at_s, stop_at_s, state
        (finished, stopped or failed), message (why it failed, else None).
    """

    job: Job
    rounds: int
    wall_s: float
    tables: dict[str, pa.Table]
    transfers: int
    partitions: dict[str, dict[str, Any]]
    control_messages: int = 0
    jobs: tuple[dict[str, Any], ...] = ()

    @property
    def is_bounded(self) -> bool:
        """Whether what is held between the stages has a bound."""
        return self.job.scenario.system.is_bounded

    @property
    def heap_exhausted_s(self) -> float | None:
        """When a task manager's heap was full, s; None: never, or no heap is stated."""
        return heap_exhausted_s(self.tables["channels"], self.job.scenario)

    @property
    def round_us(self) -> int:
        """Emulated time of a round, microseconds."""
        return self.job.round_us


def simulate(
    scenario: Scenario,
    *,
    round_us: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    track: bool = True,
) -> VirtualRun:
    """Run a scenario on the virtual clock.

    Parameters
    ----------
    scenario : Scenario
        Read and checked.
    round_us : int, optional
        Emulated time of a round, microseconds; by default the scenario's ``round_ms``, else
        chosen by :func:`flowcontrol.virtual.choose.choose_round_us`.
    progress : callable, optional
        Called at each sample with the rounds done and the records that reached the sinks.
    track : bool, default True
        Follow the age of every record; without it the table ``latency`` is empty. A throttle that
        looks at ages has them followed in any case.

    Returns
    -------
    VirtualRun
        Its tables and figures. The same scenario gives the same tables on every machine.

    Raises
    ------
    ScenarioError
        If the virtual clock does not emulate something that the scenario asks for, or a task
        manager has too few network buffers.
    RunError
        If the rows that a source is to replay cannot be read, no job could start, or the run
        holds more in flight than its logs may.

    Examples
    --------
    >>> run = simulate(load_scenario("conf/experiment.yaml"))  # doctest: +SKIP
    >>> run.tables["stages"].num_rows  # doctest: +SKIP
    200
    """
    problems = check_clock(scenario, "virtual")
    if problems:
        raise ScenarioError(problems, scenario.name)
    if round_us is None:
        from flowcontrol.virtual.choose import choose_round_us

        round_us = choose_round_us(scenario)
    return run_job(
        build_physical_graph(scenario, round_us=round_us), progress=progress, track=track
    )


def run_job(
    job: Job, *, progress: Callable[[int, int], None] | None = None, track: bool = True
) -> VirtualRun:
    """Run a job that is laid out; as :func:`simulate`."""
    began = time.perf_counter()
    replayed, sizes = read_replayed(job), LogSizes.first(job)
    running = Running.start(job, replayed, sizes, track=track)
    while flags := running.run(progress or (lambda rounds, records: None)):
        sizes = running.grown(sizes, flags)
        del running  # before the larger one is there
        running = Running.start(job, replayed, sizes, track=track)
    wall_s = time.perf_counter() - began
    memory, runs_of_jobs = running.memory, running.finish()
    return VirtualRun(
        job,
        job.rounds,
        wall_s,
        running.tables.finish(),
        memory.head.transfers,
        partitions=partition_figures(job, memory),
        control_messages=running.control_messages,
        jobs=tuple(run.document() for run in runs_of_jobs),
    )
