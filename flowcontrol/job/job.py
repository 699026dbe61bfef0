"""A scenario with all that a clock needs to run it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from flowcontrol.job.buffers import Sizes
from flowcontrol.job.checkpoint_settings import CheckpointSettings
from flowcontrol.job.fault_settings import FaultSettings
from flowcontrol.job.graph import Channel, JobEdge, JobVertex
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.clocks import channels_of
from flowcontrol.scenario.parts_table import TRANSPORT_PARTS
from flowcontrol.systems.transports import rules
from flowcontrol.systems.transports.transport import RecordTransport


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
    checkpoints : CheckpointSettings or None
        How it checkpoints, if it does.
    faults : FaultSettings or None
        What fails in it, and when it restarts.
    """

    scenario: Scenario
    round_us: int
    rounds: int
    stages: tuple[JobVertex, ...]
    links: tuple[JobEdge, ...]
    sizes: Sizes
    checkpoints: CheckpointSettings | None = None
    faults: FaultSettings | None = None
    _by_name: dict[str, JobVertex] = field(default_factory=dict, compare=False, repr=False)

    def stage(self, name: str) -> JobVertex:
        """Return the plan that runs a stage, by its name; ``KeyError`` if there is none."""
        return self._by_name[name]

    @cached_property
    def latency(self) -> int:
        """Rounds that a message takes between two task managers: a round at the least."""
        return max(1, -(-self.scenario.cluster.network_latency_us // self.round_us))

    def trip(self, channel: Channel) -> int:
        """Return the rounds that a message of a channel takes, and what its receiver answers."""
        return 1 if channel.is_local else self.latency

    @cached_property
    def record_transport(self) -> RecordTransport | None:
        """Parameters of a transport that counts records; None: it moves buffers."""
        system = self.scenario.system
        if not system.counts_records:
            return None
        return rules.parameters(
            system.transport, system.transport_values, round_us=self.round_us, latency=self.latency
        )

    @cached_property
    def subtasks(self) -> tuple[tuple[JobVertex, int], ...]:
        """The subtasks of all stages, senders before receivers: the place of each is its number."""
        return tuple((plan, i) for plan in self.stages for i in range(plan.stage.parallelism))

    @cached_property
    def tasks(self) -> dict[str, range]:
        """The numbers of a stage's subtasks; of one in a chain those of its head."""
        found, first = dict[str, range](), 0
        for plan in self.stages:
            own = range(first, first := first + plan.stage.parallelism)
            found |= {member.stage.name: own for member in plan.members} | {plan.name: own}
        return found

    @property
    def steps(self) -> int:
        """Rounds times subtasks and channels: what a run costs, roughly."""
        channels = sum(channels_of(edge, self.scenario) for edge in self.scenario.edges)
        return self.rounds * (sum(stage.parallelism for stage in self.scenario.stages) + channels)

    @property
    def has_grants(self) -> bool:
        """Whether senders of remote channels wait for what receivers grant, and may count on it."""
        return TRANSPORT_PARTS[self.scenario.system.transport].has_grants

    def sources_above(self) -> dict[str, list[str]]:
        """Return, by stage that is no source, the sources from which it can be reached."""
        names = [plan.name for plan in self.stages if plan.is_source]
        return {
            plan.name: [name for name in self.scenario.upstream(plan.name) if name in names]
            for plan in self.stages
            if not plan.is_source
        }

    def samples(self, rounds: int) -> Iterator[tuple[float, int, int]]:
        """Yield the samples of a run.

        Parameters
        ----------
        rounds : int
            Rounds that were run.

        Yields
        ------
        tuple of (float, int, int)
            Time of the sample, s; first round that it covers; last one.

        Notes
        -----
        A sample that falls inside a round is taken, and stands, at the end of the round before;
        where none has ended since the sample before there is none. The last one stands at the end
        of the last round, which is behind the end of the run where rounds do not divide it.
        """
        done = number = 0
        while done < rounds:
            number += 1
            upto = min(number * self.scenario.sample_interval_us // self.round_us, rounds)
            if upto > done:
                yield self.time_s(upto), done, upto - 1
                done = upto

    def time_s(self, rounds: int) -> float:
        """Emulated time after so many rounds, seconds."""
        return rounds * self.round_us / 1e6
