"""The parts of a scenario that a clock does not run: the checks behind ``refusals.yaml``."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.graph import is_finite, regions_of
from flowcontrol.scenario.inputs import read_columns
from flowcontrol.scenario.models import Edge, Scenario
from flowcontrol.scenario.operators import named
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.problems import key_path, show
from flowcontrol.scenario.refusals import Clock as Clock
from flowcontrol.scenario.refusals import Finder, refused
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.scenario.stage_models import Input, Stage
from flowcontrol.scenario.system import THROTTLE_PARTS

Parts = Iterator[dict[str, Any]]


MOST_WRITER_BYTES: Final = (1 << 31) - 1
"""Largest memory of a writer of Spark's streaming shuffle, which counts it in an int."""


def check_clock(scenario: Scenario, clock: Clock) -> list[Problem]:
    """Return the features of a scenario that a clock cannot run yet.

    Empty if it can run. Raises ValueError if there is no such clock.
    """
    if clock not in {"live", "virtual"}:
        raise ValueError(f"{clock!r} is not a clock: use 'live' or 'virtual'")
    problems = [problem for _, problem in refused(clock, _Facts(scenario=scenario), FINDERS)]
    return [named(problem) for problem in problems] if scenario.operators else problems


def channels_of(edge: Edge, scenario: Scenario) -> int:
    """Return the number of channels of an edge.

    Flink: forward and rescale are pointwise, all others all to all.
    """
    senders = scenario.stage(edge.sender).parallelism
    receivers = scenario.stage(edge.receiver).parallelism
    if edge.partitioner in {"forward", "rescale"}:
        return max(senders, receivers)
    return senders * receivers


def without_scaling(scenario: Scenario, what: str) -> list[Problem]:
    """Return the problem of a controller where only one parallelism makes sense.

    ``what``: who does not run it, as ``a step``.
    """
    if scenario.scaling is None:
        return []
    text = f"{scenario.scaling.policy!r}: {what} has no controller: remove scaling"
    return [Problem("scaling", text)]


def placed_by_hand(scenario: Scenario) -> list[str]:
    """Return the stages whose subtasks are not where they are by default."""
    mapping = scenario.canonical()
    for row in mapping["stages"]:
        row.pop("placement", None)
    bare = parse_scenario(mapping, scenario.name)
    return [one.name for one in scenario.stages if one.placement != bare.stage(one.name).placement]


def _depth(scenario: Scenario) -> int:
    """Return how many exchanges are in a row."""
    depths: dict[str, int] = {}
    for stage in scenario.topological():
        above = [depths[edge.sender] + (not edge.chain) for edge in scenario.inputs(stage.name)]
        depths[stage.name] = max(above, default=0)
    return max(depths.values(), default=0)


def _is_without_watermarks(scenario: Scenario) -> bool:
    return scenario.system.counts_records or scenario.system.transport == "tcp"


_FACTS: Final[dict[str, Callable[[Scenario], object]]] = {
    "throttle": lambda s: THROTTLE_PARTS[s.system.throttle],
    "has_credits": lambda s: s.system.transport in {"credit", "local"},
    "is_without_watermarks": _is_without_watermarks,
    "is_throttled_or_without_credits": lambda s: (
        s.system.transport not in {"credit", "local"} or s.system.throttle != "none"
    ),
    "is_throttled_among_buffers": lambda s: (
        s.system.throttle != "none" and not s.system.counts_records
    ),
    "spills": lambda s: any(edge.is_spilling for edge in s.edges),
    "job_names": lambda s: ", ".join(job.name for job in s.jobs),
    "latency_ms": lambda s: s.options.latency_interval_us // 1000,
    "has_flinks_time": lambda s: s.has_stamps and s.time_model != "spark",
    "has_sparks_time": lambda s: s.has_stamps and s.time_model == "spark",
    "has_batches": lambda s: s.has_event_time and s.time_model == "spark",
    "is_round": lambda s: s.batch_us == s.live_round_us,
    "batch": lambda s: float(s.batch_s or 0),
    "batch_ms": lambda s: float((s.batch_s or 0) * 1000),
    "round": lambda s: s.live_round_us / 1000,
    "scales": lambda s: s.scaling is not None and not s.jobs and not s.operators,
    "depth": _depth,
}
"""What rows ask of a scenario beside its attributes."""


class _Facts(dict[str, Any]):
    """Facts of a scenario, each worked out when it is asked for."""

    def __missing__(self, name: str) -> Any:
        scenario = self["scenario"]
        self[name] = _FACTS[name](scenario) if name in _FACTS else getattr(scenario, name)
        return self[name]


def _stages(scenario: Scenario) -> Parts:
    for index, stage in enumerate(scenario.stages):
        yield {"index": index, "stage": stage}


def _edges(scenario: Scenario) -> Parts:
    by_name = {stage.name: stage for stage in scenario.stages}
    for index, edge in enumerate(scenario.edges):
        ends = {"sender": by_name[edge.sender], "receiver": by_name[edge.receiver]}
        yield {"index": index, "edge": edge, "channels": channels_of(edge, scenario), **ends}


def _operators(scenario: Scenario) -> Parts:
    for index, one in enumerate(scenario.operators):
        yield {"index": index, "operator": one, "inputs": len(scenario.inputs(one.name))}


def _unemulated(scenario: Scenario) -> Parts:
    """Yield Flink's options that change what no clock emulates."""
    for key, value in scenario.options.unemulated:
        option = OPTIONS[key]
        default = "leave it out" if option.default is None else f"use {show(option.default)}"
        place = key_path(["options", key])
        yield {"place": place, "value": show(value), "meaning": option.meaning, "default": default}


def _head(scenario: Scenario, name: str) -> str:
    """Return the first stage of a chain."""
    onto = next((edge.sender for edge in scenario.inputs(name) if edge.chain), None)
    return name if onto is None else _head(scenario, onto)


def _lone_tasks(scenario: Scenario) -> Parts:
    """Yield chains that no other task feeds or reads: a round is rows of the ledger of a link."""
    heads = {stage.name: _head(scenario, stage.name) for stage in scenario.stages}
    ends = {(edge.sender, edge.receiver) for edge in scenario.edges if not edge.chain}
    linked = {heads[end] for pair in ends for end in pair}
    by_rule = "set pipeline.operator-chaining.enabled: false"
    for index, edge in enumerate(scenario.edges):
        if edge.chain and edge.sender == heads[edge.sender] and edge.sender not in linked:
            linked.add(edge.sender)  # it is named once
            remedy = by_rule if scenario.operators else "remove chain from one edge"
            yield {"index": index, "edge": edge, "remedy": remedy}


def _chained_stages(scenario: Scenario) -> Parts:
    chained = {end for edge in scenario.edges if edge.chain for end in (edge.sender, edge.receiver)}
    return (part for part in _stages(scenario) if part["stage"].name in chained)


def _rated_behind_source(scenario: Scenario) -> Parts:
    """Yield edges to a stage with a rate in the task of a source that states no log."""
    for part in _edges(scenario):
        source = scenario.stage(_head(scenario, part["edge"].sender))
        is_of_source = part["edge"].chain and source.is_source and not source.reads_log
        if is_of_source and part["receiver"].service_rate is not None:
            yield part


def _mixed_rows(scenario: Scenario) -> Parts:
    """Yield stages in which rows of different columns would meet."""
    carried: dict[str, tuple[str, ...] | None] = {}
    for stage in scenario.topological():
        senders = [edge.sender for edge in scenario.inputs(stage.name)]
        found = {sender: carried[sender] for sender in senders}
        carried[stage.name] = next(iter(found.values())) if found else _columns(stage.input)
        if len(set(found.values())) > 1:
            index = scenario.stages.index(stage)
            yield {"index": index, "stage": stage, "names": ", ".join(found)}


def _columns(source: Input | None) -> tuple[str, ...] | None:
    return None if source is None else read_columns(source.format, Path(source.path))


def _endless(scenario: Scenario) -> Parts:
    """Yield the sources before a blocking edge that never end."""
    for part in _blocking(scenario):
        before = {part["edge"].sender, *scenario.upstream(part["edge"].sender)}
        for source in scenario.stages:
            if source.is_source and source.name in before and not is_finite(source):
                rate = "arrival_rate" if source.reads_log else "emit_rate"
                yield {**part, "source": source, "rate": rate}


def _blocking(scenario: Scenario) -> Parts:
    regions = regions_of(scenario)
    for part in _edges(scenario):
        edge = part["edge"]
        if edge.is_blocking:
            yield {**part, "is_joined": regions[edge.sender] == regions[edge.receiver]}


def _late_sources(scenario: Scenario) -> Parts:
    """Yield sources that would have to run beside a consumer before that has started."""
    regions = regions_of(scenario)
    for part in _blocking(scenario):
        own = regions[part["edge"].receiver]
        late = [s.name for s in scenario.stages if s.is_source and regions[s.name] == own]
        yield from ({**part, "late": name} for name in late if not part["is_joined"])


def _windows_in_a_row(scenario: Scenario) -> Parts:
    for part in _stages(scenario):
        above = map(scenario.stage, scenario.upstream(part["stage"].name))
        first = next((one.name for one in above if one.window is not None), None)
        if part["stage"].window is not None and first is not None:
            yield {**part, "first": first}


def _window_readers(scenario: Scenario) -> Parts:
    for part in _stages(scenario):
        if any(scenario.stage(name).window for name in scenario.upstream(part["stage"].name)):
            yield part


def _call_readers(scenario: Scenario) -> Parts:
    calling = {part["stage"].name for part in _stages_with_calls(scenario)}
    for part in _stages(scenario):
        if calling.intersection(scenario.upstream(part["stage"].name)):
            yield part


def _windows_in_transactions(scenario: Scenario) -> Parts:
    for part in _stages(scenario):
        head = scenario.stage(_head(scenario, part["stage"].name))
        if head.window is not None and part["stage"].guarantee == "exactly-once":
            yield {**part, "head": head}


def _sources_into_sparks_windows(scenario: Scenario) -> Iterator[list[list[Stage]]]:
    """Yield the sources behind each edge into a window of Spark's."""
    for stage in scenario.stages if scenario.time_model == "spark" else ():
        if stage.window is not None:
            inputs = scenario.inputs(stage.name)
            yield [list(scenario.sources_of(edge.sender)) for edge in inputs]


def _other_delays(scenario: Scenario) -> Parts:
    for edges in _sources_into_sparks_windows(scenario):
        for sources in edges:
            delays = [None if one.watermark is None else one.watermark.delay_s for one in sources]
            shown = ["none" if one is None else f"{float(one):g}" for one in delays]
            for source, delay, own in zip(sources, delays, shown, strict=True):
                if delay != delays[0]:
                    index, key = scenario.stages.index(source), "" if delay is None else ".delay_s"
                    said = {"own": own, "first": sources[0], "firsts": shown[0]}
                    yield {"index": index, "key": key, **said}


def _missing_watermarks(scenario: Scenario) -> Parts:
    for edges in _sources_into_sparks_windows(scenario):
        firsts = [sources[0] for sources in edges]
        missing = [one for one in firsts if one.watermark is None]
        if missing and len(missing) < len(firsts):
            other = next(one.name for one in firsts if one.watermark is not None)
            yield {"index": scenario.stages.index(missing[0]), "other": other}


def _edges_with_key_groups(scenario: Scenario) -> Parts:
    by_name = {one["operator"].name: one for one in _operators(scenario)}
    for part in _edges(scenario):
        if part["edge"].partitioner == "hash":
            own = by_name.get(part["edge"].receiver, {"operator": None, "index": 0})
            yield {**part, "operator": own["operator"], "operator_index": own["index"]}


def _several(scenario: Scenario) -> Parts:
    for key in ("savepoints", "failures"):
        if count := len(getattr(scenario, key)):
            yield {"key": key, "count": count}


def _keys_beside_scaling(scenario: Scenario) -> Parts:
    for part in _stages(scenario):
        stage = part["stage"]
        for key in ("event_time", "window", "input", "output", "state"):
            if getattr(stage, key) is not None:
                yield {**part, "key": key}


def _scaled(scenario: Scenario) -> Parts:
    """Yield the stages that the controller may scale."""
    own = scenario.scaling
    if own is None or scenario.jobs or scenario.operators:
        return
    fixed = {source.name for source in scenario.sources}
    if own.policy != "ds2":
        sources = scenario.sources
        fixed = {one.name for one in sources if not (one.reads_log or one.is_total_divided)}
        fixed |= set(own.autoscaler.vertex_exclude_ids)
    for part in _stages(scenario):
        if _head(scenario, part["stage"].name) not in fixed:
            yield part


def _scaled_by_place(scenario: Scenario) -> Parts:
    """Yield those of them whose subtasks are not where they are by default."""
    scaled = list(_scaled(scenario))
    by_hand = placed_by_hand(scenario) if scaled else ()
    for part in scaled:
        if part["stage"].name in by_hand:
            yield {**part, "placement": list(part["stage"].placement)}


def _sinks_with_requests(scenario: Scenario) -> Parts:
    return (part for part in _stages(scenario) if part["stage"].requests is not None)


def _in_chains(scenario: Scenario, parts: Parts) -> Parts:
    chained = {end for edge in scenario.edges if edge.chain for end in (edge.sender, edge.receiver)}
    return (part for part in parts if part["stage"].name in chained)


def _chained_requests(scenario: Scenario) -> Parts:
    return _in_chains(scenario, _sinks_with_requests(scenario))


def _sinks_with_commits(scenario: Scenario) -> Parts:
    return (part for part in _stages(scenario) if part["stage"].commit is not None)


def _chained_commits(scenario: Scenario) -> Parts:
    return _in_chains(scenario, _sinks_with_commits(scenario))


def _stages_with_calls(scenario: Scenario) -> Parts:
    found = _sinks_with_requests(scenario)
    return (part for part in found if part["stage"].requests.is_of_operator)


def _caches_without_keys(scenario: Scenario) -> Parts:
    """Yield operators whose cache has rows, and whose records have no keys."""
    for part in _stages_with_calls(scenario):
        cache, edges = part["stage"].requests.cache, scenario.inputs(part["stage"].name)
        if cache is not None and cache.rows is not None:
            keys = [edge.key_distribution or edge.key_weights for edge in edges]
            if len(keys) != 1 or not keys[0]:
                yield {**part, "rows": cache.rows}


def _edges_of_large_records(scenario: Scenario) -> Parts:
    """Yield edges into a sink whose requests take no record of that size, as Flink refuses."""
    for part in _sinks_with_requests(scenario):
        most = part["stage"].requests.record_most
        for edge in scenario.inputs(part["stage"].name):
            size = scenario.stage(edge.sender).record_bytes
            if size > most:
                yield {**part, "edge": edge, "size": size, "most": most}


def _edges_into_producers(scenario: Scenario) -> Parts:
    """Yield edges into a sink that is Kafka's producer, and the records that its pool holds."""
    for part in _sinks_with_requests(scenario):
        own = part["stage"].requests
        for edge in scenario.inputs(part["stage"].name) if own.is_producer else ():
            count = own.pool_bytes // scenario.stage(edge.sender).record_bytes
            yield {**part, "edge": edge, "count": count}


def _rates_of_their_own(scenario: Scenario) -> Parts:
    for part in _scaled(scenario):
        for key in ("emit_rate", "arrival_rate", "service_rate"):
            rates = getattr(part["stage"], key)
            if rates and any(one != rates[0] for one in rates):
                yield {**part, "key": key}


def _stalls_of_some(scenario: Scenario) -> Parts:
    for part in _scaled(scenario):
        every = tuple(range(part["stage"].parallelism))
        for number, stall in enumerate(part["stage"].stalls):
            if stall.subtasks != every:
                yield {**part, "number": number, "subtasks": list(stall.subtasks)}


def _edges_into_scaled(scenario: Scenario) -> Parts:
    scaled = {part["stage"].name for part in _scaled(scenario)}
    return (part for part in _edges(scenario) if part["edge"].receiver in scaled)


def _too_few_slots(scenario: Scenario) -> Parts:
    """Yield the slots that a scenario states, if its tasks do not all have one at once."""
    slots, managers = scenario.cluster.slots, scenario.cluster.task_managers
    heads = {stage.name for stage in scenario.stages}
    heads -= {edge.receiver for edge in scenario.edges if edge.chain}
    tasks = sum(scenario.stage(name).parallelism for name in heads)
    if slots is not None and not scenario.operators and tasks > slots * managers:
        needed = -(-tasks // managers)
        shown = {"managers": managers, "all": slots * managers, "needed": needed}
        yield {"slots": slots, "tasks": tasks, **shown}


def _wide_writers(scenario: Scenario) -> Parts:
    """Yield edges whose writers have more channels than their memory can have two buffers for."""
    buffer = int(scenario.system.transport_values.get("buffer_bytes", 0))
    for part in _edges(scenario):
        is_apart = part["edge"].partitioner in {"forward", "rescale"}
        senders = part["sender"].parallelism if is_apart else 1
        channels = -(-part["receiver"].parallelism // senders)
        if 2 * buffer * channels > MOST_WRITER_BYTES:
            most = MOST_WRITER_BYTES // (2 * channels)
            shown = {"buffer": buffer, "bytes": 2 * buffer * channels, "most": most}
            yield {**part, "channels": channels, **shown}


FINDERS: Final[dict[str, Finder]] = {
    find.__name__.removeprefix("_"): find
    for find in (
        *(_stages, _edges, _operators, _unemulated, _lone_tasks, _chained_stages, _mixed_rows),
        *(_rated_behind_source, _endless, _blocking, _late_sources, _windows_in_a_row),
        *(_window_readers, _windows_in_transactions, _other_delays, _missing_watermarks),
        *(
            _edges_with_key_groups,
            _several,
            _keys_beside_scaling,
            _scaled_by_place,
            _rates_of_their_own,
        ),
        *(_stalls_of_some, _edges_into_scaled, _sinks_with_requests, _chained_requests),
        *(_edges_of_large_records, _edges_into_producers, _sinks_with_commits, _chained_commits),
        *(_stages_with_calls, _call_readers, _caches_without_keys),
        *(_too_few_slots, _wide_writers),
    )
}
"""By the name that the table has for them."""
