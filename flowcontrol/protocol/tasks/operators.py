"""The kinds of operators: a state each, and how many outputs a record has."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, cast

from flowcontrol.protocol.service import ratio_of
from flowcontrol.state.tasks import Operator

# --- Selectivity: of every record so many go on, a fixed ratio in the long run


SELECTIVITY: Final = 0


@dataclass(slots=True)
class Selectivity(Operator):
    """A map, a filter or a flat map: after n records, n x ratio are out, rounded down."""

    kind: int = SELECTIVITY
    numerator: int = 1
    """Of the ratio, constant; numerator x denominator is at most ``service.MOST``."""
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


def on_selected(state: Selectivity, count: int) -> int:
    """Take ``count`` records; return how many outputs are due now.

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


# --- Windows: what a record causes depends on those before it, on the watermark and on the clock.
#
# The operator itself counts, as any operator does. Its windows are beside the task
# (flowcontrol.state.windows.Windows), and windowing has them fire: one result at a time, so
# on_records says that none is due.


WINDOW: Final = 1


@dataclass(slots=True)
class Window(Operator):
    """A window operator, the first of its task's chain."""

    kind: int = WINDOW
    numerator: int = 1
    """Of results per record in the long run, constant; an estimate."""
    denominator: int = 1
    """Of the same, constant."""

    @property
    def ratio(self) -> Fraction:
        """Results per record in the long run: an estimate from rate, keys and sizes."""
        return Fraction(self.numerator, self.denominator)

    @property
    def most_outputs(self) -> int:
        """Results that are put out at once: each when there is room for it."""
        return 1


def windows_of_ratio(ratio: Fraction) -> Window:
    """Return the operator of a window with a ratio in the long run."""
    return Window(numerator=ratio.numerator, denominator=ratio.denominator)


# --- Every kind of operator: a state, made of what a stage says, and rules that both clocks run.
#
# A new one is a file beside operators and its lines here. Its state has `ratio`, the records
# out per record in of a long run, and `most_outputs`, those of one record at the most: by
# them rates, limits and queues are worked out before a run.


AnyOperator: TypeAlias = Selectivity | Window
"""An operator of any kind."""

OPERATORS: dict[int, type[AnyOperator]] = {SELECTIVITY: Selectivity, WINDOW: Window}
"""The state of each kind of operator."""


def operators_of(ratio: Fraction, window_ratio: Fraction | None = None) -> list[AnyOperator]:
    """Return the operators of a stage, in order; those that pass every record on are left out.

    - ``ratio``: records that it puts out per record in.
    - ``window_ratio``: results per record of its window in the long run; by default it has no
      window.
    """
    first = None if window_ratio is None else windows_of_ratio(window_ratio)
    found = [first, of_ratio(ratio)]
    return [operator for operator in found if operator is not None]


def as_selectivity(operator: Operator) -> Selectivity:
    """Return an operator of the kind SELECTIVITY with its own fields."""
    return cast(Selectivity, operator)


def on_records(operator: Operator, count: int) -> int:
    """Take ``count`` records; return how many outputs are due now."""
    if operator.kind == WINDOW:
        return 0  # its results are put out one by one
    return on_selected(as_selectivity(operator), count)
