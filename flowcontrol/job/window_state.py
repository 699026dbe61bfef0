"""What a subtask holds of windows after a round, as a typed value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from flowcontrol.operators.window_states import WindowTask
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.state import copied
from flowcontrol.protocol.windows.keeping import further_of, open_places
from flowcontrol.protocol.windows.states import (
    NONE,
    ColumnValues,
    WindowEntry,
    Windows,
    WindowStore,
)


class Result(NamedTuple):
    """A result of a window.

    Attributes
    ----------
    key : int
        Number of the key, from 0.
    start, end : int
        First millisecond of the window, and the one behind its last.
    records : int
        Records in it.
    round : int
        When it was put out.
    valued : int
        The records that have a value; made ones have the value 1.
    sum, min, max : int
        Of these values, in units.
    wraps : int
        How often the sum has left 64 bits.
    further : tuple of int
        Of each column beside the first the last five, one column behind the other.
    """

    key: int
    start: int
    end: int
    records: int
    round: int
    valued: int
    sum: int
    min: int
    max: int
    wraps: int
    further: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowState:
    """What a subtask holds of windows.

    Attributes
    ----------
    held : WindowTask
        What is passed on after a burst, and its keys.
    store : WindowStore
        How far its windows are, and the newest result.
    entries : tuple[WindowEntry, ...]
        The windows that are kept, the one that began first in front. Where the chains of buckets
        lead depends on how much room there is, and is left out.
    further : tuple[tuple[ColumnValues, ...], ...]
        What each of them holds of the columns beside the first; empty if there are none.
    results : tuple[Result, ...]
        What it put out in the round, in order.
    operators : tuple[WatermarkOperator, ...]
        Of Spark's windows: what it has seen of each of its inputs.
    """

    held: WindowTask
    store: WindowStore
    entries: tuple[WindowEntry, ...]
    further: tuple[tuple[ColumnValues, ...], ...]
    results: tuple[Result, ...]
    operators: tuple[WatermarkOperator, ...] = ()

    @property
    def late_records(self) -> int:
        """Records that were too late for every window; of Spark's windows, groups."""
        return self.store.late

    @property
    def open_windows(self) -> int:
        """Windows that are kept, of all keys."""
        return self.store.open - self.held.batch.late

    @property
    def state_bytes(self) -> int:
        """Their state, bytes."""
        return self.open_windows * self.held.bytes_per_key


def window_state(
    held: WindowTask,
    windows: Windows,
    results: Sequence[Result],
    operators: Sequence[WatermarkOperator] = (),
) -> WindowState:
    """Return a copy of a subtask's windows after a round."""
    places = open_places(windows)
    entries = tuple(replace(windows.entries[place - 1], chain=NONE) for place in places)
    own = places if windows.settings.further > 0 else ()
    further = tuple(tuple(map(replace, further_of(windows, place))) for place in own)
    seen = tuple(map(replace, operators))
    store = copied(windows.store)
    return WindowState(copied(held), store, entries, further, tuple(results), seen)
