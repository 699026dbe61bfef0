"""How many rows are visible, or lost for good, of a sink's subtasks that restart together.

Which rows they are nobody knows, as a rebalance may deal a row to another subtask when it comes
again. How many come again of those that are settled is known, and that is what a guarantee needs.
"""

from flowcontrol.protocol.kept import Kept


class SettledRows(Kept):
    """The rows of some subtasks, counted together.

    Attributes
    ----------
    settled : int
        Rows that are visible, or lost for good.
    passed : int
        Rows that came since the beginning, in the history that is left after restarts: those that
        became visible, were dropped, or do not come again. Less than ``settled`` while rows come
        again. Rows of a transaction that expired are in neither number, since they may come again.

    Examples
    --------
    >>> rows = SettledRows()
    >>> rows.show(10), rows.unseen(4)
    (0, 4)
    >>> rows.go_back(10, lost=0)
    >>> rows.show(3), rows.show(11), rows.settled
    (3, 7, 14)
    """

    _kept = ("settled", "passed")

    def __init__(self) -> None:
        self.settled = self.passed = 0

    @property
    def coming(self) -> int:
        """Rows that are settled, and come again."""
        return max(0, self.settled - self.passed)

    def show(self, rows: int) -> int:
        """Make rows visible; return how many of them were settled before."""
        again = self._known(rows)
        self.passed += rows
        self.settled = max(self.settled, self.passed)
        return again

    def drop(self, rows: int) -> int:
        """Pass over those of some rows that were settled before; return how many."""
        again = self._known(rows)
        self.passed += again
        return again

    def unseen(self, rows: int) -> int:
        """Return how many are not settled of rows that came, or were to come, behind the passed."""
        return max(0, self.passed + rows - self.settled)

    def go_back(self, rows: int, lost: int) -> None:
        """Have rows come again.

        Parameters
        ----------
        rows : int
            How many of the passed; less than 0: the others do not come again, but are passed.
        lost : int
            Rows that do not come again, and never were visible.
        """
        self.passed -= rows
        self.settled += lost

    def _known(self, rows: int) -> int:
        return min(rows, self.coming)
