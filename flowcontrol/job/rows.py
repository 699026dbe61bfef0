"""The rows of a gate and a partition at the start of a run."""

from collections.abc import Sequence

from flowcontrol.job.checkpoint_settings import event_slots
from flowcontrol.job.graph import Channel, JobEdge
from flowcontrol.job.job import Job
from flowcontrol.protocol.partition_kinds import has_quota, kind_of
from flowcontrol.protocol.pool_rules import fetch_segment
from flowcontrol.protocol.queues import new_queue
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
from flowcontrol.systems.transports.record_rounds import received_slots, sent_slots
from flowcontrol.systems.transports.rules import first_grant
from flowcontrol.systems.transports.transport import ChannelGrant

LOCAL = -1
"""Initial credit that marks a local channel, which knows no credit."""


def new_gate(job: Job, link: JobEdge, receiver: int, channels: Sequence[Channel]) -> Gate:
    """Return the rows of a gate at the start of a run.

    Initial credit is carried by the partition request, so it counts as announced from the
    first round on (reference section 1.2).
    """
    size, transport = job.sizes.gates[link.name, receiver], job.record_transport
    rows, depths = [], []
    events = event_slots(job.checkpoints)
    for channel in channels:
        if transport is not None:
            granted = first_grant(transport, ChannelGrant(), link.record_bytes)
            initial = 0 if job.has_grants else LOCAL
            rows.append(InputChannel(initial=initial, announced=granted))
            depths.append(received_slots(events) - events)
        elif channel.is_local:
            rows.append(InputChannel(initial=LOCAL))
            depths.append(queue_depth(job, link, channel.sender))
        else:
            own = size.exclusive
            rows.append(InputChannel(initial=own, exclusive=own, announced=own))
            depths.append(own + size.floating)
    pool, segments = _pool(size.floating, 0)
    return Gate(
        channels=rows,
        pool=pool,
        segments=segments,
        waiting=fifo(len(channels)),
        order=fifo(len(channels)),
        queues=[new_queue(depth + events, ReceivedMessage) for depth in depths],
        dirty_channels=[0] * (len(channels) // WORD + 1),
    )


def new_partition(job: Job, link: JobEdge, sender: int, channels: Sequence[Channel]) -> Partition:
    """Return the rows of a result partition at the start of a run."""
    size = job.sizes.partitions[link.name, sender]
    events, is_counted = event_slots(job.checkpoints), job.record_transport is not None
    depth = sent_slots(events) - events if is_counted else queue_depth(job, link, sender)
    pool, segments = _pool(size.size, size.overdraft)
    rows = []
    for channel in channels:
        if job.record_transport is not None:
            pool.free = 1  # what stops a writer is the grant
            granted = first_grant(job.record_transport, ChannelGrant(), link.record_bytes)
            rows.append(Subpartition(announced=granted))
        else:
            own = job.sizes.gates[link.name, channel.receiver].exclusive
            initial = LOCAL if channel.is_local else own
            rows.append(Subpartition(initial=initial, announced=max(0, initial)))
    return Partition(
        pool=pool,
        segments=segments,
        channels=rows,
        queues=[new_queue(depth + events, Message) for _ in channels],
        held=[fifo(0 if is_counted else depth) for _ in channels],
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
    width = len(link.places("sender", sender))
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
