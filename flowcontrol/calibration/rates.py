"""Rates, capacities and selectivities from counters, and figures that cannot all be true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

from flowcontrol.calibration.draft import Contradiction
from flowcontrol.calibration.readings import (
    COUNTERS,
    STALE_MS,
    TIMES,
    FlinkEdge,
    FlinkJob,
    Subtask,
    Vertex,
    copies,
    in_flight,
)

# --- True rates, capacities, selectivities and sizes from counters: the formulas, each once.


BUSY_MS: Final = 200.0
"""Least growth of the busy time for which a service rate is read off it, ms."""

OPEN_SHARE: Final = 0.01
"""Least share of the time in which a source was not blocked for its capacity to be known."""


def service_rate(subtask: Subtask) -> tuple[float, float] | None:
    """Return a subtask's true rate and the relative error of it; None if it was hardly busy.

    Records over busy time, Flink's "true processing rate". Calls, a checkpoint's synchronous part
    and garbage collections are in it. Counters are whole records and whole milliseconds.
    """
    records, busy = subtask.growth("records_in"), subtask.growth("busy_ms")
    if records is None or busy is None or busy < BUSY_MS or records <= 0:
        return None
    return 1000 * records / busy, 1 / records + subtask.error("busy_ms")


def capacity(subtask: Subtask) -> tuple[float, float] | None:
    """Return what a source could emit if nothing blocked it, records/s, and the relative error.

    Notes
    -----
    What it emitted over the share of the time in which it was not blocked. The busy time of a
    source that waits for its own rate says nothing.
    """
    rate, blocked = subtask.rate("records_out"), subtask.rate("blocked_ms")
    if not rate:
        return None
    is_open = 1 - (blocked or 0.0) / 1000
    if is_open < OPEN_SHARE:
        return None
    # A poll's times are a few milliseconds off, which weigh the more the less of them is open.
    error = 5 / (subtask.elapsed_ms * is_open) + 1 / (subtask.growth("records_out") or 1)
    return rate / is_open, error


def through(job: FlinkJob, edge: FlinkEdge) -> tuple[float, str] | None:
    """Return the records that an edge carried in the window, and by which counter.

    The sender's own if it has no other output; else what the receiver took, if nothing else
    feeds it; else that less what its other senders sent; else all that the sender sent.
    """
    sender, receiver = job.stage(edge.sender), job.stage(edge.receiver)
    sent = sender.total(lambda one: one.growth("records_out"))
    if len(job.outputs(edge.sender)) == 1 and sent is not None:
        return sent, f"d numRecordsOut of {sender.stage}"
    taken = receiver.total(lambda one: one.growth("records_in"))
    others = [one for one in job.inputs(edge.receiver) if one != edge]
    if taken is None:
        return None if sent is None else (sent, f"d numRecordsOut of {sender.stage}, all outputs")
    if all(len(job.outputs(one.sender)) == 1 for one in others):
        rest = [job.stage(one.sender).total(lambda s: s.growth("records_out")) for one in others]
        known = [count for count in rest if count is not None]
        if len(known) == len(rest):
            text = f"d numRecordsIn of {receiver.stage}"
            return (taken - sum(known)) / copies(job, edge), text
    return None if sent is None else (sent, f"d numRecordsOut of {sender.stage}, all outputs")


def record_bytes(job: FlinkJob, stage: str) -> tuple[float, float] | None:
    """Return the bytes of a record that a stage sends, and the relative error; None if unknown.

    Bytes count when a buffer is taken to be sent, so they trail the records by what is queued; the
    length before each record is in them. Of a broadcast the receivers' counters are read, since
    the sender counts each record once and its bytes once a receiver.
    """
    edges = job.outputs(stage)
    found: list[tuple[float, float]] = []
    if len(edges) == 1 and edges[0].ship != "BROADCAST":
        found += _per_record(job.stage(stage), "bytes_out", "records_out")
    for edge in edges:
        if len(job.inputs(edge.receiver)) == 1:
            found += _per_record(job.stage(edge.receiver), "bytes_in", "records_in")
    return found[0] if found else None


def _per_record(vertex: Vertex, nbytes: str, records: str) -> list[tuple[float, float]]:
    size = vertex.total(lambda one: one.growth(nbytes))
    count = vertex.total(lambda one: one.growth(records))
    if not size or not count or size <= 0 or count <= 0:
        return []
    # A buffer more or less at each end of the window.
    return [(size / count, min(1.0, 32768 * vertex.parallelism / size))]


def shares(vertex: Vertex) -> list[float] | None:
    """Return the part of a stage's records that each subtask took; None if unknown."""
    taken = [one.growth("records_in") for one in vertex.subtasks]
    known = [count for count in taken if count is not None and count >= 0]
    total = sum(known)
    return [count / total for count in known] if len(known) == len(taken) and total else None


def alike(values: Sequence[float], within: float = 0.01) -> bool:
    """Tell whether values differ by no more than a share of their mean."""
    mean = sum(values) / len(values)
    return max(values) - min(values) <= within * abs(mean)


def rounded(value: float, digits: int = 6) -> float:
    """Return a value with so many significant digits as a file needs."""
    return float(f"{value:.{digits}g}")


# --- Figures of a Flink job that cannot all be true, stage by stage.


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
