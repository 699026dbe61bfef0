"""What a subtask has of checkpoints, as :mod:`flowcontrol.operators.checkpointing` asks for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flowcontrol.job.checkpoint_settings import CheckpointSettings, is_forced
from flowcontrol.job.delivery_settings import look_rounds
from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.state_sizes import task_sync_us
from flowcontrol.job.work import ServiceCurve
from flowcontrol.operators.snapshots import WHOLE_SERVICE, slowed_end, syncing_us
from flowcontrol.operators.states import StreamTask
from flowcontrol.protocol.checkpoints import barriers as b
from flowcontrol.protocol.checkpoints.tracker import MOST_TRACKED
from flowcontrol.protocol.queues import MOST_BARRIERS, Queue, append, is_event, new_queue, next_slot
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.protocol.state import assign
from flowcontrol.protocol.states import (
    AlignedChannel,
    Alignment,
    CheckpointReport,
    CoordinatorMessage,
    Message,
    TaskCheckpoint,
    TrackedCheckpoint,
)

TRIGGER: Final = "trigger"
ABORTED: Final = "abort"
COMPLETED: Final = "complete"
SLOWED: Final = "slowed"
RELIEVED: Final = "relieved"


class TaskOrder(NamedTuple):
    """What the coordinator tells one task.

    Attributes
    ----------
    task : int
        Which, in the order of the job.
    kind : str
        TRIGGER, ABORTED or COMPLETED; SLOWED, its task manager uploads from now on, or RELIEVED.
    message : CoordinatorMessage
        Which checkpoint, and the round in which the task hears of it; of SLOWED and RELIEVED that
        round alone.
    """

    task: int
    kind: str
    message: CoordinatorMessage


@dataclass(slots=True)
class CheckpointRows:
    """The rows that the rules of checkpoints work on, of one subtask.

    Attributes
    ----------
    state : TaskCheckpoint
        What the task knows of checkpoints.
    alignment : Alignment
        Its alignment.
    channels : list of AlignedChannel
        Of all its gates, in order.
    tracked : Queue of TrackedCheckpoint
        What an at-least-once task counts.
    triggers, aborted : Queue of CoordinatorMessage
        What the coordinator has told it and it has not acted on.
    reports : list of CheckpointReport
        What it tells the coordinator in this round.
    """

    state: TaskCheckpoint
    alignment: Alignment
    channels: list[AlignedChannel]
    tracked: Queue[TrackedCheckpoint] = field(
        default_factory=lambda: new_queue(MOST_TRACKED, TrackedCheckpoint)
    )
    triggers: Queue[CoordinatorMessage] = field(
        default_factory=lambda: new_queue(MOST_BARRIERS + 1, CoordinatorMessage)
    )
    aborted: Queue[CoordinatorMessage] = field(
        default_factory=lambda: new_queue(MOST_BARRIERS + 1, CoordinatorMessage)
    )
    reports: list[CheckpointReport] = field(default_factory=list)


def new_rows(
    job: Job, settings: CheckpointSettings, plan: JobVertex, index: int, inputs: int
) -> CheckpointRows:
    """Return the rows of a subtask with so many input channels, at the start of a run."""
    timeout = settings.aligned_timeout_us
    alignment = Alignment(
        mode=settings.mode_of(plan),
        timeout=timeout,
        tasks_finish=int(settings.after_tasks_finish),
        open_channels=inputs,
        resumes_at_switch=0,
    )
    state = TaskCheckpoint(
        mode=settings.mode,
        timeout=timeout,
        withholds=int(job.record_transport is not None),
        waits_final=int(settings.waits_for_final),
        data_open=max(1, inputs),
        sync=task_sync_us(job, plan),
        slowdown=int(job.scenario.cluster.upload_slowdown * WHOLE_SERVICE),
        look_rounds=look_rounds(job, plan),
    )
    return CheckpointRows(state, alignment, [AlignedChannel() for _ in range(inputs)])


class CheckpointedTask:
    """The side of a subtask that the rules of checkpoints see: a ``CheckpointWorker``.

    Attributes
    ----------
    checkpoints : CheckpointRows or None
        None: the job has no checkpoints.
    on_snapshot : callable, optional
        Called with the checkpoint when the state is taken, behind the barrier.
    """

    job: Job
    plan: JobVertex
    index: int
    task: StreamTask
    gates: list[Gate]
    partitions: list[Partition]
    union: list[int]
    _curve: ServiceCurve | None

    def _prepare_checkpoints(self, inputs: int) -> None:
        """Make the rows of a subtask with so many input channels, if the job has checkpoints."""
        self.checkpoints: CheckpointRows | None = None
        self.on_snapshot: Callable[[int], None] | None = None
        self._round = -1
        settings = self.job.checkpoints
        if settings is not None:
            self.checkpoints = new_rows(self.job, settings, self.plan, self.index, inputs)
            self.task.has_checkpoints = 1
            self._number = task_number(self.job, self.plan, self.index)
            self._forced = [
                int(is_forced(self.job.stage(link.edge.receiver))) for link in self.plan.outputs
            ]

    def _begin_round(self, number: int) -> None:
        """Note the round, in which nothing has been reported yet."""
        self._round = number
        if self.checkpoints is not None:
            self.checkpoints.reports.clear()

    def note_arrival(self, gate: int, channel: int, message: Message) -> None:
        """Count the bytes of a message that arrives in a channel of a gate."""
        if is_event(message) == 0:
            first = sum(len(before.channels) for before in self.gates[:gate])
            self._rows.channels[first + channel].arrived += message.nbytes

    @property
    def _rows(self) -> CheckpointRows:
        assert self.checkpoints is not None
        return self.checkpoints

    def checkpoint_state(self) -> TaskCheckpoint:
        """Return what the task knows of checkpoints."""
        return self._rows.state

    def alignment(self) -> Alignment:
        """Return its alignment."""
        return self._rows.alignment

    def aligned(self) -> list[AlignedChannel]:
        """Return the channels of that, those of all gates in order."""
        return self._rows.channels

    def tracked(self) -> Queue[TrackedCheckpoint]:
        """Return the checkpoints that an at-least-once task counts."""
        return self._rows.tracked

    def triggers(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that the task has been asked for, oldest first."""
        return self._rows.triggers

    def aborted(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that the coordinator has aborted, oldest first."""
        return self._rows.aborted

    def gate_count(self) -> int:
        """Return how many gates it has."""
        return len(self.gates)

    def input_gates(self) -> list[Gate]:
        """Return its gates."""
        return self.gates

    def gate_record_bytes(self, number: int) -> int:
        """Return the size of a gate's records, bytes."""
        return self.plan.inputs[number].record_bytes

    def gates_with_data(self) -> Row:
        """Return its queue of gates with data."""
        return self.union

    def event_partition(self, number: int) -> Partition:
        """Return a result partition, into which an event may be put."""
        return self.partitions[number]

    def note_barrier(self, number: int) -> None:
        """Do nothing: Flink's barriers need no permit."""

    def is_forced(self, number: int) -> int:
        """Tell whether a partition's receivers align whatever the mode is: 1 if so."""
        return self._forced[number]

    def round_number(self) -> int:
        """Return the round."""
        return self._round

    def now_us(self) -> int:
        """Return the start of the round, microseconds of the run."""
        return self._round * self.job.round_us

    def service_phases(self) -> list[list[int]]:
        """Return its rate, as rows of work; none of a task that works in no time."""
        return [] if self._curve is None else self._curve.phases

    def _may_do(self, start: int, end: int) -> int:
        """Return the work that is allowed by the end of the round while its manager uploads."""
        if self.checkpoints is None:
            return end
        return slowed_end(self.checkpoints.state, self.task, start, end)

    def syncing_us(self) -> int:
        """Return for how long of the round a snapshot held it up; 0 of a task with a rate."""
        if self.checkpoints is None:
            return 0
        return syncing_us(self._rows.state, self.task, self.now_us(), self.job.round_us)

    def snapshot(self, checkpoint: int) -> None:
        """Take the state: what the synchronous part of a snapshot does."""
        if self.on_snapshot is not None:
            self.on_snapshot(checkpoint)

    def window_bytes(self) -> int:
        """Return the size of its open windows, bytes; a task without windows has none."""
        return 0

    def count_mark(self, place: int, nbytes: int) -> None:
        """Count the bytes of a mark that was taken from a channel."""
        channel = self._rows.channels[place]
        channel.marks += 1
        channel.mark_bytes += nbytes

    def report(self, kind: int, checkpoint: int, reason: int) -> None:
        """Tell the coordinator what has become of a checkpoint, or that the task has finished."""
        report = CheckpointReport(
            task=self._number, kind=kind, checkpoint=checkpoint, round=self._round, reason=reason
        )
        if kind == b.ACKNOWLEDGED:
            b.fill_report(report, self._rows.state)
        elif kind == b.TAKEN:
            report.records = self.task.taken
            report.windows = self.window_bytes()
        self._rows.reports.append(report)

    def report_writing(self, before: int) -> None:
        """Say that the task takes up records in this round, behind so many before it."""
        self._rows.reports.append(
            CheckpointReport(task=self._number, kind=b.WRITES, round=self._round, records=before)
        )

    def hear_coordinator(self, order: TaskOrder) -> None:
        """Take what the coordinator tells the task, for the round in which it arrives."""
        queue = self._rows.triggers if order.kind == TRIGGER else self._rows.aborted
        if order.kind in {SLOWED, RELIEVED}:
            self._rows.state.is_slowed = int(order.kind == SLOWED)
            return
        if order.kind == COMPLETED:
            b.hear_completed(self._rows.state, order.message.checkpoint, order.message.arrives)
            return
        if order.kind == ABORTED and b.is_past(self._rows.state, order.message.checkpoint) == 1:
            return
        assign(next_slot(queue), order.message)
        append(queue)


def task_number(job: Job, plan: JobVertex, index: int) -> int:
    """Return the place of a subtask among those of all stages, senders before receivers."""
    before = job.stages[: job.stages.index(plan)]
    return sum(other.stage.parallelism for other in before) + index
