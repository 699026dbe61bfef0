"""Run a job's rounds in memory: no Spark, no Delta, no rows; the same states.

The dullest possible loop over all subtasks. It is what tests compare the live clock with, and
it shows quickly what a scenario will do.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

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
from flowcontrol.job.graph import JobEdge
from flowcontrol.job.job import Job
from flowcontrol.job.ledger_rows import Rows, round_rows
from flowcontrol.job.processor_control import ProcessorControl
from flowcontrol.job.processors import counts_processors
from flowcontrol.job.record_subtask import new_subtask
from flowcontrol.job.replay import NO_ROWS, Replayed
from flowcontrol.job.round_state import RoundState
from flowcontrol.job.rows import new_partition
from flowcontrol.job.snapshot import incoming_of, outgoing_of, task_state
from flowcontrol.job.subtask import Subtask
from flowcontrol.job.throttling import SourceControl
from flowcontrol.job.timed_settings import is_timed


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


def first_incoming() -> Incoming:
    """Return what a receiver sees of a sender before the first round: nothing was sent."""
    return Incoming(0, ())


def first_outgoing(job: Job, link: JobEdge, sender: int) -> list[Outgoing]:
    """Return what a sender sees of its receivers before the first round: initial credit."""
    fresh = new_partition(job, link, sender, link.outgoing(sender))
    return [Outgoing(row.announced, 0) for row in fresh.channels]


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
    checkpoints: CheckpointControl | None = None,
    failures: Failures | None = None,
    delivery: DeliveryControl | None = None,
    batches: BatchControl | None = None,
    alignment: AlignmentControl | None = None,
    processors: ProcessorControl | None = None,
) -> Iterator[RoundRows]:
    """Yield the rounds from ``first`` on; ``before`` has the rows of the round before it."""
    rows, batches = before or {}, batches or batch_control(job, subtasks)
    if processors is None and counts_processors(job):
        processors = ProcessorControl(job)
    if delivery is not None:
        delivery.attach(checkpoints, None if failures is None else failures.control)
    for number in range(first, job.rounds):
        taken: dict[tuple[str, int], int] = {}
        if batches is not None:
            batches.before_round(number)
        if control is not None:
            control.before_round(number, rows)
        orders = [] if checkpoints is None else checkpoints.before_round(number)
        if failures is not None:
            orders += failures.control.before_round(number)
            if failures.attempts.restarted:
                rows = _renewed(job, number, rows, subtasks, failures.attempts.restarted)
                failures.attempts.restarted.clear()
        for order in orders:
            if subtasks[order.task].is_running:
                subtasks[order.task].hear_coordinator(order)
        if alignment is not None:
            align(number, alignment, subtasks)
        if delivery is not None:
            delivery.advance(number)
        for subtask in subtasks:
            plan, index = subtask.plan, subtask.index
            if not subtask.is_running:
                subtask.wait(number)
                continue
            incoming = [_incoming(rows, link, index) for link in plan.inputs]
            outgoing = [_outgoing(job, rows, link, index) for link in plan.outputs]
            taken[plan.name, index] = subtask.step(number, incoming, outgoing).records
            if checkpoints is not None and subtask.checkpoints is not None:
                reports = list(map(replace, subtask.checkpoints.reports))
                checkpoints.hear(reports)
                if delivery is not None:
                    delivery.hear(reports)
        if processors is not None:
            processors.end_round(subtasks)
        state = _state(job, number, subtasks, taken)
        rows = round_rows(job, state.tasks)
        if delivery is not None:
            delivery.end_round(number, lambda task: subtasks[task].task.taken)
        yield RoundRows(number, rows, state)


def align(number: int, control: AlignmentControl, subtasks: Sequence[Subtask]) -> None:
    """Have aligned sources report, and hear what their groups allow, before a round."""

    def reported(task: int) -> int:
        return subtasks[task].reported_watermark()

    for task, allowed in control.before_round(number, reported):
        subtasks[task].hear_allowed(allowed)


def _renewed(
    job: Job,
    number: int,
    before: dict[str, dict[str, Rows]],
    subtasks: Sequence[Subtask],
    restarted: Collection[int],
) -> dict[str, dict[str, Rows]]:
    """Return the rows of the round before, those of tasks that begin anew as they begin.

    What others sent is on its way, also from such as fail in this moment.
    """
    own = {(subtasks[task].plan.name, subtasks[task].index) for task in restarted}
    fresh = round_rows(job, _state(job, number, subtasks, {}).tasks)
    ends = {
        link.name: {"sender": link.edge.sender, "receiver": link.edge.receiver}
        for link in job.links
    }
    return {
        edge: {
            side: [
                new if (job.stage(ends[edge][side]).name, new[side]) in own else old
                for old, new in zip(rows, fresh[edge][side], strict=True)
            ]
            for side, rows in sides.items()
        }
        for edge, sides in before.items()
    }


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
    found.sort(key=lambda row: row["receiver"])
    return [outgoing_of(row, job.barrier_cursor) for row in found]
