"""Features that a clock cannot run yet: rejected explicitly, never ignored.

Each clock has a set of checks, besides those of every clock.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, Literal

from flowcontrol.errors import Problem
from flowcontrol.scenario.inputs import read_columns
from flowcontrol.scenario.later import Refusal, later_refusals
from flowcontrol.scenario.models import Edge, Scenario
from flowcontrol.scenario.operators import named
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.partitions import SPILLING, partition_problems
from flowcontrol.scenario.problems import key_path, show
from flowcontrol.scenario.stage_models import Input
from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.scenario.time_checks import ONE_SUBTASK, batch_problems

MAX_LIVE_CHANNELS: Final = 64
"""Channels of one edge on the live clock: a row of the ledger each, every round."""

MAX_VIRTUAL_CHANNELS: Final = 1_000_000
"""Channels of one edge on the virtual clock: 1,000 subtasks to 1,000."""

MAX_THROTTLED_DEPTH: Final = 12
"""Stages below a throttled source on the live clock: it reads the ledgers of all of them, which
keep the rows of a few more rounds as they are."""

_EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
_DEBLOAT = "taskmanager.network.memory.buffer-debloat.enabled"
_PIPELINED = "pipelined_bounded"

Check = Callable[[Scenario], Iterator[Refusal]]


Clock = Literal["live", "virtual"]


def check_clock(scenario: Scenario, clock: Clock) -> list[Problem]:
    """Return the features of a scenario that a clock cannot run yet.

    Empty if it can run. Raises ValueError if there is no such clock.
    """
    if clock not in _CHECKS:
        raise ValueError(f"{clock!r} is not a clock: use 'live' or 'virtual'")
    problems = partition_problems(scenario)
    problems += batch_problems(
        needs_batches=scenario.has_event_time and scenario.time_model == "spark",
        batch_s=scenario.batch_s,
        live_round_us=scenario.live_round_us,
        clock=clock,
        throttle=scenario.system.throttle,
    )
    sets = (("any", _ANY), (clock, _CHECKS[clock]))
    refused = [(where, one) for where, checks in sets for c in checks for one in c(scenario)]
    refused += later_refusals(scenario, clock)
    problems += [_problem(where, refusal) for where, refusal in refused]
    return [named(problem) for problem in problems] if scenario.operators else problems


def _problem(where: str, refusal: Refusal) -> Problem:
    place, what, instead = refusal
    name = "any clock" if where == "any" else f"the {where} clock"
    other = ", or use --clock virtual" if where == "live" else ""
    return Problem(place, f"{what} not emulated on {name} yet: {instead}{other}")


def channels_of(edge: Edge, scenario: Scenario) -> int:
    """Return the number of channels of an edge.

    Flink: forward and rescale are pointwise, all others all to all.
    """
    senders = scenario.stage(edge.sender).parallelism
    receivers = scenario.stage(edge.receiver).parallelism
    if edge.partitioner in {"forward", "rescale"}:
        return max(senders, receivers)
    return senders * receivers


def _live_stages(scenario: Scenario) -> Iterator[Refusal]:
    depths: dict[str, int] = {}
    for stage in scenario.topological():
        above = [depths[edge.sender] + (not edge.chain) for edge in scenario.inputs(stage.name)]
        depths[stage.name] = max(above, default=0)
    depth, throttle = max(depths.values(), default=0), scenario.system.throttle
    if throttle != "none" and depth > MAX_THROTTLED_DEPTH:
        what = f"{throttle!r} over {depth} stages in a row, more than {MAX_THROTTLED_DEPTH}, is"
        yield "system.throttle", what, "leave the throttle out"


def _lone_tasks(scenario: Scenario) -> Iterator[Refusal]:
    """Refuse chains that no other task feeds or reads: a round is rows of the ledger of a link."""
    heads: dict[str, str] = {}
    for stage in scenario.topological():
        chained = [edge.sender for edge in scenario.inputs(stage.name) if edge.chain]
        heads[stage.name] = heads[chained[0]] if chained else stage.name
    ends = {(edge.sender, edge.receiver) for edge in scenario.edges if not edge.chain}
    linked = {heads[end] for pair in ends for end in pair}
    for index, edge in enumerate(scenario.edges):
        if edge.chain and edge.sender == heads[edge.sender] and edge.sender not in linked:
            linked.add(edge.sender)  # it is named once
            what = f"true: {edge.sender!r} and all behind it in one task, with no link whose ledger"
            by_rule = "set pipeline.operator-chaining.enabled: false"
            instead = by_rule if scenario.operators else "take chain out of one edge"
            yield f"edges[{index}].chain", f"{what} could hold a round, are", instead


def _many_channels(scenario: Scenario, limit: int) -> Iterator[Refusal]:
    for index, edge in enumerate(scenario.edges):
        channels = channels_of(edge, scenario)
        if channels > limit:
            what = f"{channels} channels: more than {limit} on an edge are"
            yield f"edges[{index}]", what, "lower the parallelism of its stages"


def _service_times_in_chains(scenario: Scenario) -> Iterator[Refusal]:
    chained = {end for edge in scenario.edges if edge.chain for end in (edge.sender, edge.receiver)}
    for index, stage in enumerate(scenario.stages):
        if stage.name in chained and stage.service_time != "constant":
            what = f"{stage.service_time!r}: service times that vary in a chain of stages are"
            instead = "use constant, or take chain out of its edges"
            yield f"stages[{index}].service_time", what, instead


def _records_on_a_wire(scenario: Scenario) -> Iterator[Refusal]:
    bandwidth = scenario.cluster.bandwidth_bytes_per_s
    if bandwidth is not None and scenario.system.counts_records:
        what = f"{bandwidth:g}: a bandwidth under transport {scenario.system.transport!r} is"
        yield "cluster.bandwidth_bytes_per_s", what, "leave it out"


def _debloating_without_credits(scenario: Scenario) -> Iterator[Refusal]:
    if scenario.options.debloat_enabled and scenario.system.transport != "credit":
        what = f"true with the transport {scenario.system.transport!r}: debloating is"
        yield key_path(["options", _DEBLOAT]), what, "use false, or credit"


def _no_exclusive_buffers(scenario: Scenario) -> Iterator[Refusal]:
    transport = scenario.system.transport
    if scenario.options.exclusive_buffers == 0 and transport not in {"credit", "local"}:
        what = f"0: channels without exclusive buffers under transport {transport!r}, which has no "
        what += "credit to announce a backlog for, are"
        yield key_path(["options", _EXCLUSIVE]), what, "state at least 1, or use credit"


def _options(scenario: Scenario) -> Iterator[Refusal]:
    for key, value in scenario.options.unemulated:
        option = OPTIONS[key]
        default = "leave it out" if option.default is None else f"use {show(option.default)}"
        yield key_path(["options", key]), f"{show(value)}: {option.meaning}:", default


def _partition_types(scenario: Scenario, when: str) -> Iterator[Refusal]:
    for index, edge in enumerate(scenario.edges):
        if edge.partition_type != _PIPELINED:
            what = f"{edge.partition_type!r}: other kinds of result partition{when} are"
            yield f"edges[{index}].partition_type", what, f"use {_PIPELINED}"


def _partition_types_of_other_systems(scenario: Scenario) -> Iterator[Refusal]:
    """Refuse other kinds of result partition without credits or behind a throttle."""
    system = scenario.system
    if system.transport not in {"credit", "local"}:
        for place, what, instead in _partition_types(scenario, " without credits"):
            yield place, what, f"{instead}, or the transport credit"
    for index, edge in enumerate(scenario.edges):
        if edge.partition_type in SPILLING and system.throttle != "none":
            what = f"{edge.partition_type!r} with throttle {system.throttle!r}: sources"
            what += " that are slowed before a partition on disk are"
            instead = f"use {_PIPELINED}, or the throttle none"
            yield f"edges[{index}].partition_type", what, instead


def _ages_from_arrival(scenario: Scenario) -> Iterator[Refusal]:
    """Refuse latencies from arrival where a throttle looks at the same ages."""
    throttle = scenario.system.throttle
    for index, stage in enumerate(scenario.stages):
        if THROTTLE_PARTS[throttle].needs_ages and stage.latency_from == "arrival":
            what = f"'arrival' with throttle {throttle!r}, which looks at when records are emitted,"
            yield f"stages[{index}].latency_from", f"{what} is", "use emission"


def _chained_logs(scenario: Scenario) -> Iterator[Refusal]:
    """Refuse a source with a log that is chained to a stage with a rate."""
    throttle = scenario.system.throttle
    chained = {edge.receiver: edge.sender for edge in scenario.edges if edge.chain}
    for index, edge in enumerate(scenario.edges):
        head = edge.sender
        while head in chained:
            head = chained[head]
        has_rate = scenario.stage(edge.receiver).service_rate is not None
        source = scenario.stage(head)
        is_of_source = edge.chain and source.is_source and not source.reads_log
        if THROTTLE_PARTS[throttle].has_log and is_of_source and has_rate:
            what = f"true with throttle {throttle!r}: a service_rate in the task"
            instead = f"leave it out, take the service_rate of {edge.receiver!r} out, or use"
            what, instead = f"{what} of a source with a log is", f"{instead} another throttle"
            yield f"edges[{index}].chain", what, instead


def _jobs_of_other_systems(scenario: Scenario) -> Iterator[Refusal]:
    system = scenario.system
    if not scenario.shares_memory:
        return
    if system.transport not in {"credit", "local"} or system.throttle != "none":
        what = f"{system.transport!r} with throttle {system.throttle!r}: jobs that start and stop"
        yield "system", f"{what} without credits are", "use flink, or give no job a time"
    yield from _partition_types(scenario, " of jobs that start and stop")


def _keys_further_down(scenario: Scenario) -> Iterator[Refusal]:
    for index, edge in enumerate(scenario.edges):
        if edge.key is not None and scenario.stage(edge.sender).input is None:
            what = f"{edge.key!r}: hash by a column further down than the source that replays it is"
            instead = "use channel_weights, or hash on the edge that leaves the source"
            if scenario.stage(edge.receiver).window is not None:
                instead = f"use {ONE_SUBTASK}, or hash straight from the source into the window"
            yield f"edges[{index}].key", what, instead


def _mixed_rows(scenario: Scenario) -> Iterator[Refusal]:
    """Refuse a stage in which rows of different columns would meet."""
    carried: dict[str, tuple[str, ...] | None] = {}
    for stage in scenario.topological():
        senders = [edge.sender for edge in scenario.inputs(stage.name)]
        found = {sender: carried[sender] for sender in senders}
        carried[stage.name] = next(iter(found.values())) if found else _columns(stage.input)
        if len(set(found.values())) > 1:
            place = f"stages[{scenario.stages.index(stage)}]"
            what = f"rows of different columns from {', '.join(found)} into {stage.name!r} are"
            yield place, what, "give them inputs with the same columns"


def _columns(source: Input | None) -> tuple[str, ...] | None:
    return None if source is None else read_columns(source.format, Path(source.path))


_ANY: Final[tuple[Check, ...]] = (
    _no_exclusive_buffers,
    _options,
    _keys_further_down,
    _records_on_a_wire,
    _debloating_without_credits,
    _chained_logs,
    _ages_from_arrival,
    _service_times_in_chains,
    _partition_types_of_other_systems,
    _jobs_of_other_systems,
)
_CHECKS: Final[dict[str, tuple[Check, ...]]] = {
    "live": (
        _live_stages,
        _lone_tasks,
        _mixed_rows,
        partial(_many_channels, limit=MAX_LIVE_CHANNELS),
    ),
    "virtual": (partial(_many_channels, limit=MAX_VIRTUAL_CHANNELS),),
}
