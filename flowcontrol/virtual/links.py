"""The kernel's memory of one edge: its partitions, gates, channels and connections."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowcontrol.job.buffers import GateSize
from flowcontrol.job.graph import Channel, JobEdge
from flowcontrol.job.job import Job
from flowcontrol.job.routing import stream_of, weights_of
from flowcontrol.job.rows import LOCAL, queue_depth
from flowcontrol.job.work import byte_cost, flush_phase_us
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.partitioners import smooth_round_robin
from flowcontrol.protocol.pool_rules import fetch_segment
from flowcontrol.protocol.queues import EVENT_SLOTS
from flowcontrol.protocol.states import Message, ReceivedMessage
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import rows_in
from flowcontrol.virtual.debloat import PARTS
from flowcontrol.virtual.places import Builder, Ints, Places
from flowcontrol.virtual.record_links import fill_record_gate
from flowcontrol.virtual.wires import fill_wire

LONGEST_TABLE = 1 << 16
"""Records of a period of shares that is kept as a table; longer ones are worked out."""


def fill_link(
    job: Job,
    link: JobEdge,
    places: Places,
    blocks: dict[str, Any],
    build: Builder,
    latency: int,
    tables: dict[tuple[str, int], Ints],
) -> None:
    """Fill partitions, gates and channels of an edge.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    link : JobEdge
        The edge.
    places : Places
        Numbers of everything.
    blocks : dict of str to ndarray
        Blocks of the memory, by the field of the head that says where each begins; filled in place.
    build : Builder
        Gives out cells for queues and tables.
    latency : int
        Rounds that a message travels between two task managers.
    tables : dict
        By edge and sender: subpartition of each replayed row.
    """
    senders, receivers = link.ends("sender"), link.ends("receiver")
    local = np.array([channel.is_local for channel in link.channels])
    ins, outs = places.ins[link.name], places.outs[link.name]
    into, out = blocks["inputs_at"], blocks["outputs_at"]
    into["out"][ins], out["input"][outs] = outs, ins
    sender_task = places.tasks[job.stage(link.edge.sender).name]
    out["receiver"][outs] = places.tasks[link.edge.receiver] + receivers
    out["sender"][outs] = sender_task + senders
    out["is_local"][outs], out["connection"][outs] = local, -1
    cycle: dict[str, int] = {}
    partitions = rows_in(blocks["partitions_at"], f.KernelPartition)
    gates = rows_in(blocks["gates_at"], f.KernelGate)
    for sender in np.unique(senders):
        own = np.flatnonzero(senders == sender)
        number = places.partitions[link.name, int(sender)]
        out["place"][outs[own]], out["partition"][outs[own]] = np.arange(len(own)), number
        table = tables.get((link.name, int(sender)))
        partition = partitions[number]
        _fill_partition(job, link, int(sender), own, partition, places, build, table, cycle)
        partition.task = sender_task + int(sender)
    for receiver in np.unique(receivers):
        own = np.flatnonzero(receivers == receiver)
        number = places.gates[link.name, int(receiver)]
        out["gate"][outs[own]], out["index"][outs[own]] = number, np.arange(len(own))
        gate = gates[number]
        gate.task = places.tasks[link.edge.receiver] + int(receiver)
        _fill_gate(job, link, int(receiver), own, gate, places, blocks, build, latency)


def _fill_partition(
    job: Job,
    link: JobEdge,
    sender: int,
    own: Ints,
    p: f.KernelPartition,
    places: Places,
    build: Builder,
    table: Ints | None,
    cycle: dict[str, int],
) -> None:
    size, count = job.sizes.partitions[link.name, sender], len(own)
    depth = 0 if job.record_transport is not None else queue_depth(job, link, sender)
    _fill_pool(p, size.size, size.overdraft)
    if job.record_transport is not None:
        p.pool.free = 1  # what stops a writer is the grant
    p.first_channel, p.channels = places.outs[link.name][own[0]], count
    p.queue_most = depth + EVENT_SLOTS
    p.queues = int(build.queues(count, Message, p.queue_most)[0])
    has_local = any(link.channels[i].is_local for i in own)
    p.held_width = w.FIFO_SLOTS + (depth if has_local else 0)
    p.held = build.take(count * p.held_width)
    p.counts, p.routed = build.take(count), build.take(count)
    words = count // w.WORD + 1
    p.news, p.dirty = build.take(words), build.take(words)
    p.is_broadcast = int(link.edge.partitioner == "broadcast" and count > 1)
    p.record_bytes = link.record_bytes
    p.flush_phase = flush_phase_us(job, link, sender)
    p.stream = stream_of(f"{link.name}/{sender}")
    member = job.stage(link.edge.sender).member(link)
    p.operator = member.output
    p.pending_width = w.FIFO_SLOTS + member.most_outputs
    p.pending = build.take(p.pending_width)
    _fill_route(link, sender, count, p, build, table, cycle)


def _fill_route(
    link: JobEdge,
    sender: int,
    count: int,
    p: f.KernelPartition,
    build: Builder,
    table: Ints | None,
    cycle: dict[str, int],
) -> None:
    """Say how a partition's records find their channel."""
    weights = weights_of(link, count)
    kind = link.edge.partitioner
    p.route = f.ROUTE_FIRST
    if table is not None:
        p.route = f.ROUTE_TABLE
        p.table, p.table_length = build.put(np.asarray(table, np.int64)), len(table)
    elif weights is not None:
        _fill_shares(weights, p, build, cycle)
    elif kind == "shuffle":
        p.route = f.ROUTE_SHUFFLE
    elif kind in {"rebalance", "rescale"}:
        p.route = f.ROUTE_CYCLE
        p.cursor = sender % count if kind == "rebalance" else 0


def _fill_shares(
    weights: list[int], p: f.KernelPartition, build: Builder, cycle: dict[str, int]
) -> None:
    """Keep a whole period of the shares, which all senders have in common, as a table."""
    period = sum(weights)
    if period > LONGEST_TABLE:
        cells = np.array([*weights, *[0] * len(weights)], np.int64)  # and how far each is behind
        p.route, p.table, p.table_length = f.ROUTE_SHARES, build.put(cells), period
        return
    if not cycle:
        cycle["at"] = build.put(np.array(smooth_round_robin(period, weights), np.int64))
    p.route, p.table, p.table_length = f.ROUTE_TABLE, cycle["at"], period


def _fill_gate(
    job: Job,
    link: JobEdge,
    receiver: int,
    own: Ints,
    g: f.KernelGate,
    places: Places,
    blocks: dict[str, Any],
    build: Builder,
    latency: int,
) -> None:
    if job.record_transport is not None:
        fill_record_gate(job, link, places.ins[link.name][own], g, blocks, build, latency)
        return
    size, count = job.sizes.gates[link.name, receiver], len(own)
    channels = [link.channels[i] for i in own]
    window = size.exclusive + size.floating
    depths = [queue_depth(job, link, c.sender) if c.is_local else window for c in channels]
    _fill_pool(g, size.floating, 0)
    g.first_channel, g.channels = places.ins[link.name][own[0]], count
    g.waiting = build.take(w.FIFO_SLOTS + count)
    g.order = build.take(w.FIFO_SLOTS + count)
    g.queue_most = max(depths) + EVENT_SLOTS
    g.queues = int(build.queues(count, ReceivedMessage, g.queue_most)[0])
    # Sizes of buffers under way, if there are such messages: one each period.
    delay_us, period_us = latency * job.round_us, job.scenario.options.debloat_period_us
    sizes = delay_us // period_us + 2 if job.scenario.options.debloat_enabled else 0
    segment = job.scenario.options.segment_bytes
    g.since, g.last_size, g.size = -1, segment, int(segment * PARTS)
    words = count // w.WORD + 1
    g.arrivals, g.news = build.take(words), build.take(words)
    g.record_bytes = link.record_bytes
    _fill_channels(places.ins[link.name][own], channels, depths, size, blocks, build)
    if latency > 1:
        remote = [not channel.is_local for channel in channels]
        rows = places.ins[link.name][own][remote]
        most = window + 2 + sizes
        blocks["inputs_at"]["credits_most"][rows] = most
        blocks["inputs_at"]["credits"][rows] = build.queues(len(rows), f.KernelCredit, most)


def _fill_channels(
    numbers: Ints,
    channels: list[Channel],
    depths: list[int],
    size: GateSize,
    blocks: dict[str, Any],
    build: Builder,
) -> None:
    """Fill a gate's channels: initial credit, and room for the messages under way."""
    into, out = blocks["inputs_at"], blocks["outputs_at"]
    local = np.array([channel.is_local for channel in channels])
    exclusive = np.where(local, 0, size.exclusive)
    into["initial"][numbers] = np.where(local, LOCAL, exclusive)
    into["exclusive"][numbers] = exclusive
    into["announced"][numbers] = exclusive
    out["announced"][into["out"][numbers]] = exclusive
    out["initial"][into["out"][numbers]] = into["initial"][numbers]
    for is_local in (False, True):
        rows = numbers[local == is_local]
        if len(rows):
            most = max(
                1, *(d for d, c in zip(depths, channels, strict=True) if c.is_local == is_local)
            )
            if size.exclusive == 0 and not is_local:  # an announcement may go before each of them
                most = 2 * most + 1
            most += EVENT_SLOTS
            into["transit_most"][rows] = most
            into["transit"][rows] = build.queues(len(rows), f.KernelMessage, most)


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
        for place, channel in enumerate(link.channels):
            if not channel.is_local:
                owner = link.name if shares_buffers else ""
                pair = (here[channel.sender], there[channel.receiver], owner)
                found.setdefault(pair, []).append((link.name, place))
    return found


def fill_connections(
    job: Job,
    pairs: dict[Pair, list[tuple[str, int]]],
    places: Places,
    blocks: dict[str, Any],
    build: Builder,
) -> None:
    """Fill the connections, which stand behind the tasks."""
    tasks, out = blocks["tasks_at"], blocks["outputs_at"]
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
            out["connection"][places.outs[edge][place]] = number
        if job.scenario.system.transport == "tcp":
            fill_wire(job, {edge for edge, _ in channels}, tasks[number], build)


def _fill_pool(owner: f.KernelGate | f.KernelPartition, size: int, overdraft: int) -> None:
    """Fill a pool with its eagerly fetched segment, and its part of the global pool."""
    pool, part = owner.pool, owner.segments
    pool.size = pool.maximum = pool.required = size
    pool.max_overdraft = overdraft
    part.total = part.free = size + overdraft
    fetch_segment(pool, part)
