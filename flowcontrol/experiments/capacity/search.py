"""The search for the highest rate at which something holds: it doubles, then bisects."""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

HIGHEST: Final = Fraction(10**8)
"""Highest rate to try, records/s per subtask."""

LOWEST: Final = Fraction(1, 1000)
"""Lowest rate to try: 1 record in 1,000 s."""

_GUARD: Final = 8
"""Rates are rounded to this share of the width at which the search ends."""

Bracket = tuple[Fraction | None, Fraction | None]


def rounded(rate: Fraction, width: float) -> Fraction:
    """Return a rate rounded to a power of ten that is small against a relative width.

    - ``rate`` (records/s): more than 0.
    - ``width``: relative; the result differs by less than an eighth of it.

    Examples
    --------
    >>> rounded(Fraction(31415926, 10000), 0.01)
    Fraction(3142, 1)
    """
    step = Fraction(1)
    least = rate * Fraction(width) / _GUARD
    while step > least:
        step /= 10
    while step * 10 <= least:
        step *= 10
    return round(rate / step) * step


def search(holds: Callable[[Fraction], bool], start: Fraction, width: float) -> Bracket:
    """Find the highest rate at which something holds.

    - ``holds``: called with rates in records/s, each once.
    - ``start`` (records/s): first rate, between LOWEST and HIGHEST.
    - ``width``: relative distance at which to stop, more than 0.

    Returns ``below, above``: it holds at ``below``, not at ``above``, and they are no further apart
    than ``width``. ``below`` is None if it holds at no rate that was tried, down to LOWEST;
    ``above`` is None if it holds at all of them, up to HIGHEST.
    """
    below, above = _bracket(holds, rounded(start, width))
    if below is None or above is None:
        return below, above
    while above > below * (1 + Fraction(width)):
        middle = rounded(_between(below, above), width)
        if not below < middle < above:
            break
        if holds(middle):
            below = middle
        else:
            above = middle
    return below, above


def _bracket(holds: Callable[[Fraction], bool], rate: Fraction) -> Bracket:
    """Double, or quarter, until the predicate holds at one end only."""
    if holds(rate):
        below = rate
        while below * 2 <= HIGHEST:
            if not holds(below * 2):
                return below, below * 2
            below *= 2
        return below, None
    above = rate
    while above / 4 >= LOWEST:
        if holds(above / 4):
            return above / 4, above
        above /= 4
    return None, above


def _between(low: Fraction, high: Fraction) -> Fraction:
    """Return the geometric mean, to the nearest double."""
    return Fraction(float(low * high) ** 0.5)
