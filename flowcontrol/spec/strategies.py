"""Flink's restart strategies as an object that checks its numbers."""

from typing import Any

from flowcontrol.protocol.restarts import strategies
from flowcontrol.protocol.restarts.strategies import EXPONENTIAL, FIXED, NONE, RATE


class RestartStrategy(strategies.RestartStrategy):
    """A job's restart strategy, which refuses what Flink's constructors do.

    Parameters are those of :class:`flowcontrol.protocol.restarts.strategies.RestartStrategy`.

    Raises ValueError if the kind is unknown, or Flink refuses a number.
    """

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check((self.kind,) if isinstance(self.kind, str) else tuple(self.kind))
        super().__post_init__()
        if self._name == EXPONENTIAL:
            self._check_exponential()

    def _check_exponential(self) -> None:
        """Refuse what Flink's constructor does."""
        if not 1 <= self.initial <= self.maximum:
            raise ValueError(
                f"initial is {self.initial} ms, maximum {self.maximum}: needs "
                "1 <= initial <= maximum"
            )
        if not self.multiplier > 1:
            raise ValueError(f"multiplier is {self.multiplier}: needs more than 1")
        if self.reset < 1:
            raise ValueError(f"reset is {self.reset} ms: needs at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is {self.jitter}: needs 0 to 1")
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}: needs at least 1, or None for no limit")


# Of each kind with numbers: their names, and the least that Flink takes.


_LEAST = {
    FIXED: {"attempts": 0, "delay": 0},
    RATE: {"failures": 1, "interval": 1, "delay": 0},
    NONE: {},
    EXPONENTIAL: {},
}


def _check(given: tuple[Any, ...]) -> None:
    """Refuse an unknown kind, and numbers that it does not take."""
    name, numbers = given[0] if given else "", tuple(given[1:])
    if name not in _LEAST:
        raise ValueError(f"strategy is {name!r}: needs one of {', '.join(sorted(_LEAST))}")
    least = _LEAST[name]
    if len(numbers) != len(least):
        form = ", ".join([repr(name), *least])
        raise ValueError(f"strategy {name} has {len(numbers)} numbers: needs ({form})")
    for (what, low), number in zip(least.items(), numbers, strict=True):
        if number < low:
            raise ValueError(f"{what} of strategy {name} is {number}: needs at least {low}")
