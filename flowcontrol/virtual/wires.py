"""The memory of connections without credits: their water marks, and rings of messages."""

from __future__ import annotations

from typing import Any

from flowcontrol.job.job import Job
from flowcontrol.protocol.state import width
from flowcontrol.systems import tcp_writer
from flowcontrol.systems.tcp_connection import TcpConnection, TcpMessage, ring_slots
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder


def fill_wire(job: Job, edges: set[str], connection: Any, build: Builder) -> None:
    """Fill the state of a connection at the start of a run.

    Parameters
    ----------
    job : Job
        The scenario, laid out; its transport is tcp.
    edges : set of str
        Whose channels share the connection.
    connection : numpy.void
        Its row among the tasks; filled in place.
    build : Builder
        Gives out cells.
    """
    values, segment = job.scenario.system.transport_values, job.scenario.options.segment_bytes
    high = tcp_writer.high_mark(round(values["high_water_segments"]), segment)
    kernel = round(values["kernel_bytes"])
    smallest = min(link.record_bytes for link in job.links if link.name in edges)
    channels = int(connection["gates"])
    slots = ring_slots(kernel, high, segment, smallest, channels)
    low = tcp_writer.low_mark(round(values["low_water_segments"]), segment, high)
    wire = TcpConnection(high, low, kernel)
    connection["phases"], connection["phase_count"] = build.put(cells_of(wire)), slots
    build.take(slots * width(TcpMessage))
