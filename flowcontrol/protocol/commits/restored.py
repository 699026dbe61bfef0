"""Rows of sinks at a restore: those that were staged, and those that come again.

What is counted of a channel is exact, and so is the sum over the subtasks; which subtask gets a row
when it comes again is not known before. So every rule here is one of sums, and what falls to a
subtask is shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from flowcontrol.protocol.commits.two_phase import is_expired
from flowcontrol.state.declared import Kept

# --- Runs of records that a transactional sink has staged.
#
# A run is records that were written at one time, counted: what it costs depends on the number
# of times, not of records.


@dataclass
class StagedRuns:
    """The records of one transaction."""

    began: int  # When it began
    start: int = 0  # Position of its first record in the input of the subtask
    # When the first record of each run was written, ascending, and how many there are.
    times: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    records: int = 0  # All of them; they have consecutive positions

    def add(self, now: int, start: int, records: int, resolution: int) -> None:
        """Add records that are written now, to the last run if that is less than this long ago."""
        if not self.records:
            self.start = start
        if self.times and now - self.times[-1] < resolution:
            self.counts[-1] += records
        else:
            self.times.append(now)
            self.counts.append(records)
        self.records += records


class RunStore(Kept):
    """A :class:`~.transactions.TransactionStore` of counts instead of rows.

    - ``timeout``: a transaction that is strictly older when it is committed is lost; None: never.
    - ``resolution``: records that are written less than this after the first of a run belong to it;
      1: runs of one time.
    - ``now``: the time; whoever calls the sink sets it before.
    """

    _kept = ("now", "_begun", "_staged")
    _values = (StagedRuns,)

    def __init__(
        self,
        timeout: int | None,
        resolution: int,
        show: Callable[[StagedRuns], None],
        lose: Callable[[StagedRuns], None],
    ) -> None:
        self.now = 0
        self._timeout, self._resolution = timeout, resolution
        self._show, self._lose = show, lose
        self._staged: dict[str, StagedRuns] = {}
        self._begun = 0

    @property
    def records(self) -> int:
        """Records that are staged."""
        return sum(runs.records for runs in self._staged.values())

    def begin(self) -> str:
        """Begin a transaction."""
        self._begun += 1
        name = str(self._begun)
        self._staged[name] = StagedRuns(self.now)
        return name

    def write(self, name: str, row: tuple[int, int], /) -> None:
        """Stage records: ``row`` is the position of the first, and how many there are."""
        self._staged[name].add(self.now, *row, self._resolution)

    def flush(self, name: str, /) -> None:
        """Do nothing: counts are safe."""

    def commit(self, name: str, /) -> None:
        """Show or lose what is staged; nothing for a transaction that is committed."""
        runs = self._staged.pop(name, None)
        if runs is not None:
            is_lost = is_expired(self.now, runs.began, self._timeout)
            (self._lose if is_lost else self._show)(runs)

    def abort(self, name: str, /) -> None:
        """Remove what is staged."""
        self._staged.pop(name, None)

    def keep(self, names: Collection[str]) -> None:
        """Remove all transactions but these, as the timeout of a real store does in the end."""
        self._staged = {name: runs for name, runs in self._staged.items() if name in names}


# --- A restore of all subtasks of a sink that restart together: what comes again, and what is
# lost.


class Returning(NamedTuple):
    """Rows of one subtask at a restore, as ``Delivery.restore`` names them."""

    # Those on their way; before the barrier that come again; that the checkpoint holds in flight.
    in_flight: int = 0
    early: int = 0
    stored: int = 0
    again: int | None = None  # The others since the checkpoint that come again; None: all of them


class Undone(NamedTuple):
    """Positions of one subtask when it is restored."""

    resumes_at: int  # Where the checkpoint's barrier was
    shown_to: int  # Up to where its rows are visible, dropped or expired
    position: int  # Up to where it had written
    # Rows last lost with a transaction: the first, and the one behind the last.
    expired: tuple[int, int]
