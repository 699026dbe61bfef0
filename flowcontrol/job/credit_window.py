"""Tell whether a scenario's rates fit into the windows of its channels.

A credit that is announced in round r is used in r + 1, its message arrives in r + 2: a channel
carries at most exclusive + floating buffers in two rounds, and a gate's channels share its
floating buffers. More is honestly slow; here it is said beforehand, with the figures.
"""

from collections.abc import Iterator
from fractions import Fraction

from flowcontrol.job.graph import JobEdge
from flowcontrol.job.job import Job
from flowcontrol.scenario import Schedule
from flowcontrol.scenario.partitions import PIPELINED
from flowcontrol.systems.transports.rules import first_grant, transport_named
from flowcontrol.systems.transports.transport import ChannelGrant, RecordTransport

ROUND_TRIP = 2
"""Rounds from announcing a credit to receiving the message that uses it."""

QUOTA_OF_ONE = (
    "taskmanager.network.memory.max-buffers-per-channel: 1 counts the open buffer, so a task that "
    "has written a record smaller than a segment waits for ever, as in Flink: raise it to 2."
)


def window_warnings(job: Job) -> list[str]:
    """Return a sentence for each edge whose rate is beyond its windows.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    """
    if job.record_transport is None and job.scenario.system.transport != "credit":
        return []
    rates = _stage_rates(job)
    quota = [QUOTA_OF_ONE] if _waits_for_ever(job) else []
    of_link = _link_warnings if job.record_transport is None else _grant_warnings
    return quota + [text for link in job.links for text in of_link(job, link, rates)]


def _waits_for_ever(job: Job) -> bool:
    """Tell whether a pool is unavailable while a buffer is open that no further record fills."""
    options = job.scenario.options
    return options.max_buffers_per_channel == 1 and any(
        link.record_bytes < options.segment_bytes and link.edge.partition_type in PIPELINED
        for link in job.links
    )


def _stage_rates(job: Job) -> dict[str, Fraction]:
    """Most records/s that each stage can put out, also one inside a chain."""
    rates: dict[str, Fraction] = {}
    for plan in job.stages:
        able = [plan.rates(index) for index in range(plan.stage.parallelism)]
        taken = sum((rates[link.edge.sender] for link in plan.inputs), Fraction(0))
        own = [_highest(schedule) for schedule in able if schedule is not None]
        if own:
            taken = sum(own, Fraction(0)) if plan.is_source else min(taken, sum(own, Fraction(0)))
        rates |= {member.stage.name: taken * member.ratio_out for member in plan.members}
    return rates


def _highest(schedule: Schedule) -> Fraction:
    return max(phase.rate for phase in schedule.phases)


def _link_warnings(job: Job, link: JobEdge, rates: dict[str, Fraction]) -> Iterator[str]:
    """Compare the even share of each receiver with its gate's window."""
    receivers = sorted(set(link.receivers.tolist()))
    options = job.scenario.options
    share = rates[link.edge.sender] / len(receivers)
    for receiver in receivers:
        places = link.places("receiver", receiver)
        remote = len(places) - int(link.is_local[places].sum())
        if not remote:
            continue
        size = job.sizes.gates[link.name, receiver]
        window = remote * size.exclusive + size.floating
        part = Fraction(remote, len(places))
        per_round = share * part * link.record_bytes * job.round_us / 1_000_000
        needed = per_round / options.segment_bytes * ROUND_TRIP
        if needed > window:
            most = Fraction(window, ROUND_TRIP) * options.segment_bytes / link.record_bytes
            able = most * 1_000_000 / job.round_us
            yield (
                f"{link.name}, receiver {receiver}: {float(share * part):,.0f} records/s need "
                f"{float(needed):,.1f} buffers in flight per round trip of {ROUND_TRIP} rounds, "
                f"its channels have {window} (exclusive and floating): at most "
                f"{float(able):,.0f} records/s. Shorten round_ms or raise the buffers."
            )
            return


def _grant_warnings(job: Job, link: JobEdge, rates: dict[str, Fraction]) -> Iterator[str]:
    """Compare the even share of each channel with what its receiver grants at first."""
    window = first_grant(
        job.record_transport or RecordTransport(), ChannelGrant(), link.record_bytes
    )
    adapts = transport_named(job.scenario.system.transport).adapts
    share = rates[link.edge.sender] / link.width
    needed = share * job.round_us / 1_000_000 * ROUND_TRIP
    if needed > window and not adapts:
        able = Fraction(window, ROUND_TRIP) * 1_000_000 / job.round_us
        yield (
            f"{link.name}: {float(share):,.0f} records/s of a channel need {float(needed):,.0f} "
            f"records in flight per round trip of {ROUND_TRIP} rounds, its receiver grants "
            f"{window:,}: at most {float(able):,.0f} records/s. Shorten round_ms or grant more."
        )
