"""How much of each channel a micro-batch may take, so that it takes its target time.

Flink's buffer debloating (:mod:`flowcontrol.protocol.debloating`) on micro-batches: a channel's
throughput times its part of the target time is what it may take. A batch has one duration for all
of its channels; the throughputs are those that explain the durations of the last batches best.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from flowcontrol.protocol.debloating import debloat

__all__ = ["Budget"]

LARGEST = 1 << 50
"""No limit, bytes: credit is the limit above the target."""

SLOWEST = 1.0
"""Least rate that is believed, bytes/s."""

LEAST_WORK = 0.25
"""Part of the target that rows get, however long a batch takes without any."""

BATCHES, FADE = 32, 0.9
"""Batches that the rates are fitted to, and what each weighs beside the one after it."""

LATE, LEAST_PART = 1.5, 0.25
"""Times its target that a batch may take and still counts as in time; the part of what such a batch
has done that the next ones do at least."""

SURPRISE = 2.0
"""Times its expected duration that a batch takes when something has changed."""

NO_COST = 0.3
"""Weight, in batches, of the expectation that a batch costs nothing but its rows."""

EQUAL = 0.5
"""Weight, in batches, of the expectation that all channels are equally fast."""

MOST_APART = 50.0
"""Most that a channel is believed to be faster or slower than their mean."""


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
        self._fixed_s = 0.0
        self._done_in_time = 0
        self._seen: deque[tuple[dict[str, int], float]] = deque(maxlen=BATCHES)

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
        expected_s = self._expected_s(taken)
        if not is_limited and duration_s < self.target_s and duration_s > expected_s > 0:
            return
        if expected_s > 0 and duration_s > SURPRISE * expected_s:
            self._seen.clear()  # something has changed: what was seen before says little now
            self._done_in_time = 0
        is_late = duration_s > LATE * self.target_s
        self._done_in_time = 0 if is_late else max(self._done_in_time, sum(taken.values()))
        self._seen.append((taken, duration_s))
        self._fit()
        work_s = max(duration_s - self._fixed_s, duration_s / 20)
        expected_s = self._expected_s(taken) - self._fixed_s
        if work_s > expected_s:  # what has become slower is believed at once
            for channel in self.rates:
                self.rates[channel] *= expected_s / work_s

    def _expected_s(self, taken: Mapping[str, int]) -> float:
        """How long a batch should take, as far as is known; 0 if nothing is."""
        if any(channel not in self.rates for channel in taken):
            return 0.0
        return self._fixed_s + sum(taken[channel] / self.rates[channel] for channel in taken)

    def _fit(self) -> None:
        """Find the cost of a batch, and of a byte of each channel, that explain the last batches.

        Least squares of relative errors, newer batches weighing more, drawn towards one cost for
        all channels and none for the batch: the same durations have many explanations, and a wait
        that has nothing to do with any channel, such as for the next link of a chain, must not
        part them.
        """
        channels = sorted({channel for taken, _ in self._seen for channel in taken})
        weights = np.sqrt([FADE**age for age in range(len(self._seen))][::-1])
        seconds = np.array([duration for _, duration in self._seen])
        nbytes = np.array([[taken.get(c, 0) for c in channels] for taken, _ in self._seen], float)
        mean = float((weights**2 @ seconds) / (weights**2 @ nbytes.sum(axis=1)))
        known = np.column_stack([nbytes * mean, np.full(len(seconds), self.target_s)])
        prior = np.diag([EQUAL**0.5] * len(channels) + [NO_COST**0.5])
        system = np.vstack([known * (weights / seconds)[:, None], prior])
        wanted = np.concatenate([weights, [EQUAL**0.5] * len(channels), [0.0]])
        found = np.linalg.lstsq(system, wanted, rcond=None)[0]
        self._fixed_s = float(np.clip(found[-1], 0.0, 2.0)) * self.target_s
        costs = np.clip(found[:-1], 1 / MOST_APART, MOST_APART)
        for channel, cost in zip(channels, costs.tolist(), strict=True):
            self.rates[channel] = max(SLOWEST, 1 / (mean * cost))

    @property
    def work_s(self) -> float:
        """The part of the target that rows may take."""
        return max(self.target_s - self._fixed_s, LEAST_WORK * self.target_s)

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
        return self._at_least(wanting, self._shared_out(wanting, allowed))

    def _at_least(self, wanting: Mapping[str, int], allowed: dict[str, int]) -> dict[str, int]:
        """Keep batches from becoming ever smaller where that does not make them shorter.

        What a batch costs without any rows may be all of the target. So none is planned with less
        than a part of the most that was done in time, or nearly, since something changed.
        """
        total, least = sum(allowed.values()), self._done_in_time * LEAST_PART
        if not 0 < total < least:
            return allowed
        return {c: min(wanting[c], round(n * least / total)) for c, n in allowed.items()}

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
