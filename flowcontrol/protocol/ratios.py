"""How a scenario's number becomes whole numbers, and how rules multiply those within 64 bits.

A number is first the shortest decimal that reads back as its double: 0.1 is a tenth. Then it is
one of three things, exact where that fits:

- **A ratio** (a selectivity, the nanoseconds that a byte takes): the nearest fraction of all whose
  numerator x denominator is at most :data:`MOST` (:func:`ratio_of`). Largest error: 6.6e-10 of
  itself, near 1; less elsewhere. 0.3333333333333333 is a third. Below 1 / MOST it counts as that,
  above MOST as MOST: no run is so long that it could tell.
- **Rates** (of one task): whole numbers over a common denominator, as large as the records of the
  run allow (:func:`whole_rates`). With n records and t microseconds in the run, a rate whose
  digits do not fit is off by at most min(n, t) / MOST of itself where it is the task's only one:
  1e-9 at 2.3e9 records. Of several over time those of few digits stay exact, the others are off by
  at most n x t / MOST records in all: half of one in an hour at 320,000 records/s.
- **Shares** (of channels): whole numbers whose sum is at most :data:`MOST_SHARES`
  (:func:`whole_shares`). Largest error: 2^-57 of the whole; one that is not 0 stays so.

What lives here: arithmetic of two clocks. What must not: what the numbers mean.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt, lcm

MOST = 1 << 61
"""Bound of a ratio's numerator x denominator, and of all that a rule counts in a run."""

MOST_SHARES = 1 << 56
"""Bound of the sum of shares: what a channel is behind is less than 12 times that (log of 32,768
channels + 1, as in every game in which the fullest cup is emptied)."""

FITS = 4.0e18
"""Products that are less, about, fit into 64 bits; as a double, for the product itself may not."""

BITS = 62


def ratio_of(value: Fraction) -> Fraction:
    """Return the fraction that stands for a positive number: the nearest that rules can multiply.

    Parameters
    ----------
    value : Fraction
        Exact, at least 0.

    Returns
    -------
    Fraction
        Numerator x denominator is at most :data:`MOST`; 0 for 0.
    """
    least, most = Fraction(1, MOST), Fraction(MOST)
    if value == 0:
        return value
    if value <= least or value >= most:
        return min(max(value, least), most)
    finest = max(1, isqrt((MOST - 2) * value.denominator // value.numerator))
    return value.limit_denominator(finest)


def whole_rates(rates: Sequence[Fraction], most: int, grain: int) -> tuple[list[int], int]:
    """Return whole numbers in proportion to some rates, and the one that stands for 1.

    Parameters
    ----------
    rates : sequence of Fraction
        At least one, none negative.
    most : int
        Largest number that may stand for 1.
    grain : int
        A divisor of the number that stands for 1, where that leaves all rates exact.

    Returns
    -------
    tuple of (list of int, int)
        A rate that is not 0 is at least 1.
    """
    parts = {rate.denominator for rate in rates}
    for exact in (lcm(grain, *parts), lcm(*parts)):
        if exact <= most:
            return [int(rate * exact) for rate in rates], exact
    common = 1
    for part in (grain, *sorted(parts)):
        common = both if (both := lcm(common, part)) <= most else common
    if len({rate for rate in rates if rate}) == 1:
        common = max(rates).limit_denominator(most).denominator
    whole = most // common * common
    return [max(1, round(rate * whole)) if rate else 0 for rate in rates], whole


def whole_shares(shares: Sequence[int]) -> list[int]:
    """Return shares whose sum is at most :data:`MOST_SHARES`, or a little more by rounding up."""
    total = sum(shares)
    if total <= MOST_SHARES:
        return list(shares)
    return [max(1, round(Fraction(share * MOST_SHARES, total))) if share else 0 for share in shares]


def capped(count: int, numerator: int, denominator: int) -> int:
    """Return a count times a ratio, rounded down, or :data:`MOST` if that is less."""
    whole = count // denominator
    if 1.0 * whole * numerator > FITS:
        return MOST
    rest = count - whole * denominator
    return min(MOST, whole * numerator + rest * numerator // denominator)


def proportion(whole: int, part: int, total: int) -> int:
    """Return whole x part / total, rounded down.

    Parameters
    ----------
    whole : int
        At least 0, at most :data:`MOST`.
    part, total : int
        0 <= part <= total, 0 < total <= :data:`MOST`.

    Notes
    -----
    Where the product might not fit, by long division, a bit of ``whole`` at a time.
    """
    if 1.0 * whole * part < FITS:
        return whole * part // total
    quotient = 0
    rest = 0
    for place in range(BITS):
        quotient += quotient
        rest += rest + (whole >> (BITS - 1 - place) & 1) * part
        while rest >= total:
            rest -= total
            quotient += 1
    return quotient
