"""Run a scenario on the virtual clock, and once more for its messages."""

import time
from collections.abc import Callable
from functools import partial

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.replay import Replayed, read_replayed
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.records import CONTROL_MESSAGES, MESSAGES
from flowcontrol.results.control_run import control_table
from flowcontrol.results.figures import aside_figures, partition_figures
from flowcontrol.results.run import Run
from flowcontrol.results.running import Running, step
from flowcontrol.scenario import Scenario, check_clock
from flowcontrol.scenario.clocks import without_scaling
from flowcontrol.trace.message_table import Window, first_round, messages_of, window_of
from flowcontrol.trace.messages import Message

# --- The messages of a run on the virtual clock: the kernel again, stopped after every round


def record(job: Job, window: Window, replayed: Replayed | None = None) -> list[Message]:
    """Run a job again up to the end of a window; return the messages of that.

    ``replayed``: what its sources replay; by default it is read.

    Raises RunError as :func:`flowcontrol.results.running.step`.
    """
    states = step(job, replayed, first_round(job, window))
    return list(messages_of(job, window, states))


# --- Run a scenario on the virtual clock


def simulate(
    scenario: Scenario,
    *,
    round_us: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    track: bool = True,
) -> Run:
    """Run a scenario on the virtual clock.

    - ``round_us``: emulated time of a round, microseconds; by default the scenario's ``round_ms``,
      else chosen by :func:`flowcontrol.virtual.choose.choose_round_us`.
    - ``progress``: called at each sample with the rounds done and the records that reached the
      sinks.
    - ``track``: follow the age of every record; without it the table ``latency`` is empty. A
      throttle that looks at ages has them followed in any case.

    Raises ScenarioError if the virtual clock does not emulate something that the scenario asks for,
    or a task manager has too few network buffers. Raises RunError if the rows that a source is to
    replay cannot be read, no job could start, or the run holds more in flight than its logs may.

    Examples
    --------
    >>> run = simulate(load_scenario("conf/experiment.yaml"))  # doctest: +SKIP
    >>> run.tables["stages"].num_rows  # doctest: +SKIP
    200
    """
    problems = check_clock(scenario, "virtual") + without_scaling(scenario, "a single run")
    if problems:
        raise ScenarioError(problems, scenario.name)
    if round_us is None:
        from flowcontrol.virtual.choose import choose_round_us

        round_us = choose_round_us(scenario)
    job = build_physical_graph(scenario, round_us=round_us)
    run, window = run_job(job, progress=progress, track=track), window_of(job)
    if window is not None and run.again is not None:
        run.tables[MESSAGES.name] = MESSAGES.of_objects(run.again(window))
        run.tables[CONTROL_MESSAGES.name] = control_table(run, window)
    return run


def prepare_job(job: Job) -> None:
    """Compile or load the kernel that a job needs; do nothing without a compiler."""
    from flowcontrol.kernel.compiled import is_compiled

    if is_compiled():
        from flowcontrol.kernel.loop import prepare
        from flowcontrol.memory.parts import parts_of

        prepare(parts_of(job))


def run_job(
    job: Job,
    *,
    progress: Callable[[int, int], None] | None = None,
    track: bool = True,
    replayed: Replayed | None = None,
) -> Run:
    """Run a job that is laid out; as :func:`simulate`. Its rows may have been read before."""
    began = time.perf_counter()
    replayed = replayed or read_replayed(job)
    sizes = LogSizes.first(job, replayed.keys)
    running = Running(job, replayed, sizes, track=track)
    while flags := running.run(progress or (lambda rounds, records: None)):
        sizes = running.grown(sizes, flags)
        del running  # before the larger one is there
        running = Running(job, replayed, sizes, track=track)
    wall_s = time.perf_counter() - began
    memory, runs_of_jobs = running.memory, running.finish()
    return Run(
        job,
        running.result_tables(),
        job.rounds,
        wall_s,
        transfers=memory.head.transfers,
        control_messages=running.control_messages,
        partitions=partition_figures(job, memory),
        put_aside=aside_figures(job, memory),
        jobs=tuple(run.document() for run in runs_of_jobs) or running.failed_job,
        staged={} if running.delivery is None else running.delivery.staged(),
        again=partial(record, job, replayed=replayed),
    )
