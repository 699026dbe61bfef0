"""Ctrl-C while queries run: once, it asks for an end between batches; twice, it interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["asking_on_interrupt"]


@contextmanager
def asking_on_interrupt(ask: Callable[[], None]) -> Iterator[None]:
    """Call a function on the first SIGINT instead of whatever would happen.

    Parameters
    ----------
    ask : callable
        Called from the signal handler; must not block.

    Notes
    -----
    pyspark's own handler (``SparkContext.__init__``) cancels all jobs, which ends a query in
    mid-batch, and raises ``KeyboardInterrupt``. It is back for a second SIGINT. Only the main
    thread of a process may have a handler: elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        ask()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
