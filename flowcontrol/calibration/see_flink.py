"""What a Flink job's polls say that a run has to predict."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from flowcontrol.analysis.limits import NOTICEABLE, SATURATED
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.readings import FlinkJob, Subtask, Vertex, in_flight, outputs_counted

SHARES: Final = {
    "busy_ms": "busy_ms_per_s",
    "idle_ms": "idle_ms_per_s",
    "blocked_ms": "backpressured_ms_per_s",
}
SPREAD_MS: Final = 10.0
"""How far apart the counters of two tasks in one poll may have been read, ms: what passes meanwhile
is in one of them only."""

USAGES: Final = (
    "in_pool_usage",
    "out_pool_usage",
    "floating_buffers_usage",
    "exclusive_buffers_usage",
)


def see(draft: Draft, job: FlinkJob) -> None:
    """Note the figures of all stages, edges and checkpoints of a job."""
    for vertex in job.vertices:
        has_input = bool(job.inputs(vertex.stage))
        _see(draft, job, vertex.stage, vertex.subtasks, has_input)
        if vertex.parallelism > 1:
            for number, subtask in enumerate(vertex.subtasks):
                _see(draft, job, f"{vertex.stage}/{number}", (subtask,), has_input)
        levels = in_flight(job, vertex.stage)
        if levels:
            edges = job.inputs(vertex.stage)
            place = edges[0].name if len(edges) == 1 else f"->{vertex.stage}"
            rate = vertex.total(lambda one: one.rate("records_in")) or 0.0
            error = rate * SPREAD_MS / 1000
            draft.see(place, "in_flight_records", fmean(levels), "records", error)
        if vertex.stage in job.latencies:
            draft.see(vertex.stage, "marker_latency_ms", job.latencies[vertex.stage], "ms")
    if job.durations_ms:
        draft.see("job", "checkpoint_e2e_ms", fmean(job.durations_ms), "ms")


def _see(
    draft: Draft, job: FlinkJob, place: str, subtasks: tuple[Subtask, ...], has_input: bool
) -> None:
    """Note the figures of a stage, or of one subtask."""
    whole = Vertex("", "", "", subtasks)
    name, column = ("records_in", "rate_in") if has_input else ("records_out", "rate_out")
    rate = whole.total(lambda one: one.rate(name))
    times = 1 if has_input else outputs_counted(job, place.partition("/")[0])
    # A record more or less in the window of the input, and one in that of the run.
    whole_record = len(subtasks) * (1 / job.window_s + 1 / draft.warm_up_s)
    if rate is not None and times is not None:
        draft.see(place, column, rate / times, "records/s", whole_record)
    known = {time: whole.mean(lambda one, t=time: one.rate(t)) for time in SHARES}  # type: ignore[misc]
    busy = known["busy_ms"]
    if busy is None:  # NaN: the idle time of a legacy source is not measured, and stays 0
        known["idle_ms"] = None
    a_record = min(1.0, whole_record / rate) * (busy or 0.0) if rate else 0.0
    for time, share in SHARES.items():
        error = a_record if time != "blocked_ms" else 0.0
        draft.see(place, share, known[time], "ms/s", error)
    has_output = bool(job.outputs(place.partition("/")[0]))
    for usage in USAGES:
        if has_output if usage.startswith("out") else has_input:
            draft.see(place, usage, whole.mean(lambda one, u=usage: one.mean(u)))  # type: ignore[misc]


def limiting_stage(job: FlinkJob) -> str | None:
    """Return the stage that limits by Flink's own reading of its times; None: none does.

    The first busy stage that is not itself blocked, behind one that is. A stage is as busy, and as
    blocked, as its worst subtask. In a graph with branches, the busiest behind a blocked one.
    """
    worst = {
        vertex.stage: {
            time: max((one.rate(time) or 0.0) / 1000 for one in vertex.subtasks)
            for time in ("busy_ms", "blocked_ms")
        }
        for vertex in job.vertices
    }
    found = [
        edge.receiver
        for edge in job.edges
        if worst[edge.sender]["blocked_ms"] > NOTICEABLE
        and worst[edge.receiver]["busy_ms"] > SATURATED
        and worst[edge.receiver]["blocked_ms"] <= 1 - SATURATED
    ]
    return max(found, key=lambda stage: worst[stage]["busy_ms"]) if found else None
