"""Network memory of several jobs: local pools that come and go with them.

One global pool a task manager; every start and every end of a job shares out anew what nobody
requires, by the rules of :mod:`flowcontrol.protocol.pools`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from flowcontrol.errors import InsufficientBuffersError
from flowcontrol.job.buffers import Demand
from flowcontrol.protocol import LocalBufferPool, NetworkBufferPool
from flowcontrol.scenario.network_options import NetworkOptions


@dataclass
class Holding:
    """What one gate or partition holds.

    Attributes
    ----------
    demand : Demand
        What it asked for.
    pool : LocalBufferPool
        Its local pool.
    promised : int
        Exclusive segments promised to its channels and not there yet.
    taken : int
        Exclusive segments of its channels.
    """

    demand: Demand
    pool: LocalBufferPool
    promised: int = 0
    taken: int = 0


@dataclass
class Allocation:
    """Network memory of all task managers, and who has how much of it.

    Parameters
    ----------
    options : NetworkOptions
        Flink's options.
    task_managers : int
        How many there are.
    max_overdraft : int, default 0
        Of each result partition, buffers.

    Attributes
    ----------
    networks : list of NetworkBufferPool
        Of each task manager.
    held : dict of str to list of Holding
        By job, in order of creation.
    """

    options: NetworkOptions
    task_managers: int
    max_overdraft: int = 0
    networks: list[NetworkBufferPool] = field(init=False)
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

        Parameters
        ----------
        job : str
            Its name.
        demands : iterable of Demand
            Of all its gates and partitions, in the order of their creation.
        bind : callable, optional
            Called with each holding when its pool was made.

        Returns
        -------
        str
            Empty, or why it failed: Flink's text with its figures. Nothing is held then.

        Notes
        -----
        Creating a pool never waits for a segment (reference section 5.2); :meth:`fetch` does.
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

        Notes
        -----
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
