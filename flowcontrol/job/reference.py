"""Run a job's rounds in memory: no Spark, no Delta, no rows; the same states.

The dullest possible loop over all subtasks. It is what tests compare the live clock with, and
it shows quickly what a scenario will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flowcontrol.job.graph import JobEdge, JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.ledger_rows import Rows, round_rows
from flowcontrol.job.record_subtask import new_subtask
from flowcontrol.job.replay import NO_ROWS, Replayed
from flowcontrol.job.round_state import ChannelId, RoundState
from flowcontrol.job.rows import new_partition
from flowcontrol.job.snapshot import incoming_of, outgoing_of, restore, task_state
from flowcontrol.job.subtask import Incoming, Outgoing, Subtask
from flowcontrol.job.throttling import SourceControl


@dataclass(frozen=True)
class RoundRows:
    """Ledger rows of one round: by edge name, then side; and the state that they hold."""

    number: int
    rows: dict[str, dict[str, Rows]]
    state: RoundState


def first_incoming() -> Incoming:
    """Return what a receiver sees of a sender before the first round: nothing was sent."""
    return Incoming(0, ())


def first_outgoing(job: Job, link: JobEdge, sender: int) -> list[Outgoing]:
    """Return what a sender sees of its receivers before the first round: initial credit."""
    fresh = new_partition(job, link, sender, link.outgoing(sender))
    return [Outgoing(row.announced, 0) for row in fresh.channels]


def run_reference(
    job: Job,
    *,
    after: RoundRows | None = None,
    replayed: Replayed = NO_ROWS,
    tamper: Callable[[int, Subtask, list[list[Outgoing]]], None] | None = None,
) -> Iterator[RoundRows]:
    """Run all rounds of a job in memory.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    after : RoundRows, optional
        Go on after this round, with subtasks restored from its rows alone.
    replayed : Replayed, optional
        What is to be known of replayed rows; by default all sources make their rows up.
    tamper : callable, optional
        Called before each subtask's round with the round, the subtask and what it sees of
        its receivers; may change the latter. For tests that break the rules on purpose.

    Yields
    ------
    RoundRows
        A round each.
    """
    subtasks = {
        plan.name: [_subtask(job, plan, i, replayed) for i in range(plan.stage.parallelism)]
        for plan in job.stages
    }
    before: dict[str, dict[str, Rows]] = {}
    first = 0
    if after is not None:
        before, first = after.rows, after.number + 1
        for plan in job.stages:
            for subtask in subtasks[plan.name]:
                _resume(subtask, before)
    control = _control(job, [one for own in subtasks.values() for one in own])
    if control is not None and before:
        control.resume()
    elif control is not None:
        control.start()
    for number in range(first, job.rounds):
        taken: dict[tuple[str, int], int] = {}
        if control is not None:
            control.before_round(number, before)
        for plan in job.stages:
            for subtask in subtasks[plan.name]:
                incoming = [_incoming(before, link, subtask.index) for link in plan.inputs]
                outgoing = [_outgoing(job, before, link, subtask.index) for link in plan.outputs]
                if tamper is not None:
                    tamper(number, subtask, outgoing)
                work = subtask.step(number, incoming, outgoing)
                taken[plan.name, subtask.index] = work.records
        state = _state(job, number, [one for own in subtasks.values() for one in own], taken)
        before = round_rows(job, state.tasks)
        yield RoundRows(number, before, state)


def _state(
    job: Job, number: int, subtasks: list[Subtask], taken: dict[tuple[str, int], int]
) -> RoundState:
    """Return the whole state after a round; what a task took up in it is by stage and subtask."""
    heard = {
        ChannelId(link.name, channel.sender, channel.receiver): row.announced
        for subtask in subtasks
        for (link, own), part in zip(subtask.out_links, subtask.partitions, strict=True)
        for channel, row in zip(own, part.channels, strict=True)
    }
    tasks = tuple(
        task_state(subtask, number, taken[subtask.plan.name, subtask.index], heard)
        for subtask in subtasks
    )
    start_us = number * job.round_us
    return RoundState(number, start_us, start_us + job.round_us, tasks)


def _control(job: Job, subtasks: list[Subtask]) -> SourceControl | None:
    """Return what slows the sources; None if nothing does."""
    if job.scenario.system.throttle == "none":
        return None
    return SourceControl(job, [one for one in subtasks if one.source is not None])


def _subtask(job: Job, plan: JobVertex, index: int, replayed: Replayed) -> Subtask:
    tables = [replayed.tables.get((link.name, index)) for link in plan.outputs]
    records = replayed.limits.get((plan.name, index))
    return new_subtask(job, plan, index, tables=tables, input_records=records)


def _resume(subtask: Subtask, rows: dict[str, dict[str, Rows]]) -> None:
    own = subtask.index
    restore(
        subtask,
        [
            [row for row in rows[link.name]["receiver"] if row["receiver"] == own]
            for link, _ in subtask.in_links
        ],
        [
            [row for row in rows[link.name]["sender"] if row["sender"] == own]
            for link, _ in subtask.out_links
        ],
    )


def _incoming(before: dict[str, dict[str, Rows]], link: JobEdge, receiver: int) -> list[Incoming]:
    if not before:
        return [first_incoming() for _ in link.incoming(receiver)]
    return [incoming_of(row) for row in before[link.name]["sender"] if row["receiver"] == receiver]


def _outgoing(
    job: Job, before: dict[str, dict[str, Rows]], link: JobEdge, sender: int
) -> list[Outgoing]:
    if not before:
        return first_outgoing(job, link, sender)
    found = [row for row in before[link.name]["receiver"] if row["sender"] == sender]
    return [outgoing_of(row) for row in sorted(found, key=lambda row: row["receiver"])]
