"""Parts of a run: the samples in a window of time, and how much counters grew in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flowcontrol.analysis.panel import Window

if TYPE_CHECKING:
    import pandas as pd


def within(samples: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Return the samples whose interval lies in the window."""
    return samples[(samples["t_s"] > window[0]) & (samples["t_s"] <= window[1])]


def growth_by(
    samples: pd.DataFrame, owner: Sequence[str], columns: Sequence[str], window: Window
) -> pd.DataFrame:
    """Return how much cumulative columns grew in a window, a row per owner.

    - ``samples``: rows of a result table, ordered by time; those before the window are needed too.
    - ``owner``: columns that name who counts: ``["subtask"]``, ``["sender", "receiver"]``.
    - ``columns``: columns of whole numbers that only grow.
    - ``window`` (s): from and until.

    Returns whole numbers, indexed by owner: the last figure at or before the window's end less the
    last one at or before its start, 0 where there was none.
    """
    start, end = (
        samples[samples["t_s"] <= at].groupby(list(owner))[list(columns)].last() for at in window
    )
    return end - start.reindex(end.index, fill_value=0)


def growth(samples: pd.DataFrame, owner: Sequence[str], column: str, window: Window) -> int:
    """Return the growth of a cumulative column in a window, summed over its owners."""
    return int(growth_by(samples, owner, [column], window)[column].sum())
