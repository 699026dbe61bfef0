"""Slots: which subtasks share one, and the slots of task managers."""

from collections import deque
from collections.abc import Sequence

from flowcontrol.errors import NotEnoughSlotsError
from flowcontrol.graphs.execution import ExecutionGraph, ExecutionVertex, Subtask

# --- Slot sharing: which subtasks share a slot.


SlotGroup = list[Subtask]
"""What one slot holds."""

SHARING_MODES = ("local", "tasks")


def slot_sharing(graph: ExecutionGraph, mode: str = "local") -> list[SlotGroup]:
    """Return what each slot of a job holds.

    ``mode``: ``local``: a subtask goes where its producer is
    (LocalInputPreferredSlotSharingStrategy, the default); ``tasks``: by round robin, so that slots
    hold equally many tasks.

    Returns slots in order of creation, each with its vertices and subtasks in order of arrival.
    Raises ValueError if the mode is neither of the two.
    """
    if mode not in SHARING_MODES:
        raise ValueError(f"mode is {mode!r}: needs {' or '.join(SHARING_MODES)}")
    return _Local(graph).slots() if mode == "local" else _balanced(graph)


class _Local:
    """The state of ``LocalInputPreferredSlotSharingStrategy`` while it goes over the vertices."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._slots: list[SlotGroup] = []
        self._of_group: dict[str, list[int]] = {}
        self._slot_of: dict[Subtask, int] = {}
        self._queues: dict[tuple[int, tuple[int, ...]], deque[int]] = {}

    def slots(self) -> list[SlotGroup]:
        """Place all subtasks."""
        for vertex in self._graph.vertices:
            taken: set[int] = set()
            left = []
            for subtask in range(vertex.parallelism):
                slot = self._of_producer(vertex, subtask, taken)
                if slot is None:
                    left.append(subtask)
                else:
                    taken.add(slot)
                    self._put(vertex, subtask, slot)
            own = self._of_group.setdefault(vertex.slot_group, [])
            free = deque(slot for slot in own if slot not in taken)
            for subtask in left:
                if free:
                    self._put(vertex, subtask, free.popleft())
                else:
                    own.append(len(self._slots))
                    self._slots.append([])
                    self._put(vertex, subtask, own[-1])
        return self._slots

    def _put(self, vertex: ExecutionVertex, subtask: int, slot: int) -> None:
        self._slots[slot].append((vertex.name, subtask))
        self._slot_of[vertex.name, subtask] = slot

    def _of_producer(self, vertex: ExecutionVertex, subtask: int, taken: set[int]) -> int | None:
        """Return the slot of a producer, input by input.

        A partition group has one queue for all its consumers; a candidate is used up when it is
        looked at.
        """
        for position, edge in enumerate(self._graph.edges):
            producer = self._graph.vertex(edge.source)
            if edge.target != vertex.name or producer.slot_group != vertex.slot_group:
                continue
            senders = tuple(sender for sender, _ in self._graph.gate(edge, subtask))
            if (position, senders) not in self._queues:
                found = (self._slot_of[producer.name, sender] for sender in senders)
                self._queues[position, senders] = deque(dict.fromkeys(found))
            queue = self._queues[position, senders]
            while queue:
                slot = queue.popleft()
                if slot not in taken:
                    return slot
        return None


def _balanced(graph: ExecutionGraph) -> list[SlotGroup]:
    """Share by round robin (``TaskBalancedPreferredSlotSharingStrategy``, 2.2 and later).

    A vertex of the group's largest parallelism begins at slot 0, a smaller one where the last
    smaller one stopped.
    """
    found: list[SlotGroup] = []
    for group, count in graph.job.slots_required().items():
        slots: list[SlotGroup] = [[] for _ in range(count)]
        after = 0
        for vertex in graph.vertices:
            if vertex.slot_group != group:
                continue
            first = 0 if vertex.parallelism == count else after
            for subtask in range(vertex.parallelism):
                slots[(first + subtask) % count].append((vertex.name, subtask))
            if vertex.parallelism < count:
                after = (after + vertex.parallelism) % count
        found += slots
    return found


# --- From shared slots to the slots of task managers.


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

    Returns the task manager and slot of each subtask, both from 0. Raises NotEnoughSlotsError if
    there are more groups than slots. Raises ValueError if a number is below 1, or there is no such
    mode.
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
