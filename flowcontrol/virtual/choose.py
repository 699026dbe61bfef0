"""The length of a round, and the error that it causes.

What one side does in a round the other sees in the next, so a message or a credit travels up to
two rounds more than in the job that is emulated. A round is short enough when that is small
against everything that takes time there: filling a buffer, the flusher, the network, a service,
and emptying the buffers in front of a slow stage.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, Schedule
from flowcontrol.systems.transports.rules import first_grant
from flowcontrol.systems.transports.transport import ChannelGrant

SHARE = 100
"""A round is at most this part of the shortest of the times above."""

LONGEST_US = 500_000
"""Longest round that is chosen: the live clock's own, microseconds."""

HOP_US = 10_000
"""Longest round that is chosen for queues of records, microseconds: what a hop takes there is not
stated anywhere, and a tenth of a second would be most of their latency."""

LOOK_SHARE = 10
"""A round is at most this part of the time between two looks of a throttle or a window, and of a
batch of Spark's event time."""

MOST_STEPS = 200_000_000
"""Steps of tasks, at most, that a chosen round makes of a run: a minute or so."""

STEPS = (1, 2, 5)
"""A chosen round is one of these times a power of ten, microseconds."""


@dataclass(frozen=True)
class Discretisation:
    """What the length of the rounds does to the figures of a run."""

    round_ms: float  # Length of a round, ms
    is_chosen: bool  # Whether it was chosen, or stated in the scenario
    latency_ms: float  # Most that is added to the latency along the longest path, ms
    # Most that a channel loses of its throughput, as a share; 1 / rounds that a window of credits
    # lasts.
    throughput: float


def choose_round_us(scenario: Scenario) -> int:
    """Return the length of a round that a scenario states, or one that suits it, microseconds.

    A hundredth of the shortest time that matters: half the time in which a channel's buffer
    fills at the highest rate (or the flusher's interval, if that is shorter), the network's
    latency, the mean time of a request, that of a random service time, the time in which the
    busiest receiver empties the buffers in front of it, and that in which a full batch of a
    throttle falls due. Halving such a round changes throughput, in-flight data and median latency
    by less than a hundredth, unless nothing but rounds makes up the latency. A batch of Spark's
    event time is a whole number of rounds.

    Raises ScenarioError if a task manager has too few network buffers.
    """
    if scenario.round_ms is not None:
        return scenario.live_round_us
    job = build_physical_graph(scenario, round_us=LONGEST_US)
    times = [us for link in job.links for us in _times_us(job, link)]
    times += _system_times_us(scenario)
    times += _request_times_us(scenario)
    tasks = sum(plan.stage.parallelism for plan in job.stages)
    least = tasks * scenario.duration_us / MOST_STEPS
    most = max(least, min([LONGEST_US, *(us / SHARE for us in times)]))
    return _nice(most, scenario.batch_us or 0)


def discretisation(job: Job) -> Discretisation:
    """Return what the length of a job's rounds does to its figures."""
    hops = _longest_path(job)
    windows = [_window_us(job, link) for link in job.links]
    shortest = min(windows, default=float("inf"))
    return Discretisation(
        job.round_us / 1000,
        job.scenario.round_ms is None,
        2 * hops * job.round_us / 1000,
        min(1.0, 2 * job.round_us / shortest),
    )


def _nice(us: float, whole: int = 0) -> int:
    """Largest length of the series that is not above ``us`` and divides ``whole``; at least 1."""
    best, power = 1, 1
    while power <= us:
        lengths = [step * power for step in STEPS if whole % (step * power) == 0]
        best = max([best, *(length for length in lengths if length <= us)])
        power *= 10
    return best


def _times_us(job: Job, link: JobEdge) -> Iterator[float]:
    """Times that matter on an edge, microseconds."""
    scenario, rate = job.scenario, _channel_rate(job, link)
    if rate > 0 and job.record_transport is None:
        fill_us = scenario.options.segment_bytes / (rate * link.record_bytes) * 1e6
        interval = scenario.options.flush_interval_us
        wait_us = fill_us if interval < 0 else min(fill_us, interval)
        if wait_us > 0:
            yield wait_us / 2
    if scenario.cluster.network_latency_us > 0:
        yield float(scenario.cluster.network_latency_us) * SHARE / 2
    receiver = scenario.stage(link.edge.receiver)
    for schedule in receiver.service_rate or ():
        if receiver.service_time != "constant" and _highest(schedule) > 0:
            yield 1e6 / _highest(schedule)
    yield _window_us(job, link)


def _request_times_us(scenario: Scenario) -> list[float]:
    """Mean times of the answers to requests: these are whole rounds."""
    plans = [stage.requests for stage in scenario.stages if stage.requests is not None]
    found = [float(us) for one in plans for _, us in one.latency_phases]
    found += [float(one.buffer_us) for one in plans]
    return [us for us in found if us > 0]


def _system_times_us(scenario: Scenario) -> list[float]:
    """Times that a transport or a throttle states, as far as a round has to be shorter."""
    system = scenario.system
    stated = {**system.transport_values, **system.throttle_values}
    times = [1000.0 * ms for name, ms in stated.items() if name.endswith("_ms") and ms > 0]
    found = [us * SHARE / LOOK_SHARE for us in times]
    found += _batch_us(scenario)
    if scenario.batch_us is not None:
        found.append(scenario.batch_us * SHARE / LOOK_SHARE)
    return [*found, HOP_US * SHARE] if system.counts_records else found


def _batch_us(scenario: Scenario) -> list[float]:
    """Time in which the records of a full batch fall due at the highest rates.

    The next batch begins when the one before has left the job, some rounds after it was done, so
    these rounds must be short against a batch, or they limit the job and not what it does.
    """
    most = scenario.system.throttle_values.get("max_records", 0)
    schedules = [s for stage in scenario.stages for s in stage.emit_rate or ()]
    rate = sum(_highest(schedule) for schedule in schedules)
    return [most / rate * 1e6] if most > 0 and rate > 0 else []


def _window_us(job: Job, link: JobEdge) -> float:
    """Time in which a channel's window of credits lasts at the highest rate, microseconds."""
    rate = _channel_rate(job, link)
    if rate == 0:
        return float("inf")
    if job.record_transport is not None:
        records = first_grant(job.record_transport, ChannelGrant(), link.record_bytes)
        return records / rate * 1e6
    sizes = [job.sizes.gates[link.name, receiver] for receiver in set(link.receivers.tolist())]
    window = min(size.exclusive + size.floating for size in sizes)
    return window * job.scenario.options.segment_bytes / (rate * link.record_bytes) * 1e6


def _channel_rate(job: Job, link: JobEdge) -> float:
    """Records/s of a channel at the most, if a sender's records are spread evenly."""
    plan = job.stage(link.edge.sender)
    senders = set(link.senders.tolist())
    rates = [plan.rates(sender) for sender in senders]
    own = [_highest(schedule) for schedule in rates if schedule is not None]
    share = link.width / len(senders)
    if own:
        rate = max(own)
    else:
        rate = sum(
            _channel_rate(job, other) * len(other.places("receiver", 0)) for other in plan.inputs
        )
    rate *= float(plan.member(link).ratio_out)
    return rate if link.edge.partitioner == "broadcast" else rate / share


def _highest(schedule: Schedule) -> float:
    return max(float(phase.rate) for phase in schedule.phases)


def _longest_path(job: Job) -> int:
    """Edges of the longest path through the job, chained ones left out."""
    hops: dict[str, int] = {}
    for plan in job.stages:
        before = [hops[job.stage(link.edge.sender).name] + 1 for link in plan.inputs]
        hops[plan.name] = max(before, default=0)
    return max(hops.values(), default=0)
