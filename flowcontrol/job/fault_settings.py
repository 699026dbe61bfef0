"""What fails in a run, how that is noticed, and when the job restarts."""

from dataclasses import dataclass, field
from fractions import Fraction

from flowcontrol.protocol.restarts import RestartStrategy
from flowcontrol.scenario import Scenario
from flowcontrol.scenario import fault_tolerance as t
from flowcontrol.scenario.fault_models import Failure


@dataclass(frozen=True)
class FaultSettings:
    """What fails in a run, and what follows; times are microseconds.

    Attributes
    ----------
    failures : tuple of Failure
        In order of time.
    policy : RestartPolicy
        Whether and when the job restarts.
    heartbeat : Heartbeat
        How the death of a process is noticed.
    restore_bytes_per_s : Fraction
        What a task manager reads of a checkpoint, shared by its tasks, bytes/s.
    seed : int
        Of the jitter of an exponential delay.
    """

    failures: tuple[Failure, ...] = ()
    policy: t.RestartPolicy = field(default_factory=t.NoRestart)
    heartbeat: t.Heartbeat = field(default_factory=lambda: t.Heartbeat(10_000_000, 50_000_000, 2))
    restore_bytes_per_s: Fraction = Fraction(100_000_000)
    seed: int = 1

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

    Notes
    -----
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
