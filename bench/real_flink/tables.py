"""What Flink's REST API said of a run, as the tables of a result (``flowcontrol/records.yaml``).

A figure that Flink does not say is null; of chained stages it does not say which one is busy, so
that the first of a task has its times. Of channels only those are known that are alone at both
ends: what a task says of its records does not tell its channels apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import faults
import pyarrow as pa
import saving
import times
from placing import head_of, head_of_vertex
from rest import FRESH_S, Poll

from flowcontrol.records import FAULT_TOLERANCE, REQUESTS, RESULTS
from flowcontrol.scenario import Edge, Scenario

Metrics = Mapping[str, float]
"""Metrics of a subtask by id."""

_INPUT, _OUTPUT = "Shuffle.Netty.Input.Buffers.", "Shuffle.Netty.Output.Buffers."


UNASSIGNED = "(unassigned)"
"""What stands for the task manager of a subtask that has no slot."""


def job_paths(poll: Poll) -> list[str]:
    """Return the paths of the jobs of a poll."""
    return [path for path in poll if path.count("/") == 2 and path.startswith("/jobs/")]


def job_path(poll: Poll) -> str:
    """Return the path of the first job of a poll."""
    return job_paths(poll)[0]


def _vertices(poll: Poll) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and the body of each vertex of all jobs."""
    for root in job_paths(poll):
        for vertex in poll[root]["vertices"]:
            yield f"{root}/vertices/{vertex['id']}", vertex


def placement_of(poll: Poll, scenario: Scenario) -> dict[str, list[int]]:
    """Return the task manager of every subtask of every stage, numbered as the scenario does.

    A task manager gets the number that the scenario wants for most of its subtasks, as far as no
    other has it. A stage that never ran stays where the scenario has it.
    """
    managers: dict[str, list[str]] = {}
    for path, vertex in _vertices(poll):
        found = [row["taskmanager-id"] for row in poll[path]["subtasks"]]
        if UNASSIGNED not in found:
            managers[head_of_vertex(vertex["name"])] = found
    votes: dict[tuple[str, int], int] = {}
    for name, found in managers.items():
        for own, wanted in zip(found, scenario.stage(name).placement or (), strict=False):
            votes[own, wanted] = votes.get((own, wanted), 0) + 1
    number: dict[str, int] = {}
    for own, wanted in sorted(votes, key=lambda pair: -votes[pair]):
        if own not in number and wanted not in number.values():
            number[own] = wanted
    free = (n for n in range(scenario.cluster.task_managers) if n not in number.values())
    for own in sorted({one for found in managers.values() for one in found} - set(number)):
        number[own] = next(free)
    return {
        stage.name: [number[one] for one in managers[head_of(scenario, stage.name)]]
        if head_of(scenario, stage.name) in managers
        else list(stage.placement or ())
        for stage in scenario.stages
    }


def result_tables(
    polls: Sequence[Poll],
    latencies: Sequence[Mapping[str, Any]],
    start_ms: int,
    scenario: Scenario,
    requests: Sequence[Mapping[str, Any]] = (),
    *,
    windows: Sequence[Mapping[str, Any]] = (),
    pauses: Sequence[Mapping[str, Any]] = (),
    results: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    failed: Mapping[str, Any] | None = None,
) -> dict[str, pa.Table]:
    """Return the tables of a run.

    Parameters
    ----------
    polls : sequence of mapping
        Of REST, in order; the last one holds the checkpoints.
    latencies : sequence of mapping
        What the sinks saw, rows of the table ``latency`` without ``kind``.
    start_ms : int
        When sources began, ms since 1970.
    scenario : Scenario
        What ran.
    requests : sequence of mapping
        What was sent and answered, rows of the table ``requests``.
    windows, pauses, results
        Of a job with event time (`flink_run.FlinkRun`).
    failed : mapping, optional
        Of a job that fails: `flink_run.FlinkRun.faults`.
    """
    readings = [
        (round((poll[job_path(poll)]["now"] - start_ms) / 1000 - FRESH_S, 3), _metrics(poll))
        for poll in polls
    ]
    stages = list(_stage_rows(readings, scenario))
    moments = [at_s for at_s, _ in readings]
    found = {
        "stages": stages,
        "channels": list(_channel_rows(stages, scenario)),
        "latency": [
            {"kind": "record", **row, "t_s": _nearest(row["t_s"], moments)} for row in latencies
        ],
    }
    if requests:
        found["requests"] = list(requests)
    if scenario.checkpointing is not None:
        timeout_ms = scenario.checkpointing.timeout_us / 1000
        found["checkpoints"] = list(_checkpoint_rows(polls[-1], start_ms, timeout_ms))
        found["checkpoint_tasks"] = list(_task_rows(polls[-1], start_ms))
    made = {name: _table(name, rows) for name, rows in found.items()}
    if scenario.has_event_time:
        made["time"] = times.time_table(readings, scenario, windows, pauses)
    if failed:
        made["restarts"] = faults.restarts_table(scenario, failed, start_ms)
        made["delivery"] = saving.delivery_table(scenario, failed, moments)
    return made | times.result_tables(scenario, results or {})


def _nearest(at_s: float, moments: Sequence[float]) -> float:
    """Return the sample that a latency belongs to: the tables share their moments."""
    return min(moments, key=lambda moment: abs(moment - at_s))


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = {**RESULTS, **FAULT_TOLERANCE, "requests": REQUESTS}[name].arrow_schema()
    schema = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_pylist(list(rows), schema)


def _metrics(poll: Poll) -> dict[tuple[str, int], Metrics]:
    """Return the metrics of each subtask, by the first stage of its vertex and its index."""
    found = {}
    for path, vertex in _vertices(poll):
        for subtask in range(vertex["parallelism"]):
            body = poll[f"{path}/subtasks/{subtask}/metrics"] or ()
            own = {row["id"]: float(row["value"]) for row in body if row["value"] != "NaN"}
            found[head_of_vertex(vertex["name"]), subtask] = own
    return found


def _stage_rows(
    readings: Sequence[tuple[float, Mapping[tuple[str, int], Metrics]]], scenario: Scenario
) -> Iterator[dict[str, Any]]:
    before: dict[tuple[str, int], dict[str, float]] = {}
    before_s = 0.0
    for at_s, metrics in readings:
        for stage in scenario.stages:
            head = head_of(scenario, stage.name)
            for subtask in range(stage.parallelism):
                own = metrics.get((head, subtask), {})
                counts = _counts(own, scenario, stage.name)
                last = before.get((stage.name, subtask), dict.fromkeys(counts, 0.0))
                counts = counts if own else last  # a job that ended says nothing more
                before[stage.name, subtask] = counts
                length = at_s - before_s
                grown = {key: (counts[key] - last[key]) / length for key in counts}
                yield {
                    "t_s": at_s,
                    "stage": stage.name,
                    "subtask": subtask,
                    "records_in": int(counts["in"]),
                    "records_out": int(counts["out"]),
                    "rate_in": grown["in"],
                    "rate_out": grown["out"],
                    "backpressured_ms_per_s": grown["blocked"],
                    **(_input(own, grown) if head == stage.name else {}),
                    **(_output(own) if not _is_chained_on(scenario, stage.name) else {}),
                    "lag_records": int(own.get(f"Source__{stage.name}.pendingRecords", 0)),
                }
        before_s = at_s


def _input(own: Metrics, grown: Mapping[str, float]) -> dict[str, Any]:
    """Return what the first stage of a task shows: how busy the task is, and its gates."""
    return {
        "busy_ms_per_s": grown["busy"],
        "idle_ms_per_s": grown["idle"],
        "in_pool_usage": own.get(f"{_INPUT}inPoolUsage", 0.0),
        "floating_buffers_usage": own.get(f"{_INPUT}inputFloatingBuffersUsage", 0.0),
        "exclusive_buffers_usage": own.get(f"{_INPUT}inputExclusiveBuffersUsage", 0.0),
        "input_queue_buffers": int(own.get(f"{_INPUT}inputQueueLength", 0)),
    }


def _output(own: Metrics) -> dict[str, Any]:
    """Return what the last stage of a task shows: its results."""
    return {
        "out_pool_usage": own.get(f"{_OUTPUT}outPoolUsage", 0.0),
        "output_queue_buffers": int(own.get(f"{_OUTPUT}outputQueueLength", 0)),
    }


def _is_chained_on(scenario: Scenario, name: str) -> bool:
    return any(edge.chain for edge in scenario.outputs(name))


def _counts(own: Metrics, scenario: Scenario, name: str) -> dict[str, float]:
    """Return the counters of a stage in a task: a chained one has only its records to itself."""
    is_source = not scenario.inputs(name)
    scope = f"Source__{name}" if is_source else name
    taken = 0.0 if is_source else own.get(f"{name}.numRecordsIn", own.get("numRecordsIn", 0.0))
    # Counted once, however many edges it leaves on.
    sent = own.get(f"{scope}.numRecordsOut", own.get("numRecordsOut", 0.0))
    sent = own.get(f"{name}_calls.numRecordsOut", sent)
    sent = own.get(f"{name}_window.numRecordsOut", sent)
    return {
        "in": taken,
        "out": sent if scenario.outputs(name) else 0.0,
        "busy": own.get("accumulateBusyTimeMs", 0.0),
        "idle": own.get("accumulateIdleTimeMs", 0.0),
        "blocked": own.get("accumulateBackPressuredTimeMs", 0.0),
    }


def _channel_rows(
    stages: Sequence[Mapping[str, Any]], scenario: Scenario
) -> Iterator[dict[str, Any]]:
    """Yield a row for each sample of each channel that is alone at both ends."""
    rows = {(row["t_s"], row["stage"], row["subtask"]): row for row in stages}
    for edge in filter(lambda edge: is_lone(scenario, edge), scenario.edges):
        record_bytes = scenario.stage(edge.sender).record_bytes or 0
        for (at_s, name, subtask), row in rows.items():
            if name != edge.receiver:
                continue
            sender = rows[at_s, edge.sender, subtask]
            held = max(0, sender["records_out"] - row["records_in"])
            yield {
                "t_s": at_s,
                "edge": edge.name,
                "sender": subtask,
                "receiver": subtask,
                "queued": row["input_queue_buffers"],
                "in_flight_records": held,
                "in_flight_bytes": held * record_bytes,
            }


def is_lone(scenario: Scenario, edge: Edge) -> bool:
    """Whether each sender has one channel on an edge, and each receiver no other channel."""
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    is_pairwise = edge.partitioner == "forward" or sender.parallelism == receiver.parallelism == 1
    return is_pairwise and not edge.chain and len(scenario.inputs(edge.receiver)) == 1


def status(row: Mapping[str, Any], timeout_ms: float) -> str:
    """Return how a checkpoint ended; Flink's history does not say why one failed."""
    if row["status"] == "COMPLETED":
        return "completed"
    is_late = row["status"] == "FAILED" and row["end_to_end_duration"] >= timeout_ms
    return "expired" if is_late else "aborted"


def _checkpoint_rows(poll: Poll, start_ms: int, timeout_ms: float) -> Iterator[dict[str, Any]]:
    for row in reversed(poll[f"{job_path(poll)}/checkpoints"]["history"]):
        is_over = row["status"] != "IN_PROGRESS"
        triggered_s = (row["trigger_timestamp"] - start_ms) / 1000
        yield {
            "checkpoint_id": row["id"],
            "kind": "savepoint" if row["is_savepoint"] else "checkpoint",
            "status": status(row, timeout_ms),
            "triggered_s": triggered_s,
            "ended_s": triggered_s + row["end_to_end_duration"] / 1000 if is_over else None,
            "e2e_ms": float(row["end_to_end_duration"]) if is_over else None,
            "is_unaligned": row["persisted_data"] > 0,
            "state_bytes": row["checkpointed_size"] - row["persisted_data"],
            "processed_bytes": row["processed_data"],
            "persisted_bytes": row["persisted_data"],
            "acknowledged": row["num_acknowledged_subtasks"],
            "subtasks": row["num_subtasks"],
        }


def _task_rows(poll: Poll, start_ms: int) -> Iterator[dict[str, Any]]:
    root = job_path(poll)
    names = {one["id"]: head_of_vertex(one["name"]) for one in poll[root]["vertices"]}
    for path, body in poll.items():
        if not path.startswith(f"{root}/checkpoints/details/"):
            continue
        number, vertex = path.split("/")[5], path.split("/")[7]
        for row in body["subtasks"]:
            if row["status"] != "completed":
                continue
            yield {
                "checkpoint_id": int(number),
                "stage": names[vertex],
                "subtask": row["index"],
                "acknowledged_s": (row["ack_timestamp"] - start_ms) / 1000,
                "e2e_ms": float(row["end_to_end_duration"]),
                "start_delay_ms": float(row["start_delay"]),
                "alignment_ms": float(row["alignment"]["duration"]),
                "sync_ms": float(row["checkpoint"]["sync"]),
                "async_ms": float(row["checkpoint"]["async"]),
                "processed_bytes": row["alignment"]["processed"],
                "persisted_bytes": row["alignment"]["persisted"],
                "state_bytes": row["state_size"],
            }
