"""Progress bars: redrawn on a terminal, a plain line per tenth of the work elsewhere."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

from flowcontrol.analysis.wording import seconds

_LINES: Final = 10
"""Plain lines over the whole work, the last one at its end."""


class ProgressBar(ABC):
    """A progress bar with a text next to it.

    Use it as a context manager; nothing is shown before it is entered. On a terminal one bar is
    redrawn; elsewhere (a file, a CI log) each tenth of the work prints a line.

    - ``total``: steps of the whole work, at least 1.
    - ``console``: by default standard error: standard output is for results.
    - ``now`` (s): clock of the rates; by default a monotonic one.
    """

    def __init__(
        self,
        total: int,
        done: int,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
        after_s: float = 0.0,
    ) -> None:
        self._total, self._done = total, done
        self._console = console or Console(stderr=True)
        self._now, self._after_s = now, after_s
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
        if self._console.is_terminal and self._after_s == 0:
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
        if self._elapsed_s() < self._after_s:
            return
        if self._console.is_terminal:
            self._bar.start()  # no harm if it has
            self._bar.update(self._task, completed=done, description=self._text())
            self._bar.refresh()
        elif self._tenth() >= self._next_line:
            self._next_line = self._tenth() + 1
            share = 100 * done // self._total
            self._console.print(f"{share:3d} %  {self._text()}", highlight=False, soft_wrap=True)

    def _tenth(self) -> int:
        """Return how many tenths of the work are complete."""
        return _LINES * self._done // self._total


class RunProgress(ProgressBar):
    """Progress of a run: rounds done, emulated time, rows, rows per second.

    - ``total_rounds``: rounds of the whole run, at least 1.
    - ``round_s`` (s): emulated time of a round.
    - ``rounds_done``, ``rows``: progress of a resumed run; the rate counts what is added to it.
    - ``console``: by default standard error: standard output is for results.
    - ``now`` (s): clock of the rate; by default a monotonic one.

    Raises ValueError if ``total_rounds`` is below 1.

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
        after_s: float = 0.0,
    ) -> None:
        if total_rounds < 1:
            raise ValueError(f"a run has at least 1 round, not {total_rounds}")
        self._round_s = round_s
        self._rows, self._first_rows = rows, rows
        super().__init__(total_rounds, rounds_done, console, now, after_s)

    def update(self, rounds_done: int, rows: int) -> None:
        """Show progress.

        ``rounds_done``: completed rounds, including those before a restart.
        """
        self._rows = rows
        self._show(rounds_done)

    def _text(self) -> str:
        """Return the text next to the bar."""
        elapsed_s = self._elapsed_s()
        speed = (self._rows - self._first_rows) / elapsed_s if elapsed_s > 0 else 0.0
        return (
            f"round {self._done:,} of {self._total:,}, {seconds(self._done * self._round_s)} s "
            f"emulated, {self._rows:,} rows, {speed:,.0f} rows/s"
        )


class SweepProgress(ProgressBar):
    """Progress of a sweep: variants done, variants per second, time left.

    - ``total``: variants of the whole sweep, at least 1.
    - ``console``: by default standard error: standard output is for results.
    - ``now`` (s): clock of the rate; by default a monotonic one.

    Raises ValueError if ``total`` is below 1.
    """

    def __init__(
        self,
        total: int,
        done: int = 0,
        *,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
        noun: str = "variants",
        after_s: float = 0.0,
    ) -> None:
        if total < 1:
            raise ValueError(f"a sweep has at least 1 variant, not {total}")
        self._first, self._failed, self._noun = done, 0, noun
        super().__init__(total, done, console, now, after_s)

    def update(self, done: int, failed: int = 0) -> None:
        """Show progress."""
        self._failed = failed
        self._show(done)

    def _text(self) -> str:
        """Return the text next to the bar."""
        text = f"{self._done:,} of {self._total:,} {self._noun}"
        elapsed_s, ran = self._elapsed_s(), self._done - self._first
        if elapsed_s > 0 and ran > 0:
            left = self._total - self._done - self._failed
            text += f", {seconds(ran / elapsed_s)}/s"
            text += f", about {_duration(left * elapsed_s / ran)} left" if left else ""
        return text + (f", {self._failed:,} failed" if self._failed else "")


def _duration(length_s: float) -> str:
    """Return a time in a readable unit: ``40 s``, ``3 min``, ``2.5 h``."""
    if length_s < 90:
        return f"{length_s:.0f} s"
    return f"{length_s / 60:.0f} min" if length_s < 5400 else f"{length_s / 3600:.1f} h"
