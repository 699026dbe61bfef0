"""The coordinator of checkpoints as Flink's test cases use it: it checks what it is given.

Source: ``CheckpointCoordinator`` of Flink's ``runtime.checkpoint`` (sections 1 and 8.1 of the
reference).
"""

from collections.abc import Collection, Hashable, Iterable

from flowcontrol.protocol.checkpoints import coordinator as rules
from flowcontrol.protocol.checkpoints import requests as r
from flowcontrol.protocol.checkpoints.checkpoint import Checkpoint, Plan
from flowcontrol.protocol.checkpoints.requests import (
    CheckpointRequest,
    FailureReason,
    TaskStatistics,
)

_MASK = (1 << 64) - 1


def drawn(seed: int, number: int, low: int, high: int) -> int:
    """Return an integer in [low, high], a pure function of the arguments.

    SplitMix64 of the seed, its ``number``-th output; the remainder's bias is below 2^-30 for any
    interval that a clock can name.
    """
    word = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return low + (word ^ (word >> 31)) % (high - low + 1)


def reason_of(name: str) -> FailureReason:
    """Return the reason of a name.

    Raises ValueError if Flink has no such reason.
    """
    try:
        return FailureReason(name)
    except ValueError:
        raise ValueError(
            f"reason is {name!r}: needs one of Flink's, {', '.join(sorted(FailureReason))}"
        ) from None


class CheckpointCoordinator(rules.CheckpointCoordinator):
    """Triggers checkpoints, collects acknowledgements, completes, aborts and notifies.

    Parameters are those of :class:`flowcontrol.protocol.checkpoints.checkpoint.Lifecycle`, but for:

    - ``triggered``: tasks that a trigger is sent to, normally those of the sources; one that has
      finished is left out. A callable is the ``plan`` of the rules.
    - ``first_delay``: from a start of the ticks to the first one, at least 0; None: drawn from
      [min_pause, max(interval, min_pause)].

    Raises ValueError if a number is out of range, a task is named twice, ``triggered`` names a task
    that is not one, or ``unaligned`` is set with more than one concurrent checkpoint.

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

    _kept = ("starts",)

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
        self._first_delay, self._seed, self.starts = first_delay, seed, 0
        self._range = min_pause, max(interval or 0, min_pause)
        super().__init__(
            every,
            triggered if callable(triggered) else self._fixed_plan(tuple(triggered)),
            interval=interval,
            min_pause=min_pause,
            timeout=timeout,
            max_concurrent=max_concurrent,
            tolerable_failures=tolerable_failures,
            retained=retained,
            unaligned=unaligned,
            max_queued=max_queued,
            first_delay=None if interval is None else self._delay(first_delay),
            checkpoints_after_tasks_finish=checkpoints_after_tasks_finish,
        )

    def _delay(self, first_delay: int | None) -> int:
        """Return how long after a start the first tick is: each start draws another delay."""
        self.starts += 1
        delay = self._first_delay if first_delay is None else first_delay
        return drawn(self._seed, self.starts - 1, *self._range) if delay is None else delay

    @property
    def queued(self) -> tuple[CheckpointRequest, ...]:
        """Requests that wait, in the order in which they will run."""
        return tuple(self.queue)

    def forget(self, before: int, keep: Collection[int] = ()) -> None:
        """Forget the figures of ended checkpoints with ids below ``before``, but for some.

        Everything is remembered until then, and is part of :meth:`state`. A late acknowledgement
        of a forgotten checkpoint leaves no trace.
        """
        stays = {*self._pending, *keep}
        for id in [id for id in self.checkpoints if id < before and id not in stays]:
            del self.checkpoints[id]

    def request(
        self, now: int, kind: str = r.CHECKPOINT, periodic: bool = True
    ) -> CheckpointRequest:
        """Ask for a checkpoint or savepoint, as the rules do.

        Raises ValueError if the kind is none of them.
        """
        if kind not in r.KINDS:
            raise ValueError(f"kind is {kind!r}: needs one of {', '.join(r.KINDS)}")
        return super().request(now, kind, periodic)

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

        - ``task``: the task; one that is not waited for is "unknown".
        - ``start_delay``, ``alignment``, ``sync``, ``async_``: durations; -1: unknown.
        - ``checkpointed_size``, ``full_size``, ``processed``, ``persisted``: bytes; -1: unknown.

        Returns "success"; "duplicate", what came first stands; "unknown", the task is not expected;
        "discarded", the checkpoint is not pending: its figures are recorded all the same.
        """
        sizes = checkpointed_size, full_size, processed, persisted
        own = TaskStatistics(now, start_delay, alignment, sync, async_, *sizes)
        return self.record(id, task, own)

    def decline(  # type: ignore[override]
        self, now: int, id: int, task: Hashable, reason: str = "CHECKPOINT_DECLINED"
    ) -> None:
        """Abort a pending checkpoint that a task declined, whoever it is; else do nothing.

        Raises ValueError if ``reason`` is none of Flink's.
        """
        super().decline(now, id, reason_of(reason))

    def fail_task(self, now: int, task: Hashable) -> None:
        """Note that a task has failed, as the rules do.

        Raises ValueError if the job has no such task.
        """
        self._known(task)
        super().fail_task(now, task)

    def finish_task(self, now: int, task: Hashable) -> None:
        """Note that a task has finished, as the rules do.

        Raises ValueError if the job has no such task.
        """
        self._known(task)
        super().finish_task(now, task)

    def recover(  # type: ignore[override]
        self, now: int, tasks: Iterable[Hashable] | None = None, first_delay: int | None = None
    ) -> int:
        """Note that tasks were restored and run again; once all do, ticks start.

        - ``tasks``: those that were restarted, also such as had finished; all by default.
        - ``first_delay``: from now to the first tick; None: as at the start.

        Returns the checkpoint that they were restored from: the latest completed one, or -1. Raises
        ValueError if the job has no such task.
        """
        again = self.tasks if tasks is None else tuple(tasks)
        for task in again:
            self._known(task)
        _check(0, first_delay=first_delay)
        starts = self.ticks.interval is not None and self.failed <= set(again)
        super().recover(now, again, self._delay(first_delay) if starts else None)
        return self.latest_completed

    @property
    def retained(self) -> tuple[int, ...]:
        """Ids in the store, oldest first."""
        return tuple(self._retained)

    def trigger_of(self, id: int) -> tuple[int, str]:
        """Return when a checkpoint was triggered, and its kind.

        Raises ValueError if there was none of this id, or it was forgotten.
        """
        self._remembered(id)
        return super().trigger_of(id)

    def statistics(self, id: int) -> r.CheckpointStatistics:
        """Return the figures of a checkpoint, pending or ended, over all its tasks.

        Raises ValueError if there was none of this id, or it was forgotten.
        """
        return self._remembered(id).statistics()

    def task_statistics(self, id: int) -> dict[Hashable, r.TaskStatistics]:
        """Return what each task reported of a checkpoint, in the order of arrival.

        Raises ValueError if there was none of this id, or it was forgotten.
        """
        return dict(self._remembered(id).acknowledgements)

    def _remembered(self, id: int) -> Checkpoint:
        if id not in self.checkpoints:
            raise ValueError(
                f"no checkpoint {id} is remembered: needs one of {list(self.checkpoints)}"
            )
        return self.checkpoints[id]

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
