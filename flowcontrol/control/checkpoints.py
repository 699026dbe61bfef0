"""The coordinator of checkpoints between rounds: reports that it gets, actions, orders to tasks.

Three layers: the rules (:mod:`flowcontrol.protocol.checkpoints.coordinator`), their rounds and
latencies (here), the memory (:mod:`flowcontrol.control.between`).

It runs at the start of a round. What a task reports reaches it a network latency later, what it
says reaches the tasks a network latency later; a latency is at least a round. A task acknowledges
when all is written that belongs to the checkpoint (:mod:`.uploads`). Looking at it late gives the
same as looking at once, as long as nobody waits for an answer
(:meth:`CheckpointControl.next_round`): what has arrived is worked off in the order of its rounds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from flowcontrol.control.task_orders import (
    ABORTED,
    COMPLETED,
    RELIEVED,
    SLOWED,
    TRIGGER,
    TaskOrder,
    TriggeredTasks,
)
from flowcontrol.control.uploads import SnapshotUploads, Written
from flowcontrol.kernel.reports import NO_ROUND
from flowcontrol.layout.graph import start_us
from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.checkpoints import barriers as b
from flowcontrol.protocol.checkpoints.coordinator import CheckpointCoordinator
from flowcontrol.protocol.checkpoints.requests import (
    CHECKPOINT,
    SAVEPOINT,
    STOP_SAVEPOINT,
    FailureReason,
    TaskStatistics,
)
from flowcontrol.scenario import Savepoint
from flowcontrol.state.declared import Kept
from flowcontrol.state.network import CheckpointReport, CoordinatorMessage
from flowcontrol.state.queues import MOST_BARRIERS

REASONS = {
    a.SUBSUMED: FailureReason.CHECKPOINT_DECLINED_SUBSUMED,
    a.ON_CANCELLATION_BARRIER: FailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER,
    a.INPUT_END_OF_STREAM: FailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM,
    a.LIMIT_EXCEEDED: FailureReason.CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED,
}
"""Flink's names of why a task declines."""

URGENT = frozenset({b.DECLINED, b.ENDED})
"""Reports that a clock must not hold back."""

TOO_MANY = FailureReason.CHECKPOINT_DECLINED
"""Why a checkpoint ends of which no barrier is sent, since too many are under way."""

_IN_ORDER = attrgetter("round", "task")

_IS_SAVEPOINT = {CHECKPOINT: 0, SAVEPOINT: 1, STOP_SAVEPOINT: b.STOPS}

UNKNOWN = (-1,) * (len(TaskStatistics._fields) - 1)
"""Figures of a task that has finished instead of acknowledging."""


class CheckpointControl(Kept):
    """The coordinator of a job's checkpoints, beside its tasks.

    - ``begins_us``: when their interval begins, microseconds.
    - ``coordinator``: its tasks are numbers, in the order of the job's subtasks; its times
      microseconds.
    - ``latency``: rounds that a message between it and a task takes.
    - ``failed_at``: round in which more checkpoints had failed than the job tolerates; -1: never.
    - ``uploads``: what the tasks write.
    - ``on_notification``: called with the order of each task that is notified of a completed or
      aborted checkpoint, in the order of the rounds in which they hear of it.

    Raises ValueError if the job has no checkpoints.
    """

    _kept = (
        *("coordinator", "uploads", "failed_at", "_heard", "_arriving", "_slowed", "_handled"),
        *("_ended", "_last_round"),
    )
    _values = (CheckpointReport, Written)

    def __init__(self, job: Job, begins_us: int = 0) -> None:
        settings = job.checkpoints
        if settings is None:
            raise ValueError(f"{job.scenario.name!r} has no checkpoints")
        self._job, self._round_us = job, job.round_us
        self._count = len(job.subtasks)
        self.latency = job.latency
        first = settings.interval_us
        if first is not None:
            first += start_us(job.scenario) + begins_us
        self.coordinator = CheckpointCoordinator(
            range(self._count),
            TriggeredTasks(job),
            interval=settings.interval_us,
            min_pause=settings.min_pause_us,
            timeout=settings.timeout_us,
            max_concurrent=settings.max_concurrent,
            tolerable_failures=settings.tolerable_failures,
            unaligned=settings.is_unaligned,
            first_delay=first,
            checkpoints_after_tasks_finish=settings.after_tasks_finish,
        )
        self.failed_at, self._first_delay = -1, settings.interval_us
        self.on_notification: Callable[[TaskOrder], None] | None = None
        self.uploads = SnapshotUploads(job)
        self._slows = job.scenario.cluster.upload_slowdown > 0
        self._slowed: set[int] = set()
        self._heard: list[CheckpointReport] = []
        self._arriving: list[tuple[int, Written]] = []
        self._savepoints = list(settings.savepoints)
        self._handled = [0] * self._count
        self._ended: set[int] = set()
        self._committing = {
            task
            for task, (plan, _) in enumerate(job.subtasks)
            if plan.stage.commit is not None and not plan.stage.commit.shared
        }
        self._urgent = False
        self._last_round = -1

    def ask(self, savepoints: Sequence[Savepoint]) -> None:
        """Take what a user asks for, in order of time, in the place of what is still to come."""
        self._savepoints = list(savepoints)

    # ------------------------------------------------------------------ what it hears

    def hear(self, reports: Iterable[CheckpointReport]) -> None:
        """Take what tasks have reported, each in its round; it counts when it has arrived."""
        new = [report for report in reports if report.kind not in b.FOR_READERS]
        self.uploads.hear(new)
        self._heard += [report for report in new if self.wants(report.kind)]
        self._heard.sort(key=_IN_ORDER)
        for report in new:
            if report.kind in URGENT:
                self._urgent = True

    def wants(self, kind: int) -> bool:
        """Tell whether it makes a difference that it hears reports of a kind.

        When a sink writes or commits is no concern of it. That a task has taken a checkpoint makes
        none if there is nothing to write: it acknowledges in the same round.
        """
        return kind not in b.FOR_READERS and (kind != b.TAKEN or not self.uploads.writes_nothing)

    def next_round(self) -> int:
        """Return the round before which :meth:`before_round` must be called at the latest.

        It is that of the next trigger or expiry, and of the next report that has been heard if
        somebody waits for it; NO_ROUND: nothing is due. A clock that holds reports back must call
        :meth:`hear` at once with one that is not an acknowledgement, and with every one while
        :attr:`is_waiting`.
        """
        due = self._next_due()
        if self.is_waiting or self._urgent:
            due = min(due, self._next_arrival())
        return max(self._last_round + 1, due)

    @property
    def is_waiting(self) -> bool:
        """Whether an acknowledgement may cause something, or what a task uploads.

        A queued trigger, a subsumption, the end of a task that waits for a last checkpoint, tasks
        that an upload slows down, or those that commit.
        """
        if self._slows or self._ended or self._committing or self.coordinator.is_waiting:
            return True
        pending = self.coordinator.pending
        return len(pending) > 1 or (len(pending) == 1 and self._stops(pending[0]))

    @property
    def oldest_open(self) -> int:
        """The oldest checkpoint that some task may still have to take."""
        return min(self._handled) + 1

    @property
    def is_stopping(self) -> bool:
        """Whether a savepoint is under way with which the job stops: its sources emit no more."""
        return any(map(self._stops, self.coordinator.pending))

    def _stops(self, checkpoint: int) -> bool:
        """Whether the job stops with a checkpoint."""
        return self.coordinator.trigger_of(checkpoint)[1] == STOP_SAVEPOINT

    # ------------------------------------------------------------------ what it does

    def before_round(self, number: int) -> list[TaskOrder]:
        """Do what is due by the start of a round.

        ``number``: the round that is about to run; never less than in the call before.

        Returns what the tasks are told, in order.
        """
        orders: list[TaskOrder] = []
        is_direct, due = self.uploads.writes_nothing, self._next_due()
        while True:
            at = min(due, self._next_arrival())
            if at > number:
                break
            self._last_round = at
            if not is_direct:
                self._upload(at)
            self._hear_arrived(at)
            while self._arriving and self._arriving[0][0] <= at:
                self._acknowledge(at, self._arriving.pop(0)[1])
            while self._savepoints and self._savepoints[0].at_us <= at * self._round_us:
                self._request(at, self._savepoints.pop(0))
            if at == due:
                self.coordinator.tick(at * self._round_us)
            if self.coordinator.has_actions or at == due or not is_direct:
                orders += self.orders(at)
                due = self._next_due()
        self._urgent = self._urgent and any(report.kind in URGENT for report in self._heard)
        self._last_round = number
        return orders + self._slow_down(number) if self._slows else orders

    def _next_due(self) -> int:
        """Return the round of the next trigger, expiry or savepoint; NO_ROUND: there is none."""
        times = [self.coordinator.next_time, *(one.at_us for one in self._savepoints[:1])]
        rounds = (-(-time // self._round_us) for time in times if time is not None)
        return min(rounds, default=NO_ROUND)

    def _next_arrival(self) -> int:
        """Return the round of the next report or acknowledgement, or end of an upload."""
        found = self._heard[0].round + self.latency if self._heard else NO_ROUND
        if self._arriving:
            found = min(found, self._arriving[0][0])
        if (next_us := self.uploads.next_us()) is not None:
            found = min(found, -(-next_us // self._round_us) + 1)
        return found

    def _upload(self, at: int) -> None:
        """Have tasks write until the start of the round before: what came of it is on its way."""
        self._arrive(self.uploads.advance((at - 1) * self._round_us))

    def _arrive(self, sent: Iterable[Written]) -> None:
        """Have what leaves tasks arrive a latency after the start of the next round."""
        self._arriving += [(-(-one.at // self._round_us) + self.latency, one) for one in sent]
        self._arriving.sort(key=lambda found: (found[0], found[1].report.round, found[1].task))

    def fence(self, at: int, tasks: Iterable[int]) -> None:
        """Forget what tasks reported before a round in which they begin anew, and what they write.

        Acknowledgements of an attempt that has ended are of no use to the coordinator.
        """
        gone = set(tasks)
        self._upload(at)
        self._arrive(self.uploads.fence(gone, at * self._round_us))
        self._heard = [one for one in self._heard if one.task not in gone or one.round >= at]
        self._arriving = [found for found in self._arriving if found[1].task not in gone]
        self._slowed -= gone

    def _hear_arrived(self, at: int) -> None:
        """Take notice of the reports that have arrived, of a round all before what follows."""
        last, count = at - self.latency, 0
        for report in self._heard:
            if report.round > last:
                break
            count += 1
            self._note_report(at, report)
        if self.uploads.writes_nothing:
            for report in self._heard[:count]:
                if report.kind in {b.ACKNOWLEDGED, b.FINISHED}:
                    self._acknowledge(at, Written(at, report.task, report))
        del self._heard[:count]

    def _note_report(self, at: int, report: CheckpointReport) -> None:
        """Take notice of a report that has arrived; acknowledgements count when all is written."""
        task = report.task
        if report.kind in {b.ACKNOWLEDGED, b.DECLINED}:
            self._handled[task] = max(self._handled[task], report.checkpoint)
        elif report.kind == b.ENDED:
            self._ended.add(task)
        elif report.kind == b.FINISHED:
            self._ended.discard(task)
            self._handled[task] = NO_ROUND
        if report.kind == b.DECLINED:
            now = at * self._round_us
            self.coordinator.decline(now, report.checkpoint, REASONS[report.reason])

    def _acknowledge(self, at: int, one: Written) -> None:
        """Take an acknowledgement that has arrived, or that a task has finished."""
        now, own, report = at * self._round_us, self.coordinator, one.report
        if report.kind == b.FINISHED:
            for checkpoint in own.pending:  # its end stands where its barrier would have stood
                own.record(checkpoint, one.task, TaskStatistics(now, *UNKNOWN))
            own.finish_task(now, one.task)
            return
        times = report.start_delay, report.alignment, one.sync, one.async_
        sizes = one.written, one.full, report.processed, report.persisted
        own.record(report.checkpoint, one.task, TaskStatistics(now, *times, *sizes))

    def _request(self, at: int, savepoint: Savepoint) -> None:
        """Request a savepoint; before one with stop, all other checkpoints end."""
        now = at * self._round_us
        if savepoint.stop:
            self.coordinator.suspend(now)
        kind = STOP_SAVEPOINT if savepoint.stop else SAVEPOINT
        self.coordinator.request(now, kind, periodic=False)

    def orders(self, at: int) -> list[TaskOrder]:
        """Return what the tasks are told of what has happened since it was asked last.

        So many barriers may be under way, no more: a checkpoint too many is declined.
        """
        orders, untold = list[TaskOrder](), set[int]()
        messages = dict[tuple[str, int], CoordinatorMessage]()
        is_silent = self.on_notification is None and not self._ended
        while actions := self.coordinator.take_actions():
            declined = 0
            for action in actions:
                if action[0] == "fail_job":
                    self.failed_at = at
                    continue
                kind, task, checkpoint = action[:3]
                if kind == TRIGGER and checkpoint - min(self._handled) > MOST_BARRIERS:
                    declined = checkpoint
                    untold.add(checkpoint)
                elif checkpoint not in untold:  # else no task knows of it
                    message = messages.get((kind, checkpoint))
                    if message is None:
                        message = self._message(at, checkpoint)
                        messages[kind, checkpoint] = message
                        self._note(kind, message)
                    if kind == COMPLETED and is_silent and message.is_savepoint != b.STOPS:
                        continue  # nothing waits for it
                    order = TaskOrder(task, kind, message)
                    if kind != TRIGGER and self.on_notification is not None:
                        self.on_notification(order)
                    waits = task in self._ended or task in self._committing
                    waits |= message.is_savepoint == b.STOPS
                    if kind != COMPLETED or waits:
                        orders.append(order)
            if declined:  # which may start the next one that is queued
                self.coordinator.decline(at * self._round_us, declined, TOO_MANY)
        return orders

    def _note(self, kind: str, message: CoordinatorMessage) -> None:
        """Note what becomes of a checkpoint, for what tasks write of it and of later ones."""
        checkpoint, is_savepoint = message.checkpoint, message.is_savepoint > 0
        if kind == TRIGGER:
            self.uploads.begin(checkpoint, is_savepoint=is_savepoint)
        elif kind == ABORTED:
            self.uploads.abort(checkpoint, message.arrives)
        elif not is_savepoint:
            self.uploads.complete(checkpoint, message.arrives)

    def _message(self, at: int, checkpoint: int) -> CoordinatorMessage:
        triggered, kind = self.coordinator.trigger_of(checkpoint)
        return CoordinatorMessage(checkpoint, triggered, _IS_SAVEPOINT[kind], at + self.latency)

    def _slow_down(self, number: int) -> list[TaskOrder]:
        """Have the tasks slow down whose manager uploads, from a round on, and others no more.

        What begins or ends in a round is felt from the next but one on, as what a task reports in
        it is heard after it.
        """
        self._upload(number)
        busy, message = self.uploads.busy_managers(), CoordinatorMessage(arrives=number)
        slowed = {task for task, where in enumerate(self.uploads.managers) if where in busy}
        orders = [TaskOrder(task, SLOWED, message) for task in sorted(slowed - self._slowed)]
        orders += [TaskOrder(task, RELIEVED, message) for task in sorted(self._slowed - slowed)]
        self._slowed = slowed
        return orders

    # ------------------------------------------------------------------ failures

    def fail(self, at: int, tasks: Iterable[int]) -> None:
        """Note before a round that tasks have failed: what is pending is aborted."""
        for task in tasks:
            self.coordinator.fail_task(at * self._round_us, task)

    def lose(self, at: int) -> None:
        """Have the coordinator die before a round: what is under way to it is lost.

        Another one takes over with :meth:`recover`, which knows what was completed.
        """
        self.fence(at, range(self._count))
        self._heard.clear()
        self._arriving.clear()
        self.fail(at, range(self._count))
        self.coordinator.take_actions()  # nobody is there to tell them

    def recover(self, at: int, tasks: Iterable[int], since: int | None = None) -> None:
        """Note before a round that tasks begin anew from the latest completed checkpoint.

        What they said in the attempt before, and has not arrived, is fenced. Flink starts the
        interval when the job is RUNNING, ``since``: as it begins to restore, by default now. A
        checkpoint that falls due while tasks restore is left out.
        """
        again = set(tasks)
        self.fence(at, again)
        latest = self.coordinator.next_id - 1
        for task in again:
            self._handled[task] = latest
        first = self._first_delay
        if first is not None and since is not None:
            first -= (at - since) * self._round_us % first
        self.coordinator.recover(at * self._round_us, sorted(again), first)

    def restored_bytes(self, checkpoint: int, tasks: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return what tasks read of a checkpoint: data in flight, and state; bytes."""
        found = {} if checkpoint < 0 else self.coordinator.task_statistics(checkpoint)
        none = TaskStatistics(0)
        own = {task: found.get(task, none) for task in tasks}
        return {task: (max(0, one.persisted), max(0, one.full_size)) for task, one in own.items()}

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """Return all of it, as JSON takes it; the job is not part of it."""
        return {**super().state(), "savepoints": len(self._savepoints)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, in a control of the same job."""
        others = {**state}
        self._savepoints = self._savepoints[len(self._savepoints) - others.pop("savepoints") :]
        super().restore(others)
        self._urgent = bool(self._heard)
