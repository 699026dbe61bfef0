"""Slot sharing: which subtasks share a slot."""

from collections import deque

from flowcontrol.graphs.execution import ExecutionGraph, ExecutionVertex, Subtask

SlotGroup = list[Subtask]
"""What one slot holds."""

SHARING_MODES = ("local", "tasks")


def slot_sharing(graph: ExecutionGraph, mode: str = "local") -> list[SlotGroup]:
    """Return what each slot of a job holds.

    ``mode``: ``local``: a subtask goes where its producer is
    (LocalInputPreferredSlotSharingStrategy, the default); ``tasks``: by round robin, so that slots
    hold equally many tasks.

    Returns vertex and subtask, in the order in which they came; slots in order of creation. Raises
    ValueError if the mode is neither of the two.
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
