"""A thread that goes on releasing when a sender's batch has ended with messages that wait."""

import threading
import time
from collections.abc import Callable


class BackgroundRelease:
    """Repeats a step until nothing waits.

    - ``lock``: the sender's. Each step holds it, and so does the end of the thread: a caller that
      adds messages sees either a running thread or none.
    - ``step``: releases what it can: True if it did, False if it could not, None if nothing waits.
    - ``waits_s``: shortest and longest pause between two steps, seconds.
    """

    def __init__(
        self, lock: threading.RLock, step: Callable[[], bool | None], waits_s: tuple[float, float]
    ) -> None:
        self._lock, self._step, self._waits_s = lock, step, waits_s
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread is at work."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread unless it runs."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="flowcontrol-release", daemon=True
                )
                self._thread.start()

    def raise_failure(self) -> None:
        """Raise what ended the thread, once."""
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        shortest, longest = self._waits_s
        wait = shortest
        while (moved := self.try_step()) is not None:
            wait = shortest if moved else min(2 * wait, longest)
            time.sleep(wait)

    def try_step(self) -> bool | None:
        """Run a step; keep its failure for the query's next batch, which raises it."""
        with self._lock:
            try:
                moved = self._step()
            except Exception as error:
                moved, self._failure = None, error
            if moved is None:
                self._thread = None
            return moved
