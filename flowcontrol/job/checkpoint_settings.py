"""How a job checkpoints, in the terms of the rules; and which of its tasks always align."""

from dataclasses import dataclass

from flowcontrol.job.graph import POINTWISE, JobVertex
from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.queues import EVENT_SLOTS, MOST_BARRIERS
from flowcontrol.scenario import Savepoint, Scenario


@dataclass(frozen=True)
class CheckpointSettings:
    """How a job checkpoints; times are microseconds.

    Attributes
    ----------
    mode : int
        ALIGNED, TIMEOUTABLE, UNALIGNED, AT_LEAST_ONCE or PUTTING_ASIDE
        (:mod:`flowcontrol.protocol.checkpoints.alignment`).
    interval_us : int or None
        Between two triggers; None: only savepoints.
    aligned_timeout_us : int
        ``aligned-checkpoint-timeout`` of TIMEOUTABLE.
    timeout_us : int
        A checkpoint expires so long after its trigger.
    min_pause_us : int
        From a completion to the next trigger, at least.
    max_concurrent : int
        Checkpoints that may be pending at once.
    tolerable_failures : int
        Failures in a row that the job endures.
    after_tasks_finish : bool
        Whether checkpoints go on after tasks have finished (FLIP-147).
    savepoints : tuple of Savepoint
        What a user asks for, in order of time.
    """

    mode: int = a.ALIGNED
    interval_us: int | None = None
    aligned_timeout_us: int = 0
    timeout_us: int = 600_000_000
    min_pause_us: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    after_tasks_finish: bool = True
    savepoints: tuple[Savepoint, ...] = ()

    @property
    def is_unaligned(self) -> bool:
        """Whether barriers may overtake."""
        return self.mode in {a.TIMEOUTABLE, a.UNALIGNED}

    @property
    def waits_for_final(self) -> bool:
        """Whether a task that has processed its last record waits for another checkpoint."""
        return self.after_tasks_finish and self.interval_us is not None

    def mode_of(self, plan: JobVertex) -> int:
        """Return what the tasks of a stage do with barriers."""
        return a.ALIGNED if self.is_unaligned and is_forced(plan) else self.mode


def settings_of(scenario: Scenario) -> CheckpointSettings | None:
    """Return how a scenario checkpoints; None if it does not."""
    found = scenario.checkpointing
    if found is None:
        return None
    mode = a.PUTTING_ASIDE if scenario.system.transport == "tcp" else a.ALIGNED
    if found.mode == "at_least_once":
        mode = a.AT_LEAST_ONCE
    elif found.is_unaligned:
        mode = a.TIMEOUTABLE if found.aligned_timeout_us > 0 else a.UNALIGNED
    return CheckpointSettings(
        mode=mode,
        interval_us=found.interval_us,
        aligned_timeout_us=found.aligned_timeout_us,
        timeout_us=found.timeout_us,
        min_pause_us=found.min_pause_us,
        max_concurrent=found.max_concurrent,
        tolerable_failures=found.tolerable_failures,
        after_tasks_finish=found.after_tasks_finish,
        savepoints=tuple(sorted(scenario.savepoints, key=lambda one: one.at_us)),
    )


def is_forced(plan: JobVertex) -> bool:
    """Whether the tasks of a stage align whatever the mode is.

    One input that is pointwise or broadcast is enough: records of such an edge could not be given
    to other subtasks after a rescaling.
    """
    kinds = {link.edge.partitioner for link in plan.inputs}
    return not kinds.isdisjoint((*POINTWISE, "broadcast"))


def event_slots(settings: CheckpointSettings | None) -> int:
    """Return how many events a queue of a channel has room for beside its data."""
    return (
        EVENT_SLOTS if settings is None else EVENT_SLOTS + MOST_BARRIERS + 1
    )  # the end of the data
