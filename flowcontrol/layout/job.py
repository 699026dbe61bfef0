"""A scenario with all that a clock needs to run it: its graph, checkpoints and failures."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from flowcontrol.layout.buffers import Sizes
from flowcontrol.layout.graph import POINTWISE, Channel, JobEdge, JobVertex
from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.restarts import RestartStrategy
from flowcontrol.scenario import Savepoint, Scenario
from flowcontrol.scenario import fault_tolerance as t
from flowcontrol.scenario.clocks import channels_of
from flowcontrol.scenario.fault_tolerance import Failure
from flowcontrol.scenario.system import TRANSPORT_PARTS
from flowcontrol.state.queues import EVENT_SLOTS, MOST_BARRIERS
from flowcontrol.systems.transports import rules
from flowcontrol.systems.transports.transport import RecordTransport

# --- How a job checkpoints, in the terms of the rules; and which of its tasks always align


@dataclass(frozen=True)
class CheckpointSettings:
    """How a job checkpoints; times are microseconds."""

    # ALIGNED, TIMEOUTABLE, UNALIGNED, AT_LEAST_ONCE or PUTTING_ASIDE
    # (:mod:`flowcontrol.protocol.checkpoints.alignment`).
    mode: int = a.ALIGNED
    interval_us: int | None = None  # Between two triggers; None: only savepoints
    aligned_timeout_us: int = 0  # ``aligned-checkpoint-timeout`` of TIMEOUTABLE
    timeout_us: int = 600_000_000  # A checkpoint expires so long after its trigger
    min_pause_us: int = 0  # From a completion to the next trigger, at least
    max_concurrent: int = 1  # Checkpoints that may be pending at once
    tolerable_failures: int = 0  # Failures in a row that the job endures
    # Whether checkpoints go on after tasks have finished (FLIP-147).
    after_tasks_finish: bool = True
    savepoints: tuple[Savepoint, ...] = ()  # What a user asks for, in order of time

    @property
    def is_unaligned(self) -> bool:
        """Whether barriers may overtake."""
        return self.mode in {a.TIMEOUTABLE, a.UNALIGNED}

    @property
    def waits_for_final(self) -> bool:
        """Whether a task that has processed its last record waits for another checkpoint."""
        return self.after_tasks_finish and self.interval_us is not None

    def mode_of(self, plan: JobVertex) -> int:
        """Return what the tasks of a stage do with barriers."""
        return a.ALIGNED if self.is_unaligned and is_forced(plan) else self.mode


def settings_of(scenario: Scenario) -> CheckpointSettings | None:
    """Return how a scenario checkpoints; None if it does not."""
    found = scenario.checkpointing
    if found is None:
        return None
    mode = a.PUTTING_ASIDE if scenario.system.transport == "tcp" else a.ALIGNED
    if found.mode == "at_least_once":
        mode = a.AT_LEAST_ONCE
    elif found.is_unaligned:
        mode = a.TIMEOUTABLE if found.aligned_timeout_us > 0 else a.UNALIGNED
    return CheckpointSettings(
        mode=mode,
        interval_us=found.interval_us,
        aligned_timeout_us=found.aligned_timeout_us,
        timeout_us=found.timeout_us,
        min_pause_us=found.min_pause_us,
        max_concurrent=found.max_concurrent,
        tolerable_failures=found.tolerable_failures,
        after_tasks_finish=found.after_tasks_finish,
        savepoints=tuple(sorted(scenario.savepoints, key=lambda one: one.at_us)),
    )


def is_forced(plan: JobVertex) -> bool:
    """Whether the tasks of a stage align whatever the mode is.

    One input that is pointwise or broadcast is enough: records of such an edge could not be given
    to other subtasks after a rescaling.
    """
    kinds = {link.edge.partitioner for link in plan.inputs}
    return not kinds.isdisjoint((*POINTWISE, "broadcast"))


def event_slots(settings: CheckpointSettings | None) -> int:
    """Return how many events a queue of a channel has room for beside its data.

    A checkpoint puts up to two in a channel: a barrier and a cancel marker, or two cancel markers
    of a task that was notified of the abort before the first barrier came, and hears of it from a
    channel too (``checkpointState`` and ``abortCheckpointOnBarrier``). One more ends the data.
    """
    return EVENT_SLOTS if settings is None else EVENT_SLOTS + 2 * MOST_BARRIERS + 1


# --- What fails in a run, how that is noticed, and when the job restarts


@dataclass(frozen=True)
class FaultSettings:
    """What fails in a run, and what follows; times are microseconds."""

    failures: tuple[Failure, ...] = ()  # In order of time
    # Whether and when the job restarts.
    policy: t.RestartPolicy = field(default_factory=t.NoRestart)
    # How the death of a process is noticed.
    heartbeat: t.Heartbeat = field(default_factory=lambda: t.Heartbeat(10_000_000, 50_000_000, 2))
    # What a task manager reads of a checkpoint, shared by its tasks, bytes/s.
    restore_bytes_per_s: Fraction = Fraction(100_000_000)
    seed: int = 1  # Of the jitter of an exponential delay

    def new_strategy(self) -> RestartStrategy:
        """Return the restart strategy of a JobMaster that has seen no failure yet; times in ms."""
        policy = self.policy
        if isinstance(policy, t.FixedDelay):
            return RestartStrategy(("fixed", policy.attempts, policy.delay_us // 1000))
        if isinstance(policy, t.FailureRate):
            interval, delay = policy.interval_us // 1000, policy.delay_us // 1000
            return RestartStrategy(("rate", policy.max_failures, interval, delay))
        if isinstance(policy, t.ExponentialDelay):
            return RestartStrategy(
                initial=policy.initial_us // 1000,
                maximum=policy.max_us // 1000,
                multiplier=policy.multiplier,
                reset=policy.reset_us // 1000,
                jitter=policy.jitter,
                attempts=policy.attempts,
                seed=self.seed,
            )
        return RestartStrategy("none")


def faults_of(scenario: Scenario) -> FaultSettings | None:
    """Return what may fail in a scenario; None if nothing does.

    A job with checkpoints may fail without a planted failure: too many of them may.
    """
    if not scenario.is_fault_tolerant:
        return None
    return FaultSettings(
        scenario.failures,
        scenario.restart_strategy,
        scenario.heartbeat,
        Fraction(repr(scenario.cluster.restore_bytes_per_s)),
        scenario.seed,
    )


# --- A scenario with all that a clock needs to run it


@dataclass(frozen=True)
class Job:
    """A scenario with everything that a clock needs to run it."""

    scenario: Scenario  # As read
    round_us: int  # Emulated time of a round, microseconds
    rounds: int  # Rounds of the whole run
    # In topological order, declared order within; a chain is one of them.
    stages: tuple[JobVertex, ...]
    links: tuple[JobEdge, ...]  # In declared order
    # Buffers of every gate and partition; the most that each can have, if jobs start and stop.
    sizes: Sizes
    checkpoints: CheckpointSettings | None = None  # How it checkpoints, if it does
    faults: FaultSettings | None = None  # What fails in it, and when it restarts
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
        """Return, by stage that is not a source, the sources from which it can be reached."""
        names = [plan.name for plan in self.stages if plan.is_source]
        return {
            plan.name: [name for name in self.scenario.upstream(plan.name) if name in names]
            for plan in self.stages
            if not plan.is_source
        }

    def samples(self, rounds: int) -> Iterator[tuple[float, int, int]]:
        """Yield the samples of a run.

        A sample that falls inside a round is taken, and stands, at the end of the round before;
        where none has ended since the sample before there is none. The last one stands at the end
        of the last round, which is behind the end of the run where rounds do not divide it.

        Yields time of the sample, s; first round that it covers; last one.
        """
        done = number = 0
        interval_us = self.scenario.sample_interval_us
        while done < rounds:
            number += 1
            upto = min(number * interval_us // self.round_us, rounds)
            if upto > done:
                yield self.time_s(upto), done, upto - 1
                done = upto

    def time_s(self, rounds: int) -> float:
        """Emulated time after so many rounds, seconds."""
        return rounds * self.round_us / 1e6
