"""Progress bars: redrawn on a terminal, a plain line per tenth of the work elsewhere."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

_LINES: Final = 10
"""Plain lines over the whole work, the last one at its end."""


class ProgressBar(ABC):
    """A progress bar with a text next to it.

    Use it as a context manager; nothing is shown before it is entered. On a terminal one bar is
    redrawn; elsewhere (a file, a CI log) each tenth of the work prints a line.

    Parameters
    ----------
    total : int
        Steps of the whole work, at least 1.
    done : int
        Steps done before.
    console : rich.console.Console, optional
        By default standard error: standard output is for results.
    now : callable returning float, s
        Clock of the rates; by default a monotonic one.
    """

    def __init__(
        self,
        total: int,
        done: int,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._done = total, done
        self._console = console or Console(stderr=True)
        self._now = now
        self._started_at = now()
        self._next_line = self._tenth() + 1
        self._bar = Progress(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            console=self._console,
            auto_refresh=False,
            expand=True,
        )
        self._task = self._bar.add_task(self._text(), total=total, completed=done)

    def __enter__(self) -> Self:
        """Start the bar."""
        self._started_at = self._now()
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last state of the bar on the terminal."""
        if self._console.is_terminal:
            self._bar.stop()

    @abstractmethod
    def _text(self) -> str:
        """Return the text next to the bar."""

    def _elapsed_s(self) -> float:
        """Return the time since the work began, s."""
        return self._now() - self._started_at

    def _show(self, done: int) -> None:
        """Show the number of steps done."""
        self._done = done
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, description=self._text())
            self._bar.refresh()
        elif self._tenth() >= self._next_line:
            self._next_line = self._tenth() + 1
            share = 100 * done // self._total
            self._console.print(f"{share:3d} %  {self._text()}", highlight=False, soft_wrap=True)

    def _tenth(self) -> int:
        """Return how many tenths of the work are complete."""
        return _LINES * self._done // self._total
