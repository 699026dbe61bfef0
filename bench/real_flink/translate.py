"""A scenario as the job that the program in ``src/`` runs on Flink: plain JSON.

What Flink or the program cannot do is refused before (`refusals`). Rates, sizes, keys and options
are those of the scenario as it was read, so that Flink and the emulation run the same thing.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import cycle
from typing import Any

import event_time
import faults
import saving
from placing import deployment

from flowcontrol.layout.shares import stream_of, weights_of, weights_of_keys
from flowcontrol.protocol.network.partitioners import (
    channel_of_key,
    default_max_parallelism,
    integer_weights,
    smooth_round_robin,
)
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.request_parts import MOST_LATENCY_MS
from flowcontrol.scenario.schedule import Schedule
from flowcontrol.scenario.stage_models import Stage

RECORD_OVERHEAD_BYTES = 17
"""Of a byte array in a buffer: 4 length, 1 tag, 8 timestamp, 4 length of the array."""

STAMP_BYTES, KEY_BYTES = 8, 4
"""What a record holds: when it was emitted, and its key for each edge that has one.

With event time, an id as long as a key stands between them: keys at windows follow from it.
"""

MOST_PICKS = 10_000
"""Records until the keys of a subtask repeat, at most."""

AT_ONCE = 1e9
"""Records/s of a stage without a rate that has stalls."""

_COMPUTED = (
    *(
        "taskmanager.memory.",
        "taskmanager.numberOfTaskSlots",
        "taskmanager.network.numberOfBuffers",
    ),
    *("restart-strategy", "parallelism.default", "pipeline.operator-chaining", "cluster."),
    *("taskmanager.load-balance", "execution.runtime-mode", "heartbeat"),
)
"""Beginnings of options that follow from something else here, or that are the cluster's own."""

SEGMENT = "taskmanager.memory.segment-size"


def flink_job(scenario: Scenario) -> dict[str, Any]:
    """Return what the program reads.

    Parameters
    ----------
    scenario : Scenario
        Read and checked, and not refused by `refusals.refusals`.

    Returns
    -------
    dict
        ``sample_s``; ``options`` (Flink's own); ``slots`` of each task manager and whether stages
        are placed on them; ``stages`` in the order in which records reach them; ``edges``.
    """
    placed = deployment(scenario)
    operators = {operator.name: operator for operator in scenario.operators}
    stages = []
    for stage in scenario.topological():
        own = operators.get(stage.name)
        group = placed.groups[stage.name]
        stages.append(
            {
                **_work(scenario, stage),
                "max_parallelism": None if own is None else own.max_parallelism,
                "slot_group": group.name,
                "task_manager": group.task_manager,
            }
        )
    return {
        "sample_s": scenario.sample_interval_s,
        "options": flink_options(scenario),
        "slots": list(placed.slots),
        "are_placed": placed.are_placed,
        "stages": stages,
        "edges": [_edge(scenario, edge) for edge in scenario.edges],
        "jobs": _spans(scenario),
        "failures": faults.planned(scenario),
        "savepoints": saving.planned(scenario),
        "is_watched": saving.is_watched(scenario),
        "has_intervals": scenario.options.checkpoint_interval_us is not None,
    }


def _spans(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the stages of each job, and from when to when it runs, s."""
    if not scenario.jobs:
        return [{"stages": [one.name for one in scenario.stages], "start_s": 0.0, "stop_s": None}]
    return [
        {
            "stages": list(job.stages),
            "start_s": float(job.start_at_s),
            "stop_s": None if job.stop_at_s is None else float(job.stop_at_s),
        }
        for job in scenario.jobs
    ]


def flink_options(scenario: Scenario) -> dict[str, str]:
    """Return Flink's options as text: those of the scenario, and its network memory in bytes."""
    stated = scenario.options.canonical()
    options = {key: value for key, value in stated.items() if not key.startswith(_COMPUTED)}
    if scenario.options.flush_interval_us < 0:
        options |= {"execution.buffer-timeout.interval": "-1 ms"}
        options |= {"execution.buffer-timeout.enabled": False}
    size = scenario.options.network_buffers * scenario.options.segment_bytes
    options |= {
        SEGMENT: f"{scenario.options.segment_bytes}b",
        "taskmanager.memory.min-segment-size": f"{scenario.options.min_segment_bytes}b",
        "taskmanager.memory.network.min": f"{size}b",
        "taskmanager.memory.network.max": f"{size}b",
        "taskmanager.memory.managed.size": "16mb",
    }
    options |= event_time.options(scenario) | faults.options(scenario)
    return {key: _text(value) for key, value in options.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _work(scenario: Scenario, stage: Stage) -> dict[str, Any]:
    is_source = not scenario.inputs(stage.name)
    rates = stage.emit_rate if is_source else stage.service_rate
    return {
        "name": stage.name,
        "parallelism": stage.parallelism,
        "is_sink": not scenario.outputs(stage.name),
        "is_chained": any(edge.chain for edge in scenario.inputs(stage.name)),
        "rates": _rates(stage, rates),
        "arrivals": None if stage.arrival_rate is None else [*map(_phases, stage.arrival_rate)],
        "latency_from": stage.latency_from,
        "payload_bytes": (stage.record_bytes or RECORD_OVERHEAD_BYTES) - RECORD_OVERHEAD_BYTES,
        "selectivity": list(stage.selectivity_exact.as_integer_ratio()),
        "service_time": stage.service_time,
        "service_time_cv": float(stage.service_time_cv or 1),
        "seed": scenario.seed,
        "streams": _streams("service", stage),
        "requests": None if stage.requests is None else _requests(scenario, stage),
        "picks": [_picks(scenario, edge) for edge in keyed(scenario, stage.name)],
        "have_ids": saving.has_ids(scenario),
        "event_times": event_time.event_times(scenario, stage),
        "watermark": event_time.watermark(stage),
        "window": event_time.window(scenario, stage),
        "state": saving.state(scenario, stage),
        "commits": stage.guarantee == "exactly-once",
        "commit_ms": saving.commit_ms(stage),
        "first_ids": saving.first_ids(scenario, stage),
    }


def _streams(kind: str, stage: Stage) -> list[int]:
    """Return the streams of random numbers that the subtasks draw from in the emulation."""
    return [stream_of(f"{kind} {stage.name}/{index}") for index in range(stage.parallelism)]


def _requests(scenario: Scenario, stage: Stage) -> dict[str, Any]:
    """Return what Flink's sink or operator may do, and what its destination does; ms and bytes."""
    own = stage.requests
    assert own is not None
    limiting, limit, errors, retry = own.limiting, own.limit, own.errors, own.retrying
    burst = Fraction(1) if limit is None else limit.burst_s
    most = retry.max_delay_ms
    if most is None:
        most = retry.delay_ms if retry.multiplier == 1 else MOST_LATENCY_MS
    return {
        "in_flight": own.in_flight_most,
        "batch_records": own.batch_most,
        "batch_bytes": own.bytes_most,
        "buffered": own.buffered_most,
        "buffer_ms": max(1, own.buffer_us // 1000),
        "record_bytes_max": own.record_most,
        "timeout_ms": (own.timeout_us or 0) // 1000,
        "window": None
        if limiting is None
        else {
            "initial": own.first_window,
            "increase": limiting.increase,
            "decrease": float(own.decrease),
            "threshold": own.window_most,
        },
        "ordered": own.ordered,
        "retry": None
        if retry.attempts == 0
        else {
            "attempts": retry.attempts,
            "delay_ms": int(retry.delay_ms),
            "multiplier": float(retry.multiplier),
            "max_delay_ms": int(most),
            "when": list(own.repeated),
        },
        "latency": own.latency_phases,
        "service_time": own.latency_distribution,
        "service_time_cv": float(own.latency_cv or 1),
        "seed": scenario.seed,
        "streams": _streams("requests", stage),
        "record_us": float(own.per_record_ms * 1000),
        "kb_us": float(own.per_kb_ms * 1000),
        "request_errors": 0.0 if errors is None else float(errors.request),
        "record_errors": 0.0 if errors is None else float(errors.record),
        "empty_answers": 0.0 if errors is None else float(errors.empty),
        "requests_limit": _limit(None if limit is None else limit.requests_per_s, burst),
        "records_limit": _limit(None if limit is None else limit.records_per_s, burst),
        "shares_limit": own.shares_limit,
    }


def _limit(rate: Fraction | None, burst_s: Fraction) -> list[float] | None:
    """Return tokens a second, and the most that there are: at least 1."""
    return None if rate is None else [float(rate), max(1.0, float(rate * burst_s))]


def _rates(stage: Stage, rates: tuple[Schedule, ...] | None) -> list[Any] | None:
    """Return the phases of each subtask; a stall is a phase in which nothing is done."""
    if rates is None and not stage.stalls:
        return None
    own = rates or (Schedule.constant(int(AT_ONCE)),) * stage.parallelism
    return [_phases(rate.without(stage.stalled(n))) for n, rate in enumerate(own)]


def _phases(schedule: Schedule) -> list[list[float]]:
    return [[phase.at_us, float(phase.rate)] for phase in schedule.phases]


def keyed(scenario: Scenario, sender: str) -> list[Edge]:
    """Return the edges of a sender whose records carry something that chooses a channel.

    Into a window that is their id, which all records of a job with event time have.
    """
    return [
        edge
        for edge in scenario.outputs(sender)
        if edge.partitioner in {"hash", "custom"} and scenario.window_of(edge.receiver) is None
    ]


def _edge(scenario: Scenario, edge: Edge) -> dict[str, Any]:
    own = keyed(scenario, edge.sender)
    return {
        "from": edge.sender,
        "to": edge.receiver,
        "partitioner": edge.partitioner,
        "keys": keys_of(scenario, edge)[0] if edge in own else [],
        "key_place": own.index(edge) + int(saving.has_ids(scenario)) if edge in own else 0,
        "id_keys": event_time.keys_into(scenario, edge),
    }


def keys_of(scenario: Scenario, edge: Edge) -> tuple[list[str], list[float]]:
    """Return the keys of an edge and how often each comes up.

    Where the scenario only says what each subtask gets, there is a key for each; Flink's own hash
    leads it there.
    """
    width = scenario.stage(edge.receiver).parallelism
    if edge.key_weights is not None:
        return list(edge.key_weights), [float(weight) for weight in edge.key_weights.values()]
    if edge.key_distribution is not None:
        weights = [float(weight) for weight in weights_of_keys(edge.key_distribution)]
        return [str(rank) for rank in range(1, len(weights) + 1)], weights
    shares = [float(weight) for weight in edge.channel_weights or (1,) * width]
    return [_key_of(channel, width) for channel in range(width)], shares


def _picks(scenario: Scenario, edge: Edge) -> list[int]:
    """Return which key the records of a subtask have, one after another, until they repeat.

    They go to the channels in the order of the emulation; the keys of a channel share its records.
    """
    width = scenario.stage(edge.receiver).parallelism
    groups = default_max_parallelism(width)
    names, weights = keys_of(scenario, edge)
    places: dict[int, list[int]] = {}
    for place, name in enumerate(names):
        if weights[place] > 0:
            places.setdefault(channel_of_key(name, width, groups), []).append(place)
    turns = {}
    for channel, own in places.items():
        shares = integer_weights(weights[place] for place in own)
        order = smooth_round_robin(min(sum(shares), MOST_PICKS), shares)
        turns[channel] = cycle([own[number] for number in order])
    shares = weights_of(edge, width) or [1] * width
    channels = smooth_round_robin(min(sum(shares), MOST_PICKS), shares)
    return [next(turns[channel]) for channel in channels]


def _key_of(channel: int, width: int) -> str:
    groups = default_max_parallelism(width)
    texts = (str(number) for number in range(1_000_000))
    return next(text for text in texts if channel_of_key(text, width, groups) == channel)
