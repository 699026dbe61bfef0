"""Progress of a sweep: a bar on a terminal, a plain line every tenth elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

from flowcontrol.diagnosis.wording import seconds

__all__ = ["SweepProgress"]

_LINES: Final = 10
"""Plain lines over a whole sweep, the last one at its end."""


class SweepProgress:
    """Shows how far a sweep is: variants done, variants per second, time left.

    Use it as a context manager; nothing is shown before it is entered.

    Parameters
    ----------
    total : int
        Variants of the whole sweep, at least 1.
    done : int, default 0
        Where a continued sweep stands already.
    console : rich.console.Console, optional
        Where to; by default standard error, so that standard output holds results only.
    now : callable returning float, s
        The clock for the rate; by default a monotonic one.
    noun : str, default "variants"
        What is counted.

    Raises
    ------
    ValueError
        If ``total`` is below 1.
    """

    def __init__(
        self,
        total: int,
        done: int = 0,
        *,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
        noun: str = "variants",
    ) -> None:
        if total < 1:
            raise ValueError(f"a sweep has at least 1 variant, not {total}")
        self._total, self._done, self._first, self._failed = total, done, done, 0
        self._console = console or Console(stderr=True)
        self._now = now
        self._noun = noun
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

    def update(self, done: int, failed: int = 0) -> None:
        """Show a new state.

        Parameters
        ----------
        done : int
            Variants in the table, those of earlier starts included.
        failed : int, default 0
            Variants that could not be run.
        """
        self._done, self._failed = done, failed
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, description=self._text())
            self._bar.refresh()
        elif self._tenth() >= self._next_line:
            self._next_line = self._tenth() + 1
            share = 100 * self._done // self._total
            self._console.print(f"{share:3d} %  {self._text()}", highlight=False, soft_wrap=True)

    def _tenth(self) -> int:
        return _LINES * self._done // self._total

    def _text(self) -> str:
        """Return what stands beside the bar."""
        text = f"{self._done:,} of {self._total:,} {self._noun}"
        elapsed, ran = self._now() - self._started_at, self._done - self._first
        if elapsed > 0 and ran > 0:
            left = self._total - self._done - self._failed
            text += f", {seconds(ran / elapsed)}/s"
            text += f", about {_duration(left * elapsed / ran)} left" if left else ""
        return text + (f", {self._failed:,} failed" if self._failed else "")


def _duration(length_s: float) -> str:
    """Return a time as one looks at a clock: ``40 s``, ``3 min``, ``2.5 h``."""
    if length_s < 90:
        return f"{length_s:.0f} s"
    return f"{length_s / 60:.0f} min" if length_s < 5400 else f"{length_s / 3600:.1f} h"
