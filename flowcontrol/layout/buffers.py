"""Buffers of every gate and partition, from a pool a task manager; and as jobs come and go.

Tasks are set up in topological order: result partitions first, then gates, each gate's
exclusive buffers before its floating pool is shared out (Flink: ``Task``, ``SingleInputGate``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from flowcontrol.errors import InsufficientBuffersError, Problem, ScenarioError
from flowcontrol.layout.graph import JobVertex
from flowcontrol.protocol.network import partition_kinds as k
from flowcontrol.protocol.network.pools import LocalBufferPool, NetworkBufferPool
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.state.rows import UNLIMITED

# --- Buffers of every gate and partition, from one global pool a task manager.


STATED_BUFFERS = (
    "Where the scenario states 'taskmanager.network.numberOfBuffers', raise that or leave it out."
)
"""Behind Flink's own text: its three options are refused beside this one."""


@dataclass(frozen=True)
class GateSize:
    """Buffers of one gate: of its floating pool, and exclusive ones of each remote channel."""

    floating: int
    exclusive: int


@dataclass(frozen=True)
class PartitionSize:
    """Buffers of one result partition: size of its pool, and overdraft that it may count on."""

    size: int
    overdraft: int


@dataclass(frozen=True)
class Demand:
    """What one gate or one result partition asks of its task manager."""

    is_gate: bool  # A gate, else a result partition
    stage: str  # Whose task it belongs to
    edge: str  # Name of its edge
    subtask: int  # subtask, manager: the task's subtask and task manager
    manager: int
    channels: int  # Channels of the gate, or subpartitions
    required: int  # Minimum of its local pool, buffers
    maximum: int | None  # Maximum of its local pool, buffers; None: no maximum
    exclusive: int = 0  # Exclusive buffers of each channel of a gate that is remote
    remote: int = 0  # Channels of a gate that are remote
    kind: int = 0

    @property
    def unpooled(self) -> int:
        """Exclusive buffers of all channels, which are taken beside the pool."""
        return self.remote * self.exclusive

    @property
    def place(self) -> str:
        """Who asks, in words."""
        return f"{self.stage} subtask {self.subtask}, task manager {self.manager}"


@dataclass(frozen=True)
class Sizes:
    """Sizes by (edge name, subtask)."""

    # By edge and receiver subtask.
    gates: dict[tuple[str, int], GateSize] = field(default_factory=dict)
    # By edge and sender subtask.
    partitions: dict[tuple[str, int], PartitionSize] = field(default_factory=dict)

    def add(self, demand: Demand, size: int, overdraft: int = 0) -> None:
        """Say what a gate gets, or a partition with an overdraft that it may count on."""
        key = demand.edge, demand.subtask
        if demand.is_gate:
            self.gates[key] = GateSize(size, demand.exclusive)
        else:
            self.partitions[key] = PartitionSize(size, overdraft)


def size_buffers(scenario: Scenario, stages: Sequence[JobVertex]) -> Sizes:
    """Create every pool of the job and read off what each one gets.

    Overdraft needs a free segment of the global pool at the moment of the request. Subtasks
    of different stages do not see each other within a round, so the segments that are left
    over are set aside for overdraft beforehand, in order of creation.

    Raises ScenarioError if a task manager cannot promise what its subtasks require.
    """
    if scenario.system.counts_records:
        return _no_buffers(stages)
    options = scenario.options
    pools = [
        NetworkBufferPool(options.network_buffers, options.segment_bytes)
        for _ in range(scenario.cluster.task_managers)
    ]
    made: list[tuple[Demand, LocalBufferPool]] = []
    with ExitStack() as stack:
        for network in pools:
            stack.enter_context(network.together())
        for plan in stages:
            for demand in demands_of(scenario, plan):
                made.append((demand, _created(pools[demand.manager], demand)))
    spare = [
        _spare(network, [pool for demand, pool in made if demand.manager == manager])
        for manager, network in enumerate(pools)
    ]
    sizes, most = Sizes(), options.max_overdraft_buffers
    for demand, pool in made:
        overdraft = 0
        if not demand.is_gate and scenario.system.transport != "tcp":
            overdraft = max(0, min(most, spare[demand.manager])) * k.has_overdraft(demand.kind)
            spare[demand.manager] -= overdraft
        sizes.add(demand, pool.size, overdraft)
    return sizes


def _created(network: NetworkBufferPool, demand: Demand) -> LocalBufferPool:
    """Create a pool, and take the exclusive buffers that go with it."""
    try:
        pool = network.create_local_pool(demand.required, demand.maximum)
        if demand.unpooled:
            network.take_unpooled(demand.exclusive, demand.remote)
    except InsufficientBuffersError as error:
        problem = Problem(f"options ({demand.place})", f"{error} {STATED_BUFFERS}")
        raise ScenarioError([problem]) from error
    return pool


def _no_buffers(stages: Sequence[JobVertex]) -> Sizes:
    """Return sizes of nothing: a transport that counts records has no network buffers."""
    each = [(plan, index) for plan in stages for index in range(plan.stage.parallelism)]
    return Sizes(
        {(link.name, i): GateSize(0, 0) for plan, i in each for link in plan.inputs},
        {(link.name, i): PartitionSize(0, 0) for plan, i in each for link in plan.outputs},
    )


def largest_sizes(scenario: Scenario, stages: Sequence[JobVertex]) -> Sizes:
    """Return the most that each pool can ever have, where pools share the network memory."""
    options, sizes = scenario.options, Sizes()
    for plan in stages:
        for demand in demands_of(scenario, plan):
            most = options.network_buffers
            if demand.maximum is not None:
                most = min(most, demand.maximum)
            sizes.add(demand, most, options.max_overdraft_buffers)
    return sizes


def demands_of(scenario: Scenario, plan: JobVertex) -> Iterator[Demand]:
    """Yield what the tasks of a stage ask for, in the order in which they do.

    In Flink 1.4 no channel has buffers of its own.
    """
    options, is_unreserved = scenario.options, scenario.system.transport == "tcp"
    each, floating = options.exclusive_buffers, options.floating_buffers
    for subtask, manager in enumerate(plan.stage.placement):
        for link in plan.outputs:
            where = (plan.name, link.name, subtask, manager)
            width = len(link.places("sender", subtask))
            if is_unreserved:
                yield Demand(False, *where, width, *k.unreserved_sizes(width, each, floating))
                continue
            kind = k.kind_of(link.edge.partition_type, width, options.sort_min_parallelism)
            sort = options.sort_min_buffers
            smallest, largest = k.partition_sizes(width, kind, each, floating, sort)
            most = None if largest == UNLIMITED else largest
            yield Demand(False, *where, width, smallest, most, kind=kind)
        for link in plan.inputs:
            where = (plan.name, link.name, subtask, manager)
            incoming = link.places("receiver", subtask)
            width = len(incoming)
            if is_unreserved:
                yield Demand(True, *where, width, *k.unreserved_sizes(width, each, floating))
                continue
            limit = options.read_buffer_threshold
            if limit is None:
                waits = k.waits_for_producers(k.kind_of(link.edge.partition_type, 1, 1))
                limit = k.BLOCKING_GATE_THRESHOLD if waits else UNLIMITED
            sizes = k.gate_sizes(width, each, floating, limit)
            remote = width - int(link.is_local[incoming].sum())
            yield Demand(True, *where, width, *sizes, remote)


def _spare(pool: NetworkBufferPool, local: Sequence[LocalBufferPool]) -> int:
    """Segments that nobody has been promised: free ones, less what the pools may still take."""
    return pool.free - sum(one.size - one.free for one in local)


# --- Network memory of several jobs: local pools that come and go with them.
#
# One global pool a task manager; every start and every end of a job shares out anew what
# nobody requires, by the rules of flowcontrol.protocol.network.pools.


@dataclass
class Holding:
    """What one gate or partition holds."""

    demand: Demand  # What it asked for
    pool: LocalBufferPool  # Its local pool
    promised: int = 0  # Exclusive segments promised to its channels and not there yet
    taken: int = 0  # Exclusive segments of its channels


@dataclass
class Allocation:
    """Network memory of all task managers, and who has how much of it."""

    options: NetworkOptions
    task_managers: int
    max_overdraft: int = 0
    networks: list[NetworkBufferPool] = field(init=False)  # Of each task manager
    # By job, in order of creation.
    held: dict[str, list[Holding]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Make the global pools."""
        options = self.options
        self.networks = [
            NetworkBufferPool(options.network_buffers, options.segment_bytes)
            for _ in range(self.task_managers)
        ]

    def begin(
        self, job: str, demands: Iterable[Demand], bind: Callable[[Holding], None] | None = None
    ) -> str:
        """Set a job up: create its pools and promise its exclusive buffers.

        Creating a pool never waits for a segment (reference section 5.2); :meth:`fetch` does.

        - ``demands``: of all its gates and partitions, in the order of their creation.
        - ``bind``: called with each holding when its pool was made.
        """
        held = self.held[job] = []
        for demand in demands:
            network = self.networks[demand.manager]
            overdraft = 0 if demand.is_gate else self.max_overdraft
            try:
                pool = network.create_local_pool(
                    demand.required, demand.maximum, max_overdraft=overdraft
                )
                held.append(Holding(demand, pool))
                if bind is not None:
                    bind(held[-1])
                if demand.unpooled:
                    network.promise_unpooled(demand.exclusive, demand.remote)
                    held[-1].promised = demand.unpooled
            except InsufficientBuffersError as error:
                self.end(job)
                return f"{demand.place}: {error}"
        return ""

    def fetch(self, job: str) -> int:
        """Fetch what a job's gates must have before its tasks run; return what is missing.

        ``SingleInputGate.setupChannels``: a gate reserves one floating buffer, then its
        channels take their exclusive ones. Both wait while segments that exist on paper are
        still used by pools that must shrink.
        """
        missing = 0
        for holding in self.held[job]:
            if not holding.demand.is_gate:
                continue
            missing += not holding.pool.reserve(1)
            if holding.promised:
                network = self.networks[holding.demand.manager]
                taken = network.fetch_unpooled(holding.promised)
                holding.promised -= taken
                holding.taken += taken
                missing += holding.promised
        return missing

    def end(self, job: str) -> None:
        """Take everything from a job: segments in use come back at once, as its tasks end."""
        for holding in self.held.pop(job):
            network, pool = self.networks[holding.demand.manager], holding.pool
            network.state.free += pool.state.in_use
            pool.state.in_use = 0
            if holding.taken:
                network.return_unpooled(holding.taken)
            if holding.promised:
                network.forget_unpooled(holding.promised)
            pool.destroy()

    def timeout_text(self) -> str:
        """Return what Flink says when segments that exist on paper are not there in time."""
        options = self.options
        return (
            "Timeout triggered when requesting exclusive buffers: The total number of network "
            f"buffers is currently set to {options.network_buffers} of {options.segment_bytes} "
            "bytes each. You can increase this number by setting the configuration keys "
            "'taskmanager.memory.network.fraction', 'taskmanager.memory.network.min', and "
            "'taskmanager.memory.network.max', or you may increase the timeout which is "
            f"{options.buffers_request_timeout_us // 1000}ms by setting the key "
            "'taskmanager.network.memory.buffers-request-timeout'."
        )
