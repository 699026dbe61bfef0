"""True rates, capacities, selectivities and sizes from counters: the formulas, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowcontrol.calibration.readings import FlinkEdge, FlinkJob, Subtask, Vertex, copies

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
