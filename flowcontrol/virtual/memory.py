"""The kernel's memory filled from a job: who is where, how many buffers, what rate."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from flowcontrol.emulation.job import Job, Link, StagePlan
from flowcontrol.emulation.routing import stream_of_edge, weights_of
from flowcontrol.emulation.rows import LOCAL, most_outputs, queue_depth
from flowcontrol.emulation.work import WorkClock, emission_cost_ns, flush_phase_us
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.pool_rules import fetch_segment
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.debloat import PARTS

__all__ = ["Memory", "Places", "fill"]

Ints = npt.NDArray[np.int64]

LONGEST_TABLE = 1 << 16
"""Records of a period of shares that is kept as a table; longer ones are worked out."""


@dataclass(frozen=True)
class Places:
    """Which number an edge's gate, partition or channel has in the memory.

    Attributes
    ----------
    tasks : dict of str to int
        First task of each stage.
    gates, partitions : dict of (str, int) to int
        By edge and subtask.
    outs, ins : dict of str to ndarray of int64, shape (channels of the edge,)
        Number at the sender and at the receiver of each channel of an edge, in its order.
    """

    tasks: dict[str, int] = field(default_factory=dict)
    gates: dict[tuple[str, int], int] = field(default_factory=dict)
    partitions: dict[tuple[str, int], int] = field(default_factory=dict)
    outs: dict[str, Ints] = field(default_factory=dict)
    ins: dict[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True)
class Memory:
    """The memory of a run, and what stands where.

    Attributes
    ----------
    cells : ndarray of int64, shape (cells,)
        All of it, in the layout of :mod:`flowcontrol.virtual.fields`.
    places : Places
        Numbers of gates, partitions and channels.
    """

    cells: Ints
    places: Places

    def block(self, base: int, count: int, width: int) -> Ints:
        """Return a block of rows as a view, ``(count, width)``."""
        first = int(self.cells[base])
        return self.cells[first : first + count * width].reshape(count, width)

    @property
    def tasks(self) -> Ints:
        """Rows of all tasks."""
        return self.block(f.H_TASK0, int(self.cells[f.H_TASKS]), f.T_WIDTH)

    @property
    def gates(self) -> Ints:
        """Rows of all gates."""
        return self.block(f.H_GATE0, int(self.cells[f.H_GATES]), f.G_WIDTH)

    @property
    def partitions(self) -> Ints:
        """Rows of all partitions."""
        return self.block(f.H_PARTITION0, int(self.cells[f.H_PARTITIONS]), f.P_WIDTH)

    @property
    def ins(self) -> Ints:
        """Rows of all channels at their receivers."""
        return self.block(f.H_IN0, int(self.cells[f.H_CHANNELS]), f.I_WIDTH)

    @property
    def outs(self) -> Ints:
        """Rows of all channels at their senders."""
        return self.block(f.H_OUT0, int(self.cells[f.H_CHANNELS]), f.O_WIDTH)

    def values(self, offset: int, length: int) -> list[int]:
        """Values of a first-in-first-out row, oldest first."""
        row = self.cells[offset : offset + length]
        capacity, head = length - w.FIFO_SLOTS, int(row[w.FIFO_HEAD])
        count = int(row[w.FIFO_COUNT])
        return [int(row[w.FIFO_SLOTS + (head + i) % capacity]) for i in range(count)]


class _Builder:
    """Gives out cells one after the other, and remembers what is to stand in them."""

    def __init__(self) -> None:
        self.used = f.HEADER
        self.tables: list[tuple[int, Ints]] = []

    def take(self, cells: int) -> int:
        first = self.used
        self.used += int(cells)
        return first

    def put(self, values: Ints) -> int:
        first = self.take(len(values))
        self.tables.append((first, values))
        return first


def fill(
    job: Job,
    *,
    runs: int,
    ages: int,
    track: bool = True,
    tables: dict[tuple[str, int], Ints] | None = None,
    limits: dict[tuple[str, int], int] | None = None,
) -> Memory:
    """Return the memory of a job before its first round.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    runs, ages : int
        Runs of records that may be in flight, and entries of the log of ages.
    track : bool, default True
        Follow the age of records.
    tables : dict, optional
        By edge and sender: subpartition of each replayed row, in order.
    limits : dict, optional
        By stage and subtask: records that a replaying source has.
    """
    build, places, pairs = _Builder(), Places(), _connections(job)
    _number(job, places)
    counts = {
        f.H_TASKS: sum(plan.stage.parallelism for plan in job.stages) + len(pairs),
        f.H_GATES: len(places.gates),
        f.H_PARTITIONS: len(places.partitions),
        f.H_CHANNELS: sum(len(link.channels) for link in job.links),
    }
    header = _header(job, counts, track)
    widths = {
        f.H_TASK0: (counts[f.H_TASKS], f.T_WIDTH),
        f.H_GATE0: (counts[f.H_GATES], f.G_WIDTH),
        f.H_PARTITION0: (counts[f.H_PARTITIONS], f.P_WIDTH),
        f.H_IN0: (counts[f.H_CHANNELS], f.I_WIDTH),
        f.H_OUT0: (counts[f.H_CHANNELS], f.O_WIDTH),
        f.H_WHEEL: (f.WHEEL_SLOTS, 1),
        f.H_WHEEL_BITS: (f.WHEEL_SLOTS // w.WORD, 1),
        f.H_ACTIVE: (2 * counts[f.H_TASKS], 1),
        f.H_RUNS: (runs, f.RUN_WIDTH),
        f.H_AGES: (ages, f.A_WIDTH),
    }
    for base, (count, width) in widths.items():
        header[base] = build.take(count * width)
    header[f.H_RUNS_MOST], header[f.H_AGES_MOST] = runs, ages
    blocks = {base: np.zeros(shape, np.int64) for base, shape in widths.items()}
    for plan in job.stages:
        for index in range(plan.stage.parallelism):
            limit = (limits or {}).get((plan.name, index), -1)
            _fill_task(job, plan, index, places, blocks, build, limit)
    for link in job.links:
        _fill_link(job, link, places, blocks, build, int(header[f.H_LATENCY]), tables or {})
    _fill_connections(job, pairs, places, blocks, build)
    blocks[f.H_RUNS][:, f.RUN_NEXT] = np.arange(1, runs + 1)
    blocks[f.H_RUNS][-1:, f.RUN_NEXT] = -1
    _wake_all(blocks)
    cells = np.zeros(build.used, np.int64)
    cells[: f.HEADER] = header
    for base, block in blocks.items():
        cells[header[base] : header[base] + block.size] = block.ravel()
    for first, values in build.tables:
        cells[first : first + len(values)] = values
    return Memory(cells, places)


def _header(job: Job, counts: dict[int, int], track: bool) -> Ints:
    options, header = job.scenario.options, np.zeros(f.HEADER, np.int64)
    latency_us = job.scenario.cluster.network_latency_us
    header[f.H_ROUND_US] = job.round_us
    header[f.H_ROUNDS] = job.rounds
    header[f.H_LATENCY] = max(1, -(-latency_us // job.round_us))
    header[f.H_LATENCY_NS] = latency_us * 1000
    header[f.H_SEGMENT] = options.segment_bytes
    header[f.H_QUOTA] = options.max_buffers_per_channel
    header[f.H_FLUSH_US] = options.flush_interval_us
    if options.debloat_enabled:
        header[f.H_DEBLOAT_US] = options.debloat_period_us
        header[f.H_DEBLOAT_TARGET_US] = options.debloat_target_us
        header[f.H_DEBLOAT_SAMPLES] = options.debloat_samples
        header[f.H_DEBLOAT_THRESHOLD] = options.debloat_threshold_percent
        header[f.H_MIN_SEGMENT] = options.min_segment_bytes
    header[f.H_SEED] = job.scenario.seed
    header[f.H_TRACK] = int(track)
    header[f.H_NOW] = -1
    for column, count in counts.items():
        header[column] = count
    return header


def _number(job: Job, places: Places) -> None:
    """Number tasks, gates and partitions in topological order, channels in theirs."""
    task = 0
    for plan in job.stages:
        places.tasks[plan.name] = task
        task += plan.stage.parallelism
        for index in range(plan.stage.parallelism):
            for link in plan.inputs:
                places.gates[link.name, index] = len(places.gates)
            for link in plan.outputs:
                places.partitions[link.name, index] = len(places.partitions)
    firsts = {"out": 0, "in": 0}
    for plan in job.stages:
        for index in range(plan.stage.parallelism):
            for link in plan.outputs:
                _number_channels(link, index, "sender", places.outs, firsts, "out")
            for link in plan.inputs:
                _number_channels(link, index, "receiver", places.ins, firsts, "in")


def _number_channels(
    link: Link, index: int, side: str, into: dict[str, Ints], firsts: dict[str, int], which: str
) -> None:
    numbers = into.setdefault(link.name, np.full(len(link.channels), -1, np.int64))
    own = np.flatnonzero(link.ends(side) == index)
    numbers[own] = firsts[which] + np.arange(len(own))
    firsts[which] += len(own)


def _wake_all(blocks: dict[int, Ints]) -> None:
    """Put every task on the wheel for the first round."""
    tasks = blocks[f.H_TASK0]
    count = len(tasks)
    tasks[:, f.T_NEXT] = np.arange(2, count + 2)
    tasks[-1, f.T_NEXT] = 0
    tasks[:, f.T_PREVIOUS] = np.arange(0, count)
    blocks[f.H_WHEEL][0, 0] = 1
    blocks[f.H_WHEEL_BITS][0, 0] = 1


def _fill_task(
    job: Job,
    plan: StagePlan,
    index: int,
    places: Places,
    blocks: dict[int, Ints],
    build: _Builder,
    limit: int,
) -> None:
    task = blocks[f.H_TASK0][places.tasks[plan.name] + index]
    clock = WorkClock.of(job, plan, index)
    task[f.T_KIND] = f.SOURCE if plan.is_source else f.RELAY if clock is None else f.SERVER
    task[f.T_GATES], task[f.T_PARTITIONS] = len(plan.inputs), len(plan.outputs)
    if plan.inputs:
        task[f.T_GATE0] = places.gates[plan.inputs[0].name, index]
    if plan.outputs:
        task[f.T_PARTITION0] = places.partitions[plan.outputs[0].name, index]
    task[f.T_SINKS] = sum(member.is_sink for member in plan.members)
    task[f.T_UNION] = build.take(w.FIFO_SLOTS + max(1, len(plan.inputs)))
    task[f.T_LIMIT], task[f.T_LAST] = limit, -1
    task[f.T_STATUS] = f.T_IDLE
    task[f.T_COST_NS] = emission_cost_ns(job, plan)
    stalls = plan.stalled(index)
    if clock is None and stalls:
        task[f.T_STALLS] = build.put(np.array(stalls, np.int64).ravel())
        task[f.T_STALL_COUNT] = len(stalls)
    if clock is not None:
        task[f.T_PHASES] = build.put(np.array(clock.phases, np.int64).ravel())
        task[f.T_PHASE_COUNT] = len(clock.phases)
        task[f.T_UNIT], task[f.T_DISTRIBUTION] = clock.unit, clock.kind
        task[f.T_CV], task[f.T_STREAM] = round(clock.cv * 1e6), clock.stream


def _fill_link(
    job: Job,
    link: Link,
    places: Places,
    blocks: dict[int, Ints],
    build: _Builder,
    latency: int,
    tables: dict[tuple[str, int], Ints],
) -> None:
    senders, receivers = link.ends("sender"), link.ends("receiver")
    local = np.array([channel.is_local for channel in link.channels])
    ins, outs = places.ins[link.name], places.outs[link.name]
    into, out = blocks[f.H_IN0], blocks[f.H_OUT0]
    into[ins, f.I_OUT], out[outs, f.O_IN] = outs, ins
    sender_task = places.tasks[job.stage(link.edge.sender).name]
    out[outs, f.O_TASK] = places.tasks[link.edge.receiver] + receivers
    out[outs, f.O_SENDER] = sender_task + senders
    out[outs, f.O_LOCAL], out[outs, f.O_CONNECTION] = local, -1
    cycle: dict[str, int] = {}
    for sender in np.unique(senders):
        own = np.flatnonzero(senders == sender)
        number = places.partitions[link.name, int(sender)]
        out[outs[own], f.O_PLACE], out[outs[own], f.O_PARTITION] = np.arange(len(own)), number
        table = tables.get((link.name, int(sender)))
        partition = blocks[f.H_PARTITION0][number]
        _fill_partition(job, link, int(sender), own, partition, places, build, table, cycle)
        partition[f.P_TASK] = sender_task + sender
    for receiver in np.unique(receivers):
        own = np.flatnonzero(receivers == receiver)
        number = places.gates[link.name, int(receiver)]
        out[outs[own], f.O_GATE], out[outs[own], f.O_INDEX] = number, np.arange(len(own))
        gate = blocks[f.H_GATE0][number]
        gate[f.G_TASK] = places.tasks[link.edge.receiver] + receiver
        _fill_gate(job, link, int(receiver), own, gate, places, blocks, build, latency)


def _fill_partition(
    job: Job,
    link: Link,
    sender: int,
    own: Ints,
    p: Ints,
    places: Places,
    build: _Builder,
    table: Ints | None,
    cycle: dict[str, int],
) -> None:
    size, count = job.sizes.partitions[link.name, sender], len(own)
    depth = queue_depth(job, link, sender)
    _fill_pool(p, f.P_POOL, f.P_SEGMENTS, size.size, size.overdraft)
    p[f.P_CHANNEL0], p[f.P_CHANNELS] = places.outs[link.name][own[0]], count
    p[f.P_QUEUE_WIDTH] = w.FIFO_SLOTS + depth
    p[f.P_RECORDS] = build.take(count * p[f.P_QUEUE_WIDTH])
    has_local = any(link.channels[i].is_local for i in own)
    p[f.P_HELD_WIDTH] = w.FIFO_SLOTS + (depth if has_local else 0)
    p[f.P_HELD] = build.take(count * p[f.P_HELD_WIDTH])
    p[f.P_COUNTS], p[f.P_ROUTED] = build.take(count), build.take(count)
    words = count // w.WORD + 1
    p[f.P_NEWS], p[f.P_DIRTY] = build.take(words), build.take(words)
    p[f.P_BROADCAST] = int(link.edge.partitioner == "broadcast" and count > 1)
    p[f.P_RECORD_BYTES] = link.record_bytes
    p[f.P_FLUSH_PHASE] = flush_phase_us(job, link, sender)
    p[f.P_STREAM] = stream_of_edge(link.name, sender)
    path = job.stage(link.edge.sender).path(link)
    if path:
        pairs = [number for part in path for number in (part.numerator, part.denominator)]
        p[f.P_PATH], p[f.P_PATH_LENGTH] = build.put(np.array(pairs, np.int64)), len(path)
    p[f.P_PENDING_WIDTH] = w.FIFO_SLOTS + most_outputs(path)
    p[f.P_PENDING] = build.take(p[f.P_PENDING_WIDTH])
    _fill_route(link, sender, count, p, build, table, cycle)


def _fill_route(
    link: Link,
    sender: int,
    count: int,
    p: Ints,
    build: _Builder,
    table: Ints | None,
    cycle: dict[str, int],
) -> None:
    """Say how a partition's records find their channel."""
    weights = weights_of(link, count)
    kind = link.edge.partitioner
    p[f.P_ROUTE] = f.ROUTE_FIRST
    if table is not None:
        p[f.P_ROUTE] = f.ROUTE_TABLE
        p[f.P_TABLE], p[f.P_TABLE_LENGTH] = build.put(np.asarray(table, np.int64)), len(table)
    elif weights is not None:
        _fill_shares(weights, p, build, cycle)
    elif kind == "shuffle":
        p[f.P_ROUTE] = f.ROUTE_SHUFFLE
    elif kind in {"rebalance", "rescale"}:
        p[f.P_ROUTE] = f.ROUTE_CYCLE
        p[f.P_CURSOR] = sender % count if kind == "rebalance" else 0


def _fill_shares(weights: list[int], p: Ints, build: _Builder, cycle: dict[str, int]) -> None:
    """Keep a whole period of the shares, which all senders have in common, as a table."""
    period = sum(weights)
    if period > LONGEST_TABLE:
        p[f.P_ROUTE], p[f.P_TABLE] = f.ROUTE_SHARES, build.put(np.array(weights, np.int64))
        return
    if not cycle:
        from flowcontrol.protocol.partitioners import spread

        cycle["at"] = build.put(np.array(spread(period, weights), np.int64))
    p[f.P_ROUTE], p[f.P_TABLE], p[f.P_TABLE_LENGTH] = f.ROUTE_TABLE, cycle["at"], period


def _fill_gate(
    job: Job,
    link: Link,
    receiver: int,
    own: Ints,
    g: Ints,
    places: Places,
    blocks: dict[int, Ints],
    build: _Builder,
    latency: int,
) -> None:
    size, count = job.sizes.gates[link.name, receiver], len(own)
    channels = [link.channels[i] for i in own]
    window = size.exclusive + size.floating
    depths = [queue_depth(job, link, c.sender) if c.is_local else window for c in channels]
    _fill_pool(g, f.G_POOL, f.G_SEGMENTS, size.floating, 0)
    g[f.G_CHANNEL0], g[f.G_CHANNELS] = places.ins[link.name][own[0]], count
    g[f.G_WAITING] = build.take(w.FIFO_SLOTS + count)
    g[f.G_ORDER] = build.take(w.FIFO_SLOTS + count)
    g[f.G_QUEUE_WIDTH] = w.FIFO_SLOTS + max(1, *depths)
    g[f.G_RECORDS] = build.take(count * g[f.G_QUEUE_WIDTH])
    g[f.G_KINDS] = build.take(count * g[f.G_QUEUE_WIDTH])
    # Sizes of buffers under way, if there are such messages: one each period.
    delay_us, period_us = latency * job.round_us, job.scenario.options.debloat_period_us
    sizes = delay_us // period_us + 2 if job.scenario.options.debloat_enabled else 0
    segment = job.scenario.options.segment_bytes
    g[f.G_SINCE], g[f.G_LAST_SIZE], g[f.G_SIZE] = -1, segment, int(segment * PARTS)
    words = count // w.WORD + 1
    g[f.G_ARRIVALS], g[f.G_NEWS] = build.take(words), build.take(words)
    g[f.G_RECORD_BYTES] = link.record_bytes
    into, out = blocks[f.H_IN0], blocks[f.H_OUT0]
    for number, channel, depth in zip(places.ins[link.name][own], channels, depths, strict=True):
        row = into[number]
        row[w.CH_INITIAL] = LOCAL if channel.is_local else size.exclusive
        row[w.CH_EXCLUSIVE] = max(0, row[w.CH_INITIAL])
        row[f.I_CURSORS + r.IN_ANNOUNCED] = row[w.CH_EXCLUSIVE]
        out[row[f.I_OUT], r.OUT_ANNOUNCED] = row[w.CH_EXCLUSIVE]
        row[f.I_TRANSIT_MOST] = max(1, depth)
        row[f.I_TRANSIT] = build.take(2 + f.M_WIDTH * row[f.I_TRANSIT_MOST])
        if latency > 1 and not channel.is_local:
            row[f.I_CREDITS_MOST] = window + 2 + sizes
            row[f.I_CREDITS] = build.take(2 + f.C_WIDTH * row[f.I_CREDITS_MOST])


def _connections(job: Job) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Channels, by edge and place, over each ordered pair of task managers; none if unlimited."""
    found: dict[tuple[int, int], list[tuple[str, int]]] = {}
    if job.scenario.cluster.bandwidth_bytes_per_s is None:
        return found
    for link in job.links:
        here = job.scenario.stage(link.edge.sender).placement
        there = job.scenario.stage(link.edge.receiver).placement
        for place, channel in enumerate(link.channels):
            if not channel.is_local:
                pair = (here[channel.sender], there[channel.receiver])
                found.setdefault(pair, []).append((link.name, place))
    return found


def _fill_connections(
    job: Job,
    pairs: dict[tuple[int, int], list[tuple[str, int]]],
    places: Places,
    blocks: dict[int, Ints],
    build: _Builder,
) -> None:
    """Fill the connections, which stand behind the tasks."""
    tasks, out = blocks[f.H_TASK0], blocks[f.H_OUT0]
    first = len(tasks) - len(pairs)
    for number, channels in enumerate(pairs.values(), start=first):
        tasks[number, f.T_KIND] = f.CONNECTION
        tasks[number, f.T_UNION] = build.take(w.FIFO_SLOTS + len(channels))
        tasks[number, f.T_GATES] = len(channels)
        bandwidth = job.scenario.cluster.bandwidth_bytes_per_s
        tasks[number, f.T_UNIT] = max(1, round(bandwidth or 1))
        tasks[number, f.T_STATUS] = f.T_IDLE
        for edge, place in channels:
            out[places.outs[edge][place], f.O_CONNECTION] = number


def _fill_pool(row: Ints, at: int, segments: int, size: int, overdraft: int) -> None:
    """Fill a pool with its eagerly fetched segment, and its part of the global pool."""
    pool, part = row[at : at + w.POOL_WIDTH], row[segments : segments + w.GLOBAL_WIDTH]
    pool[w.POOL_SIZE] = pool[w.POOL_MAX] = pool[w.POOL_REQUIRED] = size
    pool[w.POOL_OVERDRAFT] = overdraft
    part[w.GLOBAL_TOTAL] = part[w.GLOBAL_FREE] = size + overdraft
    fetch_segment(pool, part)
