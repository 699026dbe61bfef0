"""Progress of a sweep."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.bar import ProgressBar


class SweepProgress(ProgressBar):
    """Progress of a sweep: variants done, variants per second, time left.

    Parameters
    ----------
    total : int
        Variants of the whole sweep, at least 1.
    done : int, default 0
        Variants done before, of a continued sweep.
    console : rich.console.Console, optional
        By default standard error: standard output is for results.
    now : callable returning float, s
        Clock of the rate; by default a monotonic one.
    noun : str, default "variants"
        Name of what is counted.

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
        self._first, self._failed, self._noun = done, 0, noun
        super().__init__(total, done, console, now)

    def update(self, done: int, failed: int = 0) -> None:
        """Show progress.

        Parameters
        ----------
        done : int
            Variants in the table, including those of earlier starts.
        failed : int, default 0
            Variants that failed.
        """
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
