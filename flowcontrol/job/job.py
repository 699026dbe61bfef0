"""A scenario with all that a clock needs to run it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from flowcontrol.job.buffers import Sizes
from flowcontrol.job.graph import JobEdge, JobVertex
from flowcontrol.job.record_queues import record_transport
from flowcontrol.scenario import Scenario
from flowcontrol.systems.record_transport import RecordTransport


@dataclass(frozen=True)
class Job:
    """A scenario with everything that a clock needs to run it.

    Attributes
    ----------
    scenario : Scenario
        As read.
    round_us : int
        Emulated time of a round, microseconds.
    rounds : int
        Rounds of the whole run.
    stages : tuple of JobVertex
        In topological order, declared order within; a chain is one of them.
    links : tuple of JobEdge
        In declared order.
    sizes : Sizes
        Buffers of every gate and partition; the most that each can have, if jobs start and stop.
    """

    scenario: Scenario
    round_us: int
    rounds: int
    stages: tuple[JobVertex, ...]
    links: tuple[JobEdge, ...]
    sizes: Sizes
    _by_name: dict[str, JobVertex] = field(default_factory=dict, compare=False, repr=False)

    def stage(self, name: str) -> JobVertex:
        """Return the plan that runs a stage, by its name; ``KeyError`` if there is none."""
        return self._by_name[name]

    @cached_property
    def record_transport(self) -> RecordTransport | None:
        """Parameters of a transport that counts records; None: it moves buffers."""
        if not self.scenario.system.counts_records:
            return None
        return record_transport(self.scenario, self.round_us)

    @property
    def has_grants(self) -> bool:
        """Whether senders of remote channels wait for what receivers grant, and may count on it."""
        return self.scenario.system.transport not in {"unbounded", "hop_hysteresis"}

    def sources_above(self) -> dict[str, list[str]]:
        """Return, by stage that is no source, the sources from which it can be reached."""
        found: dict[str, list[str]] = {}
        for plan in self.stages:  # senders before receivers
            above = [self.stage(link.edge.sender) for link in plan.inputs]
            names = [n for p in above for n in ([p.name] if p.is_source else found[p.name])]
            if not plan.is_source:
                found[plan.name] = list(dict.fromkeys(names))
        return found

    def time_s(self, rounds: int) -> float:
        """Emulated time after so many rounds, seconds."""
        return rounds * self.round_us / 1e6
