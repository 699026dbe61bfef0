"""Streams whose reader leaves, as with ``| head``: the work goes on, and its status counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


@contextmanager
def unread_dropped() -> Iterator[None]:
    """Drop what a command writes to a pipe that nobody reads any more.

    Without it rich ends the process with status 1, and what a command does behind the line that
    could not be written is left undone.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Unread(stream)) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


class _Unread:
    """A stream that leads nowhere once its pipe is broken."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        self._tried(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is kept, or drop it."""
        self._tried(self._stream.flush)

    def _tried(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # what Python writes at its end, too
            os.close(nowhere)
