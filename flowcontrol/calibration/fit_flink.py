"""From a Flink job's counters to a scenario."""

from __future__ import annotations

import re
from typing import Any, Final

from flowcontrol.analysis.limits import NOTICEABLE
from flowcontrol.calibration import rates
from flowcontrol.calibration.draft import Draft, refuse
from flowcontrol.calibration.fit_sinks import requests_of
from flowcontrol.calibration.flink_bodies import system_options
from flowcontrol.calibration.rates import flink_contradictions
from flowcontrol.calibration.readings import FlinkJob, Vertex, limiting_stage, outputs_counted, see
from flowcontrol.scenario.syntax import read_duration_us

PARTITIONERS: Final = frozenset(
    {"forward", "rebalance", "rescale", "shuffle", "hash", "broadcast", "global", "custom"}
)

LEAST_COMPARED_S: Final = 60.0
"""Emulated time that is compared at least, s: buffers fill and drain many times in it."""

CHECKPOINTS: Final = 20
"""Checkpoints that are compared at least."""

LONGEST_S: Final = 7200.0
"""Emulated time that is run at most, s."""

ROUNDING: Final = 4
"""Part of a figure's error, one in so many, that may be added by writing it with fewer digits."""

SAMPLE_S: Final = 0.37
"""Time between two samples, s: no round number, so that they do not fall in step with buffers."""


def fit_flink(job: FlinkJob) -> Draft:
    """Return the scenario that a job's counters make.

    Raises ScenarioError if a source has emitted nothing in the window, so that nothing can be told.
    """
    draft = Draft({}, job.source)
    stages = [_stage(draft, job, vertex) for vertex in job.vertices]
    edges = [_edge(draft, job, k) for k in range(len(job.edges))]
    draft.mapping = {"schema": 1, "name": _name(job.name)}
    draft.mapping |= _times(job, draft)
    draft.mapping["cluster"] = _cluster(draft, job)
    draft.mapping |= system_options(draft, job)
    draft.mapping |= {"stages": stages, "edges": edges}
    draft.bottleneck = limiting_stage(job)
    see(draft, job)
    if any(one.is_gauged("busy_ms") for vertex in job.vertices for one in vertex.subtasks):
        draft.notes.append(
            f"Flink {job.version or 'up to 1.15'} accumulates no times: shares of the time are "
            f"means of its gauges, which hold the last 5 s, over {job.polls} polls"
        )
    draft.contradictions += flink_contradictions(job)
    return draft


def _name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.")[:48] or "job"


def _times(job: FlinkJob, draft: Draft) -> dict[str, Any]:
    """Return for how long it runs: half of it is compared, in which the job is settled."""
    longest_ms = max([*job.durations_ms, 0.0])
    every_s = _interval_s(job)
    half = max(LEAST_COMPARED_S, CHECKPOINTS * every_s, 10 * longest_ms / 1000)
    duration = min(LONGEST_S, 2 * round(half))
    draft.warm_up_s = duration / 2
    return {"duration_s": duration, "sample_interval_s": SAMPLE_S}


def _interval_s(job: FlinkJob) -> float:
    try:
        return read_duration_us(job.config.get("execution.checkpointing.interval", "")) / 1e6
    except ValueError:  # none, or one that the options refuse
        return 0.0


# ---------------------------------------------------------------------- stages


def _stage(draft: Draft, job: FlinkJob, vertex: Vertex) -> dict[str, Any]:
    found: dict[str, Any] = {"name": vertex.stage, "parallelism": vertex.parallelism}
    if not job.inputs(vertex.stage):
        found |= _source(draft, job, vertex)
    else:
        found |= requests_of(draft, job, vertex)
        if "service_rate" not in found:
            found |= _server(draft, vertex)
    if job.outputs(vertex.stage):
        found |= _output(draft, job, vertex)
    managers = _managers(job)
    if managers:
        found["placement"] = [managers.index(one.task_manager) for one in vertex.subtasks]
        draft.measured(
            f"stages.{vertex.stage}.placement",
            found["placement"],
            "taskmanager-id of each subtask",
            0.0,
        )
    if vertex.stage in job.states:
        found |= _state(draft, job, vertex.stage)
    return found


def _source(draft: Draft, job: FlinkJob, vertex: Vertex) -> dict[str, Any]:
    """Return what a source can emit, and what is written to its log if it says what waits there."""
    key = f"stages.{vertex.stage}"
    found, errors = [], []
    times = outputs_counted(job, vertex.stage)
    if times is None:
        why = "its outputs differ, and numRecordsOut counts them together"
        times = draft.assumed(f"{key}.emit_rate counts", 1, why)
    is_silent = not any(subtask.rate("records_out") for subtask in vertex.subtasks)
    for number, subtask in enumerate(vertex.subtasks):
        pair = rates.capacity(subtask)
        if pair is None:
            rate, blocked = subtask.rate("records_out"), subtask.rate("blocked_ms") or 0.0
            if not rate and (is_silent or blocked > 1000 * NOTICEABLE):
                text = (
                    f"subtask {number} emitted nothing in {job.window_s:.0f} s (numRecordsOut): "
                    "dump while the source runs"
                )
                refuse(key, text, job.source)
            if not rate:
                found.append(0.0)
                why = "it emitted nothing, as one without a partition to read"
                draft.assumed(f"{key}.emit_rate[{number}]", 0, why)
                continue
            # Blocked all the time: more than 100 times what passes makes no difference.
            pair = rates.rounded(rate / rates.OPEN_SHARE), 1.0
            draft.assumed(
                f"{key}.emit_rate[{number}]",
                pair[0],
                f"it was blocked for {blocked:.0f} ms/s, so that what it could emit is not known",
            )
        found.append(pair[0] / times)
        errors.append(pair[1])
    # Who has no partition does not say what waits in it.
    growth = [
        subtask.growth("lag_records") if subtask.rate("records_out") else 0.0
        for subtask in vertex.subtasks
    ]
    known = [one for one in growth if one is not None]
    if len(known) == len(growth):
        return _log(draft, vertex, found, errors, known)
    text = "d numRecordsOut / time / (1 - back-pressured share)"
    return {"emit_rate": draft.measured(f"{key}.emit_rate", _per_subtask(found), text, max(errors))}


def _log(
    draft: Draft, vertex: Vertex, found: list[float], errors: list[float], growth: list[float]
) -> dict[str, Any]:
    """Return the rates of a source that reads a log (pendingRecords)."""
    key = f"stages.{vertex.stage}"
    arrivals = [
        (subtask.rate("records_out") or 0.0) + 1000 * grown / subtask.elapsed_ms
        for subtask, grown in zip(vertex.subtasks, growth, strict=True)
    ]
    reads = []
    for subtask, capacity in zip(vertex.subtasks, found, strict=True):
        # A source that waits for its log is idle: what it could read is what it read while busy.
        busy, out = subtask.growth("busy_ms"), subtask.growth("records_out")
        is_timed = busy is not None and out and busy >= rates.BUSY_MS
        reads.append(1000 * out / busy if is_timed and busy and out else capacity)
    # One without a partition would read as fast as the others.
    reads = [rate or max(reads) for rate in reads]
    error = max(errors)
    return {
        "arrival_rate": draft.measured(
            f"{key}.arrival_rate",
            _per_subtask(arrivals),
            "d numRecordsOut / time + growth of pendingRecords",
            error,
        ),
        "emit_rate": draft.measured(
            f"{key}.emit_rate", _per_subtask(reads), "1000 x d numRecordsOut / d busy time", error
        ),
    }


def _server(draft: Draft, vertex: Vertex) -> dict[str, Any]:
    """Return the service rate of a stage; nothing if its busy time does not say it."""
    key = f"stages.{vertex.stage}.service_rate"
    pairs = [rates.service_rate(subtask) for subtask in vertex.subtasks]
    known = [pair for pair in pairs if pair is not None]
    if not known:
        why = "hardly busy, or of a legacy task whose busy time is NaN: it never limits"
        draft.assumed(key, None, why)
        return {}
    fastest = max(rate for rate, _ in known)
    values = [fastest if pair is None else pair[0] for pair in pairs]
    for number, pair in enumerate(pairs):
        if pair is None:
            draft.assumed(f"{key}[{number}]", rates.rounded(fastest), "hardly busy: as the fastest")
    error = max(error for _, error in known)
    text = "1000 x d numRecordsIn / d accumulateBusyTimeMs"
    if any(subtask.is_gauged("busy_ms") for subtask in vertex.subtasks):
        text = "1000 x d numRecordsIn / time / mean of busyTimeMsPerSecond"
    return {"service_rate": draft.measured(key, _per_subtask(values), text, error)}


def _output(draft: Draft, job: FlinkJob, vertex: Vertex) -> dict[str, Any]:
    """Return record size and selectivity."""
    found: dict[str, Any] = {}
    key = f"stages.{vertex.stage}"
    size = rates.record_bytes(job, vertex.stage)
    if size is not None:
        nbytes = max(1, round(size[0]))
        found["record_bytes"] = draft.measured(
            f"{key}.record_bytes", nbytes, "d numBytesOut / d numRecordsOut", size[1]
        )
    elif not job.inputs(vertex.stage):
        why = "no byte counter moved"
        found["record_bytes"] = draft.assumed(f"{key}.record_bytes", 1024, why)
    taken = vertex.total(lambda one: one.growth("records_in"))
    if not job.inputs(vertex.stage) or not taken:
        return found
    edges = [
        (edge, pair) for edge in job.outputs(vertex.stage) if (pair := rates.through(job, edge))
    ]
    if edges:
        ratios = [pair[0] / taken for _, pair in edges]
        error = 1 / taken + 1 / max(1.0, edges[0][1][0])
        value = _simple(max(ratios), error)
        found["selectivity"] = draft.measured(
            f"{key}.selectivity", value, f"{edges[0][1][1]} / d numRecordsIn", error
        )
        if not rates.alike(ratios):
            pairs = zip(edges, ratios, strict=True)
            text = ", ".join(f"{edge.name} {ratio:.3g}" for (edge, _), ratio in pairs)
            draft.notes.append(
                f"{vertex.stage} sends another number of records on each output ({text}): a stage "
                "has one selectivity, here the largest"
            )
    return found


def _simple(value: float, error: float) -> float:
    """Return the value with as few digits as its error leaves, so that it hardly grows by that."""
    for digits in range(2, 7):
        short = rates.rounded(value, digits)
        if abs(short - value) <= max(error / ROUNDING, 1e-6) * value:
            return short
    return rates.rounded(value, 7)


def _state(draft: Draft, job: FlinkJob, stage: str) -> dict[str, Any]:
    """Return what a checkpoint writes of each subtask."""
    means = job.states[stage]
    text = "mean of state_size and of the synchronous part over subtasks and checkpoints"
    state: dict[str, Any] = {}
    if means["bytes"] >= 1:
        state["bytes"] = round(means["bytes"])
    if means["sync_ms"] >= 1:
        state["sync_ms"] = rates.rounded(means["sync_ms"], 3)
    if not state:
        return {}
    return {"state": draft.measured(f"stages.{stage}.state", state, text)}


def _per_subtask(values: list[float]) -> Any:
    """Return one rate if all are alike, else one for each subtask."""
    if rates.alike(values):
        return rates.rounded(sum(values) / len(values))
    return [rates.rounded(value) for value in values]


# ---------------------------------------------------------------------- edges, machines


def _edge(draft: Draft, job: FlinkJob, number: int) -> dict[str, Any]:
    edge = job.edges[number]
    key = f"edges.{edge.name}"
    ship = edge.ship.lower()
    found: dict[str, Any] = {"from": edge.sender, "to": edge.receiver}
    if ship in PARTITIONERS:
        found["partitioner"] = draft.measured(
            f"{key}.partitioner", ship, f"ship_strategy {edge.ship} of the plan", 0.0
        )
    else:
        why = f"ship_strategy {edge.ship} is none of Flink's partitioners: as rebalance"
        found["partitioner"] = draft.assumed(f"{key}.partitioner", "rebalance", why)
    if found["partitioner"] in {"hash", "custom"}:
        parts = rates.shares(job.stage(edge.receiver))
        if parts is None:
            parts = [1.0 / job.stage(edge.receiver).parallelism] * job.stage(
                edge.receiver
            ).parallelism
            draft.assumed(f"{key}.channel_weights", parts, "no counter of records: even shares")
        text = "share of numRecordsIn of each subtask"
        if len(job.inputs(edge.receiver)) > 1:
            text += ", all inputs together"
        found["channel_weights"] = draft.measured(
            f"{key}.channel_weights",
            [rates.rounded(max(part, 1e-9), 5) for part in parts],
            text,
            0.01,
        )
        draft.notes.append(
            f"{edge.name}: keys are not known, only what each subtask got of them: the shares hold "
            f"for {job.stage(edge.receiver).parallelism} subtasks, not for another parallelism"
        )
    return found


def _managers(job: FlinkJob) -> list[str]:
    """Return the ids of the task managers; empty if one subtask's is not known."""
    ids = [one.task_manager for vertex in job.vertices for one in vertex.subtasks]
    return list(dict.fromkeys(ids)) if all(ids) else []


def _cluster(draft: Draft, job: FlinkJob) -> dict[str, Any]:
    found: dict[str, Any] = {}
    managers = _managers(job)
    count = sum(vertex.parallelism for vertex in job.vertices)
    if managers:
        found["task_managers"] = draft.measured(
            "cluster.task_managers", len(managers), "different taskmanager-ids", 0.0
        )
    else:
        found["task_managers"] = draft.assumed(
            "cluster.task_managers", count, "no taskmanager-id: one for each subtask"
        )
    draft.assumed(
        "cluster.network_latency_ms", 0, "no metric holds it: a round, the shortest there is"
    )
    draft.assumed("cluster.bandwidth_bytes_per_s", None, "no metric holds it: unlimited")
    speed = _serialization(job)
    if speed is not None:
        found["serialization_bytes_per_s"] = draft.measured(
            "cluster.serialization_bytes_per_s",
            rates.rounded(speed, 3),
            "d numBytesOut / d busy time of the sources",
        )
    upload = _upload(job)
    if upload is not None:
        found["upload_bytes_per_s"] = draft.measured(
            "cluster.upload_bytes_per_s", rates.rounded(upload, 3), "state_size / async duration"
        )
    return found


def _serialization(job: FlinkJob) -> float | None:
    """Return the bytes that a source puts into buffers a second of busy time."""
    nbytes = busy = 0.0
    for vertex in job.vertices:
        if job.inputs(vertex.stage):
            continue
        size = rates.record_bytes(job, vertex.stage)
        out = vertex.total(lambda one: one.growth("records_out"))
        took = vertex.total(lambda one: one.growth("busy_ms"))
        if size is None or not out or not took or took < rates.BUSY_MS:
            continue
        nbytes, busy = nbytes + size[0] * out, busy + took / 1000
    return nbytes / busy if busy else None


def _upload(job: FlinkJob) -> float | None:
    """Return the bytes/s at which state was written; None if none took a measurable time."""
    pairs = [(one["bytes"], one["async_ms"]) for one in job.states.values()]
    nbytes = sum(size for size, took in pairs if took >= 1)
    took_s = sum(took for _, took in pairs if took >= 1) / 1000
    return nbytes / took_s if took_s and nbytes >= 1e5 else None
