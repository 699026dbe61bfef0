"""What no clock runs yet, or only one, of checkpoints and failures: a line each, refused by key.

Whoever makes a clock run one of them takes its line out, or leaves the clock that does not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from flowcontrol.scenario.models import Scenario
from flowcontrol.scenario.partitions import SPILLING
from flowcontrol.scenario.problems import key_path

Where = Literal["any", "live", "virtual"]
"""The clock that does not run something; ``any``: neither does."""

Refusal = tuple[str, str, str]
"""Place, what is not emulated there (value first, verb last), and what to do instead."""

_EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"


@dataclass(frozen=True)
class Later:
    """Something that is not emulated yet.

    Attributes
    ----------
    key : str
        Its name in this table.
    where : {"any", "live", "virtual"}
        The clock that does not run it.
    find : callable
        Given a scenario, yields a refusal for each place that asks for it.
    """

    key: str
    where: Where
    find: Callable[[Scenario], Iterator[Refusal]]


def later_refusals(scenario: Scenario, clock: str) -> Iterator[tuple[Where, Refusal]]:
    """Yield what a scenario asks for and a clock does not run yet.

    Parameters
    ----------
    scenario : Scenario
        Read and checked.
    clock : str
        The clock to run it, ``live`` or ``virtual``.

    Yields
    ------
    (str, (str, str, str))
        ``any`` or the clock, and the refusal.
    """
    for line in LATER:
        if line.where in {"any", clock}:
            for refusal in line.find(scenario):
                yield line.where, refusal


def _throttles(scenario: Scenario) -> Iterator[Refusal]:
    """What a controller that goes on makes of sources that fail and go back is not modelled."""
    throttle = scenario.system.throttle
    if scenario.failures and throttle != "none":
        what = f"{throttle!r}: failures beside a throttle are"
        yield "system.throttle", what, "use none, or leave the failures out"


def _partition_types(scenario: Scenario) -> Iterator[Refusal]:
    for index, edge in enumerate(scenario.edges):
        if scenario.failures and edge.partition_type in SPILLING:
            what = f"{edge.partition_type!r}: failures over partitions on disk are"
            yield f"edges[{index}].partition_type", what, "use pipelined_bounded"


def _exclusive_buffers(scenario: Scenario) -> Iterator[Refusal]:
    """A barrier takes the credit of a channel that has no buffers of its own (section 1.8)."""
    if scenario.checkpointing is not None and scenario.options.exclusive_buffers == 0:
        what = "0: checkpoints without exclusive buffers are"
        yield key_path(["options", _EXCLUSIVE]), what, "state 1 or more"


def _jobs(scenario: Scenario) -> Iterator[Refusal]:
    if scenario.is_fault_tolerant and scenario.jobs:
        names = ", ".join(job.name for job in scenario.jobs)
        what = f"{names}: checkpoints and failures of several jobs are"
        yield "jobs", what, "state stages and edges in their place"


LATER: Final = (
    Later("throttles", "any", _throttles),
    Later("partition types", "any", _partition_types),
    Later("exclusive buffers", "any", _exclusive_buffers),
    Later("jobs", "any", _jobs),
)
"""The lines."""
