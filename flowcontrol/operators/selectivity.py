"""Selectivity: of every record so many go on, a fixed ratio in the long run."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from flowcontrol.operators.states import Operator
from flowcontrol.protocol.ratios import ratio_of

SELECTIVITY: Final = 0


@dataclass(slots=True)
class Selectivity(Operator):
    """A map, a filter or a flat map: after n records, n x ratio are out, rounded down."""

    kind: int = SELECTIVITY
    numerator: int = 1
    """Of the ratio, constant; numerator x denominator is at most ``ratios.MOST``."""
    denominator: int = 1
    """Of the ratio, constant."""
    remainder: int = 0
    """What the records so far leave over of an output, parts of the denominator."""

    @property
    def ratio(self) -> Fraction:
        """Records out per record in, in the long run."""
        return Fraction(self.numerator, self.denominator)

    @property
    def most_outputs(self) -> int:
        """Records that one record yields at the most, at least 1."""
        return max(1, -(-self.numerator // self.denominator))


def of_ratio(value: Fraction) -> Selectivity | None:
    """Return the operator of a stated ratio, None if it passes every record on."""
    ratio = ratio_of(value)
    if ratio == 1:
        return None
    return Selectivity(numerator=ratio.numerator, denominator=ratio.denominator)


def on_records(state: Selectivity, count: int) -> int:
    """Take ``count`` records; return how many outputs are due now.

    Notes
    -----
    The outputs of n records are floor(n x ratio), however the n come. Whole multiples of the
    denominator come first, so that no product is more than what is returned.
    """
    denominator = state.denominator
    whole = 0 if count < denominator else count // denominator
    rest = (count - whole * denominator) * state.numerator + state.remainder
    more = 0 if rest < denominator else 1
    if rest >= 2 * denominator:  # most often there is nothing to divide
        more = rest // denominator
    state.remainder = rest - more * denominator
    return whole * state.numerator + more
