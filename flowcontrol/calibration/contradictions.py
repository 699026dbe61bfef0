"""Figures of a Flink job that cannot all be true, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean
from typing import Final

from flowcontrol.calibration.draft import Contradiction
from flowcontrol.calibration.readings import (
    COUNTERS,
    STALE_MS,
    TIMES,
    FlinkJob,
    Subtask,
    Vertex,
    copies,
    in_flight,
)

LITTLE: Final = 0.10
"""By how much what is in flight may differ from throughput times queueing time."""

TIMES_OVER: Final = 0.05
"""By how much busy, idle and back-pressured time together may exceed the time, by rounding."""

UNSETTLED: Final = 0.10
"""Growth of what is in flight, as a part of the records of the window, that is a wrong window."""


def flink_contradictions(job: FlinkJob) -> list[Contradiction]:
    """Return what is contradictory in a job's figures, in the order of its stages."""
    found: list[Contradiction] = []
    for vertex in job.vertices:
        found += _backwards(vertex)
        found += _shares(job, vertex)
        found += _flow(job, vertex)
        found += _little(job, vertex)
    return found


def _backwards(vertex: Vertex) -> Iterator[Contradiction]:
    """Yield counters that go back; of all subtasks at once they are a restart, which is refused."""
    for number, subtask in enumerate(vertex.subtasks):
        for name in (*COUNTERS, *TIMES):
            known = [one.values[name] for one in subtask.readings if name in one.values]
            for poll, (old, new) in enumerate(pairwise(known), 1):
                # Times are worked out when they are read, and may differ by a reading's length.
                if new < old - (1000 if name in TIMES else 0):
                    text = (
                        f"{name} goes back from {old:g} to {new:g} at poll {poll}: counters only "
                        "grow, so the subtask was started anew, or two readings are mixed up"
                    )
                    yield Contradiction(f"{vertex.stage}/{number}", text)
                    break


def _shares(job: FlinkJob, vertex: Vertex) -> Iterator[Contradiction]:
    """Yield subtasks whose times add up to more than the time that passed."""
    usual = min(max(1.0, _usual(job)), 1 + STALE_MS / max(1.0, 1000 * job.window_s))
    for number, subtask in enumerate(vertex.subtasks):
        ratio = _ratio(subtask)
        if ratio is not None and ratio > (1 + TIMES_OVER) * usual:
            per_s = 1000 / subtask.wall_ms
            parts = ", ".join(
                f"{name.removesuffix('_ms')} {per_s * (subtask.growth(name) or 0):.0f}"
                for name in TIMES
            )
            text = (
                f"its times add up to {1000 * ratio:.0f} ms/s ({parts}), more than the 1000 that a "
                "second has: the polls' moments (`now`) are wrong, or two tasks are mixed up"
            )
            yield Contradiction(f"{vertex.stage}/{number}", text)


def _ratio(subtask: Subtask) -> float | None:
    growths = [subtask.growth(name) for name in TIMES]
    known = [one for one in growths if one is not None]
    return sum(known) / subtask.wall_ms if known and subtask.wall_ms > 0 else None


def _usual(job: FlinkJob) -> float:
    """Return the times' sum over the time of most subtasks: metrics of a poll may be old."""
    found = [_ratio(one) for vertex in job.vertices for one in vertex.subtasks]
    known = sorted(one for one in found if one is not None)
    return known[(len(known) - 1) // 2] if known else 1.0


def _flow(job: FlinkJob, vertex: Vertex) -> Iterator[Contradiction]:
    """Yield a stage that took more than its senders sent, or whose queue still grew."""
    edges = job.inputs(vertex.stage)
    taken = vertex.total(lambda one: one.growth("records_in"))
    levels = in_flight(job, vertex.stage)
    if not edges or taken is None:
        return
    if levels:
        # Senders and receivers are not read at one moment: what passes meanwhile may be missing.
        slack = max(1.0, 0.02 * taken)
        if min(levels) < -slack:
            names = " and ".join(edge.sender for edge in edges)
            text = (
                f"it took {-min(levels):.0f} records more than {names} sent it: an edge is "
                "missing, or a counter is of another task"
            )
            yield Contradiction(vertex.stage, text)
        elif abs(levels[-1] - levels[0]) > UNSETTLED * taken:
            text = (
                f"what is in flight before it went from {levels[0]:.0f} to {levels[-1]:.0f} "
                f"records while it took {taken:.0f}: the window is not settled; begin it later, or "
                "poll for longer"
            )
            yield Contradiction(vertex.stage, text)
        return
    sent = [job.stage(edge.sender).total(lambda one: one.growth("records_out")) for edge in edges]
    pairs = [(count, edge) for count, edge in zip(sent, edges, strict=True) if count is not None]
    most = sum(count * copies(job, edge) for count, edge in pairs)
    if len(pairs) == len(edges) and taken > 1.1 * most:
        text = f"it took {taken:.0f} records while all its senders sent {most:.0f}"
        yield Contradiction(vertex.stage, text)


def _little(job: FlinkJob, vertex: Vertex) -> Iterator[Contradiction]:
    """Yield a stage whose markers waited for another time than what is in flight says."""
    latency = job.latencies.get(vertex.stage)
    if latency is None or not latency > 0:
        return
    queueing_ms, at = 0.0, vertex
    while edges := job.inputs(at.stage):
        levels = in_flight(job, at.stage)
        rate = at.total(lambda one: one.rate("records_in"))
        if len(edges) > 1 or not levels or not rate:
            return
        queueing_ms += 1000 * fmean(levels) / rate
        at = job.stage(edges[0].sender)
    if queueing_ms and abs(latency - queueing_ms) > max(LITTLE * queueing_ms, 1.0):
        text = (
            f"latency markers took {latency:.1f} ms to it, but what is in flight and the "
            f"throughput say {queueing_ms:.1f} ms (Little's law): the window is wrong, or an edge "
            "is missing"
        )
        yield Contradiction(vertex.stage, text)
