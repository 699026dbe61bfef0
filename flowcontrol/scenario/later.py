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
    within : tuple of str
        Keys of the table that are wider: where one of them is refused, this is not looked at.
    """

    key: str
    where: Where
    find: Callable[[Scenario], Iterator[Refusal]]
    within: tuple[str, ...] = ()


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
    refused: set[str] = set()
    for line in LATER:
        if line.where not in {"any", clock} or refused.intersection(line.within):
            continue
        for refusal in line.find(scenario):
            refused.add(line.key)
            yield line.where, refusal


def _stops(scenario: Scenario) -> Iterator[Refusal]:
    for index, savepoint in enumerate(scenario.savepoints):
        if savepoint.stop and any(stage.reads_log for stage in scenario.sources):
            what = "true: stopping sources that read a log is"
            yield f"savepoints[{index}].stop", what, "leave it out, or the arrival_rate"


def _state_of_failing(scenario: Scenario) -> Iterator[Refusal]:
    """What a restart makes of a synchronous part that it cuts off differs between the clocks."""
    for index, stage in enumerate(scenario.stages):
        if stage.state is not None and scenario.failures:
            what = f"of {stage.name!r}: state in a job that fails is"
            yield f"stages[{index}].state", what, "leave it out, or the failures"


def _keys_of_columns(scenario: Scenario) -> Iterator[Refusal]:
    """How many keys a column of replayed rows has is not counted."""
    by_column = {edge.receiver for edge in scenario.edges if edge.key is not None}
    for index, stage in enumerate(scenario.stages):
        if stage.state is not None and stage.state.bytes_per_key and stage.name in by_column:
            what = f"{stage.state.bytes_per_key}: state for each key of a column is"
            yield f"stages[{index}].state.bytes_per_key", what, "state bytes or bytes_per_record"


def _guarantees(scenario: Scenario) -> Iterator[Refusal]:
    for index, stage in enumerate(scenario.stages):
        if stage.guarantee != "at-least-once":
            what = f"{stage.guarantee!r}: another guarantee than at-least-once is"
            yield f"stages[{index}].guarantee", what, "leave it out"


def _failures(scenario: Scenario) -> Iterator[Refusal]:
    if scenario.failures:
        first = scenario.failures[0]
        what = f"{first.victim} at {float(first.at_s):g} s: failures and restarts are"
        yield "failures", what, "leave them out"


def _transports(scenario: Scenario) -> Iterator[Refusal]:
    transport = scenario.system.transport
    if scenario.is_fault_tolerant and transport not in {"credit", "tcp"}:
        what = f"{transport!r}: checkpoints and failures under another transport than credit are"
        yield "system.transport", what, "use credit"


def _throttles(scenario: Scenario) -> Iterator[Refusal]:
    throttle = scenario.system.throttle
    if scenario.is_fault_tolerant and throttle != "none":
        what = f"{throttle!r}: checkpoints and failures beside a throttle are"
        yield "system.throttle", what, "use none"


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
    Later("stops", "any", _stops),
    Later("keys of columns", "any", _keys_of_columns),
    Later("guarantees", "any", _guarantees),
    Later("failures", "live", _failures),
    Later("state that fails", "any", _state_of_failing, within=("failures",)),
    Later("transports", "any", _transports),
    Later("throttles", "any", _throttles),
    Later("partition types", "any", _partition_types),
    Later("exclusive buffers", "any", _exclusive_buffers),
    Later("jobs", "any", _jobs, within=("failures",)),
)
"""The lines, wider ones first."""
