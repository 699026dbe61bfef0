"""When samples stand, and which rounds each covers."""

from __future__ import annotations

from collections.abc import Iterator

from flowcontrol.job.job import Job


def samples(job: Job, rounds: int) -> Iterator[tuple[float, int, int]]:
    """Yield the samples of a run.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    rounds : int
        Rounds that were run.

    Yields
    ------
    tuple of (float, int, int)
        Time of the sample, s; first round that it covers; last one.

    Notes
    -----
    A sample that falls inside a round shows the round before; it covers the rounds since the
    sample before, and where there are none it covers the last one again.
    """
    interval, done, number = job.scenario.sample_interval_us, 0, 1
    end_us = min(rounds * job.round_us, job.scenario.duration_us)
    while rounds:
        time_us = min(number * interval, end_us)
        upto = rounds if time_us == end_us else time_us // job.round_us
        if upto > done:
            yield time_us / 1e6, done, upto - 1
            done = upto
        elif upto > 0:
            yield time_us / 1e6, upto - 1, upto - 1
        if time_us == end_us:
            return
        number += 1
