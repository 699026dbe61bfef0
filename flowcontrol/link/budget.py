"""How much of each channel a micro-batch may take, so that it takes its target time.

Flink's buffer debloating (:mod:`flowcontrol.protocol.debloating`) on micro-batches: a channel's
throughput times the target time is what it may take. A batch has one duration for all of its
channels; it is attributed to them in proportion to what each was expected to take, and whoever
makes up most of the batch learns most from it. So a channel whose rows are slow is found out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowcontrol.protocol.debloating import debloat

__all__ = ["Budget"]

LARGEST = 1 << 50
"""No limit, bytes: credit is the limit above the target."""

SLOWEST = 1.0
"""Least rate that is believed, bytes/s."""


LEAST_WORK = 0.25
"""Part of the target that rows get, however long a batch takes without any."""


class _Batch(NamedTuple):
    """Bytes of a batch and how long it took, s."""

    nbytes: int
    seconds: float


class FixedCost:
    """What a micro-batch costs however few rows it has.

    Learnt from a batch that had much less to do than the one before and took as long. Without it a
    batch whose cost alone is the target would be made smaller and smaller, and never shorter.

    Attributes
    ----------
    seconds : float
        The estimate; 0 as long as nothing speaks for any.
    """

    LESS, AS_LONG, FORGET = 0.6, 0.85, 0.98

    def __init__(self) -> None:
        self.seconds = 0.0
        self._anchor: _Batch | None = None

    def observe(self, nbytes: int, seconds: float) -> None:
        """Learn from a batch."""
        self.seconds = min(self.seconds * self.FORGET, seconds)
        now, anchor = _Batch(nbytes, seconds), self._anchor
        if anchor is None or now.nbytes > self.LESS * anchor.nbytes:
            if anchor is None or now.nbytes >= 0.9 * anchor.nbytes:
                self._anchor = now
            return
        if seconds >= self.AS_LONG * anchor.seconds:
            slope = max(0.0, anchor.seconds - seconds) / (anchor.nbytes - nbytes)
            self.seconds = max(0.0, seconds - slope * nbytes)
        self._anchor = now


class Budget:
    """Shares out the target time among the channels of one receiver.

    Parameters
    ----------
    target_s : float
        How long a batch should take.
    first_bytes : int
        What a channel may take in a batch before anything was measured.
    rates : mapping of str to float, optional
        Bytes a second of each channel when it has the receiver to itself, of an earlier start.
    """

    def __init__(
        self, target_s: float, first_bytes: int, rates: Mapping[str, float] | None = None
    ) -> None:
        self.target_s, self.first_bytes = target_s, max(1, first_bytes)
        self.rates: dict[str, float] = dict(rates or {})
        self._sizes: dict[str, float] = {}
        self._fixed = FixedCost()

    def observe(
        self, taken: Mapping[str, int], duration_s: float, *, is_limited: bool = True
    ) -> None:
        """Learn from a batch.

        Parameters
        ----------
        taken : mapping of str to int
            Bytes of each channel in it.
        duration_s : float
            From its planning to the planning of the next.
        is_limited : bool, default True
            Whether the budget was what limited it. A batch that took all there was says only
            what a channel can do at least.
        """
        taken = {channel: nbytes for channel, nbytes in taken.items() if nbytes > 0}
        if not taken or duration_s <= 0:
            return
        if is_limited:
            self._fixed.observe(sum(taken.values()), duration_s)
        duration_s = max(duration_s - self._fixed.seconds, duration_s / 20)
        mean = max(SLOWEST, sum(taken.values()) / duration_s)
        for channel in taken:
            self.rates.setdefault(channel, mean)
        expected = {channel: taken[channel] / self.rates[channel] for channel in taken}
        factor = sum(expected.values()) / duration_s
        if not is_limited and duration_s < self.work_s and factor < 1:
            return
        most = max(expected.values())
        for channel, seconds in expected.items():
            rate = self.rates[channel] * factor ** (seconds / most)
            self.rates[channel] = max(SLOWEST, rate)

    @property
    def work_s(self) -> float:
        """The part of the target that rows may take."""
        return max(self.target_s - self._fixed.seconds, LEAST_WORK * self.target_s)

    def allow(self, available: Mapping[str, int]) -> dict[str, int]:
        """Return what each channel may take now, bytes.

        Parameters
        ----------
        available : mapping of str to int
            What its credit would let it take.

        Notes
        -----
        Every channel has an equal part of the time; what one does not need goes to the others.
        """
        wanting = {channel: nbytes for channel, nbytes in available.items() if nbytes > 0}
        allowed: dict[str, int] = {}
        for channel, nbytes in wanting.items():
            last = self._sizes.get(channel, float(self.first_bytes))
            rate = self.rates.get(channel)
            if rate is not None:
                target_us = max(1, round(self.work_s * 1000)) * 1000
                last = debloat(last, round(rate), len(wanting), target_us, 1, 1, LARGEST)
            self._sizes[channel] = last
            allowed[channel] = min(nbytes, round(last))
        return self._shared_out(wanting, allowed)

    def _shared_out(self, wanting: Mapping[str, int], allowed: dict[str, int]) -> dict[str, int]:
        """Give the time that some channels leave to those that want more."""
        if any(channel not in self.rates for channel in wanting):
            return allowed
        for _ in range(len(wanting)):
            used_s = sum(allowed[channel] / self.rates[channel] for channel in wanting)
            hungry = [channel for channel in wanting if allowed[channel] < wanting[channel]]
            left_s = self.work_s - used_s
            if not hungry or left_s < self.work_s / 100:
                break
            for channel in hungry:
                more = int(left_s / len(hungry) * self.rates[channel])
                allowed[channel] = min(wanting[channel], allowed[channel] + more)
                self._sizes[channel] = max(self._sizes[channel], float(allowed[channel]))
        return allowed

    def to_json(self) -> dict[str, Any]:
        """Return the rates, for the next start."""
        return {channel: round(rate, 1) for channel, rate in self.rates.items()}
