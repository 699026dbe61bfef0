"""A run on the virtual clock, one round at a time."""

from __future__ import annotations

from collections.abc import Iterator

from flowcontrol.job import Job
from flowcontrol.job.replay import Replayed
from flowcontrol.job.round_state import RoundState
from flowcontrol.virtual.log_sizes import LogSizes
from flowcontrol.virtual.replay import read_replayed
from flowcontrol.virtual.running import Running
from flowcontrol.virtual.state_reader import StateReader


def step(job: Job) -> Iterator[RoundState]:
    """Run a job that is laid out; yield its state after each round.

    Parameters
    ----------
    job : Job
        The scenario, laid out.

    Returns
    -------
    iterator of RoundState
        Runs a round each time it is asked for one.

    Raises
    ------
    RunError
        If the rows that a source is to replay cannot be read; the iterator raises what
        :func:`flowcontrol.virtual.simulate` does while it runs.

    Notes
    -----
    The kernel is the one that runs whole jobs, stopped after every round. When a log of it is
    full, the rounds so far are run again with larger ones, which is exact.
    """
    return _step(job, read_replayed(job))


def _step(job: Job, replayed: Replayed) -> Iterator[RoundState]:
    sizes, done, flags = LogSizes.first(job), 0, 0
    while done < job.rounds:
        running = Running.start(job, replayed, sizes, track=False)
        control = running.control
        reader = StateReader(job, running.memory, None if control is None else control.controller)
        for number in range(job.rounds):
            running.timeline.act(number)
            flags = running.advance_to(number + 1)
            if flags:
                sizes = running.grown(sizes, flags)
                break
            if number >= done:
                yield reader.read()
                done = number + 1
            elif number + 1 == done:
                reader.read()  # what the next round did counts from here
    running.finish()
