"""What a micro-batch costs: a fixed part and so much a byte, learnt from the last batches.

The model is ``duration = (fixed + size * byte) * noise``. Now and then one batch takes far longer
for a reason of its own (a cold start, a garbage collection), and now and then both costs change.
The same durations have many explanations, so the answer is not one line but a set of lines with
their weights: lines through each batch that part its duration in several ways, and lines through
two batches. A line weighs what the durations since the last change make likely, summed over all
places at which that change may have been.

Pure functions of numbers: no clock, no random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHARES = np.array([0, 0.05, 0.15, 0.3, 0.5, 0.7, 0.82, 0.9, 0.95, 0.975, 0.99, 0.997])
"""Parts of a batch's duration that its fixed cost may be."""

LAGS = 6
"""Batches before it with which a batch is joined by a line."""

NOISE = np.array([0.04, 0.12, 0.25])
"""Standard deviations that the logarithm of a duration may have."""

ODD, SLOW, FAST = 0.05, 1.5, 0.7
"""Chance that a batch says nothing on the next; mean logarithm by which it is slower then, or
faster, which one in five is."""

CHANGE = 0.02
"""Chance that the costs change between two batches."""


@dataclass(frozen=True)
class CostBelief:
    """Lines that explain the last batches, and how likely each is.

    Attributes
    ----------
    fixed_s : ndarray, shape (lines,)
        Duration of a batch without any bytes, s.
    byte_s : ndarray, shape (lines,)
        What each byte adds, s.
    weights : ndarray, shape (lines,)
        Probabilities; their sum is 1.
    since : int
        Newest batches that the same costs explain, most likely.
    """

    fixed_s: Floats
    byte_s: Floats
    weights: Floats
    since: int

    def quantile(self, values: Floats, part: float) -> float:
        """Return the value of a line below which a part of all the weight lies."""
        order = np.argsort(values, kind="stable")
        place = int(np.searchsorted(np.cumsum(self.weights[order]), part))
        return float(values[order[min(place, len(order) - 1)]])

    def chance_above(self, seconds: float) -> float:
        """Return how likely the fixed cost is above a duration."""
        return float(self.weights[self.fixed_s > seconds].sum())

    def expected_s(self, size: float) -> float:
        """Return how long a batch of a size takes, s: the median."""
        return self.quantile(self.fixed_s + self.byte_s * size, 0.5)

    @property
    def fixed(self) -> float:
        """The fixed cost, s: the median."""
        return self.quantile(self.fixed_s, 0.5)

    @property
    def byte(self) -> float:
        """What a byte costs, s: the median."""
        return self.quantile(self.byte_s, 0.5)


def fit_costs(sizes: Floats, seconds: Floats) -> CostBelief:
    """Return what the last batches say.

    Parameters
    ----------
    sizes : ndarray, shape (batches,)
        Bytes of each batch, oldest first, above 0.
    seconds : ndarray, shape (batches,)
        Their durations, above 0.
    """
    fixed_s, byte_s = _lines(sizes, seconds)
    likely = _log_likelihoods(sizes, seconds, fixed_s, byte_s)
    count = len(sizes)
    since, newest = _summed(likely[:, ::-1])
    before = np.append(_summed(likely)[0][-2::-1], 0.0)
    is_whole = np.arange(1, count + 1) == count
    chance = since + before + np.log(np.where(is_whole, 1 - CHANGE * (count - 1), CHANGE))
    chance = np.exp(chance - chance.max())
    chance /= chance.sum()
    newest /= newest.sum(axis=(0, 2))[None, :, None]
    weights = np.einsum("snl,n->l", newest, chance)
    age = 1 + int(np.searchsorted(np.cumsum(chance), 0.5))
    return CostBelief(fixed_s, byte_s, weights / weights.sum(), min(age, count))


def _lines(sizes: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Return the fixed cost and the cost of a byte of all lines that are considered."""
    fixed = [np.outer(seconds, SHARES).ravel()]
    byte = [np.outer(seconds / sizes, 1 - SHARES).ravel()]
    for lag in range(1, min(LAGS, len(sizes) - 1) + 1):
        apart = sizes[lag:] - sizes[:-lag]
        is_apart = np.abs(apart) > 0.01 * sizes[lag:]
        slope = (seconds[lag:] - seconds[:-lag])[is_apart] / apart[is_apart]
        start = seconds[lag:][is_apart] - slope * sizes[lag:][is_apart]
        is_line = (slope > 0) & (start >= 0)
        fixed.append(start[is_line])
        byte.append(slope[is_line])
    return np.concatenate(fixed), np.concatenate(byte)


def _log_likelihoods(sizes: Floats, seconds: Floats, fixed_s: Floats, byte_s: Floats) -> Floats:
    """Return how likely each duration is, by noise, batch and line."""
    off = np.log(seconds[:, None] / (fixed_s + byte_s * sizes[:, None]))
    slow = 0.8 / SLOW * np.exp(-np.maximum(off, 0) / SLOW)
    fast = 0.2 / FAST * np.exp(np.minimum(off, 0) / FAST)
    odd = ODD * np.where(off > 0, slow, fast)
    noise = NOISE[:, None, None]
    usual = np.exp(-0.5 * (off / noise) ** 2) / (noise * np.sqrt(2 * np.pi))
    found: Floats = np.log((1 - ODD) * usual + odd)
    return found


def _summed(likely: Floats) -> tuple[Floats, Floats]:
    """Return how likely the first batches together are, for each number of them.

    Returns
    -------
    tuple of ndarray
        The logarithm of the mean over noise and lines, and each line's own in proportion.
    """
    together = np.cumsum(likely, axis=1)
    most = together.max(axis=(0, 2))
    own = np.exp(together - most[None, :, None])
    return most + np.log(own.mean(axis=(0, 2))), own
