"""Where subtasks run: on the task managers stated, or on one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from flowcontrol.errors import Problem
from flowcontrol.scenario.spec import ClusterSpec, StageSpec

__all__ = ["place_subtasks"]


def place_subtasks(
    stages: Sequence[tuple[int, StageSpec]],
    cluster: ClusterSpec,
    onto: Mapping[str, str],
    problems: list[Problem],
) -> dict[str, tuple[int, ...]]:
    """Return the task manager of each subtask, by stage.

    Parameters
    ----------
    stages : sequence of (int, StageSpec)
        All stages, with their positions.
    cluster : ClusterSpec
        The machines.
    onto : mapping of str to str
        By chained stage, the stage that it is chained to.
    problems : list of Problem
        Grows by everything that is wrong.

    Returns
    -------
    dict of str to tuple of int
        Task manager of each subtask.

    Notes
    -----
    Subtask k, counted over all stages in the order of the file, goes to task manager
    k mod task_managers unless its stage has a placement. A chained subtask is no task of its
    own: it runs where the one does that it is chained to, and is not counted.
    """
    specs = {stage.name: (index, stage) for index, stage in stages}
    placed: dict[str, tuple[int, ...]] = {}
    first = 0
    for index, stage in stages:
        if stage.placement is not None:
            placed[stage.name] = stage.placement
        elif stage.name not in onto:
            numbers = range(first, first + stage.parallelism)
            placed[stage.name] = tuple(k % cluster.task_managers for k in numbers)
        if stage.name not in onto:
            first += stage.parallelism
        if stage.name in placed:
            _check_placement(f"stages[{index}]", stage, placed[stage.name], cluster, problems)
    for name, sender in onto.items():
        index, stage = specs[name]
        theirs = _follow(sender, onto, placed)
        if stage.placement is None:
            placed[name] = theirs
        elif stage.placement != theirs and len(stage.placement) == len(theirs):
            text = (
                f"{list(stage.placement)} is not {list(theirs)}, where {sender!r} runs, to whose "
                "tasks it is chained: leave it out"
            )
            problems.append(Problem(f"stages[{index}].placement", text))
    return placed


def _follow(
    name: str, onto: Mapping[str, str], placed: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the placement of the nearest stage up the chain that has one."""
    while name not in placed:
        name = onto[name]
    return placed[name]


def _check_placement(
    place: str,
    stage: StageSpec,
    placement: tuple[int, ...],
    cluster: ClusterSpec,
    problems: list[Problem],
) -> None:
    if len(placement) != stage.parallelism:
        text = f"{len(placement)} for {stage.parallelism} subtasks: write a task manager for each"
        problems.append(Problem(f"{place}.placement", text))
        return
    for k, manager in enumerate(placement):
        if manager >= cluster.task_managers:
            text = f"{manager} is no task manager: there are {cluster.task_managers}, from 0"
            problems.append(Problem(f"{place}.placement[{k}]", text))
    most = max(Counter(placement).values())
    if cluster.slots is not None and most > cluster.slots:
        text = (
            f"{most} subtasks of {stage.name!r} on one task manager, which has {cluster.slots} "
            "slots for one each: raise cluster.slots or cluster.task_managers"
        )
        problems.append(Problem(f"{place}.placement", text))
