"""How much of each channel a micro-batch may take, so that it takes its target time.

As Flink's buffer debloating (:mod:`flowcontrol.protocol.network.debloating`) sizes what is in
flight by the throughput, this sizes a micro-batch by what the last ones took. A batch has one
duration for all of its channels: :mod:`.batch_size` finds its size, and here channels share it.
"""

import logging
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from flowcontrol.link.batch_size import BatchSize

BATCHES = 24
"""Batches that are remembered; those that took all there was are at most half of them."""

FADE = 0.9
"""What a batch weighs beside the one after it when channels are compared."""

EQUAL = 0.5
"""Weight, in batches, of the expectation that all channels are equally fast."""

MOST_APART = 50.0
"""Most that a channel is believed to be faster or slower than their mean."""

WARN_AFTER = 3
"""Batches that miss the target before the log warns."""

_log = logging.getLogger("flowcontrol.link")


class _Batch(NamedTuple):
    """What a batch took: bytes of each channel, seconds; whether its budget limited it."""

    taken: dict[str, float]
    seconds: float
    is_limited: bool


class Budget:
    """Shares out the target time among the channels of one receiver.

    ``new_bytes``: what one that has had no rows yet may take later; by default the same.
    """

    def __init__(self, target_s: float, first_bytes: int, new_bytes: int | None = None) -> None:
        self.target_s, self.first_bytes = target_s, max(1, first_bytes)
        self.new_bytes = self.first_bytes if new_bytes is None else max(1, new_bytes)
        self._size = BatchSize(target_s, self.first_bytes)
        self._costs: dict[str, float] = {}
        self._seen: list[_Batch] = []
        self._missed = 0

    # ------------------------------------------------------------------ what is known

    @property
    def rates(self) -> dict[str, float]:
        """Bytes a second of each channel when it has the receiver to itself."""
        byte_s = self._size.byte_s
        return {c: 1 / max(1e-15, cost * byte_s) for c, cost in self._costs.items()}

    @property
    def fixed_s(self) -> float | None:
        """What a batch takes without any rows, s; None as long as nothing was measured."""
        return self._size.belief.fixed if self._size.belief else None

    @property
    def keeps_target(self) -> bool:
        """Whether batches can meet the target; False if their fixed cost is above it."""
        return self._size.keeps_target

    def to_json(self) -> dict[str, Any]:
        """Return what the ledger keeps, for the next start and for monitors."""
        fixed_s = self.fixed_s
        return {
            "rates": {channel: round(rate, 1) for channel, rate in self.rates.items()},
            "target_batch_s": self.target_s,
            "fixed_s": None if fixed_s is None else round(fixed_s, 4),
            "keeps_target": self.keeps_target,
        }

    def restore(self, rates: Mapping[str, float], fixed_s: float | None = None) -> None:
        """Restore what an earlier start learnt, as batches that it may have seen.

        ``rates``: bytes a second of each channel when it has the receiver to itself.
        """
        rates = {c: float(r) for c, r in rates.items() if r and math.isfinite(r) and r > 0}
        if not rates:
            return
        byte_s = sum(1 / rate for rate in rates.values()) / len(rates)
        self._costs = {channel: 1 / rate / byte_s for channel, rate in rates.items()}
        cost_s = fixed_s or 0.0
        longest = max(self.target_s, 2 * cost_s)
        for size in (part * (longest - cost_s) / byte_s for part in (1.0, 0.25, 1.0, 0.25)):
            taken = {channel: size / len(rates) / cost for channel, cost in self._costs.items()}
            self._seen.append(_Batch(taken, cost_s + byte_s * size, True))
            self._learn()

    # ------------------------------------------------------------------ learning

    def observe(
        self, taken: Mapping[str, int], duration_s: float, *, is_limited: bool = True
    ) -> None:
        """Learn from a batch.

        - ``taken``: bytes of each channel in it.
        - ``is_limited``: whether the budget was what limited it. Batches that took all there was,
          however many, do not make those forgotten that took more.
        """
        own = {channel: float(nbytes) for channel, nbytes in taken.items() if nbytes > 0}
        if not own or duration_s <= 0:
            return
        self._seen.append(_Batch(own, duration_s, is_limited))
        free = [batch for batch in self._seen if not batch.is_limited]
        if len(free) > BATCHES // 2:
            self._seen.remove(free[0])
        del self._seen[:-BATCHES]
        self._learn()
        self._warn()

    def _learn(self) -> None:
        """Find what channels cost beside each other, then what a batch costs."""
        for channel in self._seen[-1].taken:
            self._costs.setdefault(channel, 1.0)
        if len(self._costs) > 1 and self._size.belief is not None:
            self._compare(self._size.belief.fixed, self._size.belief.byte)
        sizes = np.array([self._weighed(batch.taken) for batch in self._seen])
        seconds = np.array([batch.seconds for batch in self._seen])
        self._size.learn(sizes, seconds, is_limited=self._seen[-1].is_limited)

    def _weighed(self, taken: Mapping[str, float]) -> float:
        """Return the bytes of a mean channel that would take as long."""
        return sum(nbytes * self._costs.get(channel, 1.0) for channel, nbytes in taken.items())

    def _compare(self, fixed_s: float, byte_s: float) -> None:
        """Find the costs of the channels that explain the last batches best.

        Least squares of relative errors, newer batches weighing more, drawn towards one cost for
        all channels: the same durations have many explanations, and a wait that has nothing to do
        with any channel, such as for the next link of a chain, must not part them. What has taken
        longer than expected weighs less by as much.
        """
        channels = list(self._costs)
        seconds = np.array([batch.seconds for batch in self._seen])
        nbytes = np.array([[b.taken.get(c, 0.0) for c in channels] for b in self._seen])
        known = nbytes * byte_s / seconds[:, None]
        wanted = np.maximum(1 - fixed_s / seconds, 0.05)
        before = np.array([self._costs[channel] for channel in channels])
        weights = FADE ** np.arange(len(seconds))[::-1]
        weights = np.sqrt(weights) * np.minimum(1, known @ before + fixed_s / seconds)
        system = np.vstack([known * weights[:, None], np.eye(len(channels)) * EQUAL**0.5])
        right = np.concatenate([wanted * weights, np.full(len(channels), EQUAL**0.5)])
        found = np.clip(np.linalg.lstsq(system, right, rcond=None)[0], 1 / MOST_APART, MOST_APART)
        mean = float(nbytes.sum(axis=0) @ found / nbytes.sum())
        self._costs = dict(zip(channels, (found / mean).tolist(), strict=True))

    def _warn(self) -> None:
        """Log once that the target cannot be met, and once that it can again."""
        before, fixed_s = self._missed, self.fixed_s or 0.0
        self._missed = 0 if self.keeps_target else before + 1
        if self._missed == WARN_AFTER:
            _log.warning(
                "a batch takes %.3g s without any rows, target_batch_s is %.3g: batches are made "
                "so large that this is at most a fifth of them; raise target_batch_s or make the "
                "sink cheaper to call",
                fixed_s,
                self.target_s,
            )
        elif self.keeps_target and before >= WARN_AFTER:
            _log.warning(
                "a batch takes %.3g s without any rows: batches keep target_batch_s, %.3g, again",
                fixed_s,
                self.target_s,
            )

    # ------------------------------------------------------------------ sharing

    def allow(self, available: Mapping[str, int]) -> dict[str, int]:
        """Return what each channel may take now, bytes.

        Every channel has an equal part of the time; what one does not need goes to the others.
        """
        wanting = {channel: nbytes for channel, nbytes in available.items() if nbytes > 0}
        if self._size.belief is None:
            return {channel: min(nbytes, self.first_bytes) for channel, nbytes in wanting.items()}
        left, allowed = self._size.next(), dict.fromkeys(wanting, 0)
        needs = {c: nbytes * self._costs.get(c, 1.0) for c, nbytes in wanting.items()}
        for place, channel in enumerate(sorted(needs, key=lambda c: needs[c])):
            part = min(needs[channel], left / (len(needs) - place))
            left -= part
            if channel not in self._costs:
                part = min(part, float(self.new_bytes))
            nbytes = round(part / self._costs.get(channel, 1.0))
            allowed[channel] = min(wanting[channel], max(1, nbytes))
        return allowed
