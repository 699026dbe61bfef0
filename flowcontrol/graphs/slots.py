"""From shared slots to the slots of task managers."""

from collections.abc import Sequence

from flowcontrol.errors import NotEnoughSlotsError
from flowcontrol.graphs.execution import Subtask

ASSIGNMENT_MODES = ("none", "slots", "min_resources", "tasks")
"""Values of ``taskmanager.load-balance.mode``, lower case."""


def assign_slots(
    groups: Sequence[Sequence[Subtask]], task_managers: int = 2, slots: int = 2, mode: str = "none"
) -> dict[Subtask, tuple[int, int]]:
    """Return where each subtask runs.

    ``DefaultResourceAllocationStrategy``. Task managers are in the order of registration, where
    Flink has that of a hash map; of equally good ones the first is taken.

    - ``groups``: what each slot holds, as :func:`~flowcontrol.deployment.slot_sharing` gives it.
    - ``task_managers``: how many have registered, at least 1.
    - ``slots``: slots of each, at least 1.
    - ``mode``: ``taskmanager.load-balance.mode``. none: fill one task manager, then the next;
      min_resources: as few task managers as possible, which is the same where all are alike and
      empty; slots: always the one with the least share of its slots in use; tasks: the fullest
      group goes to the one with the fewest tasks.

    Returns task manager and slot of each subtask, both from 0. Raises NotEnoughSlotsError if there
    are more groups than slots. Raises ValueError if a number is below 1, or there is no such mode.
    """
    if task_managers < 1 or slots < 1:
        raise ValueError(f"{task_managers} task managers with {slots} slots: needs at least 1 each")
    if mode not in ASSIGNMENT_MODES:
        raise ValueError(f"mode is {mode!r}: needs one of {', '.join(ASSIGNMENT_MODES)}")
    if len(groups) > task_managers * slots:
        raise NotEnoughSlotsError(len(groups), task_managers * slots)
    order = range(len(groups))
    if mode == "tasks":
        order_by_size = sorted(order, key=lambda place: -len(groups[place]))
    else:
        order_by_size = list(order)
    used, tasks = [0] * task_managers, [0] * task_managers
    found: dict[Subtask, tuple[int, int]] = {}
    for place in order_by_size:
        free = [manager for manager in range(task_managers) if used[manager] < slots]
        if mode == "tasks":
            manager = min(free, key=lambda one: tasks[one])
        elif mode == "slots":
            manager = min(free, key=lambda one: used[one])
        else:
            manager = free[0]
        found |= dict.fromkeys(groups[place], (manager, used[manager]))
        used[manager] += 1
        tasks[manager] += len(groups[place])
    return {task: found[task] for group in groups for task in group}
