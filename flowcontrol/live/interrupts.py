"""Ctrl-C: while Spark starts it waits, while queries run it asks for an end between batches."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
    before = signal.getsignal(signal.SIGINT)

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        ask()

    with _handling(handle):
        yield


@contextmanager
def holding_interrupts() -> Iterator[None]:
    """Let every SIGINT wait for the end of the block; raise one ``KeyboardInterrupt`` then.

    Notes
    -----
    A JVM whose Python went away while it started (``pyspark.java_gateway``) cannot hand over
    its port, and stays for ever.
    """
    pressed: list[int] = []
    with _handling(lambda number, _frame: pressed.append(number)):
        yield
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a handler for SIGINT; afterwards the one of before, unless the block left another."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)
