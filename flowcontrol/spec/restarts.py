"""Which tasks restart, and how long a restart takes, as functions that check their arguments."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction

from flowcontrol.protocol.restarts import recovery
from flowcontrol.protocol.restarts.recovery import BLOCKING, PIPELINED, Edge


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
