"""What a job takes up before it runs: network memory and slots."""

from collections import Counter

from flowcontrol.layout.plan import plan_memory
from flowcontrol.scenario import Scenario


def network_memory(scenario: Scenario) -> int:
    """Return the network memory that a job is granted, on all task managers together.

    Flink's ``NetworkBufferPool`` allocates all of its segments when a task manager starts, so what
    a job is granted is what those options have to be sized for; a pool without a maximum is
    granted all that is left. Overdraft is not in it: it is taken while it is free, never reserved.

    Returns the exclusive buffers of all remote channels and the sizes of all local pools, of gates
    and of result partitions, times the size of a buffer: the totals of ``GRANTED`` that
    ``flowcontrol plan`` prints, added up over task managers. Where jobs come and go, at the moment
    with the most (bytes). Raises ScenarioError if the transport has no network buffers.
    """
    moments = plan_memory(scenario).moments
    buffers = max(sum(manager.granted for manager in moment.managers) for moment in moments)
    return buffers * scenario.options.segment_bytes


def slots_used(scenario: Scenario) -> int:
    """Return how many slots a job occupies: a slot holds at most one subtask of each stage."""
    most: Counter[int] = Counter()
    for stage in scenario.stages:
        most |= Counter(stage.placement)
    return sum(most.values())
