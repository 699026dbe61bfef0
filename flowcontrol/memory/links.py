"""The memory of an edge: its partitions, gates, channels and connections."""

from collections import Counter
from typing import Any

import numpy as np

from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job, event_slots
from flowcontrol.layout.shares import stream_of, weights_of
from flowcontrol.layout.task_settings import pending_marks
from flowcontrol.layout.work import byte_cost, flush_phase_us
from flowcontrol.memory import fields as f
from flowcontrol.memory import part_fields as s
from flowcontrol.memory.cells import cells_of, rows_in
from flowcontrol.memory.places import Builder, Ints
from flowcontrol.memory.task_memory import put_keys
from flowcontrol.protocol.network import partition_kinds as k
from flowcontrol.protocol.network.partition_kinds import has_quota, kind_of
from flowcontrol.protocol.network.partitioners import next_by_share, smooth_round_robin
from flowcontrol.protocol.network.pool_rules import fetch_segment
from flowcontrol.scenario.graph import regions_of
from flowcontrol.state import rows as w
from flowcontrol.state.declared import width
from flowcontrol.state.network import Message, ReceivedMessage
from flowcontrol.systems.tcp import TcpConnection, TcpMessage, high_mark, low_mark, ring_slots
from flowcontrol.systems.transports.record_rounds import received_slots, sent_slots
from flowcontrol.systems.transports.rules import first_grant, rules_of_kind
from flowcontrol.systems.transports.transport import ChannelGrant, RecordTransport

# --- The kernel's memory of partitions that are not pipelined and bounded, and of their disks.


NEVER_US = 1 << 60
"""Microsecond at which the flusher of a spilling partition runs: it has none."""


def kinds_of(job: Job) -> dict[tuple[str, int], int]:
    """Return the kind of every result partition that is not pipelined and bounded.

    By edge and sender subtask, in the order of the job's stages.
    """
    found = {}
    for plan, index in job.subtasks:
        for link in plan.outputs:
            kind = _kind(job, link, index)
            if kind != k.BOUNDED:
                found[link.name, index] = kind
    return found


def _kind(job: Job, link: JobEdge, sender: int) -> int:
    width = len(link.places("sender", sender))
    least = job.scenario.options.sort_min_parallelism
    return k.kind_of(link.edge.partition_type, width, least)


def disks_of(job: Job) -> dict[int, int]:
    """Return how many spilling partitions write to the disk of each task manager, if any do."""
    managers = [_manager(job, *own) for own, kind in kinds_of(job).items() if kind > k.PIPELINED]
    return dict(sorted(Counter(managers).items()))


def _manager(job: Job, edge: str, sender: int) -> int:
    link = next(link for link in job.links if link.name == edge)
    return job.scenario.stage(link.edge.sender).placement[sender]


def fill_disks(build: Builder, disks: dict[int, int], first: int) -> None:
    """Fill the disks, which stand behind the tasks."""
    rate = build.job.scenario.cluster.disk_bytes_per_s
    for number, count in enumerate(disks.values(), start=first):
        disk = build.blocks["tasks_at"][number]
        disk["kind"], disk["status"] = f.DISK, f.IDLE
        disk["union"], disk["gates"] = build.take(w.FIFO_SLOTS + 2 * count), 2 * count
        disk["cost_ns"], disk["unit"] = byte_cost(rate or 1.0)


def fill_kinds(build: Builder, disks: dict[int, int]) -> None:
    """Fill what partitions have besides when they are not pipelined and bounded.

    ``disks``: task that is the disk of each task manager that has one.
    """
    job, places = build.job, build.places
    kinds = kinds_of(job)
    tasks, partitions = build.blocks["tasks_at"], build.blocks["partitions_at"]
    regions = regions_of(job.scenario)
    readers = {link.name: regions[link.edge.receiver] for link in job.links}
    groups = _fill_regions(build, kinds, readers)
    sorting = Counter(_manager(job, *own) for own, kind in kinds.items() if kind == k.SORTED)
    for (edge, sender), kind in kinds.items():
        number = places.partitions[edge, sender]
        p, manager = partitions[number], _manager(job, edge, sender)
        tasks["kinds"][p["task"]] += 1
        own = s.SpillingPartition(number)
        if kind > k.PIPELINED:
            count = int(p["channels"])
            own.disk, own.region = disks[manager], groups[readers[edge]]
            own.lanes = build.take(count * width(s.SpillingSubpartition))
            options = job.scenario.options
            # No more than a remote consumer, though the rounds know no bound but its queue's:
            # what Flink's local consumer has not polled can still be spilled.
            window = options.exclusive_buffers + options.floating_buffers
            own.local = min(window, max(1, int(p["held_width"]) - w.FIFO_SLOTS))
            memory, segment = options.read_memory_bytes, options.segment_bytes
            own.ahead = k.read_ahead(kind, count, sorting[manager], memory, segment)
            p["flush_at"] = NEVER_US
        p["kind"], p["spill"] = kind, build.put(cells_of(own))


def _fill_regions(
    build: Builder, kinds: dict[tuple[str, int], int], readers: dict[str, int]
) -> dict[int, int]:
    """Lay out the pipelined regions that read spilling partitions; return where each is.

    Flink's ``PipelinedRegionSchedulingStrategy``: a region starts when all blocking partitions that
    it reads are finished. A hybrid edge joins nothing and is waited for by nobody.
    """
    members: dict[int, list[int]] = {}
    waits: dict[int, int] = {}
    for (edge, sender), kind in kinds.items():
        if kind > k.PIPELINED:
            region = readers[edge]
            members.setdefault(region, []).append(build.places.partitions[edge, sender])
            waits[region] = waits.get(region, 0) + k.waits_for_producers(kind)
    found = {}
    for region, numbers in members.items():
        start = -1 if waits[region] > 0 else 0
        own = s.ConsumerRegion(waits[region], start, len(numbers))
        found[region] = build.put(np.append(cells_of(own), numbers))
    return found


# --- How much room a channel has at the start of a run


LOCAL = -1
"""Initial credit that marks a local channel, which knows no credit."""


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


# --- The memory of connections: who waits for a turn; without credits also water marks and a ring


Pair = tuple[int, int, str]
"""Task managers that send and receive, and whose connection it is: an edge's, or "" for all."""


def connections_of(job: Job) -> dict[Pair, list[tuple[str, int]]]:
    """Channels, by edge and place, over each connection; none if nothing but credits limits.

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

    - ``edges``: whose channels share the connection.
    - ``connection``: its row among the tasks; filled in place.
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


# --- Buffer debloating in the kernel: a gate measures, sizes and announces every period.
#
# The rule itself is flowcontrol.protocol.network.debloating; here stands what it is fed with.


PARTS = 1048576.0
"""Parts of a byte in which the size in force is kept."""


# --- The kernel's memory of one edge: its partitions, gates and channels


LONGEST_TABLE = 1 << 16
"""Records of a period of shares that is kept as a table; longer ones are worked out."""


def fill_link(build: Builder, link: JobEdge) -> None:
    """Fill partitions, gates and channels of an edge."""
    job, places = build.job, build.places
    senders, receivers = link.ends("sender"), link.ends("receiver")
    ins, outs = places.ins[link.name], places.outs[link.name]
    into, out = build.blocks["inputs_at"], build.blocks["outputs_at"]
    into["out"][ins], out["input"][outs] = outs, ins
    sender_task = places.tasks[job.stage(link.edge.sender).name]
    receiver_task = places.tasks[link.edge.receiver]
    out["receiver"][outs], out["sender"][outs] = receiver_task + receivers, sender_task + senders
    out["is_local"][outs], out["connection"][outs] = link.is_local, -1
    cycle: dict[str, int] = {}
    depth_of = np.zeros(int(senders.max()) + 1, np.int64)
    if job.record_transport is None:
        depth_of[:] = [queue_depth(job, link, sender) for sender in range(len(depth_of))]
    partitions = rows_in(build.blocks["partitions_at"], f.KernelPartition)
    gates = rows_in(build.blocks["gates_at"], f.KernelGate)
    for sender in map(int, np.unique(senders)):
        own = outs[link.places("sender", sender)]
        number = places.partitions[link.name, sender]
        out["place"][own], out["partition"][own] = np.arange(len(own)), number
        partition = partitions[number]
        partition.task, partition.first_channel = sender_task + sender, int(own[0])
        _fill_partition(build, link, sender, partition, cycle, int(depth_of[sender]))
    for receiver in map(int, np.unique(receivers)):
        here = link.places("receiver", receiver)
        own, number = outs[here], places.gates[link.name, receiver]
        out["gate"][own], out["index"][own] = number, np.arange(len(own))
        gate = gates[number]
        gate.task = receiver_task + receiver
        _fill_gate(build, link, receiver, ins[here], gate, depth_of)


def _fill_partition(
    build: Builder,
    link: JobEdge,
    sender: int,
    p: f.KernelPartition,
    cycle: dict[str, int],
    depth: int,
) -> None:
    """Fill a partition, whose queues hold so many buffers."""
    job, size = build.job, build.job.sizes.partitions[link.name, sender]
    channels = link.places("sender", sender)
    count = len(channels)
    events = event_slots(job.checkpoints)
    _fill_pool(p, size.size, size.overdraft)
    p.channels, p.queue_most = count, depth + events
    if job.record_transport is not None:
        rules = rules_of_kind(job.record_transport.kind)
        p.pool.free = 1  # what stops a writer is the grant, or that there is no place
        p.pool.size = rules.places(job.record_transport, count)
        p.queue_most = rules.runs + sent_slots(events)
    own = p.first_channel + np.arange(count)
    build.rings("outputs_at", f.KernelSubpartition, "finished", own, Message, p.queue_most)
    has_local = bool(link.is_local[channels].any())
    p.held_width = w.FIFO_SLOTS + (depth if has_local else 0)
    p.is_broadcast = int(link.edge.partitioner == "broadcast" and count > 1)
    p.record_bytes = link.record_bytes
    p.flush_phase = flush_phase_us(job, link, sender)
    p.stream = stream_of(f"{link.name}/{sender}")
    member = job.stage(link.edge.sender).member(link)
    p.operator = member.output
    p.pending_width = w.FIFO_SLOTS + member.most_outputs + pending_marks(job, count)
    build.lay(p, "held", "counts", "routed", "credited", "dirty", "pending")
    _fill_route(build, link, sender, p, cycle)


def _fill_route(
    build: Builder, link: JobEdge, sender: int, p: f.KernelPartition, cycle: dict[str, int]
) -> None:
    """Say how a partition's records find their channel."""
    count, kind = p.channels, link.edge.partitioner
    weights, table = weights_of(link.edge, count), build.replayed.tables.get((link.name, sender))
    p.route = f.ROUTE_FIRST
    keys = build.keys_of(link)
    if count == 1:
        return
    if keys is not None and keys.routes:
        p.route, p.keys = f.ROUTE_KEY, build.put(cells_of(put_keys(build, keys)))
    elif table is not None:
        p.route = f.ROUTE_TABLE
        p.table, p.table_length = build.put(np.asarray(table, np.int64)), len(table)
    elif weights is not None:
        _fill_shares(build, weights, p, cycle)
    elif kind == "shuffle":
        p.route = f.ROUTE_SHUFFLE
    elif kind in {"rebalance", "rescale"}:
        p.route = f.ROUTE_CYCLE
        p.cursor = sender % count if kind == "rebalance" else 0


def _fill_shares(
    build: Builder, weights: list[int], p: f.KernelPartition, cycle: dict[str, int]
) -> None:
    """Keep a whole period of the shares, which all senders have in common, as a table."""
    period = sum(weights)
    if period > LONGEST_TABLE:
        cells = np.array([*weights, *[0] * len(weights)], np.int64)  # and how far each is behind
        p.route, p.table, p.table_length = f.ROUTE_SHARES, build.put(cells), period
        p.cursor = next_by_share([0] * len(weights), weights)
        return
    if not cycle:
        cycle["at"] = build.put(np.array(smooth_round_robin(period, weights), np.int64))
    p.route, p.table, p.table_length = f.ROUTE_TABLE, cycle["at"], period


def _fill_gate(
    build: Builder, link: JobEdge, receiver: int, numbers: Ints, g: f.KernelGate, depth_of: Ints
) -> None:
    """Fill a gate; ``depth_of`` says how many buffers the queues of each sender hold."""
    g.first_channel, g.channels = numbers[0], len(numbers)
    build.lay(g, "waiting", "order", "arrivals", "dirty_channels")
    g.record_bytes, g.since = link.record_bytes, -1
    if build.job.record_transport is None:
        most = _fill_buffers(build, link, receiver, numbers, g, depth_of)
    else:
        most = _fill_grants(build, build.job.record_transport, numbers, g)
    g.queue_most = most + event_slots(build.job.checkpoints)
    build.rings(
        "inputs_at", f.KernelInputChannel, "received", numbers, ReceivedMessage, g.queue_most
    )


def _fill_buffers(
    build: Builder, link: JobEdge, receiver: int, numbers: Ints, g: f.KernelGate, depth_of: Ints
) -> int:
    """Fill a gate's pool and its channels; return the messages that one may have received."""
    job, into, out = build.job, build.blocks["inputs_at"], build.blocks["outputs_at"]
    size, channels = job.sizes.gates[link.name, receiver], link.places("receiver", receiver)
    _fill_pool(g, size.floating, 0)
    window = size.exclusive + size.floating
    local = link.is_local[channels]
    depths = np.where(local, depth_of[link.senders[channels]], window)
    exclusive = np.where(local, 0, size.exclusive)
    into["initial"][numbers] = np.where(local, LOCAL, exclusive)
    into["exclusive"][numbers] = into["announced"][numbers] = exclusive
    out["announced"][into["out"][numbers]] = exclusive
    out["initial"][into["out"][numbers]] = into["initial"][numbers]
    slots = event_slots(job.checkpoints)
    for is_local in (False, True):
        own = numbers[local == is_local]
        if len(own):
            most = max(1, int(depths[local == is_local].max()))
            if size.exclusive == 0 and not is_local:  # an announcement may go before each of them
                most = 2 * most + 1
            _fill_transit(build, own, most + slots)
    options = job.scenario.options
    g.last_size, g.size = options.segment_bytes, int(options.segment_bytes * PARTS)
    # Sizes of buffers under way, if there are such messages: one each period.
    delay_us, period_us = build.head.latency * job.round_us, options.debloat_period_us
    sizes = delay_us // period_us + 2 if options.debloat_enabled else 0
    _fill_credits(build, numbers, window + 2 + sizes + slots)
    return int(depths.max())


def _fill_grants(build: Builder, transport: RecordTransport, numbers: Ints, g: f.KernelGate) -> int:
    """Fill the channels of a gate of queues of records; return as :func:`_fill_buffers` does."""
    into, out, state = build.blocks["inputs_at"], build.blocks["outputs_at"], ChannelGrant()
    granted = first_grant(transport, state, g.record_bytes)
    g.grants = build.put(np.tile(cells_of(state), len(numbers)))
    into["initial"][numbers] = 0 if build.job.has_grants else LOCAL
    into["announced"][numbers] = granted
    out["announced"][into["out"][numbers]] = granted
    out["quota"][into["out"][numbers]] = rules_of_kind(transport.kind).quota(transport, g.channels)
    # a message a round, and a grant; an event, and records or another grant beside it
    events = event_slots(build.job.checkpoints)
    most = build.head.latency + 2 + 2 * events
    _fill_transit(build, numbers, most)
    _fill_credits(build, numbers, most)
    return received_slots(events) - events


def _fill_transit(build: Builder, numbers: Ints, most: int) -> None:
    """Make room for the messages of channels that are under way."""
    into = build.blocks["inputs_at"]
    into["transit_most"][numbers] = most
    build.rings("inputs_at", f.KernelInputChannel, "under_way", numbers, f.KernelMessage, most)


def _fill_credits(build: Builder, numbers: Ints, most: int) -> None:
    """Make room for what channels tell their senders, where it is under way for some rounds."""
    into, out = build.blocks["inputs_at"], build.blocks["outputs_at"]
    remote = numbers[out["is_local"][into["out"][numbers]] == 0]
    if build.head.latency > 1:
        into["credits_most"][remote] = most
        into["credits"][remote] = build.queues(len(remote), f.KernelCredit, most)


def _fill_pool(owner: f.KernelGate | f.KernelPartition, size: int, overdraft: int) -> None:
    """Fill a pool with its eagerly fetched segment, and its part of the global pool."""
    pool, part = owner.pool, owner.segments
    pool.size = pool.maximum = pool.required = size
    pool.max_overdraft = overdraft
    part.total = part.free = size + overdraft
    fetch_segment(pool, part)
