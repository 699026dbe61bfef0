"""Run a job's rounds in memory: no Spark, no Delta, no rows; the same states.

The dullest possible loop over all subtasks. It is what tests compare the live clock with, and
it shows quickly what a scenario will do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowcontrol.job.alignment_control import AlignmentControl, alignment_control
from flowcontrol.job.attempts import SubtaskAttempts
from flowcontrol.job.batch_control import BatchControl, window_stages_of
from flowcontrol.job.batch_settings import has_throttles_batches
from flowcontrol.job.channel_state import ChannelId
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.connected import connect
from flowcontrol.job.delivery_control import DeliveryControl
from flowcontrol.job.exchanged import Incoming, Outgoing
from flowcontrol.job.failure_control import FailureControl
from flowcontrol.job.graph import Channel, JobEdge
from flowcontrol.job.job import Job
from flowcontrol.job.ledger_rows import Rows, round_rows
from flowcontrol.job.processor_control import ProcessorControl
from flowcontrol.job.processors import counts_processors
from flowcontrol.job.record_subtask import new_subtask
from flowcontrol.job.replay import NO_ROWS, Replayed
from flowcontrol.job.round_state import RoundState
from flowcontrol.job.snapshot import incoming_of, outgoing_of, task_state
from flowcontrol.job.subtask import Subtask
from flowcontrol.job.throttling import SourceControl
from flowcontrol.job.timed_settings import is_timed
from flowcontrol.job.under_way import UnderWay
from flowcontrol.protocol.states import InputChannel, Subpartition

TaskKey = tuple[str, int]
"""A stage, and a subtask of it."""

RowsByChannel = dict[tuple[str, ChannelId], dict[str, Any]]
"""Ledger rows of a round by side and channel."""


@dataclass(frozen=True)
class RoundRows:
    """Ledger rows of one round: by edge name, then side; and the state that they hold."""

    number: int
    rows: dict[str, dict[str, Rows]]
    state: RoundState


@dataclass(frozen=True)
class Failures:
    """What fails in a run in memory, and the attempts of its subtasks."""

    control: FailureControl
    attempts: SubtaskAttempts


def first_incoming(own: InputChannel) -> Incoming:
    """Return what a receiver sees of a sender while nothing has come in its attempt.

    Both ends of a channel begin together, and agree on what has come before.
    """
    return Incoming(own.arrived, ())


def first_outgoing(own: Subpartition) -> Outgoing:
    """Return what a sender sees of a receiver while nothing has come in its attempt."""
    return Outgoing(own.announced, 0)


def run_reference(
    job: Job,
    replayed: Replayed = NO_ROWS,
    checkpoints: CheckpointControl | None = None,
    failures: Failures | None = None,
    delivery: DeliveryControl | None = None,
) -> Iterator[RoundRows]:
    """Run all rounds of a job in memory.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    replayed : Replayed, optional
        What is to be known of replayed rows; by default all sources make their rows up.
    checkpoints : CheckpointControl, optional
        Of a job with checkpoints; by default one is made.
    failures : Failures, optional
        Of a job that may fail; by default they are made.
    delivery : DeliveryControl, optional
        What is to find out what the readers of its sinks see; by default nobody does.

    Returns
    -------
    iterator of RoundRows
        A round each.
    """
    subtasks = new_subtasks(job, replayed)
    batches = batch_control(job, subtasks)
    control = control_of(job, subtasks, batches)
    if control is not None:
        control.start()
    checkpoints = checkpoints or checkpoint_control(job)
    failures = failures or failure_control(job, subtasks, checkpoints, replayed)
    return run_rounds(
        job,
        subtasks,
        control,
        checkpoints=checkpoints,
        failures=failures,
        delivery=delivery,
        batches=batches,
        alignment=alignment_control(job),
    )


def new_subtasks(job: Job, replayed: Replayed = NO_ROWS) -> list[Subtask]:
    """Return the subtasks of all stages at the start of a run, senders before receivers."""
    subtasks = [
        new_subtask(job, plan, index, **replayed.of(plan, index))
        for plan in job.stages
        for index in range(plan.stage.parallelism)
    ]
    if is_timed(job):
        connect(subtasks)
    return subtasks


def control_of(
    job: Job, subtasks: Sequence[Subtask], batches: BatchControl | None = None
) -> SourceControl | None:
    """Return what slows the sources; None if nothing does."""
    if job.scenario.system.throttle == "none":
        return None
    own = batches if has_throttles_batches(job.scenario) else None
    return SourceControl(job, [one for one in subtasks if one.source is not None], own)


def batch_control(job: Job, subtasks: Sequence[Subtask]) -> BatchControl | None:
    """Return what ends the batches of windows with Spark's time; None if there are none."""
    stages = window_stages_of(job)
    if not stages:
        return None
    own = {name: [one for one in subtasks if one.plan.name == name] for name in stages}
    return BatchControl(job, {name: [one.batched() for one in own[name]] for name in stages})


def checkpoint_control(job: Job) -> CheckpointControl | None:
    """Return what coordinates a job's checkpoints; None if it has none."""
    return None if job.checkpoints is None else CheckpointControl(job)


def failure_control(
    job: Job,
    subtasks: list[Subtask],
    checkpoints: CheckpointControl | None,
    replayed: Replayed = NO_ROWS,
) -> Failures | None:
    """Return what has a job's subtasks fail and restart; None if nothing can fail."""
    if job.faults is None:
        return None
    attempts = SubtaskAttempts(job, subtasks, replayed)
    return Failures(FailureControl(job, attempts, checkpoints), attempts)


def run_rounds(
    job: Job,
    subtasks: Sequence[Subtask],
    control: SourceControl | None,
    before: dict[str, dict[str, Rows]] | None = None,
    first: int = 0,
    *,
    earlier: Sequence[dict[str, dict[str, Rows]]] = (),
    checkpoints: CheckpointControl | None = None,
    failures: Failures | None = None,
    delivery: DeliveryControl | None = None,
    batches: BatchControl | None = None,
    alignment: AlignmentControl | None = None,
    processors: ProcessorControl | None = None,
) -> Iterator[RoundRows]:
    """Yield the rounds from ``first`` on.

    ``before`` has the rows of the round before it, ``earlier`` those of the ones before that, the
    newest first: as many as messages may be under way for.
    """
    batches = batches or batch_control(job, subtasks)
    begun, last = dict[TaskKey, int](), before or {}
    known = [before, *earlier] if before else []
    past = {first - 1 - ago: _by_channel(rows) for ago, rows in enumerate(known)}
    under_way = UnderWay(job)
    if processors is None and counts_processors(job):
        processors = ProcessorControl(job)
    if delivery is not None:
        delivery.attach(checkpoints, None if failures is None else failures.control)
    for number in range(first, job.rounds):
        taken: dict[tuple[str, int], int] = {}
        if batches is not None:
            batches.before_round(number)
        if control is not None:
            control.before_round(number, last)
        orders = [] if checkpoints is None else checkpoints.before_round(number)
        if failures is not None:
            orders += failures.control.before_round(number)
            restarted = failures.attempts.restarted
            for task in restarted:
                begun[subtasks[task].plan.name, subtasks[task].index] = number
            under_way.begin(number, begun)
            restarted.clear()
        for order in orders:
            if subtasks[order.task].is_running:
                subtasks[order.task].hear_coordinator(order)
        if alignment is not None:
            align(number, alignment, subtasks)
        if delivery is not None:
            delivery.advance(number)
        seen = [_seen(job, number, subtask, past, begun) for subtask in subtasks]
        for subtask, (incoming, outgoing) in zip(subtasks, seen, strict=True):
            plan, index = subtask.plan, subtask.index
            if not subtask.is_running:
                subtask.wait(number)
                continue
            taken[plan.name, index] = subtask.step(number, incoming, outgoing).records
            if checkpoints is not None and subtask.checkpoints is not None:
                reports = list(map(replace, subtask.checkpoints.reports))
                checkpoints.hear(reports)
                if delivery is not None:
                    delivery.hear(reports)
        if processors is not None:
            processors.end_round(subtasks)
        state = _state(job, number, subtasks, taken)
        last = round_rows(job, state.tasks)
        past[number] = _by_channel(last)
        if delivery is not None:
            delivery.end_round(number, lambda task: subtasks[task].task.taken)
        yield RoundRows(number, last, under_way.complete(state))
        past.pop(number - job.latency, None)


def align(number: int, control: AlignmentControl, subtasks: Sequence[Subtask]) -> None:
    """Have aligned sources report, and hear what their groups allow, before a round."""

    def reported(task: int) -> int:
        return subtasks[task].reported_watermark()

    for task, allowed in control.before_round(number, reported):
        subtasks[task].hear_allowed(allowed)


def _state(
    job: Job, number: int, subtasks: Sequence[Subtask], taken: dict[tuple[str, int], int]
) -> RoundState:
    """Return the whole state after a round; what a task took up in it is by stage and subtask."""
    heard = {
        ChannelId(link.name, channel.sender, channel.receiver): row
        for subtask in subtasks
        for (link, own), part in zip(subtask.out_links, subtask.partitions, strict=True)
        for channel, row in zip(own, part.channels, strict=True)
    }
    tasks = tuple(
        task_state(subtask, number, taken.get((subtask.plan.name, subtask.index), 0), heard)
        for subtask in subtasks
    )
    start_us = number * job.round_us
    return RoundState(number, start_us, start_us + job.round_us, tasks)


def _seen(
    job: Job,
    number: int,
    subtask: Subtask,
    past: Mapping[int, RowsByChannel],
    begun: Mapping[TaskKey, int],
) -> tuple[list[list[Incoming]], list[list[Outgoing]]]:
    """Return what a subtask sees of its neighbours in a round: of each as old as its channel says.

    What was sent before its attempt began reaches it no more.
    """
    plan, index = subtask.plan, subtask.index
    begin, cursor = begun.get((plan.name, index), 0), job.barrier_cursor
    incoming = [[first_incoming(own) for own in gate.channels] for gate in subtask.gates]
    outgoing = [[first_outgoing(own) for own in part.channels] for part in subtask.partitions]

    def rows(link: JobEdge, side: str, channel: Channel) -> dict[str, Any] | None:
        before = number - job.trip(channel)
        if before < begin or before not in past:
            return None
        return past[before][side, ChannelId(link.name, channel.sender, channel.receiver)]

    for (link, own), into in zip(subtask.in_links, incoming, strict=True):
        for place, channel in enumerate(own):
            if (row := rows(link, "sender", channel)) is not None:
                into[place] = incoming_of(row)
    for (link, own), out in zip(subtask.out_links, outgoing, strict=True):
        for place, channel in enumerate(own):
            if (row := rows(link, "receiver", channel)) is not None:
                out[place] = outgoing_of(row, cursor)
    return incoming, outgoing


def _by_channel(rows: Mapping[str, Mapping[str, Rows]]) -> RowsByChannel:
    """Return the rows of a round by side and channel."""
    return {
        (side, ChannelId(edge, row["sender"], row["receiver"])): row
        for edge, sides in rows.items()
        for side, found in sides.items()
        for row in found
    }
