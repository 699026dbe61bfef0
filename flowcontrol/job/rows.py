"""The rows of a gate and a partition at the start of a run."""

from __future__ import annotations

from collections.abc import Sequence

from flowcontrol.job.graph import Channel, JobEdge
from flowcontrol.job.job import Job
from flowcontrol.protocol.partition_kinds import has_quota, kind_of
from flowcontrol.protocol.pool_rules import fetch_segment
from flowcontrol.protocol.queues import EVENT_SLOTS, new_queue
from flowcontrol.protocol.rows import WORD, fifo
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.protocol.states import (
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    ReceivedMessage,
    Subpartition,
)
from flowcontrol.systems.transports.record_rounds import QUEUE_MESSAGES
from flowcontrol.systems.transports.rules import (
    first_grant,
)
from flowcontrol.systems.transports.transport import ChannelGrant, RecordTransport

LOCAL = -1
"""Initial credit that marks a local channel, which knows no credit."""


def new_gate(job: Job, link: JobEdge, receiver: int, channels: Sequence[Channel]) -> Gate:
    """Return the rows of a gate at the start of a run.

    Initial credit is carried by the partition request, so it counts as announced from the
    first round on (reference section 1.2).
    """
    if job.record_transport is not None:
        return _record_gate(job, link, channels)
    size = job.sizes.gates[link.name, receiver]
    rows, depths = [], []
    for channel in channels:
        own = 0 if channel.is_local else size.exclusive
        initial = LOCAL if channel.is_local else own
        rows.append(InputChannel(initial=initial, exclusive=own, announced=own))
        remote = size.exclusive + size.floating
        depths.append(queue_depth(job, link, channel.sender) if channel.is_local else remote)
    pool, segments = _pool(size.floating, 0)
    return Gate(
        channels=rows,
        pool=pool,
        segments=segments,
        waiting=fifo(len(channels)),
        order=fifo(len(channels)),
        queues=[new_queue(depth + EVENT_SLOTS, ReceivedMessage) for depth in depths],
        news=[0] * (len(channels) // WORD + 1),
    )


def _record_gate(job: Job, link: JobEdge, channels: Sequence[Channel]) -> Gate:
    """Return the rows of a gate of queues of records."""
    transport, width = job.record_transport or RecordTransport(), len(channels)
    initial = 0 if job.has_grants else LOCAL
    granted = first_grant(transport, ChannelGrant(), link.record_bytes)
    rows = [InputChannel(initial=initial, announced=granted) for _ in channels]
    pool, segments = _pool(0, 0)
    return Gate(
        channels=rows,
        pool=pool,
        segments=segments,
        waiting=fifo(width),
        order=fifo(width),
        queues=[new_queue(QUEUE_MESSAGES + EVENT_SLOTS, ReceivedMessage) for _ in channels],
        news=[0] * (width // WORD + 1),
    )


def new_partition(job: Job, link: JobEdge, sender: int, channels: Sequence[Channel]) -> Partition:
    """Return the rows of a result partition at the start of a run."""
    size = job.sizes.partitions[link.name, sender]
    depth = 0 if job.record_transport is not None else queue_depth(job, link, sender)
    pool, segments = _pool(size.size, size.overdraft)
    rows = [Subpartition() for _ in channels]
    if job.record_transport is not None:
        pool.free = 1  # what stops a writer is the grant
        for row in rows:
            row.announced = first_grant(job.record_transport, ChannelGrant(), link.record_bytes)
    for row, channel in zip(rows, channels, strict=True) if job.record_transport is None else ():
        gate = job.sizes.gates[link.name, channel.receiver]
        row.initial = LOCAL if channel.is_local else gate.exclusive
        row.announced = max(0, row.initial)
    return Partition(
        pool=pool,
        segments=segments,
        channels=rows,
        queues=[new_queue(depth + EVENT_SLOTS, Message) for _ in channels],
        held=[fifo(depth) for _ in channels],
        counts=[0] * len(channels),
        is_broadcast=1 if link.edge.partitioner == "broadcast" and len(channels) > 1 else 0,
    )


def queue_depth(job: Job, link: JobEdge, sender: int) -> int:
    """Most buffers of a partition that stand in the queue of one of its channels.

    A channel at its quota stops the task before the next record, so beyond the quota go only
    the buffers that the outputs of one more record need. Some kinds of partition have none.
    """
    size, options = job.sizes.partitions[link.name, sender], job.scenario.options
    if job.scenario.system.transport == "tcp":  # knows no quota
        return size.size
    width = len(link.outgoing(sender))
    kind = kind_of(link.edge.partition_type, width, options.sort_min_parallelism)
    if has_quota(kind) == 0:
        return size.size + size.overdraft
    each = link.record_bytes // options.segment_bytes + 2
    most = job.stage(link.edge.sender).member(link).most_outputs
    return min(size.size + size.overdraft, options.max_buffers_per_channel + 1 + most * each)


def _pool(size: int, overdraft: int) -> tuple[LocalPool, GlobalPool]:
    """Return a pool's row with its eagerly fetched segment, and its share of the global pool."""
    pool, segments = LocalPool(), GlobalPool()
    pool.size = pool.maximum = pool.required = size
    pool.max_overdraft = overdraft
    segments.total = segments.free = size + overdraft
    fetch_segment(pool, segments)
    return pool, segments
