"""How many rounds a stage may run at once: as many as it cannot hear of anything that others do.

What a neighbour does in a round is heard a network latency later, and not before. So a stage that
has what its neighbours did up to the round before runs as many rounds as the shortest of its
channels takes, messages and credits alike, and each of them is what it would be alone
(conservative look-ahead: Chandy and Misra 1979).
"""

from typing import Final

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.processors import counts_processors
from flowcontrol.job.timed_settings import alignment_of

MOST_AT_ONCE: Final = 64
"""Rounds at once at most: a longer latency gains little, and a kill repeats them."""


def rounds_at_once(job: Job, plan: JobVertex) -> int:
    """Return how many rounds of a stage one micro-batch of the live clock holds.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        The stage.

    Returns
    -------
    int
        At least 1. It is 1 where something is heard a round later: over a channel within a task
        manager, by the coordinators of checkpoints, failures and of aligned sources, by a throttle,
        by connections and processors that tasks share; and where what executors wrote in a round
        is part of the next one's state, as of windows, or of a sink that stages its files.
    """
    scenario = job.scenario
    has_wires = scenario.cluster.bandwidth_bytes_per_s is not None
    has_wires |= scenario.system.transport == "tcp"
    if job.checkpoints is not None or job.faults is not None or has_wires or counts_processors(job):
        return 1
    stage, is_throttled = plan.stage, plan.is_source and job.scenario.system.throttle != "none"
    if is_throttled or stage.window is not None or alignment_of(job, plan) is not None:
        return 1
    if any(one.stage.output and one.stage.guarantee == "exactly-once" for one in plan.members):
        return 1
    channels = [channel for link in (*plan.inputs, *plan.outputs) for channel in link.channels]
    return min(MOST_AT_ONCE, *(job.trip(channel) for channel in channels))


def rounds_of_batch(job: Job, plan: JobVertex, batch: int) -> range:
    """Return the rounds that a micro-batch holds, by its number; empty behind the last round."""
    count = rounds_at_once(job, plan)
    return range(min(batch * count, job.rounds), min((batch + 1) * count, job.rounds))
