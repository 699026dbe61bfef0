"""Streams whose reader leaves, as with ``| head``: the work goes on, and its status counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, cast


@contextmanager
def unread_dropped() -> Iterator[None]:
    """Drop what a command writes to a pipe that nobody reads any more, or to no stream at all.

    Without it rich ends the process with status 1, and what a command does behind the line that
    could not be written is left undone. A character that the stream's encoding lacks becomes "?".
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Unread(_usable(stream))) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _usable(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the shell: >&-
        return Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="replace")
    return stream


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
