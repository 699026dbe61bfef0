"""What is read, but not emulated on a clock yet: refused in so many words, never ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from flowcontrol.errors import Problem
from flowcontrol.scenario.inputs import read_columns
from flowcontrol.scenario.models import Edge, Input, Scenario, Stage
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.problems import key_path, show

__all__ = ["MAX_LIVE_CHANNELS", "channels_of", "check_clock"]

MAX_LIVE_CHANNELS: Final = 64
"""Channels of one edge on the live clock: a row of the ledger each, every round."""

_EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
_PIPELINED = "pipelined_bounded"


def check_clock(scenario: Scenario, clock: Literal["live", "virtual"]) -> list[Problem]:
    """Return what a scenario asks for that a clock does not emulate yet.

    Parameters
    ----------
    scenario : Scenario
        Read and checked.
    clock : {"live", "virtual"}
        Which clock is to run it.

    Returns
    -------
    list of Problem
        Empty if it can run.

    Raises
    ------
    ValueError
        If there is no such clock.
    """
    if clock == "virtual":
        text = "'virtual': the virtual clock is not built yet; use --clock live"
        return [Problem("--clock", text)]
    if clock != "live":
        raise ValueError(f"{clock!r} is no clock: use 'live' or 'virtual'")
    return [
        *_cluster_problems(scenario),
        *_option_problems(scenario),
        *(p for i, stage in enumerate(scenario.stages) for p in _stage_problems(i, stage)),
        *_mixed_rows(scenario),
        *(p for i, edge in enumerate(scenario.edges) for p in _edge_problems(i, edge, scenario)),
    ]


def channels_of(edge: Edge, scenario: Scenario) -> int:
    """Return the number of channels of an edge.

    Notes
    -----
    Flink: forward and rescale are pointwise, all others all to all.
    """
    senders = scenario.stage(edge.sender).parallelism
    receivers = scenario.stage(edge.receiver).parallelism
    if edge.partitioner in {"forward", "rescale"}:
        return max(senders, receivers)
    return senders * receivers


def _not_yet(what: str, instead: str) -> str:
    return f"{what} not emulated on the live clock yet: {instead}"


def _cluster_problems(scenario: Scenario) -> Iterator[Problem]:
    cluster = scenario.cluster
    if cluster.bandwidth_bytes_per_s is not None:
        what = f"{cluster.bandwidth_bytes_per_s:g}: a connection's bandwidth is"
        yield Problem("cluster.bandwidth_bytes_per_s", _not_yet(what, "leave it out"))
    if cluster.network_latency_us > scenario.live_round_us:
        round_ms = scenario.live_round_us / 1000
        what = f"{cluster.network_latency_ms:g} ms: a latency of more than one round is"
        instead = f"state at most {round_ms:g} ms, the length of a round, or a longer round_ms"
        yield Problem("cluster.network_latency_ms", _not_yet(what, instead))


def _option_problems(scenario: Scenario) -> Iterator[Problem]:
    if scenario.options.exclusive_buffers == 0:
        what = "0: a backlog announced to a receiver without exclusive buffers is"
        yield Problem(key_path(["options", _EXCLUSIVE]), _not_yet(what, "state at least 1"))
    for key, value in scenario.options.unemulated:
        option = OPTIONS[key]
        default = "leave it out" if option.default is None else f"use {show(option.default)}"
        text = f"{show(value)}: {option.meaning}: not emulated on any clock yet: {default}"
        yield Problem(key_path(["options", key]), text)


def _stage_problems(index: int, stage: Stage) -> Iterator[Problem]:
    if stage.stalls:
        what = f"{len(stage.stalls)} given: stalls are"
        instead = "write a service_rate with a phase of rate 0"
        yield Problem(f"stages[{index}].stalls", _not_yet(what, instead))
    if stage.service_time != "constant":
        what = f"{stage.service_time!r}: service times that vary are"
        yield Problem(f"stages[{index}].service_time", _not_yet(what, "use constant"))


def _edge_problems(index: int, edge: Edge, scenario: Scenario) -> Iterator[Problem]:
    place = f"edges[{index}]"
    channels = channels_of(edge, scenario)
    if channels > MAX_LIVE_CHANNELS:
        what = f"{channels} channels: more than {MAX_LIVE_CHANNELS} on an edge are"
        yield Problem(place, _not_yet(what, "lower the parallelism of its stages"))
    if edge.partitioner == "broadcast" and len(scenario.stage(edge.receiver).placement) > 1:
        what = "'broadcast': one buffer that all receivers share is"
        yield Problem(f"{place}.partitioner", _not_yet(what, "use another partitioner"))
    if edge.chain:
        what = "true: stages chained into one task are"
        yield Problem(f"{place}.chain", _not_yet(what, "leave it out"))
    if edge.partition_type != _PIPELINED:
        what = f"{edge.partition_type!r}: other kinds of result partition are"
        yield Problem(f"{place}.partition_type", _not_yet(what, f"use {_PIPELINED}"))
    if edge.key is not None and scenario.stage(edge.sender).input is None:
        what = f"{edge.key!r}: hash by a column further down than the source that replays it is"
        instead = "use channel_weights, or hash on the edge that leaves the source"
        yield Problem(f"{place}.key", _not_yet(what, instead))


def _mixed_rows(scenario: Scenario) -> Iterator[Problem]:
    """Refuse a stage in which rows of different columns would meet."""
    carried: dict[str, tuple[str, ...] | None] = {}
    for stage in scenario.topological():
        senders = [edge.sender for edge in scenario.inputs(stage.name)]
        found = {sender: carried[sender] for sender in senders}
        carried[stage.name] = next(iter(found.values())) if found else _columns(stage.input)
        if len(set(found.values())) > 1:
            place = f"stages[{scenario.stages.index(stage)}]"
            what = f"rows of different columns from {', '.join(found)} into {stage.name!r} are"
            yield Problem(place, _not_yet(what, "give them inputs with the same columns"))


def _columns(source: Input | None) -> tuple[str, ...] | None:
    return None if source is None else read_columns(source.format, source.path)
