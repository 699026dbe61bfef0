"""Checkpoints and failures: their keys in the file, and Flink's options combined.

Times are whole microseconds, multiples of a millisecond, in which Flink counts them. Defaults and
meanings are those of Flink 1.20 (``CheckpointConfig``, ``RestartStrategyOptions``,
``HeartbeatManagerOptions``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.scenario.refusals import faults
from flowcontrol.scenario.schedule import MICROSECONDS

Guarantee = Literal["at-most-once", "at-least-once", "exactly-once"]
"""What the readers of a sink's table may rely on."""

FailureKind = Literal["task_manager", "subtask", "job_manager"]
"""What fails."""

CommitMilliseconds = Annotated[Fraction, f.Number("a time in ms", 0, 10**7, step=Fraction(1, 1000))]
Files = Annotated[int, f.Number("a whole number of files", 0, 100_000, step=f.ONE)]

_VICTIMS: Final = ("task_manager", "stage", "job_manager")


class State(f.Mapping):
    """What each subtask of a stage keeps, and a checkpoint writes."""

    bytes: f.StateBytes = f.key("State.bytes", 0)
    bytes_per_key: f.StateBytes = f.key("State.bytes_per_key", 0)
    bytes_per_record: f.StateBytes = f.key("State.bytes_per_record", 0)
    incremental_share: f.Share = f.key("State.incremental_share", Fraction(1))
    sync_ms: f.Milliseconds = f.key("State.sync_ms", 0.0)

    @property
    def sync_us(self) -> int:
        """Time for which a snapshot blocks the task, microseconds."""
        return int(Fraction(repr(self.sync_ms)) * 1000)


class Commit(f.Mapping):
    """What it takes to commit a checkpoint of a sink (``Committer``)."""

    quiet = frozenset({"fixed_ms", "per_file_ms", "files", "shared"})

    fixed_ms: CommitMilliseconds = f.key("Commit.fixed_ms", Fraction(0))
    per_file_ms: CommitMilliseconds = f.key("Commit.per_file_ms", Fraction(0))
    files: Files = f.key("Commit.files", 1)
    shared: bool = f.key("Commit.shared", False, strict=True)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys: a key and the refusal."""
        yield from faults("commits", self)

    @property
    def takes_nothing(self) -> bool:
        """Whether a commit takes no time at all."""
        return self.fixed_ms == 0 and (self.per_file_ms == 0 or self.files == 0)

    def length_us(self, files: int) -> int:
        """Return what a commit of so many files takes, microseconds."""
        return int((self.fixed_ms + files * self.per_file_ms) * 1000)


class Savepoint(f.Mapping):
    """A savepoint that a user asks for."""

    quiet = frozenset({"stop"})

    at_s: f.Moment = f.key("Savepoint.at_s", ...)
    stop: bool = f.key("Savepoint.stop", False, strict=True)

    @property
    def at_us(self) -> int:
        """When it is asked for, microseconds."""
        return int(self.at_s * MICROSECONDS)


class Failure(f.Mapping):
    """Something that fails at a moment: a task manager, a subtask or the JobManager."""

    quiet = frozenset({"task_manager", "stage", "subtask", "job_manager"})

    at_s: f.Moment = f.key("Failure.at_s", ...)
    task_manager: f.Index | None = f.key("Failure.task_manager")
    stage: f.Text | None = f.key("Failure.stage")
    subtask: f.Index | None = f.key("Failure.subtask")
    job_manager: bool = f.key("Failure.job_manager", False, strict=True)

    @property
    def at_us(self) -> int:
        """When it fails, microseconds."""
        return int(self.at_s * MICROSECONDS)

    @property
    def kind(self) -> FailureKind:
        """What fails."""
        if self.task_manager is not None:
            return "task_manager"
        return "job_manager" if self.stage is None else "subtask"

    @property
    def victim(self) -> str:
        """What fails, in words."""
        if self.task_manager is not None:
            return f"task manager {self.task_manager}"
        return "the JobManager" if self.stage is None else f"subtask {self.subtask} of {self.stage}"

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys: a key, empty for all of them, and the refusal."""
        values = {key: getattr(self, key) for key in _VICTIMS}
        given = [key for key, value in values.items() if value is not None and value is not False]
        if not given:
            yield "", "nothing fails: state a task_manager, a stage and subtask, or job_manager"
        elif len(given) > 1:
            text = f"{' and '.join(given)} are both stated: keep one, and state another failure"
            yield given[1], text
        elif self.stage is not None and self.subtask is None:
            yield "subtask", f"is missing: state which subtask of {self.stage!r} fails, from 0"
        if self.stage is None and self.subtask is not None:
            yield "subtask", f"{self.subtask} without a stage: state the stage, or remove it"


UNLIMITED: Final = 2**31 - 1
"""Attempts of which Flink never sees the end: the largest int of Java."""

Mode = Literal["exactly_once", "at_least_once"]


@dataclass(frozen=True)
class Checkpointing:
    """How a job checkpoints."""

    interval_us: int | None  # Between two triggers, microseconds; None: savepoints only
    mode: Mode  # Whether a task blocks channels that have delivered their barrier
    timeout_us: int  # From the trigger until a checkpoint expires, microseconds
    min_pause_us: int  # From a completion to the next trigger, microseconds
    max_concurrent: int  # Checkpoints in progress at a time, at least 1
    tolerable_failures: int  # Failed checkpoints in a row that do not fail the job
    # Whether barriers overtake data. Always False in the mode ``at_least_once``, as in Flink.
    is_unaligned: bool
    # From the trigger until an aligned barrier overtakes after all, microseconds; 0: from the
    # beginning. Without effect unless ``is_unaligned``.
    aligned_timeout_us: int
    # Whether there are checkpoints once some tasks have finished (FLIP-147).
    after_tasks_finish: bool
    # Whether barriers that overtake pass between two timers of a watermark. Always False unless
    # ``is_unaligned``, as in Flink.
    interrupts_timers: bool = False


@dataclass(frozen=True)
class NoRestart:
    """The first failure ends the job."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True)
class FixedDelay:
    """A number of restarts, each after the same wait."""

    name: ClassVar[str] = "fixed-delay"

    attempts: int  # Restarts until the job fails for good
    delay_us: int  # Before each, microseconds


@dataclass(frozen=True)
class FailureRate:
    """Restarts while failures are rare enough."""

    name: ClassVar[str] = "failure-rate"

    max_failures: int  # Within the interval, until the job fails for good
    interval_us: int  # Microseconds
    delay_us: int  # Before each restart, microseconds


@dataclass(frozen=True)
class ExponentialDelay:
    """Restarts after waits that grow."""

    name: ClassVar[str] = "exponential-delay"

    initial_us: int  # initial_us, max_us: first and longest wait, microseconds
    max_us: int
    multiplier: float  # Each wait over the one before, more than 1
    # Time without a failure after which the wait is the first one again, microseconds.
    reset_us: int
    jitter: float  # Share of a wait that is added or taken away at random, 0 to 1
    attempts: int | None  # Restarts until the job fails for good; None: no limit


RestartPolicy = NoRestart | FixedDelay | FailureRate | ExponentialDelay


@dataclass(frozen=True)
class Heartbeat:
    """How the death of a task manager is noticed."""

    interval_us: int  # Between two heartbeats, microseconds
    timeout_us: int  # Without a heartbeat until it counts as lost, microseconds
    # Refused heartbeats in a row until it counts as lost; None: they do not count.
    rpc_failures: int | None


def checkpointing_of(
    options: NetworkOptions, *, has_savepoints: bool, is_old: bool = False
) -> Checkpointing | None:
    """Return how a job checkpoints; None without an interval and without savepoints.

    In an old Flink, up to 1.4, there are no checkpoints once some tasks have finished (FLIP-147,
    Flink 1.14 and later).
    """
    if options.checkpoint_interval_us is None and not has_savepoints:
        return None
    is_exact = options.checkpoint_mode == "exactly_once"
    is_unaligned = options.unaligned_enabled and is_exact
    return Checkpointing(
        interval_us=options.checkpoint_interval_us,
        mode="exactly_once" if is_exact else "at_least_once",
        timeout_us=options.checkpoint_timeout_us,
        min_pause_us=options.checkpoint_min_pause_us,
        max_concurrent=options.max_concurrent_checkpoints,
        tolerable_failures=options.tolerable_failed_checkpoints,
        is_unaligned=is_unaligned,
        aligned_timeout_us=options.aligned_timeout_us,
        interrupts_timers=is_unaligned and options.interruptible_timers,
        after_tasks_finish=options.checkpoints_after_finish and not is_old,
    )


def restart_policy_of(options: NetworkOptions) -> RestartPolicy:
    """Return whether and when a job is started again.

    Flink 1.19 and later: without a ``restart-strategy.type`` a job with periodic checkpoints
    restarts with exponential delays, another not at all. Savepoints alone count as none.
    """
    chosen = options.restart_type
    if chosen is None:
        chosen = "none" if options.checkpoint_interval_us is None else "exponential-delay"
    if chosen == "fixed-delay":
        return FixedDelay(options.fixed_delay_attempts, options.fixed_delay_us)
    if chosen == "failure-rate":
        return FailureRate(
            options.failure_rate_most,
            options.failure_rate_interval_us,
            options.failure_rate_delay_us,
        )
    if chosen == "exponential-delay":
        most = options.backoff_attempts
        return ExponentialDelay(
            options.backoff_initial_us,
            options.backoff_max_us,
            options.backoff_multiplier,
            options.backoff_reset_us,
            options.backoff_jitter,
            None if most == UNLIMITED else most,
        )
    return NoRestart()


def heartbeat_of(options: NetworkOptions) -> Heartbeat:
    """Return how the death of a task manager is noticed."""
    refused = options.heartbeat_rpc_failures
    return Heartbeat(
        options.heartbeat_interval_us,
        options.heartbeat_timeout_us,
        None if refused < 0 else refused,
    )
