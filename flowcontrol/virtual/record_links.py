"""The kernel's memory of a gate of queues of records."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowcontrol.job.graph import JobEdge
from flowcontrol.job.job import Job
from flowcontrol.job.rows import LOCAL
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.states import ReceivedMessage
from flowcontrol.systems.grants import (
    first_grant,
)
from flowcontrol.systems.record_rounds import QUEUE_MESSAGES
from flowcontrol.systems.record_transport import ChannelGrant, RecordTransport
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder, Ints

__all__ = ["fill_record_gate"]


def fill_record_gate(
    job: Job,
    link: JobEdge,
    numbers: Ints,
    g: f.KernelGate,
    blocks: dict[str, Any],
    build: Builder,
    latency: int,
) -> None:
    """Fill a gate and its channels.

    Parameters
    ----------
    job : Job
        The scenario, laid out; its transport counts records.
    link : JobEdge
        The edge.
    numbers : ndarray of int64, shape (channels,)
        The gate's channels in the block of receivers' channels.
    g : KernelGate
        The gate; filled in place, as are the blocks.
    blocks : dict of str to ndarray
        Blocks of the memory, by the field of the head that says where each begins.
    build : Builder
        Gives out cells for queues.
    latency : int
        Rounds that a message travels between two task managers.
    """
    into, out, count = blocks["inputs_at"], blocks["outputs_at"], len(numbers)
    words = count // w.WORD + 1
    g.first_channel, g.channels = numbers[0], count
    g.waiting = build.take(w.FIFO_SLOTS + count)
    g.order = build.take(w.FIFO_SLOTS + count)
    g.queue_most = QUEUE_MESSAGES
    g.queues = int(build.queues(count, ReceivedMessage, g.queue_most)[0])
    g.arrivals, g.news = build.take(words), build.take(words)
    g.record_bytes, g.since = link.record_bytes, -1
    state = ChannelGrant()
    granted = first_grant(job.record_transport or RecordTransport(), state, link.record_bytes)
    g.grants = build.put(np.tile(cells_of(state), count))
    into["initial"][numbers] = 0 if job.has_grants else LOCAL
    into["announced"][numbers] = granted
    out["announced"][into["out"][numbers]] = granted
    most = latency + 2  # a message a round, and a grant
    into["transit_most"][numbers] = most
    into["transit"][numbers] = build.queues(count, f.KernelMessage, most)
    remote = numbers[out["is_local"][into["out"][numbers]] == 0]
    if latency > 1 and len(remote):
        into["credits_most"][remote] = most
        into["credits"][remote] = build.queues(len(remote), f.KernelCredit, most)
