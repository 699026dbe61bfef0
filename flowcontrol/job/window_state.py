"""What a subtask holds of windows after a round, as a typed value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flowcontrol.job.windowed_task import Result
from flowcontrol.operators.window_states import WindowTask
from flowcontrol.protocol.state import copied
from flowcontrol.protocol.windows.keeping import open_entries
from flowcontrol.protocol.windows.states import NONE, WindowEntry, Windows, WindowStore


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
    results : tuple[Result, ...]
        What it put out in the round, in order.
    """

    held: WindowTask
    store: WindowStore
    entries: tuple[WindowEntry, ...]
    results: tuple[Result, ...]

    @property
    def late_records(self) -> int:
        """Records that were too late for every window."""
        return self.store.late

    @property
    def open_windows(self) -> int:
        """Windows that are kept, of all keys."""
        return self.store.open

    @property
    def state_bytes(self) -> int:
        """Their state, bytes."""
        return self.store.open * self.held.bytes_per_key


def window_state(held: WindowTask, windows: Windows, results: Sequence[Result]) -> WindowState:
    """Return a copy of a subtask's windows after a round."""
    entries = tuple(replace(entry, chain=NONE) for entry in open_entries(windows))
    return WindowState(copied(held), copied(windows.store), entries, tuple(results))
