"""How many bytes the pool of a link should hold so that both ends keep busy, and no more.

As in buffer debloating the measure is throughput times time (Little's law), the other way round:
not what may wait for a target time, but what must be there so that nobody waits. That is a batch
of the receiver so large that its fixed cost is a small part of it, and beside it what the receiver
reads while the sender writes its next source batch. Behind a slow sink both are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from flowcontrol.link.batch_size import fit_costs
from flowcontrol.link.settings import LinkSettings

BATCHES = 24
"""Batches that are remembered."""

FIXED_SHARE = 0.1
"""Part of a batch's time that its fixed cost may be: beyond that a larger pool gains little."""

LONGEST_S = 10.0
"""Time of a batch beyond which no pool grows, whatever its fixed cost may be: what waits in a
larger one waits long, is read again after a failure, and gains next to nothing."""

LIKELY = 0.35, 0.75
"""Quantiles of the sizes that likely costs give: a size between them stays. It grows to the lower
one, below the median, as buffers cost memory; a few odd batches do not shrink it."""

HYSTERESIS = 0.2
"""Relative change of the size that is not worth a change of the pool."""

MOST_GROWTH = 8.0
"""Times its size that a pool grows at once: a larger batch than ever seen shows what it costs."""


class Pace(NamedTuple):
    """What a receiver needs to keep busy."""

    # A batch of which the fixed cost is a small part, bytes; 0 as long as nothing is known.
    batch_bytes: float = 0.0
    byte_s: float = 0.0  # What a byte takes, s

    def to_json(self) -> list[float]:
        """Return what the ledger keeps."""
        return [round(self.batch_bytes), float(f"{self.byte_s:.4g}")]


class PaceMeter:
    """Learns a receiver's pace from its batches.

    - ``target_s``: how long a batch should take: then it holds no more than that. Without one it is
      meant to take :data:`LONGEST_S` at most.
    - ``target_s``: the target, which may change.
    - ``pace``: what is known so far.
    """

    def __init__(self, target_s: float | None) -> None:
        self.target_s = target_s
        self._sizes: list[float] = []
        self._seconds: list[float] = []
        self.pace = Pace()

    def restore(self, pace: Iterable[float]) -> None:
        """Restore what an earlier start learnt."""
        self.pace = Pace(*pace)

    def observe(self, nbytes: int, seconds: float) -> None:
        """Learn from a batch: bytes, and seconds from its planning to the planning of the next."""
        if nbytes <= 0 or seconds <= 0:
            return
        self._sizes = [*self._sizes, float(nbytes)][-BATCHES:]
        self._seconds = [*self._seconds, seconds][-BATCHES:]
        belief = fit_costs(np.array(self._sizes), np.array(self._seconds))
        longest_s = np.maximum(LONGEST_S, 2 * belief.fixed_s)
        if self.target_s is not None:
            longest_s = np.maximum(self.target_s, belief.fixed_s)
        meant_s = np.minimum(belief.fixed_s / FIXED_SHARE, longest_s)
        sizes = np.maximum(meant_s - belief.fixed_s, 0) / np.maximum(belief.byte_s, 1e-15)
        low, high = (belief.quantile(sizes, share) for share in LIKELY)
        self.pace = Pace(min(max(self.pace.batch_bytes, low), high), belief.byte)


def wanted_bytes(paces: Mapping[str, Iterable[Pace]], away_s: float) -> float:
    """Return what the pool of a sender should hold, bytes.

    ``paces``: of each receiver, that of each of its queries: they read at the same time.
    """
    return max((sum(_needs(pace, away_s) for pace in own) for own in paces.values()), default=0.0)


def _needs(pace: Pace, away_s: float) -> float:
    return pace.batch_bytes + (away_s / pace.byte_s if pace.byte_s > 0 else 0.0)


def resized(settings: LinkSettings, now: int, wanted: float, *, is_short: bool) -> int:
    """Return the floating buffers that a link's pool, or gate, has next.

    - ``wanted``: what it should hold, bytes.
    - ``is_short``: as :func:`next_floating` has it.
    """
    least, most = settings.floating_buffers, settings.most_floating
    return next_floating(now, least, most, settings.floating_for(wanted), is_short=is_short)


def next_floating(now: int, least: int, most: int, wanted: int, *, is_short: bool) -> int:
    """Return the floating buffers that a pool has next.

    ``is_short``: whether messages wait for a buffer: a pool that suffices does not grow.
    """
    wanted = max(least, min(most, wanted))
    if abs(wanted - now) <= HYSTERESIS * now and least <= now <= most:
        return now
    if wanted > now:
        return min(wanted, int(max(now, 1) * MOST_GROWTH) + 1) if is_short else max(now, least)
    return wanted
