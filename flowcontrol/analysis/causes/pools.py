"""What the usages of the pools say of each subtask: the table of Flink's monitoring post.

A pool is high when it is near full over the time watched. How long queues are depends on settings,
so they say nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flowcontrol.analysis.causes.root_cause import HIGH
from flowcontrol.analysis.frames import Tables, end_of, result_frame
from flowcontrol.analysis.per_subtask import SubtaskFigures, subtask_figures
from flowcontrol.scenario import Scenario

POOLS: Final[Mapping[tuple[bool, bool, bool], str]] = {
    (False, False, False): "fine",
    (False, False, True): "fine",
    (False, True, False): "blocked by what follows or by the network, for the moment",
    (False, True, True): "blocked by what follows or by the network, for the moment",
    (True, False, False): "pressure is building before it",
    (True, False, True): "limits: it has input, room for output, and holds up what is before it",
    (True, True, False): "blocked from further down, or by the network",
    (True, True, True): "blocked from further down, or by the network, and passes it on",
}
"""By in and out, high or not, and whether the output of any stage right before it is high."""

BUFFERS: Final[Mapping[tuple[bool, bool, bool], str]] = {
    (False, False, False): "all channels flow",
    (False, False, True): "the network: too little bandwidth, or credit for the round trip",
    (True, False, False): "some channels will be held up soon",
    (True, False, True): "some channels are held up: uneven ones",
    (True, True, False): "most channels will be held up soon",
    (True, True, True): "most channels are held up, or all",
}
"""By floating and exclusive buffers, high or not, and the same of what is before."""


@dataclass(frozen=True)
class PoolReading:
    """What the usages of the pools say of a subtask.

    Attributes
    ----------
    stage : str
        Its stage.
    subtask : int
        Its index, from 0.
    into, out : float, ratio
        Usage of its input and of its output pools, means over the run.
    floating, exclusive : float, ratio
        Usage of the floating and of the exclusive buffers of its inputs.
    reading : str
        What input and output say.
    channels : str
        What floating and exclusive buffers say; empty for a source.
    """

    stage: str
    subtask: int
    into: float
    out: float
    floating: float
    exclusive: float
    reading: str
    channels: str


def pool_readings(tables: Tables, scenario: Scenario) -> list[PoolReading]:
    """Return what the usages of the pools say of each subtask of a run.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        ``stages`` of the run.
    scenario : Scenario
        What was run.

    Returns
    -------
    list of PoolReading
        In the order of the scenario; empty without samples, and of a transport that has no pools.

    Notes
    -----
    Section 5.4 of the reference, "How to identify the source of backpressure" (July 2019).
    """
    samples, window = result_frame(tables, "stages"), (0.0, end_of(tables))
    if scenario.system.counts_records or samples.empty:
        return []
    figures = {
        stage.name: subtask_figures(samples[samples["stage"] == stage.name], window)
        for stage in scenario.stages
    }
    full = {
        name: any(one.out_pool_usage >= HIGH for one in subtasks)
        for name, subtasks in figures.items()
    }
    return [
        _reading(stage, one, [full[edge.sender] for edge in scenario.inputs(stage)])
        for stage, subtasks in figures.items()
        for one in subtasks
    ]


def _reading(stage: str, one: SubtaskFigures, before: list[bool]) -> PoolReading:
    """Return the reading of a subtask, given which stages before it have a full output pool."""
    return PoolReading(
        stage=stage,
        subtask=one.subtask,
        into=one.in_pool_usage,
        out=one.out_pool_usage,
        floating=one.floating_buffers_usage,
        exclusive=one.exclusive_buffers_usage,
        reading=POOLS[one.in_pool_usage >= HIGH, one.out_pool_usage >= HIGH, any(before)],
        channels=_of_buffers(one, any(before)) if before else "",
    )


def _of_buffers(one: SubtaskFigures, is_full_before: bool) -> str:
    """Return what floating and exclusive buffers say.

    Exclusive ones fill last, so that they are high alone only where there are no floating ones.
    """
    exclusive = one.exclusive_buffers_usage >= HIGH
    return BUFFERS[exclusive or one.floating_buffers_usage >= HIGH, exclusive, is_full_before]
