"""Progress of a run: a bar on a terminal, a plain line every tenth elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

from flowcontrol.diagnosis.wording import seconds

__all__ = ["RunProgress"]

_LINES = 10
"""Plain lines over a whole run, the last one at its end."""


class RunProgress:
    """Shows how far a run is: rounds done, emulated time, rows, rows per second.

    Use it as a context manager; nothing is shown before it is entered. On a terminal it is one
    bar that is redrawn, elsewhere (a file, a CI log) a line at every tenth of the rounds.

    Parameters
    ----------
    total_rounds : int
        Rounds of the whole run, at least 1.
    round_s : float, s
        Emulated time of a round.
    rounds_done, rows : int, default 0
        Where a resumed run stands already; only what comes on top counts for rows per second.
    console : rich.console.Console, optional
        Where to; by default standard error, so that standard output holds results only.
    now : callable returning float, s
        The clock for rows per second; by default a monotonic one.

    Raises
    ------
    ValueError
        If ``total_rounds`` is below 1.

    Examples
    --------
    >>> with RunProgress(500, 0.2) as progress:  # doctest: +SKIP
    ...     progress.update(rounds_done=1, rows=120)
    """

    def __init__(
        self,
        total_rounds: int,
        round_s: float,
        *,
        rounds_done: int = 0,
        rows: int = 0,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if total_rounds < 1:
            raise ValueError(f"a run has at least 1 round, not {total_rounds}")
        self._total = total_rounds
        self._round_s = round_s
        self._done, self._rows, self._first_rows = rounds_done, rows, rows
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
        self._task = self._bar.add_task(self._text(), total=total_rounds, completed=rounds_done)

    def __enter__(self) -> Self:
        """Start to show progress."""
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

    def update(self, rounds_done: int, rows: int) -> None:
        """Show a new state.

        Parameters
        ----------
        rounds_done : int
            Rounds that are complete, those before a restart included.
        rows : int
            Rows that were moved so far, those before a restart included.
        """
        self._done, self._rows = rounds_done, rows
        if self._console.is_terminal:
            self._bar.update(self._task, completed=rounds_done, description=self._text())
            self._bar.refresh()
        elif self._tenth() >= self._next_line:
            self._next_line = self._tenth() + 1
            share = 100 * self._done // self._total
            self._console.print(f"{share:3d} %  {self._text()}", highlight=False, soft_wrap=True)

    def _tenth(self) -> int:
        """Return how many tenths of the run are complete."""
        return _LINES * self._done // self._total

    def _text(self) -> str:
        """Return what stands beside the bar."""
        elapsed = self._now() - self._started_at
        speed = (self._rows - self._first_rows) / elapsed if elapsed > 0 else 0.0
        return (
            f"round {self._done:,} of {self._total:,}, {seconds(self._done * self._round_s)} s "
            f"emulated, {self._rows:,} rows, {speed:,.0f} rows/s"
        )
