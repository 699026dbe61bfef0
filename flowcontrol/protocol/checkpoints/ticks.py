"""When periodic checkpoints are requested.

Source: ``CheckpointCoordinator.startCheckpointScheduler``, ``getRandomInitDelay`` and
``rescheduleTrigger`` (section 1 of the reference, "Ticks").
"""

from dataclasses import dataclass

from flowcontrol.protocol.kept import Kept

_MASK = (1 << 64) - 1


def drawn(seed: int, number: int, low: int, high: int) -> int:
    """Return an integer in [low, high], a pure function of the arguments.

    Notes
    -----
    SplitMix64 of the seed, its ``number``-th output; the remainder's bias is below 2^-30 for any
    interval that a clock can name.
    """
    word = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return low + (word ^ (word >> 31)) % (high - low + 1)


@dataclass
class Ticks(Kept):
    """The ticks of the periodic trigger.

    Parameters
    ----------
    interval : int or None
        Between ticks; None: there are none.
    min_pause : int
        Ticks are at least this far apart.
    seed : int
        First delays are drawn from it.
    first_delay : int or None
        From a start to the first tick; None: drawn from [min pause, max(interval, min pause)].

    Attributes
    ----------
    next : int or None
        When the next tick is due; None while they are stopped.
    starts : int
        How often they were started: each start draws another delay.
    """

    _kept = ("next", "starts")

    interval: int | None
    min_pause: int
    seed: int
    first_delay: int | None
    next: int | None = None
    starts: int = 0

    def start(self, now: int, first_delay: int | None = None) -> None:
        """Start ticking; ``first_delay`` is for this start alone, before the one of them all."""
        if self.interval is None:
            return
        delay = self.first_delay if first_delay is None else first_delay
        if delay is None:
            delay = drawn(self.seed, self.starts, self.min_pause, self._period)
        self.starts += 1
        self.next = now + delay

    def stop(self) -> None:
        """Tick no more."""
        self.next = None

    def advance(self, now: int) -> None:
        """Move the next tick beyond now, by whole periods: those that were missed are one."""
        if self.next is not None and self.next <= now:
            self.next += self._period * ((now - self.next) // self._period + 1)

    def move_to(self, time: int) -> None:
        """Have the next tick at a time, and the others a period apart from there."""
        if self.next is not None:
            self.next = time

    @property
    def _period(self) -> int:
        """Between ticks; without an interval there are none."""
        return max(self.interval or 0, self.min_pause)
