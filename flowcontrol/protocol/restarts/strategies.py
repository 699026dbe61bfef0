"""Restart strategies: whether and when a job restarts after a failure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from flowcontrol.state.declared import Kept

# --- The three rules by which Flink decides on a restart, each a function of what it remembers.
#
# Source: `FixedDelayRestartBackoffTimeStrategy`, `FailureRateRestartBackoffTimeStrategy` and
# `ExponentialDelayRestartBackoffTimeStrategy` of Flink 1.20.


LONGEST = (1 << 63) - 1
"""Java's largest long: what a delay is cut to that has grown beyond it."""


def fixed_allows(failures: int, attempts: int) -> bool:
    """Tell whether a fixed-delay strategy restarts after so many failures."""
    return failures <= attempts


def rate_allows(failed_at: Sequence[int], failures: int, interval: int, now: int) -> bool:
    """Tell whether a failure-rate strategy restarts.

    One failure more than allowed is kept: if it is there, the oldest must be *more* than an
    interval ago.

    - ``failed_at``: when the latest failures were, oldest first, at most ``failures`` + 1 of them,
      ms.
    - ``interval``: its length, ms.
    """
    return len(failed_at) <= failures or now - failed_at[0] > interval


def exponential_delay(
    initial: int, maximum: int, multiplier: float, jitter: float, attempt: int, seed: int, draw: int
) -> int:
    """Delay before a restart of an exponential-delay strategy, ms.

    ``calculateActualBackoffTime``: the deviation belongs to the delay before it is cut to the
    maximum, so a delay far above the maximum has none.

    - ``initial``, ``maximum``: bounds of the delay, ms.
    - ``jitter``: largest deviation, as a share of the delay.
    - ``attempt``: restarts since the delay was reset, from 0.
    - ``seed``, ``draw``: of the deviation, and its number: one that is not drawn again after a
      reset.
    """
    try:
        delay = int(min(initial * multiplier**attempt, float(LONGEST)))
    except OverflowError:  # Java's power is infinite then
        delay = LONGEST
    return max(initial, min(delay + deviation(int(delay * jitter), seed, draw), maximum))


def deviation(most: int, seed: int, number: int) -> int:
    """Return an integer uniform in [-most, most], drawn from a seed and the number of the draw."""
    digest = blake2b(f"{seed}/{number}".encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % (2 * most + 1) - most


# --- The restart strategy of a job: counts failures, and says whether and when to restart


NONE, FIXED, RATE, EXPONENTIAL = "none", "fixed", "rate", "exponential"

Kind = str | tuple[str, int, int] | tuple[str, int, int, int]
"""What a strategy is made from: a name alone, or with its numbers."""


@dataclass
class RestartStrategy(Kept):
    """A job's restart strategy (``RestartBackoffTimeStrategy``).

    Source: Flink 1.20, ``reference/checkpoints-and-time.md`` section 4. The caller asks in Flink's
    order: :meth:`fail`, :meth:`can_restart`, :meth:`delay`.

    - ``kind``: ``"exponential"``; ``"none"``; ``("fixed", attempts, delay)``; ``("rate", failures,
      interval, delay)``. Delays and the interval in ms.
    - ``initial``, ``maximum``: bounds of an exponential delay, ms
      (``restart-strategy.exponential-delay.initial-backoff``, ``.max-backoff``).
    - ``multiplier``: more than 1 (``.backoff-multiplier``).
    - ``reset``: time without a failure after a restart that resets the delay, ms
      (``.reset-backoff-threshold``).
    - ``jitter``: 0 to 1 (``.jitter-factor``).
    - ``attempts``: most restarts until a reset, at least 1; by default no limit
      (``.attempts-before-reset-backoff``).

    Examples
    --------
    >>> strategy = RestartStrategy("exponential", jitter=0)
    >>> strategy.fail(5_000), strategy.can_restart(5_000), strategy.delay(5_000)
    (True, True, 1000)
    >>> strategy.fail(5_400), strategy.delay(5_400)  # merged with the first
    (False, 600)
    """

    _kept = ("_failures", "_failed_at", "_draws", "_next_restart")

    kind: Kind = EXPONENTIAL
    initial: int = 1_000
    maximum: int = 60_000
    multiplier: float = 1.5
    reset: int = 3_600_000
    jitter: float = 0.1
    attempts: int | None = None
    seed: int = 0
    _name: str = field(init=False)
    _numbers: tuple[int, ...] = field(init=False)
    _failures: int = field(default=0, init=False)
    _failed_at: list[int] = field(default_factory=list, init=False)
    _draws: int = field(default=0, init=False)
    _next_restart: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Take the kind apart."""
        if isinstance(self.kind, str):
            self._name, self._numbers = self.kind, ()
        else:
            self._name, *numbers = self.kind
            self._numbers = tuple(numbers)

    def fail(self, now: int) -> bool:
        """Count a failure.

        False: merged with the failure before, whose restart is still to come (exponential).
        """
        if self._name == EXPONENTIAL:
            return self._fail_exponential(now)
        self._failures += 1
        if self._name == RATE:
            self._failed_at = [*self._failed_at, now][-(self._numbers[0] + 1) :]
        return True

    def can_restart(self, now: int) -> bool:
        """Tell whether the job restarts; if not it fails for good."""
        if self._name == FIXED:
            return fixed_allows(self._failures, self._numbers[0])
        if self._name == RATE:
            return rate_allows(self._failed_at, self._numbers[0], self._numbers[1], now)
        return self._name == EXPONENTIAL and (
            self.attempts is None or self._failures <= self.attempts
        )

    def delay(self, now: int) -> int:
        """Time from now to the restart, ms.

        ``now``: milliseconds. Only an exponential delay looks at it: the others are Flink's
        constant, whenever they are asked for.

        Raises ValueError if an exponential strategy has seen no failure.
        """
        if self._name != EXPONENTIAL:
            return self._numbers[-1] if self._numbers else 0
        if self._next_restart is None:
            raise ValueError("no failure so far, so there is no delay: call fail(now) first")
        return max(0, self._next_restart - now)

    def _fail_exponential(self, now: int) -> bool:
        if self._next_restart is not None:
            if now <= self._next_restart:
                return False
            if now - self._next_restart >= self.reset:
                self._failures = 0
        numbers = self.initial, self.maximum, self.multiplier, self.jitter
        delay = exponential_delay(*numbers, self._failures, self.seed, self._draws)
        self._next_restart = now + delay
        self._failures += 1
        self._draws += 1
        return True
