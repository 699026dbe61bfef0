"""Windows: what a record causes depends on those before it, on the watermark and on the clock.

The operator itself counts, as any operator does. Its windows are beside the task
(:class:`flowcontrol.protocol.windows.states.Windows`), and :mod:`.windowing` has them fire: one
result at a time, so :func:`on_records` says that none is due.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from flowcontrol.operators.states import Operator

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


def of_ratio(ratio: Fraction) -> Window:
    """Return the operator of a window with a ratio in the long run."""
    return Window(numerator=ratio.numerator, denominator=ratio.denominator)
