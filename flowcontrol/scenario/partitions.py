"""Kinds of result partition on a scenario's edges: which run together, and what they need.

The rules of the kinds are in :mod:`flowcontrol.protocol.network.partition_kinds`; this module has
what a scenario must say so that they can be emulated.
"""

from collections.abc import Iterator
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.models import Edge, Scenario
from flowcontrol.scenario.stage_models import Stage

PIPELINED: Final = frozenset({"pipelined_bounded", "pipelined_approximate", "pipelined"})
"""Types whose consumers run beside their producers, always."""

BLOCKING: Final = frozenset({"blocking", "sort_merge"})
"""Types whose consumers start when all producers have finished."""

SPILLING: Final = BLOCKING | {"hybrid_full", "hybrid_selective"}
"""Types that write to disk."""

LEAST_SORT_BUFFERS: Final = 2
"""Buffers without which Flink's ``SortMergeResultPartition`` does not start."""


def regions_of(scenario: Scenario) -> dict[str, int]:
    """Return the number of the pipelined region of each stage.

    Flink's ``SchedulingPipelinedRegion``, for whole stages.

    Returns two stages have the same number if pipelined edges, in either direction, join them; a
    number is the place of the region's first stage in the scenario.
    """
    number = {stage.name: place for place, stage in enumerate(scenario.stages)}
    joined = [edge for edge in scenario.edges if edge.chain or edge.partition_type in PIPELINED]
    for _ in scenario.stages:
        for edge in joined:
            least = min(number[edge.sender], number[edge.receiver])
            number[edge.sender] = number[edge.receiver] = least
    return number


def is_finite(stage: Stage) -> bool:
    """Tell whether a source ends: it replays rows, or all its schedules end in a rate of 0.

    Of a source that reads a log those of the arrivals count.
    """
    if stage.input is not None:
        return True
    schedules = stage.arrival_rate or stage.emit_rate or ()
    return all(schedule.phases[-1].rate == 0 for schedule in schedules)


def partition_problems(scenario: Scenario) -> list[Problem]:
    """Return why the partitions of a scenario cannot be emulated on the virtual clock.

    Empty if they can.
    """
    found: list[Problem] = []
    regions = regions_of(scenario)
    for index, edge in enumerate(scenario.edges):
        place = f"edges[{index}].partition_type"
        texts = list(_unable(scenario, edge))
        if edge.partition_type in BLOCKING:
            texts += [*_endless(scenario, edge), *_mixed(scenario, edge, regions)]
        found += [Problem(place, f"{edge.partition_type!r}: {text}") for text in texts]
    return found


def _unable(scenario: Scenario, edge: Edge) -> Iterator[str]:
    """Say what an edge cannot do with what the rest of the scenario states."""
    kind, cluster = edge.partition_type, scenario.cluster
    if kind == "pipelined_approximate":
        yield (
            "differs from pipelined_bounded only after a failure, and its approximate recovery of "
            "single tasks is not emulated: use pipelined_bounded"
        )
    if kind not in SPILLING:
        return
    if scenario.checkpointing is not None:
        yield (
            "no checkpoints: Checkpointing is not supported and not needed when executing jobs in "
            "BATCH mode, of which this is a partition: leave out "
            "execution.checkpointing.interval and savepoints, or use pipelined_bounded"
        )
    if edge.chain:
        yield "a chained edge has no result partition: take chain or partition_type out"
    if cluster.disk_bytes_per_s is None:
        yield (
            "is written to disk, and nothing says how fast: state cluster.disk_bytes_per_s, the "
            "bytes/s that the disk of a task manager reads and writes, as 200e6"
        )
    if cluster.bandwidth_bytes_per_s is not None:
        yield (
            f"not emulated together with cluster.bandwidth_bytes_per_s "
            f"({cluster.bandwidth_bytes_per_s:g}) yet: leave one of them out"
        )
    if scenario.options.debloat_enabled:
        yield "not emulated with buffers that change their size yet: turn debloating off"
    if kind == "sort_merge" and scenario.options.sort_min_buffers < LEAST_SORT_BUFFERS:
        yield (
            f"{scenario.options.sort_min_buffers} is too few sort buffers: raise "
            "taskmanager.network.sort-shuffle.min-buffers to at least "
            f"{LEAST_SORT_BUFFERS}"
        )
    receivers = scenario.stage(edge.receiver).parallelism
    if edge.partitioner == "broadcast" and receivers > 1:
        yield (f"not emulated for a broadcast to {receivers} subtasks yet: use another partitioner")


def _endless(scenario: Scenario, edge: Edge) -> Iterator[str]:
    """Name the sources before a blocking edge that never end."""
    before = {edge.sender, *scenario.upstream(edge.sender)}
    for stage in scenario.stages:
        if stage.is_source and stage.name in before and not is_finite(stage):
            rate = "arrival_rate" if stage.reads_log else "emit_rate"
            yield (
                f"{edge.receiver!r} starts when {edge.sender!r} has finished, and the source "
                f"{stage.name!r} never ends: let its {rate} end in a phase of rate 0, give it "
                "an input to replay, or use hybrid_full"
            )


def _mixed(scenario: Scenario, edge: Edge, regions: dict[str, int]) -> Iterator[str]:
    """Name what would have to run beside a consumer before that has started."""
    own = regions[edge.receiver]
    if regions[edge.sender] == own:
        yield (
            f"pipelined edges join {edge.sender!r} and {edge.receiver!r} as well, so that one "
            "would wait for the other for ever: make all edges between them blocking"
        )
        return
    sources = [s.name for s in scenario.stages if s.is_source and regions[s.name] == own]
    for name in sources:
        yield (
            f"the source {name!r} runs in one region with {edge.receiver!r} and would start only "
            f"when {edge.sender!r} has finished; a source that starts later is not emulated yet: "
            f"make an edge between {name!r} and {edge.receiver!r} blocking too"
        )
