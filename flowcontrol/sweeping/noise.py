"""When two points of a sweep differ, and when the difference is noise.

Two means are the same within the largest of three tolerances: :data:`BAND` of the larger one, which
is what buffers that are not yet full, or not yet empty, make of a run of ordinary length; the 95 %
confidence interval of their difference, where there are replications; and the least step of the
figure, a round for a latency and a record for what is counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas as pd

BAND: Final = 0.01
"""Share of the larger of two means up to which they are the same."""


def is_noise(frame: pd.DataFrame, one: int, other: int) -> bool:
    """Tell whether two points of a sweep are the same in a metric.

    Parameters
    ----------
    frame : pandas.DataFrame
        Of :func:`~flowcontrol.sweeping.metric.points_frame`: ``mean``, ``error``, ``step``.
    one, other : int
        Rows of it, both with a mean.

    Returns
    -------
    bool
        True if they differ by no more than the tolerance.
    """
    means = [float(frame["mean"][row]) for row in (one, other)]
    errors = [float(frame["error"][row]) for row in (one, other)]
    steps = [float(frame["step"][row]) for row in (one, other)]
    band = BAND * max(map(abs, means))
    return abs(means[0] - means[1]) <= max(band, math.hypot(*errors), *steps)


def noise_text(frame: pd.DataFrame) -> str:
    """Return how much counts as noise, for a sentence: ``up to 1 %``."""
    text = f"up to {100 * BAND:g} %"
    if (frame["error"] > 0).any():
        text += ", or as the replications scatter,"
    return text
