"""Progress of a run."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.bar import ProgressBar


class RunProgress(ProgressBar):
    """Progress of a run: rounds done, emulated time, rows, rows per second.

    Parameters
    ----------
    total_rounds : int
        Rounds of the whole run, at least 1.
    round_s : float, s
        Emulated time of a round.
    rounds_done, rows : int, default 0
        Progress of a resumed run; the rate counts what is added to it.
    console : rich.console.Console, optional
        By default standard error: standard output is for results.
    now : callable returning float, s
        Clock of the rate; by default a monotonic one.

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
        self._round_s = round_s
        self._rows, self._first_rows = rows, rows
        super().__init__(total_rounds, rounds_done, console, now)

    def update(self, rounds_done: int, rows: int) -> None:
        """Show progress.

        Parameters
        ----------
        rounds_done : int
            Completed rounds, including those before a restart.
        rows : int
            Rows moved, including those before a restart.
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
