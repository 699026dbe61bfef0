"""The coordinator of checkpoints: a shell over the queue, the ticks and the checkpoints.

Source: ``CheckpointCoordinator`` of Flink's ``runtime.checkpoint`` (sections 1 and 8.1 of the
reference).
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from flowcontrol.protocol.checkpoints import checkpoint as c
from flowcontrol.protocol.checkpoints import requests as r
from flowcontrol.protocol.checkpoints.checkpoint import FailureCounter, Ticks
from flowcontrol.protocol.checkpoints.lifecycle import Action, CheckpointView, Lifecycle, Plan
from flowcontrol.protocol.checkpoints.requests import FailureReason, TaskStatistics, reason_of


class CheckpointCoordinator(CheckpointView):
    """Triggers checkpoints, collects acknowledgements, completes, aborts and notifies.

    Nothing waits: ``now`` is an argument, and what a call caused is fetched by
    :meth:`take_actions`. Times are integers of any unit, milliseconds by the default timeout.

    Parameters
    ----------
    tasks : iterable of hashable
        All tasks of the job, each once: they must acknowledge, and are notified in this order.
    triggered : iterable of hashable, or callable
        Tasks that a trigger is sent to, normally those of the sources; one that has finished is
        left out. A callable is given the finished tasks and returns the tasks to trigger, as
        :func:`~flowcontrol.protocol.checkpoints.requests.checkpoint_plan` works them out.
    interval : int, optional
        Of periodic checkpoints; None: none.
    min_pause : int, default 0
        Least time from a completion to the next periodic trigger.
    timeout : int, default 600000
        A pending checkpoint expires this long after its trigger.
    max_concurrent : int, default 1
        Checkpoints that may be pending at once.
    tolerable_failures : int, default 0
        Failures in a row that the job endures.
    retained : int, default 1
        Completed checkpoints in the store.
    unaligned : bool, default False
        Unaligned checkpoints are on: savepoints are then not forced.
    max_queued : int, default 1000
        Requests that may wait.
    seed : int, default 0
        The first tick is drawn from it.
    first_delay : int, optional
        From a start of the ticks to the first one, at least 0; None: drawn from [min_pause,
        max(interval, min_pause)].
    checkpoints_after_tasks_finish : bool, default True
        False: once a task has finished, requests are refused.

    Raises
    ------
    ValueError
        If a number is out of range, a task is named twice, ``triggered`` names a task that is
        not one, or ``unaligned`` is set with more than one concurrent checkpoint.

    Notes
    -----
    A trigger takes no time here, and neither does the clean-up of ended checkpoints: what Flink
    holds back during either starts at once. After ``("fail_job",)`` the owner of the job calls
    :meth:`suspend`, and :meth:`recover` once its tasks run again.

    Examples
    --------
    >>> coordinator = CheckpointCoordinator(["source", "sink"], ["source"])
    >>> request = coordinator.request(now=100)
    >>> coordinator.take_actions()
    [('trigger', 'source', 1)]
    >>> coordinator.acknowledge(110, 1, "source"), coordinator.acknowledge(130, 1, "sink")
    ('success', 'success')
    >>> coordinator.take_actions()
    [('complete', 'source', 1, -1), ('complete', 'sink', 1, -1)]
    >>> request.state, coordinator.statistics(1).end_to_end
    ('completed', 30)
    """

    def __init__(
        self,
        tasks: Iterable[Hashable],
        triggered: Iterable[Hashable] | Plan,
        interval: int | None = None,
        min_pause: int = 0,
        timeout: int = 600_000,
        max_concurrent: int = 1,
        tolerable_failures: int = 0,
        retained: int = 1,
        unaligned: bool = False,
        max_queued: int = 1000,
        seed: int = 0,
        first_delay: int | None = None,
        checkpoints_after_tasks_finish: bool = True,
    ) -> None:
        _check(interval=interval, timeout=timeout, max_concurrent=max_concurrent)
        _check(retained=retained, max_queued=max_queued)
        _check(0, min_pause=min_pause, tolerable_failures=tolerable_failures)
        _check(0, first_delay=first_delay)
        if unaligned and max_concurrent > 1:
            raise ValueError(
                f"max_concurrent is {max_concurrent} with unaligned checkpoints: needs 1, since "
                "an unaligned barrier cannot overtake another one"
            )
        every = tuple(tasks)
        self._index = {task: place for place, task in enumerate(every)}
        if not every or len(self._index) < len(every):
            raise ValueError(f"tasks are {list(every)}: needs at least one, each once")
        self._unaligned = unaligned
        self._life = Lifecycle(
            tasks=every,
            plan=triggered if callable(triggered) else self._fixed_plan(tuple(triggered)),
            timeout=timeout,
            min_pause=min_pause,
            max_concurrent=max_concurrent,
            most_retained=retained,
            after_finish=checkpoints_after_tasks_finish,
            ticks=Ticks(interval, min_pause, seed, first_delay),
            queue=r.RequestQueue(max_queued),
            failures=FailureCounter(tolerable_failures),
        )
        self._life.ticks.start(0)

    def take_actions(self) -> list[Action]:
        """Return what the calls since the last one have caused, in order.

        Returns
        -------
        list of tuple
            ``("trigger", task, id)``; ``("complete", task, id, subsumed)``, the id that left the
            store or -1; ``("abort", task, id, latest_completed)``, an id or -1; and
            ``("fail_job",)``.
        """
        actions, self._life.actions = self._life.actions, []
        return actions

    def forget(self, before: int, keep: Collection[int] = ()) -> None:
        """Forget the figures of ended checkpoints with ids below ``before``, but for some.

        Everything is remembered until then, and is part of :meth:`state`. A late acknowledgement
        of a forgotten checkpoint leaves no trace.
        """
        stays = {*self._life.pending, *keep}
        for id in [id for id in self._life.checkpoints if id < before and id not in stays]:
            del self._life.checkpoints[id]

    # What happens.

    def request(
        self, now: int, kind: str = r.CHECKPOINT, periodic: bool = True
    ) -> r.CheckpointRequest:
        """Ask for a checkpoint or savepoint, and start what may start.

        Parameters
        ----------
        now : int
            The time.
        kind : str, default "checkpoint"
            Or "savepoint", or "stop_savepoint": its completion is notified, its failure fails
            the job. Flink calls :meth:`suspend` before the latter, so that nothing else runs.
        periodic : bool, default True
            False: a user's, which comes before periodic ones and ignores the pause. Savepoints
            are always users'.

        Returns
        -------
        CheckpointRequest
            Its state, reason and id change as the checkpoint goes on.

        Raises
        ------
        ValueError
            If the kind is none of these.
        """
        if kind not in r.KINDS:
            raise ValueError(f"kind is {kind!r}: needs one of {', '.join(r.KINDS)}")
        is_savepoint = kind != r.CHECKPOINT
        forced = is_savepoint and not self._unaligned
        made = r.CheckpointRequest(
            self._life.requests, now, kind, periodic and not is_savepoint, forced
        )
        self._life.requests += 1
        self._life.queue.add(made)
        self._life.start_queued(now)
        return made

    def tick(self, now: int) -> None:
        """Expire and trigger what is due.

        What is due earlier comes first, an expiry before a trigger of the same time. Ticks that
        were missed count as one. :attr:`next_time` is beyond ``now`` afterwards.
        """
        while (due := self.next_time) is not None and due <= now:
            first = min(self._life.pending.values(), key=attrgetter("expires"), default=None)
            if first is not None and first.expires == due:
                self._life.fail(now, first, c.EXPIRED, FailureReason.CHECKPOINT_EXPIRED)
                self._life.start_queued(now)
            else:
                self._life.ticks.advance(now)
                self.request(now)

    def acknowledge(
        self,
        now: int,
        id: int,
        task: Hashable,
        *,
        start_delay: int = 0,
        alignment: int = 0,
        sync: int = 0,
        async_: int = 0,
        checkpointed_size: int = 0,
        full_size: int = 0,
        processed: int = 0,
        persisted: int = 0,
    ) -> str:
        """Take the acknowledgement of a task; the last one completes the checkpoint.

        Parameters
        ----------
        now : int
            When it arrives.
        id : int
            Of the checkpoint.
        task : hashable
            The task; one that is not waited for is "unknown".
        start_delay, alignment, sync, async_ : int, default 0
            Durations; -1: unknown.
        checkpointed_size, full_size, processed, persisted : int, default 0
            Bytes; -1: unknown.

        Returns
        -------
        str
            "success"; "duplicate", what came first stands; "unknown", the task is not expected;
            "discarded", the checkpoint is not pending: its figures are recorded all the same.
        """
        sizes = checkpointed_size, full_size, processed, persisted
        own = TaskStatistics(now, start_delay, alignment, sync, async_, *sizes)
        return self.record(id, task, own)

    def record(self, id: int, task: Hashable, report: TaskStatistics) -> str:
        """Take the acknowledgement of a task with its figures, as :meth:`acknowledge` does."""
        checkpoint = self._life.checkpoints.get(id)
        if checkpoint is None:
            return c.DISCARDED
        answer = checkpoint.acknowledge(task, report)
        if answer == c.SUCCESS and checkpoint.is_acknowledged:
            self._life.complete(report.acknowledged, checkpoint)
            self._life.start_queued(report.acknowledged)
        return answer

    def decline(
        self, now: int, id: int, task: Hashable, reason: str = "CHECKPOINT_DECLINED"
    ) -> None:
        """Abort a pending checkpoint that a task declined, whoever it is; else do nothing.

        Raises
        ------
        ValueError
            If ``reason`` is none of Flink's.
        """
        why = reason_of(reason)
        if (checkpoint := self._life.pending.get(id)) is not None:
            self._life.fail(now, checkpoint, c.DECLINED, why)
            self._life.start_queued(now)

    def fail_task(self, now: int, task: Hashable) -> None:
        """Note that a task has failed: the job does not run as a whole until :meth:`recover`.

        Pending checkpoints are aborted, for TASK_FAILURE those that the task has not
        acknowledged; what is queued is refused, as are requests from then on
        (NOT_ALL_REQUIRED_TASKS_RUNNING), and ticks stop.

        Raises
        ------
        ValueError
            If the job has no such task.
        """
        self._known(task)
        self._life.failed.add(task)
        for checkpoint in list(self._life.pending.values()):
            if task in checkpoint.waiting:
                self._life.fail(now, checkpoint, c.ABORTED, FailureReason.TASK_FAILURE)
        self.suspend(now)

    def finish_task(self, now: int, task: Hashable) -> None:
        """Note that a task has finished.

        It counts as acknowledged in checkpoints that are triggered from then on. One that is
        pending still waits for it: with FLIP-147 a task finishes after it has acknowledged. When
        all have finished the job has, and nothing remains pending or queued.

        Raises
        ------
        ValueError
            If the job has no such task.
        """
        self._known(task)
        self._life.finished.add(task)
        if len(self._life.finished) == len(self._life.tasks):
            self._life.stop(now, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)

    def suspend(self, now: int) -> None:
        """Stop the ticks, abort what is pending and refuse what is queued.

        As ``stopCheckpointScheduler`` does when the job leaves RUNNING, and before a stop with
        savepoint. Periodic requests are refused until :meth:`recover`
        (PERIODIC_SCHEDULER_SHUTDOWN), a user's are not.
        """
        self._life.is_suspended = True
        self._life.stop(now, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND)

    def recover(
        self, now: int, tasks: Iterable[Hashable] | None = None, first_delay: int | None = None
    ) -> int:
        """Note that tasks were restored and run again; once all do, ticks start.

        Parameters
        ----------
        now : int
            When they run.
        tasks : iterable of hashable, optional
            Those that were restarted, also such as had finished; all by default.
        first_delay : int, optional
            From now to the first tick; None: as at the start.

        Returns
        -------
        int
            The checkpoint that they were restored from: the latest completed one, or -1.

        Raises
        ------
        ValueError
            If the job has no such task.
        """
        again = self._life.tasks if tasks is None else tuple(tasks)
        for task in again:
            self._known(task)
        _check(0, first_delay=first_delay)
        self._life.stop(now, FailureReason.JOB_FAILOVER_REGION)
        self._life.failed.difference_update(again)
        self._life.finished.difference_update(again)
        if self._life.retained:
            self._life.counts.restored += 1
        if not self._life.failed:
            self._life.is_suspended = False
            self._life.ticks.start(now, first_delay)
        return self._life.latest_completed

    # State.

    def state(self) -> dict[str, Any]:
        """Return all that has happened, as JSON takes it, actions not yet taken included.

        The arguments of the constructor are not part of it. Requests that were refused are
        forgotten: nothing depends on them.
        """
        return {"tasks": len(self._life.tasks), **self._life.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, in a coordinator made with the same arguments.

        Requests are other objects than before: :attr:`queued` has them.

        Raises
        ------
        ValueError
            If the state is that of a job with another number of tasks; nothing has changed then.
        """
        others = {**state}
        if (tasks := others.pop("tasks")) != len(self._life.tasks):
            raise ValueError(
                f"the state has {tasks} tasks, the job {len(self._life.tasks)}: needs the "
                "coordinator of the same job"
            )
        self._life.restore(others)

    # Checks.

    def _fixed_plan(self, triggered: tuple[Hashable, ...]) -> Plan:
        """Return the plan that triggers these tasks, as long as they run."""
        for task in triggered:
            self._known(task)
        return lambda finished: [task for task in triggered if task not in finished]

    def _known(self, task: Hashable) -> None:
        if task not in self._index:
            raise ValueError(f"there is no task {task!r}: needs one of {list(self._index)}")


def _check(least: int = 1, **numbers: int | None) -> None:
    """Refuse numbers below the least one."""
    for name, number in numbers.items():
        if number is not None and number < least:
            raise ValueError(f"{name} is {number}: needs at least {least}")
