"""The execution graph: subtasks, results with their partitions, channels, and regions."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flowcontrol.errors import NotEnoughSlotsError
from flowcontrol.graphs.jobgraph import JobEdge, JobGraph
from flowcontrol.graphs.stream import JOINING, PARTITION_TYPES
from flowcontrol.protocol.network.partitioners import (
    MAX_MAX_PARALLELISM,
    default_max_parallelism,
    pointwise_channels,
    pointwise_senders,
    pointwise_subpartition,
)
from flowcontrol.protocol.restarts import failover_tasks, pipelined_regions

# --- Intermediate results: what a vertex gives out, a partition a subtask.


@dataclass(frozen=True, slots=True)
class IntermediateResult:
    """One result of a vertex."""

    producer: str  # Name of the vertex
    partitions: int  # One for each of its subtasks
    exchange: str  # Flink's ``ResultPartitionType``
    consumers: tuple[int, ...]  # Positions of the edges that read it in the job graph


_SHARED = {kind.exchange for kind in PARTITION_TYPES.values() if kind.is_shared}


def results_of(graph: JobGraph) -> tuple[IntermediateResult, ...]:
    """Return all results of a job, in the order of the edges that read them first.

    Each edge has a result of its own, with partitions, pools and serialisation. Only blocking and
    hybrid ones of one operator are shared, between edges with the same partitioner to consumers of
    the same parallelism (``StreamingJobGraphGenerator``, reusable outputs).
    """
    readers: dict[tuple[object, ...], list[int]] = {}
    for position, edge in enumerate(graph.edges):
        readers.setdefault(_identity(graph, position, edge), []).append(position)
    return tuple(
        IntermediateResult(
            graph.edges[own[0]].source,
            graph.vertex(graph.edges[own[0]].source).parallelism,
            graph.edges[own[0]].exchange,
            tuple(own),
        )
        for own in readers.values()
    )


def _identity(graph: JobGraph, position: int, edge: JobEdge) -> tuple[object, ...]:
    if edge.exchange not in _SHARED:
        return (position,)
    target = graph.vertex(edge.target)
    sizes = (target.parallelism, target.max_parallelism)
    return (edge.sender, edge.ship, edge.exchange, *sizes)


Subtask = tuple[str, int]
"""Name of a vertex and index of one of its subtasks."""


@dataclass(frozen=True, slots=True)
class ExecutionVertex:
    """All subtasks of a vertex."""

    name: str  # That of the vertex in the job graph
    parallelism: int  # Number of subtasks
    max_parallelism: int  # Number of key groups
    is_max_fixed: bool  # Whether the user set it; Flink's default may change at a rescale
    slot_group: str  # Slot sharing group


@dataclass(frozen=True, slots=True)
class ExecutionGraph:
    """All subtasks and channels of a job."""

    vertices: tuple[ExecutionVertex, ...]  # In Flink's topological order
    edges: tuple[JobEdge, ...]  # As in the job graph, each a gate of every subtask that it leads to
    results: tuple[IntermediateResult, ...]  # What the vertices give out, in the order of the edges
    job: JobGraph  # What it was made of

    @property
    def subtasks(self) -> list[Subtask]:
        """All subtasks, vertex by vertex."""
        return [(vertex.name, i) for vertex in self.vertices for i in range(vertex.parallelism)]

    def vertex(self, name: str) -> ExecutionVertex:
        """Return a vertex by its name, or by that of one of its operators.

        Raises KeyError if there is none.
        """
        whole = self.job.vertex(name).name
        return next(vertex for vertex in self.vertices if vertex.name == whole)

    def channels(self, name: str, subtask: int) -> list[tuple[int, int]]:
        """Return the channels that a subtask reads.

        Returns the producer subtask and its subpartition, in channel order; gate by gate, in the
        order of the edges. Raises KeyError if there is no such vertex. Raises ValueError if there
        is no such subtask.
        """
        vertex = self.vertex(name)
        self._check(vertex, subtask)
        edges = (edge for edge in self.edges if edge.target == vertex.name)
        return [channel for edge in edges for channel in self.gate(edge, subtask)]

    def gate(self, edge: JobEdge, subtask: int) -> list[tuple[int, int]]:
        """Return the channels of one gate of a subtask: producer subtask and subpartition.

        ``VertexInputInfoComputationUtils`` and ``EdgeManagerBuildUtil``: over an all-to-all edge
        subtask t reads subpartition t of every partition.
        """
        senders = self.vertex(edge.source).parallelism
        receivers = self.vertex(edge.target).parallelism
        if edge.pattern == "ALL_TO_ALL":
            return [(sender, subtask) for sender in range(senders)]
        place = pointwise_subpartition(subtask, senders, receivers)
        return [(sender, place) for sender in pointwise_senders(subtask, senders, receivers)]

    def subpartitions(self, edge: JobEdge, sender: int) -> int:
        """Return how many subpartitions a producer subtask has on an edge."""
        receivers = self.vertex(edge.target).parallelism
        if edge.pattern == "ALL_TO_ALL":
            return receivers
        return len(pointwise_channels(sender, self.vertex(edge.source).parallelism, receivers))

    def channel_count(self, edge: JobEdge) -> int:
        """Return the number of channels of an edge."""
        ends = (self.vertex(edge.source).parallelism, self.vertex(edge.target).parallelism)
        return max(ends) if edge.pattern == "POINTWISE" else ends[0] * ends[1]

    def regions(self) -> list[frozenset[Subtask]]:
        """Return the pipelined regions: what is scheduled, and restarted, together.

        In the order of their first subtasks.
        """
        found = pipelined_regions(self._links(), self.subtasks)
        members: dict[object, list[Subtask]] = {}
        for task in self.subtasks:
            members.setdefault(found[task], []).append(task)
        return [frozenset(own) for own in members.values()]

    def restart_set(
        self, failed: Subtask, lost: Iterable[Subtask] = (), created: Iterable[Subtask] = ()
    ) -> set[Subtask]:
        """Return the subtasks that a failure restarts.

        ``created``: subtasks that have not been scheduled yet: they are left out.

        Raises KeyError if there is no such vertex. Raises ValueError if there is no such subtask.
        """
        gone = [self._subtask(one) for one in lost]
        found = failover_tasks(self._links(), self._subtask(failed), gone)
        tasks = {(name, index) for name, index in self.subtasks if (name, index) in found}
        return tasks - {self._subtask(one) for one in created}

    def _links(self) -> Iterator[tuple[Subtask, Subtask, str]]:
        for edge in self.edges:
            kind = "pipelined" if edge.exchange in JOINING else "blocking"
            for subtask in range(self.vertex(edge.target).parallelism):
                for sender, _ in self.gate(edge, subtask):
                    yield (edge.source, sender), (edge.target, subtask), kind

    def _subtask(self, pair: Subtask) -> Subtask:
        vertex = self.vertex(pair[0])
        self._check(vertex, pair[1])
        return vertex.name, pair[1]

    @staticmethod
    def _check(vertex: ExecutionVertex, subtask: int) -> None:
        if not 0 <= subtask < vertex.parallelism:
            raise ValueError(
                f"{vertex.name!r} has no subtask {subtask}: there are {vertex.parallelism}, from 0"
            )


def execution_graph(graph: JobGraph) -> ExecutionGraph:
    """Return the execution graph of a job graph.

    Raises ValueError if a parallelism is above its max parallelism, or one of them outside 1 to
    32768.
    """
    vertices = []
    for vertex in graph.vertices:
        most, count = vertex.max_parallelism, vertex.parallelism
        for what, number in (("parallelism", count), ("max parallelism", most)):
            if number is not None and not 1 <= number <= MAX_MAX_PARALLELISM:
                raise ValueError(
                    f"vertex {vertex.name!r}: {what} {number} is out of range: needs at least 1 "
                    f"and at most {MAX_MAX_PARALLELISM}"
                )
        groups = default_max_parallelism(count) if most is None else most
        if count > groups:
            raise ValueError(
                f"vertex {vertex.name!r}: its parallelism, {count}, is higher than its max "
                f"parallelism, {groups}: lower it, or raise max_parallelism"
            )
        vertices.append(
            ExecutionVertex(vertex.name, count, groups, most is not None, vertex.slot_group)
        )
    results = results_of(graph)
    return ExecutionGraph(tuple(vertices), graph.edges, results, graph)


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
