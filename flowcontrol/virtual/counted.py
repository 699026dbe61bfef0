"""Counters of results that go on when the tasks that they are of begin anew."""

from collections.abc import Callable
from typing import Any


class Counted:
    """What has been counted since the start of the run.

    Parameters
    ----------
    read : callable
        Returns what stands in the memory now, an array of integers.
    """

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self.carried: Any = 0 * read()
        """What had been counted before tasks began anew."""

    def __call__(self) -> Any:
        """Return the counters."""
        return self._read() + self.carried

    def hold(self) -> Callable[[], None]:
        """Return what is to be called when tasks have begun anew."""
        before = self._read()

        def go_on() -> None:
            self.carried = self.carried + before - self._read()

        return go_on
