"""The memory of connections: who waits for a turn; without credits also water marks and a ring."""

from typing import Any

import numpy as np

from flowcontrol.job.checkpoint_settings import event_slots
from flowcontrol.job.job import Job
from flowcontrol.job.work import byte_cost
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.state import width
from flowcontrol.systems.tcp_connection import (
    TcpConnection,
    TcpMessage,
    high_mark,
    low_mark,
    ring_slots,
)
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder

Pair = tuple[int, int, str]
"""Task managers that send and receive, and whose connection it is: an edge's, or "" for all."""


def connections_of(job: Job) -> dict[Pair, list[tuple[str, int]]]:
    """Channels, by edge and place, over each connection; none if nothing but credits limits.

    Notes
    -----
    One for each ordered pair of task managers; with tcp one for each edge besides, as up to
    Flink 1.14 (reference section 2.4): a pair's only one could wait for itself, when a job goes
    to another task manager, back, and there again.
    """
    found: dict[Pair, list[tuple[str, int]]] = {}
    shares_buffers = job.scenario.system.transport == "tcp"
    if job.scenario.cluster.bandwidth_bytes_per_s is None and not shares_buffers:
        return found
    for link in job.links:
        here = job.scenario.stage(link.edge.sender).placement
        there = job.scenario.stage(link.edge.receiver).placement
        for place in np.flatnonzero(~link.is_local).tolist():
            owner = link.name if shares_buffers else ""
            pair = (here[link.senders[place]], there[link.receivers[place]], owner)
            found.setdefault(pair, []).append((link.name, place))
    return found


def fill_connections(build: Builder, pairs: dict[Pair, list[tuple[str, int]]]) -> None:
    """Fill the connections, which stand behind the tasks."""
    job, tasks, outs = build.job, build.blocks["tasks_at"], build.blocks["outputs_at"]
    first = len(tasks) - len(pairs)
    wires: dict[tuple[int, int], int] = {}
    for number, ((here, there, _), channels) in enumerate(pairs.items(), start=first):
        tasks["kind"][number] = f.CONNECTION
        tasks["union"][number] = build.take(w.FIFO_SLOTS + len(channels))
        tasks["gates"][number] = len(channels)
        tasks["first_gate"][number] = wires.setdefault((here, there), number)
        bandwidth = job.scenario.cluster.bandwidth_bytes_per_s
        if bandwidth is not None:
            tasks["cost_ns"][number], tasks["unit"][number] = byte_cost(bandwidth)
        tasks["status"][number] = f.IDLE
        for edge, place in channels:
            outs["connection"][build.places.outs[edge][place]] = number
        if job.scenario.system.transport == "tcp":
            _fill_wire(build, {edge for edge, _ in channels}, tasks[number])


def _fill_wire(build: Builder, edges: set[str], connection: Any) -> None:
    """Fill the state of a connection at the start of a run.

    Parameters
    ----------
    build : Builder
        The memory of a job whose transport is tcp.
    edges : set of str
        Whose channels share the connection.
    connection : numpy.void
        Its row among the tasks; filled in place.
    """
    job = build.job
    values, segment = job.scenario.system.transport_values, job.scenario.options.segment_bytes
    high = high_mark(round(values["high_water_segments"]), segment)
    kernel = round(values["kernel_bytes"])
    smallest = min(link.record_bytes for link in job.links if link.name in edges)
    channels = int(connection["gates"])
    events = event_slots(job.checkpoints)
    slots = ring_slots(kernel, high, segment, smallest, channels, events)
    low = low_mark(round(values["low_water_segments"]), segment, high)
    wire = TcpConnection(high, low, kernel)
    connection["phases"], connection["phase_count"] = build.put(cells_of(wire)), slots
    build.take(slots * width(TcpMessage))
