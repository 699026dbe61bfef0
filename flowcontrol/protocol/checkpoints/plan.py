"""Which subtasks a checkpoint is triggered at.

Source: ``DefaultCheckpointPlanCalculator`` (section 1 of the reference, "Trigger"); the channels of
a pointwise edge are those of ``VertexInputInfoComputationUtils``.
"""

from collections.abc import Collection, Sequence

from flowcontrol.protocol.partitioners import pointwise_senders

ALL = "all"
POINTWISE = "pointwise"


def checkpoint_plan(
    vertices: Sequence[tuple[int, Collection[int]]], edges: Sequence[tuple[int, int, str]]
) -> dict[int, list[int]]:
    """Return the subtasks to trigger: those that run and have no input from one that runs.

    Parameters
    ----------
    vertices : sequence of (int, collection of int)
        Parallelism of a vertex, and which of its subtasks have finished, from 0.
    edges : sequence of (int, int, str)
        Index of the sending vertex, of the receiving one, and "all" (each subtask reads all) or
        "pointwise" (rescale and forward).

    Returns
    -------
    dict of int to list of int
        By vertex its subtasks to trigger, ascending; a vertex with none is absent. While nothing
        has finished these are all subtasks of the sources.

    Raises
    ------
    ValueError
        If a parallelism, subtask, vertex or kind of edge is out of range.

    Examples
    --------
    >>> checkpoint_plan([(2, ()), (2, ())], [(0, 1, "all")])
    {0: [0, 1]}
    >>> checkpoint_plan([(2, {0}), (2, ())], [(0, 1, "pointwise")])
    {0: [1], 1: [0]}
    """
    running = [_running(index, *vertex) for index, vertex in enumerate(vertices)]
    fed: list[set[int]] = [set() for _ in vertices]
    for sender, receiver, kind in edges:
        if not (0 <= sender < len(vertices) and 0 <= receiver < len(vertices)):
            raise ValueError(
                f"edge ({sender}, {receiver}): needs vertices from 0 to {len(vertices) - 1}"
            )
        if kind not in (ALL, POINTWISE):
            raise ValueError(
                f"edge ({sender}, {receiver}) is {kind!r}: needs {ALL!r} or {POINTWISE!r}"
            )
        senders, receivers = vertices[sender][0], vertices[receiver][0]
        for subtask in running[receiver]:
            read = range(senders)
            if kind == POINTWISE:
                read = pointwise_senders(subtask, senders, receivers)
            if not running[sender].isdisjoint(read):
                fed[receiver].add(subtask)
    plan = {index: sorted(own - fed[index]) for index, own in enumerate(running)}
    return {index: subtasks for index, subtasks in plan.items() if subtasks}


def _running(index: int, parallelism: int, finished: Collection[int]) -> set[int]:
    """Return the subtasks of a vertex that have not finished."""
    if parallelism < 1:
        raise ValueError(f"parallelism of vertex {index} is {parallelism}: needs at least 1")
    every = set(range(parallelism))
    if odd := set(finished) - every:
        raise ValueError(
            f"vertex {index} has finished subtasks {sorted(odd)}: needs 0 to {parallelism - 1}"
        )
    return every.difference(finished)
