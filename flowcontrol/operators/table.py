"""Every kind of operator: a state, made of what a stage says, and rules that both clocks run.

A new one is a file beside :mod:`.selectivity` and its lines here. Its state has
``ratio``, the records out per record in of a long run, and ``most_outputs``, those of one record at
the most: by them rates, limits and queues are worked out before a run.
"""

from fractions import Fraction
from typing import TypeAlias, cast

from flowcontrol.operators import selectivity, window
from flowcontrol.operators.selectivity import SELECTIVITY, Selectivity
from flowcontrol.operators.states import Operator
from flowcontrol.operators.window import WINDOW, Window

AnyOperator: TypeAlias = Selectivity | Window
"""An operator of any kind."""

OPERATORS: dict[int, type[AnyOperator]] = {SELECTIVITY: Selectivity, WINDOW: Window}
"""The state of each kind of operator."""


def operators_of(ratio: Fraction, window_ratio: Fraction | None = None) -> list[AnyOperator]:
    """Return the operators of a stage, in order; those that pass every record on are left out.

    Parameters
    ----------
    ratio : Fraction
        Records that it puts out per record in.
    window_ratio : Fraction, optional
        Results per record of its window in the long run; by default it has no window.
    """
    first = None if window_ratio is None else window.of_ratio(window_ratio)
    found = [first, selectivity.of_ratio(ratio)]
    return [operator for operator in found if operator is not None]


def as_selectivity(operator: Operator) -> Selectivity:
    """Return an operator of the kind SELECTIVITY with its own fields."""
    return cast(Selectivity, operator)


def on_records(operator: Operator, count: int) -> int:
    """Take ``count`` records; return how many outputs are due now."""
    if operator.kind == WINDOW:
        return 0  # its results are put out one by one
    return selectivity.on_records(as_selectivity(operator), count)
