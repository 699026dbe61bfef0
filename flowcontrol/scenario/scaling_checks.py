"""What a controller is refused beside: it begins the job anew, at another parallelism."""

from collections.abc import Iterator, Sequence

from flowcontrol.errors import Problem
from flowcontrol.scenario.models import Edge, Scenario
from flowcontrol.scenario.partitions import SPILLING
from flowcontrol.scenario.problems import key_path
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.scenario.stage_models import Stage

Refusal = tuple[str, str, str]
"""Place, what is not emulated there (value first, verb last), and what to do instead."""

_UNALIGNED = "execution.checkpointing.unaligned.enabled"
_LATENCY = "metrics.latency.interval"


def scaling_refusals(scenario: Scenario) -> Iterator[Refusal]:
    """Yield what a scenario with a controller asks for and no clock runs beside it.

    Yields place, what is not emulated there, and what to do instead.
    """
    if scenario.scaling is None:
        return
    if scenario.jobs:
        what = f"{scenario.scaling.policy!r} with several jobs is"
        yield "scaling", what, "state stages and edges in the place of jobs"
        return
    if scenario.operators:
        what = f"{scenario.scaling.policy!r} with operators is"
        yield "scaling", what, "state stages in their place, chained by chain: true"
        return
    yield from _beside(scenario)
    by_hand = placed_by_hand(scenario)
    scaled = _scaled(scenario)
    for index, stage in enumerate(scenario.stages):
        place = f"stages[{index}]"
        yield from _of_stage(stage, place)
        if stage.name in scaled:
            yield from _of_scaled(stage, place, is_placed=stage.name in by_hand)
    for index, edge in enumerate(scenario.edges):
        yield from _of_edge(edge, f"edges[{index}]", is_scaled=edge.receiver in scaled)


def without_scaling(scenario: Scenario, what: str) -> list[Problem]:
    """Return the problem of a controller where only one parallelism makes sense.

    ``what``: who does not run it, as ``a step``.
    """
    if scenario.scaling is None:
        return []
    text = f"{scenario.scaling.policy!r}: {what} has no controller; leave scaling out"
    return [Problem("scaling", text)]


def _beside(scenario: Scenario) -> Iterator[Refusal]:
    """Yield what of the whole job is refused."""
    system, options = scenario.system, scenario.options
    if system.transport != "credit":
        yield "system.transport", f"{system.transport!r}: scaling without credit is", "use credit"
    if system.throttle != "none":
        yield "system.throttle", f"{system.throttle!r}: scaling beside a throttle is", "use none"
    for key in ("savepoints", "failures"):
        if getattr(scenario, key):
            yield key, f"{len(getattr(scenario, key))}: {key} beside scaling are", "leave them out"
    if scenario.trace is not None:
        yield "trace", "a trace of a run with scaling is", "leave it out"
    checkpointing = scenario.checkpointing
    if checkpointing is not None and checkpointing.is_unaligned:
        what = "true: scaling from checkpoints with records in flight is"
        yield key_path(["options", _UNALIGNED]), what, "use aligned checkpoints"
    if options.latency_interval_us:
        what = f"{options.latency_interval_us // 1000} ms: latency markers beside scaling are"
        yield key_path(["options", _LATENCY]), what, "leave it out"
    if scenario.cluster.control_latency_us:
        what = f"{scenario.cluster.control_latency_ms:g} ms: a control plane beside scaling is"
        yield "cluster.control_latency_ms", what, "state the time of a restart in scaling"


def _of_stage(stage: Stage, place: str) -> Iterator[Refusal]:
    """Yield what of any stage is refused."""
    for key in ("event_time", "window", "input", "output", "state"):
        if getattr(stage, key) is not None:
            yield f"{place}.{key}", f"{stage.name!r}: {key} beside scaling is", "leave it out"
    if stage.guarantee != "at-least-once":
        what = f"{stage.guarantee!r}: what readers see beside scaling is"
        yield f"{place}.guarantee", what, "leave it out"
    if not stage.replayable:
        what = "false: a source that cannot rewind beside scaling is"
        yield f"{place}.replayable", what, "leave it out"


def _of_scaled(stage: Stage, place: str, *, is_placed: bool) -> Iterator[Refusal]:
    """Yield what of a stage is refused that may get another number of subtasks."""
    for key in ("emit_rate", "arrival_rate", "service_rate"):
        rates = getattr(stage, key)
        if rates and any(one != rates[0] for one in rates):
            what = f"{stage.name!r}: scaling subtasks with rates of their own is"
            yield f"{place}.{key}", what, "state one rate for all"
    every = tuple(range(stage.parallelism))
    for number, stall in enumerate(stage.stalls):
        if stall.subtasks != every:
            what = f"{list(stall.subtasks)}: stalls of single subtasks beside scaling are"
            yield f"{place}.stalls[{number}].subtasks", what, "stall all of them"
    if is_placed:
        what = f"{list(stage.placement)}: scaling subtasks that are placed by hand is"
        yield f"{place}.placement", what, "leave it out"


def _of_edge(edge: Edge, place: str, *, is_scaled: bool) -> Iterator[Refusal]:
    if edge.partition_type in SPILLING:
        what = f"{edge.partition_type!r}: scaling with partitions on disk is"
        yield f"{place}.partition_type", what, "use pipelined_bounded"
    if is_scaled and edge.channel_weights is not None:
        what = f"{edge.name!r}: shares of receivers whose number changes are"
        yield f"{place}.channel_weights", what, "use hash with key_weights or a key_distribution"


def _scaled(scenario: Scenario) -> set[str]:
    """Return the stages that the controller may scale."""
    own = scenario.scaling
    assert own is not None
    heads = {stage.name: _head(scenario, stage.name) for stage in scenario.stages}
    sources = [source.name for source in scenario.sources]
    if own.policy == "ds2":
        return {name for name, head in heads.items() if head not in sources}
    excluded = own.autoscaler.vertex_exclude_ids
    fixed = [one.name for one in scenario.sources if not (one.reads_log or one.is_total_divided)]
    return {name for name, head in heads.items() if head not in (*excluded, *fixed)}


def _head(scenario: Scenario, name: str) -> str:
    """Return the first stage of a chain."""
    onto = next((edge.sender for edge in scenario.inputs(name) if edge.chain), None)
    return name if onto is None else _head(scenario, onto)


def placed_by_hand(scenario: Scenario) -> Sequence[str]:
    """Return the stages whose subtasks are not where they are by default."""
    mapping = scenario.canonical()
    for row in mapping["stages"]:
        row.pop("placement", None)
    bare = parse_scenario(mapping, scenario.name)
    return [one.name for one in scenario.stages if one.placement != bare.stage(one.name).placement]
