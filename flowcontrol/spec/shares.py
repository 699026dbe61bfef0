"""What a subtask is given: buffers for its partitions and gates, and key groups."""

from flowcontrol.protocol.network.partition_kinds import (
    FULL,
    HASH,
    KIND_OF_TYPE,
    SORTED,
    gate_sizes,
    partition_sizes,
)
from flowcontrol.protocol.network.partitioners import check_parallelism
from flowcontrol.state.rows import UNLIMITED

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

    Returns minimum and maximum in buffers; None is no maximum. Raises ValueError if the kind is
    unknown, ``subpartitions`` is below 1 or another number negative.
    """
    if kind not in PARTITION_KINDS:
        known = ", ".join(PARTITION_KINDS)
        raise ValueError(f"unknown kind of result partition {kind!r}; known: {known}")
    _check(subpartitions=subpartitions - 1, exclusive=exclusive, floating=floating)
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

    Returns minimum and maximum of the floating pool, exclusive buffers per channel. Raises
    ValueError if ``channels`` or ``threshold`` is below 1, another number is negative, or the
    floating pool's minimum would exceed its maximum (0 floating buffers).
    """
    _check(channels=channels - 1, exclusive=exclusive, floating=floating)
    if threshold is not None:
        _check(threshold=threshold - 1)
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


def _check(**numbers: int) -> None:
    """Refuse the first negative number; one that must be positive is passed less 1."""
    for name, number in numbers.items():
        if number < 0:
            raise ValueError(f"{name} is too small by {-number}")
