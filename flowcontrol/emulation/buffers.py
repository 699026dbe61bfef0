"""Buffers of every gate and partition, from one global pool a task manager.

Tasks are set up in topological order: result partitions first, then gates, each gate's
exclusive buffers before its floating pool is shared out (Flink: ``Task``, ``SingleInputGate``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcontrol.errors import InsufficientBuffersError, Problem, ScenarioError
from flowcontrol.protocol import LocalBufferPool, NetworkBufferPool
from flowcontrol.protocol.partition_kinds import (
    BLOCKING_GATE_THRESHOLD,
    has_overdraft,
    kind_of,
    sizing_class,
    waits_for_producers,
)
from flowcontrol.protocol.rules import UNLIMITED, gate_sizes, partition_sizes
from flowcontrol.protocol.sizing import unreserved_sizes
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.problems import key_path

if TYPE_CHECKING:
    from flowcontrol.emulation.job import StagePlan

__all__ = ["GateSize", "PartitionSize", "Sizes", "size_buffers"]

EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
THRESHOLD = "taskmanager.network.memory.read-buffer.required-per-gate.max"


@dataclass(frozen=True)
class GateSize:
    """Buffers of one gate: of its floating pool, and exclusive ones of each remote channel."""

    floating: int
    exclusive: int


@dataclass(frozen=True)
class PartitionSize:
    """Buffers of one result partition: size of its pool, and overdraft that it may count on."""

    size: int
    overdraft: int


@dataclass(frozen=True)
class _Made:
    """One local pool that was created, and for whom."""

    is_gate: bool
    edge: str
    subtask: int
    manager: int
    pool: LocalBufferPool
    kind: int = 0


@dataclass(frozen=True)
class Sizes:
    """Sizes by (edge name, subtask).

    Attributes
    ----------
    gates : dict of (str, int) to GateSize
        By edge and receiver subtask.
    partitions : dict of (str, int) to PartitionSize
        By edge and sender subtask.
    """

    gates: dict[tuple[str, int], GateSize]
    partitions: dict[tuple[str, int], PartitionSize]


def size_buffers(scenario: Scenario, stages: Sequence[StagePlan]) -> Sizes:
    """Create every pool of the job and read off what each one gets.

    Raises
    ------
    ScenarioError
        If a task manager cannot promise what its subtasks require.

    Notes
    -----
    Overdraft needs a free segment of the global pool at the moment of the request. Subtasks
    of different stages do not see each other within a round, so the segments that are left
    over are set aside for overdraft beforehand, in order of creation.
    """
    if scenario.system.counts_records:
        return _no_buffers(stages)
    options = scenario.options
    shares = scenario.system.transport == "tcp"
    pools = [
        NetworkBufferPool(options.network_buffers, options.segment_bytes)
        for _ in range(scenario.cluster.task_managers)
    ]
    made: list[_Made] = []
    exclusive: dict[tuple[str, int], int] = {}
    for plan in stages:
        for subtask, manager in enumerate(plan.stage.placement):
            try:
                if shares:
                    made += _set_up_shared(scenario, plan, subtask, manager, pools[manager])
                else:
                    made += _set_up(scenario, plan, subtask, manager, pools[manager], exclusive)
            except InsufficientBuffersError as error:
                place = f"options ({plan.name} subtask {subtask}, task manager {manager})"
                raise ScenarioError([Problem(place, str(error))]) from error
    spare = [_spare(pool, [m.pool for m in made if m.manager == i]) for i, pool in enumerate(pools)]
    sizes = Sizes({}, {})
    for one in made:
        if one.is_gate:
            each = 0 if shares else exclusive[one.edge, one.subtask]
            sizes.gates[one.edge, one.subtask] = GateSize(one.pool.size, each)
        else:
            most = 0 if shares else options.max_overdraft_buffers
            overdraft = max(0, min(most, spare[one.manager]))
            overdraft *= has_overdraft(one.kind)
            spare[one.manager] -= overdraft
            sizes.partitions[one.edge, one.subtask] = PartitionSize(one.pool.size, overdraft)
    return sizes


def _no_buffers(stages: Sequence[StagePlan]) -> Sizes:
    """Return sizes of nothing: a transport that counts records has no network buffers."""
    each = [(plan, index) for plan in stages for index in range(plan.stage.parallelism)]
    return Sizes(
        {(link.name, i): GateSize(0, 0) for plan, i in each for link in plan.inputs},
        {(link.name, i): PartitionSize(0, 0) for plan, i in each for link in plan.outputs},
    )


def _set_up(
    scenario: Scenario,
    plan: StagePlan,
    subtask: int,
    manager: int,
    pool: NetworkBufferPool,
    exclusive: dict[tuple[str, int], int],
) -> list[_Made]:
    """Create the pools of one subtask: its partitions, then its gates."""
    options, made = scenario.options, []
    each, floating = options.exclusive_buffers, options.floating_buffers
    for link in plan.outputs:
        width = len(link.outgoing(subtask))
        kind = kind_of(link.edge.partition_type, width, options.sort_min_parallelism)
        sort = options.sort_min_buffers
        smallest, largest = partition_sizes(width, sizing_class(kind), each, floating, sort)
        local = pool.create_local_pool(smallest, None if largest == UNLIMITED else largest)
        made.append(_Made(False, link.name, subtask, manager, local, kind))
    for link in plan.inputs:
        incoming = link.incoming(subtask)
        threshold = options.read_buffer_threshold
        limit = UNLIMITED if threshold is None else threshold
        if threshold is None and waits_for_producers(kind_of(link.edge.partition_type, 1, 1)):
            limit = BLOCKING_GATE_THRESHOLD
        smallest, largest, own = gate_sizes(len(incoming), each, floating, limit)
        local = pool.create_local_pool(smallest, largest)
        remote = sum(not channel.is_local for channel in incoming)
        if remote > 0 and own == 0:
            raise _no_exclusive(link.name, len(incoming), threshold)
        if remote > 0:
            pool.take_exclusive(remote * own)
        exclusive[link.name, subtask] = own
        made.append(_Made(True, link.name, subtask, manager, local))
    return made


def _set_up_shared(
    scenario: Scenario, plan: StagePlan, subtask: int, manager: int, pool: NetworkBufferPool
) -> list[_Made]:
    """Create the pools of one subtask of Flink 1.4: no channel has buffers of its own."""
    each, extra = scenario.options.exclusive_buffers, scenario.options.floating_buffers
    made = []
    sides = [(False, link, len(link.outgoing(subtask))) for link in plan.outputs]
    sides += [(True, link, len(link.incoming(subtask))) for link in plan.inputs]
    for is_gate, link, channels in sides:
        smallest, largest = unreserved_sizes(channels, each, extra)
        local = pool.create_local_pool(smallest, largest)
        made.append(_Made(is_gate, link.name, subtask, manager, local))
    return made


def _no_exclusive(edge: str, channels: int, threshold: int | None) -> ScenarioError:
    """Refuse remote channels that start without credit: nothing could ever be sent."""
    option, value, least = EXCLUSIVE, 0, 1
    if threshold is not None:
        option, value, least = THRESHOLD, threshold, channels + 1
    text = (
        f"{value}: leaves the {channels} channels of {edge} into one subtask no exclusive "
        "buffers; a backlog announced to a receiver without them is not emulated yet: state at "
        f"least {least}"
    )
    return ScenarioError([Problem(key_path(["options", option]), text)])


def _spare(pool: NetworkBufferPool, local: Sequence[LocalBufferPool]) -> int:
    """Segments that nobody has been promised: free ones, less what the pools may still take."""
    return pool.free - sum(one.size - one.free for one in local)
