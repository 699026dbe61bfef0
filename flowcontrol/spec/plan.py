"""Which tasks a checkpoint triggers, as a function that checks its arguments."""

from collections.abc import Collection, Sequence

from flowcontrol.protocol.checkpoints import requests
from flowcontrol.protocol.checkpoints.requests import ALL, POINTWISE


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
