"""What pool usages say about each subtask: the table of Flink's monitoring post.

A pool is high when it is near full over the time watched. How long queues are depends on settings,
so they say nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flowcontrol.analysis.causes.root_cause import BUSY, HIGH
from flowcontrol.analysis.frames import Tables, end_of, panel_of
from flowcontrol.analysis.subtasks import SubtaskFigures, subtask_figures
from flowcontrol.scenario import Scenario

NETWORK: Final = "the network: too little bandwidth, or credit for the round trip"
"""What empty buffers behind a full output pool say, unless that is held up by somebody else."""

ELSEWHERE: Final = "all channels flow: what is before it is held up by others"
"""What they say if it is."""

LOCAL: Final = "all its inputs are local: what waits for it is in the output pools before it"
"""What stands in the place of both readings where there are no buffers of its own."""

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
    (False, False, True): NETWORK,
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
        What floating and exclusive buffers say; empty for a source and for local inputs.
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
    samples, window = panel_of(tables, "stages"), (0.0, end_of(tables))
    if scenario.system.counts_records or not len(samples):
        return []
    figures = {
        stage.name: subtask_figures(samples.of("stage", stage.name), window)
        for stage in scenario.stages
    }
    full = {name for name, own in figures.items() if any(one.out_pool_usage >= HIGH for one in own)}
    remote, found = _remote(tables, scenario), []
    for stage, subtasks in figures.items():
        before = [edge.sender for edge in scenario.inputs(stage) if edge.sender in full]
        beside = [edge.receiver for name in before for edge in scenario.outputs(name)]
        slow = {(name, one.subtask) for name in beside for one in figures[name] if _is_slow(one)}
        for one in subtasks:
            who = (stage, one.subtask)
            said = _said(one, bool(before), bool(slow - {who}))
            if who not in remote:
                is_passing = not scenario.inputs(stage) or one.out_pool_usage >= HIGH
                said = (said[0] if is_passing else LOCAL, "")
            found.append(_reading(stage, one, said))
    return found


def _is_slow(one: SubtaskFigures) -> bool:
    """Tell whether what waits may wait for a subtask: it is busy, or its input pools are full."""
    return one.busy_ms_per_s >= 1000 * BUSY or one.in_pool_usage >= HIGH


def _remote(tables: Tables, scenario: Scenario) -> set[tuple[str, int]]:
    """Return the subtasks with an input channel from another task manager."""
    pairs = tables["channels"].group_by(["edge", "sender", "receiver"]).aggregate([])
    edges = {edge.name: edge for edge in scenario.edges}
    found = set()
    for row in pairs.to_pylist():
        edge = edges[row["edge"]]
        here = scenario.stage(edge.receiver).placement[row["receiver"]]
        if scenario.stage(edge.sender).placement[row["sender"]] != here:
            found.add((edge.receiver, int(row["receiver"])))
    return found


def _said(one: SubtaskFigures, is_full_before: bool, is_elsewhere: bool) -> tuple[str, str]:
    """Return what input and output say, and what floating and exclusive buffers say.

    Exclusive ones fill last, so that they are high alone only where there are no floating ones.
    """
    exclusive = one.exclusive_buffers_usage >= HIGH
    floating = exclusive or one.floating_buffers_usage >= HIGH
    channels = BUFFERS[floating, exclusive, is_full_before]
    if channels is NETWORK and (is_elsewhere or _is_slow(one)):
        channels = ELSEWHERE
    pools = POOLS[one.in_pool_usage >= HIGH, one.out_pool_usage >= HIGH, is_full_before]
    return pools, channels


def _reading(stage: str, one: SubtaskFigures, said: tuple[str, str]) -> PoolReading:
    return PoolReading(
        stage=stage,
        subtask=one.subtask,
        into=one.in_pool_usage,
        out=one.out_pool_usage,
        floating=one.floating_buffers_usage,
        exclusive=one.exclusive_buffers_usage,
        reading=said[0],
        channels=said[1],
    )
