"""The coordinator of checkpoints: what happens to it, and what it answers.

Source: ``CheckpointCoordinator`` of Flink's ``runtime.checkpoint`` (sections 1 and 8.1 of the
reference).
"""

from collections.abc import Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from flowcontrol.protocol.checkpoints import checkpoint as c
from flowcontrol.protocol.checkpoints import requests as r
from flowcontrol.protocol.checkpoints.checkpoint import Action, Lifecycle
from flowcontrol.protocol.checkpoints.requests import FailureReason, TaskStatistics


class CheckpointCoordinator(Lifecycle):
    """Triggers checkpoints, collects acknowledgements, completes, aborts and notifies.

    Nothing waits: ``now`` is an argument, and what a call caused is fetched by
    :meth:`take_actions`. Times are integers of any unit, milliseconds by the default timeout.

    A trigger takes no time here, and neither does the clean-up of ended checkpoints: what Flink
    holds back during either starts at once. After ``("fail_job",)`` the owner of the job calls
    :meth:`suspend`, and :meth:`recover` once its tasks run again.
    """

    @property
    def pending(self) -> tuple[int, ...]:
        """Ids of the pending checkpoints, ascending."""
        return tuple(self._pending)

    @property
    def is_waiting(self) -> bool:
        """Whether an acknowledgement, decline or expiry may start a request that is queued.

        While it is False a clock may hold acknowledgements back and hand them in later, in the
        order of their times and before whatever is due later, with the same result.
        """
        return len(self.queue) > 0

    @property
    def has_actions(self) -> bool:
        """Whether there is anything to fetch by ``take_actions``."""
        return len(self.actions) > 0

    @property
    def next_time(self) -> int | None:
        """When the coordinator must tick at the latest: the next trigger or expiry, or None."""
        due = self.ticks.next
        for checkpoint in self._pending.values():
            if due is None or checkpoint.expires < due:
                due = checkpoint.expires
        return due

    @property
    def next_id(self) -> int:
        """Id of the checkpoint that is triggered next.

        A task that has processed its last record waits for a completed checkpoint whose id is at
        least the one that this was then (FLIP-147), and calls for
        :meth:`~flowcontrol.protocol.checkpoints.coordinator.CheckpointCoordinator.finish_task`
        after it.
        """
        return self.last_id + 1

    def trigger_of(self, id: int) -> tuple[int, str]:
        """Return when a checkpoint was triggered, and its kind; a clock asks for each message."""
        found = self.checkpoints[id]
        return found.triggered, found.request.kind

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the checkpoints that are remembered, in the order of their triggers."""
        return tuple(self.checkpoints)

    def statistics(self, id: int) -> r.CheckpointStatistics:
        """Return the figures of a checkpoint, pending or ended, over all its tasks."""
        return self.checkpoints[id].statistics()

    def task_statistics(self, id: int) -> dict[Hashable, TaskStatistics]:
        """Return what each task reported of a checkpoint, in the order of arrival."""
        return dict(self.checkpoints[id].acknowledgements)

    def take_actions(self) -> list[Action]:
        """Return what the calls since the last one have caused, in order.

        Returns ``("trigger", task, id)``; ``("complete", task, id, subsumed)``, the id that left
        the store or -1; ``("abort", task, id, latest_completed)``, an id or -1; and
        ``("fail_job",)``.
        """
        actions, self.actions = self.actions, []
        return actions

    # What happens.

    def request(
        self, now: int, kind: str = r.CHECKPOINT, periodic: bool = True
    ) -> r.CheckpointRequest:
        """Ask for a checkpoint or savepoint, and start what may start.

        - ``kind``: or "savepoint", or "stop_savepoint": its completion is notified, its failure
          fails the job. Flink calls :meth:`suspend` before the latter, so that nothing else runs.
        - ``periodic``: False: a user's, which comes before periodic ones and ignores the pause.
          Savepoints are always users'.
        """
        is_savepoint = kind != r.CHECKPOINT
        forced = is_savepoint and not self._unaligned
        made = r.CheckpointRequest(self.requests, now, kind, periodic and not is_savepoint, forced)
        self.requests += 1
        self.queue.add(made)
        self.start_queued(now)
        return made

    def tick(self, now: int) -> None:
        """Expire and trigger what is due.

        What is due earlier comes first, an expiry before a trigger of the same time. Ticks that
        were missed count as one. :attr:`next_time` is beyond ``now`` afterwards.
        """
        while (due := self.next_time) is not None and due <= now:
            first = min(self._pending.values(), key=attrgetter("expires"), default=None)
            if first is not None and first.expires == due:
                self.fail(now, first, c.EXPIRED, FailureReason.CHECKPOINT_EXPIRED)
                self.start_queued(now)
            else:
                self.ticks.advance(now)
                self.request(now)

    def record(self, id: int, task: Hashable, report: TaskStatistics) -> str:
        """Take the acknowledgement of a task; the last one completes the checkpoint.

        - ``task``: the task; one that is not waited for is "unknown".
        - ``report``: its figures, and when it arrives.

        Returns "success"; "duplicate", what came first stands; "unknown", the task is not expected;
        "discarded", the checkpoint is not pending: its figures are recorded all the same.
        """
        checkpoint = self.checkpoints.get(id)
        if checkpoint is None:
            return c.DISCARDED
        answer = checkpoint.acknowledge(task, report)
        if answer == c.SUCCESS and checkpoint.is_acknowledged:
            self.complete(report.acknowledged, checkpoint)
            self.start_queued(report.acknowledged)
        return answer

    def decline(self, now: int, id: int, reason: FailureReason) -> None:
        """Abort a pending checkpoint that a task declined, whoever it is; else do nothing."""
        if (checkpoint := self._pending.get(id)) is not None:
            self.fail(now, checkpoint, c.DECLINED, reason)
            self.start_queued(now)

    def fail_task(self, now: int, task: Hashable) -> None:
        """Note that a task has failed: the job does not run as a whole until :meth:`recover`.

        Pending checkpoints are aborted, for TASK_FAILURE those that the task has not
        acknowledged; what is queued is refused, as are requests from then on
        (NOT_ALL_REQUIRED_TASKS_RUNNING), and ticks stop.
        """
        self.failed.add(task)
        for checkpoint in list(self._pending.values()):
            if task in checkpoint.waiting:
                self.fail(now, checkpoint, c.ABORTED, FailureReason.TASK_FAILURE)
        self.suspend(now)

    def finish_task(self, now: int, task: Hashable) -> None:
        """Note that a task has finished.

        It counts as acknowledged in checkpoints that are triggered from then on. One that is
        pending still waits for it: with FLIP-147 a task finishes after it has acknowledged. When
        all have finished the job has, and nothing remains pending or queued.
        """
        self.finished.add(task)
        if len(self.finished) == len(self.tasks):
            self.stop(now, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)

    def suspend(self, now: int) -> None:
        """Stop the ticks, abort what is pending and refuse what is queued.

        As ``stopCheckpointScheduler`` does when the job leaves RUNNING, and before a stop with
        savepoint. Periodic requests are refused until :meth:`recover`
        (PERIODIC_SCHEDULER_SHUTDOWN), a user's are not.
        """
        self.is_suspended = True
        self.stop(now, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)

    def recover(self, now: int, tasks: Iterable[Hashable], first_delay: int | None) -> None:
        """Note that tasks were restored and run again; once all do, ticks start.

        They are restored from the latest completed checkpoint, if there is one.

        ``first_delay``: from now to the first tick; needed if there is an interval.
        """
        again = tuple(tasks)
        self.stop(now, FailureReason.JOB_FAILOVER_REGION)
        self.failed.difference_update(again)
        self.finished.difference_update(again)
        if self._retained:
            self.counts.restored += 1
        if not self.failed:
            self.is_suspended = False
            self.ticks.start(now, first_delay)

    # State.

    def state(self) -> dict[str, Any]:
        """Return all that has happened, as JSON takes it, actions not yet taken included.

        The arguments of the constructor are not part of it. Requests that were refused are
        forgotten: nothing depends on them.
        """
        return {"tasks": len(self.tasks), **super().state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, in a coordinator made with the same arguments.

        Requests are other objects than before: the queue has them.

        Raises ValueError if the state is that of a job with another number of tasks; nothing has
        changed then.
        """
        others = {**state}
        if (tasks := others.pop("tasks")) != len(self.tasks):
            raise ValueError(
                f"the state has {tasks} tasks, the job {len(self.tasks)}: needs the "
                "coordinator of the same job"
            )
        super().restore(others)
