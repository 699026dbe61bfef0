"""Rules as functions and objects that check their arguments: shares, plans, sizes, restarts."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from flowcontrol.protocol import restarts as recovery
from flowcontrol.protocol import restarts as strategies
from flowcontrol.protocol.checkpoints import requests, snapshots
from flowcontrol.protocol.checkpoints.requests import ALL, POINTWISE
from flowcontrol.protocol.network.partition_kinds import (
    FULL,
    HASH,
    KIND_OF_TYPE,
    SORTED,
    gate_sizes,
    partition_sizes,
)
from flowcontrol.protocol.network.partitioners import check_parallelism
from flowcontrol.protocol.restarts import (
    BLOCKING,
    EXPONENTIAL,
    FIXED,
    MICROSECONDS,
    NONE,
    PIPELINED,
    RATE,
    Edge,
)
from flowcontrol.protocol.service import ratio_of
from flowcontrol.state.rows import UNLIMITED

# --- What a subtask is given: buffers for its partitions and gates, and key groups.


SORT_MIN_BUFFERS = 512
"""Buffers (``taskmanager.network.sort-shuffle.min-buffers``)."""

PARTITION_KINDS = KIND_OF_TYPE | {"blocking_hash": HASH, "blocking_sort": SORTED, "hybrid": FULL}
"""What :func:`partition_spec` takes: partition types, and other names of kinds."""


def partition_spec(
    subpartitions: int, kind: str = "pipelined_bounded", exclusive: int = 2, floating: int = 8
) -> tuple[int, int | None]:
    """Smallest and largest pool of a result partition of a kind.

    - ``subpartitions``: consumers, at least 1.
    - ``kind``: one of :data:`PARTITION_KINDS`.

    Returns the minimum and the maximum in buffers; None: there is no maximum. Raises ValueError if
    the kind is unknown, ``subpartitions`` is below 1 or another number negative.
    """
    if kind not in PARTITION_KINDS:
        known = ", ".join(PARTITION_KINDS)
        raise ValueError(f"unknown kind of result partition {kind!r}; known: {known}")
    _check_shares(subpartitions=subpartitions - 1, exclusive=exclusive, floating=floating)
    smallest, largest = partition_sizes(
        subpartitions, PARTITION_KINDS[kind], exclusive, floating, SORT_MIN_BUFFERS
    )
    return smallest, None if largest == UNLIMITED else largest


def gate_spec(
    channels: int, exclusive: int = 2, floating: int = 8, threshold: int | None = None
) -> tuple[int, int, int]:
    """Floating pool and exclusive buffers of an input gate.

    - ``channels``: input channels, at least 1.
    - ``threshold``: ``taskmanager.network.memory.read-buffer.required-per-gate.max``, at least 1;
      None (pipelined and hybrid edges) is not a limit.

    Returns the minimum and maximum of the floating pool, and the exclusive buffers per channel.
    Raises ValueError if ``channels`` or ``threshold`` is below 1, another number is negative, or
    the floating pool's minimum would exceed its maximum (0 floating buffers).
    """
    _check_shares(channels=channels - 1, exclusive=exclusive, floating=floating)
    if threshold is not None:
        _check_shares(threshold=threshold - 1)
    limit = UNLIMITED if threshold is None else threshold
    smallest, largest, effective = gate_sizes(channels, exclusive, floating, limit)
    if smallest > largest:
        raise ValueError(
            f"floating={floating}: the gate needs at least {smallest} floating buffers, "
            f"but may hold only {largest}"
        )
    return smallest, largest, effective


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """Return the first and last key group of a subtask, both included.

    ``KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex``.

    Raises ValueError if ``parallelism`` is below 1 or above ``max_parallelism``, or there is no
    such subtask.
    """
    check_parallelism(parallelism, max_parallelism)
    if not 0 <= subtask < parallelism:
        raise ValueError(f"subtask {subtask} of {parallelism} does not exist")
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return first, last


def _check_shares(**numbers: int) -> None:
    """Refuse the first negative number; one that must be positive is passed less 1."""
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"{name} is too small by {-number}")


# --- Which tasks a checkpoint triggers, as a function that checks its arguments.


def checkpoint_plan(
    vertices: Sequence[tuple[int, Collection[int]]], edges: Sequence[tuple[int, int, str]]
) -> dict[int, list[int]]:
    """Return the tasks to trigger, as the rules do.

    Raises ValueError if a parallelism, subtask, vertex or kind of edge is out of range.

    Examples
    --------
    >>> checkpoint_plan([(2, ()), (2, ())], [(0, 1, "all")])
    {0: [0, 1]}
    >>> checkpoint_plan([(2, {0}), (2, ())], [(0, 1, "pointwise")])
    {0: [1], 1: [0]}
    """
    for index, vertex in enumerate(vertices):
        _check(index, *vertex)
    for sender, receiver, kind in edges:
        if not (0 <= sender < len(vertices) and 0 <= receiver < len(vertices)):
            raise ValueError(
                f"edge ({sender}, {receiver}): needs vertices from 0 to {len(vertices) - 1}"
            )
        if kind not in (ALL, POINTWISE):
            raise ValueError(
                f"edge ({sender}, {receiver}) is {kind!r}: needs {ALL!r} or {POINTWISE!r}"
            )
    return requests.checkpoint_plan(vertices, edges)


def _check(index: int, parallelism: int, finished: Collection[int]) -> None:
    """Refuse a vertex without subtasks, or with finished ones that it does not have."""
    if parallelism < 1:
        raise ValueError(f"parallelism of vertex {index} is {parallelism}: needs at least 1")
    every = set(range(parallelism))
    if odd := set(finished) - every:
        raise ValueError(
            f"vertex {index} has finished subtasks {sorted(odd)}: needs 0 to {parallelism - 1}"
        )


# --- Sizes of a subtask's state, read from a mapping and checked.


@dataclass(frozen=True)
class StateSize(snapshots.StateSize):
    """Sizes of one subtask's state, as a scenario states them.

    Raises ValueError if a size is negative or the share is not from 0 to 1.

    Examples
    --------
    >>> size = StateSize.of({"bytes": 1000, "bytes_per_key": 10, "incremental_share": 0.1})
    >>> size.full(keys=50), size.written(1500, None), size.written(1600, 1500)
    (1500, 1500, 250)
    """

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("fixed", "per_key", "per_record"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} is {value} bytes: needs at least 0")
        if not 0 <= self.incremental_share <= 1:
            raise ValueError(f"incremental_share is {self.incremental_share}: needs 0 to 1")

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """Return the sizes that a stage's ``state`` has; its other keys are for others.

        A number is the shortest decimal that reads back as its double: 0.1 is a tenth.
        """
        values = {
            name: ratio_of(_exact(state[key])) if _exact(state[key]) > 0 else _exact(state[key])
            for name, key in (
                ("per_key", "bytes_per_key"),
                ("per_record", "bytes_per_record"),
                ("incremental_share", "incremental_share"),
            )
            if key in state
        }
        return cls(fixed=int(_exact(state.get("bytes", 0))), **values)


def _exact(value: Any) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


# --- Which tasks restart, and how long a restart takes, as functions that check their arguments.


def pipelined_regions(
    edges: Iterable[Edge], tasks: Iterable[Hashable] = ()
) -> dict[Hashable, frozenset[Hashable]]:
    """Return the region of each task, as the rules do.

    Raises ValueError if the kind of an edge is none of the two.
    """
    return recovery.pipelined_regions(_checked(edges), tasks)


def failover_tasks(
    edges: Iterable[Edge], failed: Hashable, lost: Iterable[Hashable] = ()
) -> set[Hashable]:
    """Return the tasks that restart when one fails, as the rules do.

    Raises ValueError if the kind of an edge is none of the two.
    """
    return recovery.failover_tasks(_checked(edges), failed, lost)


def silent_death_seen_us(
    failed_us: int, interval_us: int, timeout_us: int, first_us: int = 0
) -> int:
    """Return when a process that answers no more is given up, as the rules do.

    Raises ValueError if a time is out of range.
    """
    _check_heartbeats(failed_us, interval_us, first_us)
    if timeout_us < interval_us:
        raise ValueError(
            f"heartbeat timeout is {timeout_us} us: needs at least the interval, {interval_us}"
        )
    return recovery.silent_death_seen_us(failed_us, interval_us, timeout_us, first_us)


def refused_death_seen_us(
    failed_us: int, interval_us: int, threshold: int = 2, first_us: int = 0
) -> int:
    """Return when a process whose host refuses connections is given up, as the rules do.

    Raises ValueError if a number is out of range.
    """
    _check_heartbeats(failed_us, interval_us, first_us)
    if threshold < 1:
        raise ValueError(f"threshold is {threshold} failed heartbeats: needs at least 1")
    return recovery.refused_death_seen_us(failed_us, interval_us, threshold, first_us)


def restored_us(
    start_us: int, nbytes: Mapping[Hashable, tuple[int, int]], bytes_per_s: int | Fraction
) -> dict[Hashable, tuple[int, int]]:
    """Return when tasks have read what they restore, as the rules do.

    Raises ValueError if the bandwidth is not above 0, or a size negative.
    """
    if bytes_per_s <= 0:
        raise ValueError(f"restore bandwidth is {bytes_per_s} bytes/s: needs more than 0")
    for task, sizes in nbytes.items():
        if min(sizes) < 0:
            raise ValueError(f"task {task!r} restores {sizes} bytes: none may be negative")
    return recovery.restored_us(start_us, nbytes, bytes_per_s)


def _checked(edges: Iterable[Edge]) -> Sequence[Edge]:
    edges = list(edges)
    for sender, receiver, kind in edges:
        if kind not in (PIPELINED, BLOCKING):
            raise ValueError(
                f"edge {sender!r} -> {receiver!r} is {kind!r}: needs {PIPELINED!r} or {BLOCKING!r}"
            )
    return edges


def _check_heartbeats(failed_us: int, interval_us: int, first_us: int) -> None:
    if interval_us < 1:
        raise ValueError(f"heartbeat interval is {interval_us} us: needs at least 1")
    if failed_us < first_us:
        raise ValueError(f"failed at {failed_us} us: needs the first heartbeat, {first_us}, before")


# --- Flink's restart strategies as an object that checks its numbers.


class RestartStrategy(strategies.RestartStrategy):
    """A job's restart strategy, which refuses what Flink's constructors do.

    Parameters are those of :class:`flowcontrol.protocol.restarts.RestartStrategy`.

    Raises ValueError if the kind is unknown, or Flink refuses a number.
    """

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check_strategy((self.kind,) if isinstance(self.kind, str) else tuple(self.kind))
        super().__post_init__()
        if self._name == EXPONENTIAL:
            self._check_exponential()

    def _check_exponential(self) -> None:
        """Refuse what Flink's constructor does."""
        if not 1 <= self.initial <= self.maximum:
            raise ValueError(
                f"initial is {self.initial} ms, maximum {self.maximum}: needs "
                "1 <= initial <= maximum"
            )
        if not self.multiplier > 1:
            raise ValueError(f"multiplier is {self.multiplier}: needs more than 1")
        if self.reset < 1:
            raise ValueError(f"reset is {self.reset} ms: needs at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is {self.jitter}: needs 0 to 1")
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}: needs at least 1, or None for no limit")


# Of each kind with numbers: their names, and the least that Flink takes.


_LEAST = {
    FIXED: {"attempts": 0, "delay": 0},
    RATE: {"failures": 1, "interval": 1, "delay": 0},
    NONE: {},
    EXPONENTIAL: {},
}


def _check_strategy(given: tuple[Any, ...]) -> None:
    """Refuse an unknown kind, and numbers that it does not take."""
    name, numbers = given[0] if given else "", tuple(given[1:])
    if name not in _LEAST:
        raise ValueError(f"strategy is {name!r}: needs one of {', '.join(sorted(_LEAST))}")
    least = _LEAST[name]
    if len(numbers) != len(least):
        form = ", ".join([repr(name), *least])
        raise ValueError(f"strategy {name} has {len(numbers)} numbers: needs ({form})")
    for (what, low), number in zip(least.items(), numbers, strict=True):
        if number < low:
            raise ValueError(f"{what} of strategy {name} is {number}: needs at least {low}")


# --- A recovery in closed form: its course, the backlog that it leaves, and the time to catch up.
#
# A run counts these in its rounds. The order of the steps is Flink's
# (``reference/checkpoints-and-time.md`` section 4), the rest a model, no code of Flink. All times
# are whole microseconds, moments since the start of the run; rates are records/s of the whole
# source.


def task_failure_seen_us(failed_us: int, latency_us: int = 0) -> int:
    """When the JobMaster learns of a task that failed by itself: a message later.

    ``updateTaskExecutionState``. A broken data connection is seen like this by its receiver.
    """
    return failed_us + latency_us


def cancelled_us(detected_us: int, cancel_us: Iterable[int], latency_us: int = 0) -> int:
    """When the last task is cancelled: the message there, what it has in hand, the answer.

    ``cancel_us``: of each task that still runs: what it takes to stop. None left: at once.
    """
    longest = max(cancel_us, default=None)
    return detected_us if longest is None else detected_us + 2 * latency_us + longest


def restart_us(detected_us: int, delay_us: int, cancelled: int) -> int:
    """When the restart begins: the delay is over and all tasks are cancelled.

    ``DefaultScheduler.restartTasksWithDelay``: the delay counts from the failure's report and
    runs while tasks are being cancelled.
    """
    return max(detected_us + delay_us, cancelled)


@dataclass(frozen=True)
class Recovery:
    """The moments of a recovery, microseconds since the start of the run, in their order."""

    # The failure, its report at the JobMaster, the last task's end.
    failed_us: int
    detected_us: int
    cancelled_us: int
    restarted_us: int  # The delay is over: slots are asked for
    deployed_us: int  # All tasks of the region are deployed and begin to restore
    running_us: int  # The last task runs

    @property
    def downtime_us(self) -> int:
        """From the failure to the last task's running, microseconds."""
        return self.running_us - self.failed_us


def recover(
    failed_us: int,
    detected_us: int,
    *,
    delay_us: int,
    cancel_us: Iterable[int] = (),
    latency_us: int = 0,
    slots_us: int = 0,
    deployment_us: int = 0,
    restores: Iterable[Mapping[Hashable, tuple[int, int]]] = (),
    restore_bytes_per_s: int | Fraction = 1,
) -> Recovery:
    """Put the steps of a recovery together.

    - ``failed_us``, ``detected_us``: microseconds; the second by one of the functions of detection.
    - ``cancel_us``: as :func:`cancelled_us` takes it.
    - ``slots_us``, ``deployment_us``: until all slots are there; from then until all tasks are
      deployed.
    - ``restores``: for each task manager what :func:`restored_us` takes.

    Raises ValueError if it is detected before it happened, or as :func:`restored_us`.
    """
    if detected_us < failed_us:
        raise ValueError(f"detected at {detected_us} us: needs the failure, {failed_us}, or later")
    cancelled = cancelled_us(detected_us, cancel_us, latency_us)
    restarted = restart_us(detected_us, delay_us, cancelled)
    deployed = restarted + slots_us + deployment_us
    ends = [
        whole
        for nbytes in restores
        for _, whole in restored_us(deployed, nbytes, restore_bytes_per_s).values()
    ]
    running = max(ends, default=deployed)
    return Recovery(failed_us, detected_us, cancelled, restarted, deployed, running)


def age_bounds_us(duration_us: int, period_us: int) -> tuple[int, Fraction, int]:
    """Age of the latest completed checkpoint at a failure: least, mean and largest, microseconds.

    The age counts from when the barrier left the source. Right after a completion it is the
    duration, right before the next one a period more.
    """
    return duration_us, duration_us + Fraction(period_us, 2), duration_us + period_us


def records_reprocessed(age_us: int, arrival: Fraction | int, capacity: Fraction | int) -> Fraction:
    """Records that are processed again: what the source emitted since the checkpoint.

    - ``age_us``: from when the restored checkpoint's barrier left the source until the source
      stopped, microseconds: at the failure if it failed, else when it was cancelled.
    - ``arrival``, ``capacity``: rates of the input and of the job, records/s; it emitted at the
      lower one.
    """
    return Fraction(min(arrival, capacity)) * age_us / MICROSECONDS


def backlog_at_restart(
    lag: int | Fraction, reprocessed: int | Fraction, arrival: int | Fraction, downtime_us: int
) -> Fraction:
    """Records to do when the job runs again, microseconds and records.

    - ``lag``: records that waited at the source when it stopped.
    - ``downtime_us``: from when the source stopped until the job runs, microseconds.
    """
    return Fraction(lag) + Fraction(reprocessed) + Fraction(arrival) * downtime_us / MICROSECONDS


def catch_up_us(
    backlog: int | Fraction,
    capacity: int | Fraction,
    arrival: int | Fraction,
    lag: int | Fraction = 0,
) -> int | None:
    """Time until only the backlog of before the failure is left, microseconds, rounded up.

    ``lag``: backlog at which it has caught up; 0: all is worked off.

    None: never, since the job can do no more than what comes. 0 if nothing is to be made up. Raises
    ValueError if a number is negative.
    """
    if min(backlog, capacity, arrival, lag) < 0:
        raise ValueError(
            f"backlog {backlog}, capacity {capacity}, arrival {arrival}, lag {lag}: "
            "none may be negative"
        )
    missing = Fraction(backlog) - Fraction(lag)
    if missing <= 0:
        return 0
    spare = Fraction(capacity) - Fraction(arrival)
    return None if spare <= 0 else -(-missing * MICROSECONDS // spare)
