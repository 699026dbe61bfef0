"""The coordinator of checkpoints between rounds: what it hears, when it acts, whom it tells what.

It runs at the start of a round. What a task reports reaches it a network latency later, what it
says reaches the tasks a network latency later; a latency is at least a round. Looking at it late
gives the same as looking at once, as long as nobody waits for an answer (:meth:`next_round`): what
has arrived is worked off in the order of its rounds.
"""

import sys
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from flowcontrol.job.checkpointed_task import COMPLETED, TRIGGER, TaskOrder
from flowcontrol.job.graph import POINTWISE, JobVertex
from flowcontrol.job.job import Job
from flowcontrol.operators.checkpointing import STOPS
from flowcontrol.protocol.checkpoints import CheckpointCoordinator, checkpoint_plan
from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, DECLINED, ENDED
from flowcontrol.protocol.checkpoints.plan import ALL
from flowcontrol.protocol.checkpoints.plan import POINTWISE as BY_INDEX
from flowcontrol.protocol.checkpoints.requests import CHECKPOINT
from flowcontrol.protocol.checkpoints.statistics import TaskStatistics
from flowcontrol.protocol.queues import MOST_BARRIERS
from flowcontrol.protocol.states import CheckpointReport, CoordinatorMessage
from flowcontrol.scenario import Savepoint

REASONS = {
    a.SUBSUMED: "CHECKPOINT_DECLINED_SUBSUMED",
    a.ON_CANCELLATION_BARRIER: "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
    a.INPUT_END_OF_STREAM: "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM",
}
"""Flink's names of why a task declines."""

STOP = "stop_savepoint"
"""Kind of a savepoint with which the job stops."""

TOO_MANY = "CHECKPOINT_DECLINED"
"""Why a checkpoint ends of which no barrier is sent, since too many are under way."""

UNKNOWN = dict.fromkeys(
    ("start_delay", "alignment", "sync", "async_", "processed", "persisted"), -1
)
"""Figures of a task that has finished instead of acknowledging."""


class CheckpointControl:
    """The coordinator of a job's checkpoints, beside its tasks.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with checkpoints.

    Attributes
    ----------
    coordinator : CheckpointCoordinator
        Its tasks are numbers, in the order of the job's subtasks; its times microseconds.
    latency : int
        Rounds that a message between it and a task takes.
    failed_at : int
        Round in which more checkpoints had failed than the job tolerates; -1: never.

    Raises
    ------
    ValueError
        If the job has no checkpoints.
    """

    def __init__(self, job: Job) -> None:
        settings = job.checkpoints
        if settings is None:
            raise ValueError(f"{job.scenario.name!r} has no checkpoints")
        self._job, self._round_us = job, job.round_us
        self._ranges = _ranges(job)
        self._count = self._ranges[-1][2]
        self._tasks_of_sources = [
            task
            for plan, first, last in self._ranges
            if plan.is_source
            for task in range(first, last)
        ]
        places = {plan.name: place for place, (plan, _, _) in enumerate(self._ranges)}
        self._edges = [
            (
                places[job.stage(link.edge.sender).name],
                places[job.stage(link.edge.receiver).name],
                BY_INDEX if link.edge.partitioner in POINTWISE else ALL,
            )
            for link in job.links
        ]
        self.latency = max(1, -(-job.scenario.cluster.network_latency_us // job.round_us))
        self.coordinator = CheckpointCoordinator(
            range(self._count),
            self._to_trigger,
            interval=settings.interval_us,
            min_pause=settings.min_pause_us,
            timeout=settings.timeout_us,
            max_concurrent=settings.max_concurrent,
            tolerable_failures=settings.tolerable_failures,
            unaligned=settings.is_unaligned,
            first_delay=settings.interval_us,
            checkpoints_after_tasks_finish=settings.after_tasks_finish,
        )
        self.failed_at, self._first_delay = -1, settings.interval_us
        self._heard: list[CheckpointReport] = []
        self._savepoints = list(settings.savepoints)
        self._handled = [0] * self._count
        self._ended: set[int] = set()
        self._urgent = False
        self._last_round = -1

    # ------------------------------------------------------------------ what it hears

    def hear(self, reports: Iterable[CheckpointReport]) -> None:
        """Take what tasks have reported, each in its round; it counts when it has arrived."""
        new = list(reports)
        self._heard += new
        self._urgent = self._urgent or any(report.kind in {DECLINED, ENDED} for report in new)

    def next_round(self) -> int | None:
        """Return the round before which :meth:`before_round` must be called at the latest.

        It is that of the next trigger or expiry, and of the next report that has been heard if
        somebody waits for it; None: nothing is due. A clock that holds reports back must call
        :meth:`hear` at once with one that is no acknowledgement, and with every one while
        :attr:`is_waiting`.
        """
        due = self._next_due()
        if self._heard and (self.is_waiting or self._urgent):
            heard = min(report.round for report in self._heard) + self.latency
            due = heard if due is None else min(due, heard)
        return None if due is None else max(self._last_round + 1, due)

    @property
    def is_waiting(self) -> bool:
        """Whether an acknowledgement may cause something.

        A queued trigger, a subsumption, or the end of a task that waits for a last checkpoint.
        """
        own = self.coordinator
        stops = any(map(self._stops, own.pending))
        return stops or len(self._ended) > 0 or own.is_waiting or len(own.pending) > 1

    @property
    def oldest_open(self) -> int:
        """The oldest checkpoint that some task may still have to take."""
        return min(self._handled) + 1

    def _stops(self, checkpoint: int) -> bool:
        """Whether the job stops with a checkpoint."""
        return self.coordinator.trigger_of(checkpoint)[1] == STOP

    # ------------------------------------------------------------------ what it does

    def before_round(self, number: int) -> list[TaskOrder]:
        """Do what is due by the start of a round.

        Parameters
        ----------
        number : int
            The round that is about to run; never less than in the call before.

        Returns
        -------
        list of TaskOrder
            What the tasks are told, in order.
        """
        orders: list[TaskOrder] = []
        self._heard.sort(key=lambda report: (report.round, report.task))
        while True:
            due = self._next_due()
            at = due
            if self._heard and (at is None or self._heard[0].round + self.latency < at):
                at = self._heard[0].round + self.latency
            if at is None or at > number:
                break
            self._last_round = at
            while self._heard and self._heard[0].round + self.latency <= at:
                self._take(at, self._heard.pop(0))
            while self._savepoints and self._savepoints[0].at_us <= at * self._round_us:
                self._request(at, self._savepoints.pop(0))
            if at == due:
                self.coordinator.tick(at * self._round_us)
            orders += self._orders(at)
        self._urgent = any(report.kind in {DECLINED, ENDED} for report in self._heard)
        self._last_round = number
        return orders

    def _next_due(self) -> int | None:
        """Return the round of the next trigger, expiry or savepoint; None: there is none."""
        time = self.coordinator.next_time
        if self._savepoints and (time is None or self._savepoints[0].at_us < time):
            time = self._savepoints[0].at_us
        return None if time is None else -(-time // self._round_us)

    def _take(self, at: int, report: CheckpointReport) -> None:
        """Take a report that has arrived."""
        now, task, own = at * self._round_us, report.task, self.coordinator
        if report.kind == ACKNOWLEDGED:
            self._handled[task] = max(self._handled[task], report.checkpoint)
            own.acknowledge(
                now,
                report.checkpoint,
                task,
                start_delay=report.start_delay,
                alignment=report.alignment,
                async_=report.writing,
                processed=report.processed,
                persisted=report.persisted,
            )
        elif report.kind == DECLINED:
            self._handled[task] = max(self._handled[task], report.checkpoint)
            own.decline(now, report.checkpoint, task, REASONS[report.reason])
        elif report.kind == ENDED:
            self._ended.add(task)
        else:
            self._ended.discard(task)
            self._handled[task] = sys.maxsize
            for checkpoint in own.pending:  # its end stands where its barrier would have stood
                own.acknowledge(now, checkpoint, task, **UNKNOWN)
            own.finish_task(now, task)

    def _request(self, at: int, savepoint: Savepoint) -> None:
        now = at * self._round_us
        if savepoint.stop:
            self.coordinator.suspend(now)
        kind = STOP if savepoint.stop else "savepoint"
        self.coordinator.request(now, kind, periodic=False)

    def _orders(self, at: int) -> list[TaskOrder]:
        """Return what the tasks are told of what has just happened.

        So many barriers may be under way, no more: a checkpoint too many is declined.
        """
        orders, untold = list[TaskOrder](), set[int]()
        while actions := self.coordinator.take_actions():
            declined, messages = 0, dict[int, CoordinatorMessage]()
            for action in actions:
                if action[0] == "fail_job":
                    self.failed_at = at
                    continue
                kind, task, checkpoint = action[:3]
                if kind == COMPLETED and not (task in self._ended or self._stops(checkpoint)):
                    continue  # nothing waits for it
                if kind == TRIGGER and checkpoint - min(self._handled) > MOST_BARRIERS:
                    declined = checkpoint
                    untold.add(checkpoint)
                elif checkpoint not in untold:  # else no task knows of it
                    if checkpoint not in messages:
                        messages[checkpoint] = self._message(at, checkpoint)
                    orders.append(TaskOrder(task, kind, messages[checkpoint]))
            if declined:  # which may start the next one that is queued
                self.coordinator.decline(at * self._round_us, declined, 0, TOO_MANY)
        return orders

    def _message(self, at: int, checkpoint: int) -> CoordinatorMessage:
        triggered, kind = self.coordinator.trigger_of(checkpoint)
        savepoint = STOPS if kind == STOP else int(kind != CHECKPOINT)
        return CoordinatorMessage(checkpoint, triggered, savepoint, at + self.latency)

    # ------------------------------------------------------------------ failures

    def fail(self, at: int, tasks: Iterable[int]) -> None:
        """Note before a round that tasks have failed: what is pending is aborted."""
        for task in tasks:
            self.coordinator.fail_task(at * self._round_us, task)

    def lose(self, at: int) -> None:
        """Have the coordinator die before a round: what is under way to it is lost.

        Another one takes over with :meth:`recover`, which knows what was completed.
        """
        self._heard.clear()
        self.fail(at, range(self._count))
        self.coordinator.take_actions()  # nobody is there to tell them

    def recover(self, at: int, tasks: Iterable[int]) -> None:
        """Note before a round that tasks begin anew from the latest completed checkpoint.

        What they said in the attempt before, and has not arrived, is fenced.
        """
        again = set(tasks)
        self._heard = [
            report for report in self._heard if report.task not in again or report.round >= at
        ]
        latest = self.coordinator.next_id - 1
        for task in again:
            self._handled[task] = latest
        self.coordinator.recover(at * self._round_us, sorted(again), self._first_delay)

    def restored_bytes(self, checkpoint: int, tasks: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return what tasks read of a checkpoint: data in flight, and state; bytes."""
        found = {} if checkpoint < 0 else self.coordinator.task_statistics(checkpoint)
        none = TaskStatistics(0)
        own = {task: found.get(task, none) for task in tasks}
        return {task: (max(0, one.persisted), max(0, one.full_size)) for task, one in own.items()}

    def orders(self, at: int) -> list[TaskOrder]:
        """Return what the tasks are told of what has happened since it was asked last."""
        return self._orders(at)

    # ------------------------------------------------------------------ whom it triggers

    def _to_trigger(self, finished: Collection[Hashable]) -> list[Hashable]:
        """Return the tasks that a trigger is sent to, given those that have finished."""
        if not finished:
            return [*self._tasks_of_sources]
        vertices = [
            (
                plan.stage.parallelism,
                {task - first for task in range(first, last) if task in finished},
            )
            for plan, first, last in self._ranges
        ]
        found = checkpoint_plan(vertices, self._edges)
        return [self._ranges[v][1] + index for v, subtasks in found.items() for index in subtasks]

    # ------------------------------------------------------------------ state

    def forget_ended(self) -> None:
        """Forget the figures of checkpoints that have ended, which nothing depends on.

        A run's tables have them all the same if they are made from all reports of the run.
        """
        self.coordinator.forget(min(self.coordinator.pending, default=self.coordinator.next_id))

    def state(self) -> dict[str, Any]:
        """Return all of it, as JSON takes it; the job is not part of it."""
        return {
            "coordinator": self.coordinator.state(),
            "heard": [asdict(report) for report in self._heard],
            "savepoints": len(self._savepoints),
            "handled": self._handled,
            "ended": sorted(self._ended),
            "last_round": self._last_round,
            "failed_at": self.failed_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, in a control of the same job."""
        self.coordinator.restore(state["coordinator"])
        self._heard = [CheckpointReport(**report) for report in state["heard"]]
        self._savepoints = self._savepoints[len(self._savepoints) - state["savepoints"] :]
        self._handled, self._ended = list(state["handled"]), set(state["ended"])
        self._urgent = bool(self._heard)
        self._last_round, self.failed_at = state["last_round"], state["failed_at"]


def _ranges(job: Job) -> list[tuple[JobVertex, int, int]]:
    """Return the stages of a job, each with its first task and the one behind its last."""
    found, first = [], 0
    for plan in job.stages:
        found.append((plan, first, first + plan.stage.parallelism))
        first += plan.stage.parallelism
    return found
