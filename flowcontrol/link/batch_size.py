"""How large the next micro-batch should be, so that it takes its target time.

Where the fixed cost of a batch is above the target no size keeps it, and smaller batches only cost
throughput. Then, and only then, batches are made so large that the fixed cost is a small part of
them; :attr:`BatchSize.keeps_target` is then False.

What a batch costs, a fixed part and so much a byte, is learnt from the last batches. The model is
``duration = (fixed + size * byte) * noise``. Now and then one batch takes far longer for a reason
of its own (a cold start, a garbage collection), and now and then both costs change. The same
durations have many explanations, so the answer is not one line but a set of lines with their
weights: lines through each batch that part its duration in several ways, and lines through two
batches. A line weighs what the durations since the last change make likely, summed over all places
at which that change may have been. Nothing here knows a clock or draws at random.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_OVER = 0.18
"""How much longer than its target a batch is meant to take where nearly all of that is fixed cost:
there a little more time is much more throughput. From half of the target on it rises to this."""

CAUTION = 0.45
"""Quantile of the sizes that the likely costs give for the target: a little below the median."""

FALL_BACK_SHARE = 0.11
"""Part of a batch that its fixed cost is where the target cannot be kept: with noise, and with the
small batches in between, at most a fifth of the time."""

ENTER, AT_LEAST, LEAVE_BELOW, LEAST_SEEN = 0.4, 0.75, 0.85, 3
"""How likely the fixed cost must be above the target for that, and what part of the target it must
be all but certainly; above which part to stay there; batches before the first such verdict."""

SMALLER, LARGER = 0.2, 2.5
"""Times its size that a probing batch has: smaller to learn the fixed cost where that is less than
half of the target, larger to learn the speed where the fixed cost hides it."""

PROBE_OVER, PROBE_DOUBT, DOUBTFUL = 1.15, 0.3, 0.7
"""Times the target that a larger probing batch may take by the likely costs, and the quantile of
the sizes that these give: the better the costs are known, the less there is to try. Where that
part of all belief has the fixed cost above 0.7 of the target, only a far larger batch tells whether
the target can be kept at all."""

FIRST_PROBE, PROBE_EVERY = 3, 6
"""Batches before the first probing one, and from one to the next."""

TELLS = 0.25
"""Part of the allowed size from which a batch that took everything available shows the speed."""

NO_SMALLER = 1.5
"""Times what it was allowed that a batch holds if it could not be smaller: a row is that large."""

MOST_TIMES, GROWTH = 2.0, 8.0
"""Times what it is meant to take that a batch takes at most, if costs did not change; times the
largest batch so far that the next may be."""

SURE = 0.05
"""Part of all belief that may be against a batch longer than that."""

SURPRISE = 2.5
"""Times its expected duration from which a batch is followed by a small one, to see which of the
two is the rule."""


class BatchSize:
    """Finds the size of batches that take a target time.

    - ``keeps_target``: whether batches can meet the target; False if their fixed cost is above it.
    - ``belief``: what batches cost; None as long as nothing is known.
    - ``byte_s``: what a byte costs, s, according to the last batch that was large enough.
    """

    def __init__(self, target_s: float, first_bytes: int) -> None:
        self.target_s, self.first_bytes = target_s, first_bytes
        self.keeps_target = True
        self.belief: CostBelief | None = None
        self._sizes = self._seconds = np.empty(0)
        self.byte_s = 0.0
        self._kept = float(first_bytes)
        self._steps, self._aim_s = 0, target_s
        self._is_surprised = self._is_telling = False
        self._allowed, self._is_least = np.inf, False

    def learn(self, sizes: Floats, seconds: Floats, *, is_limited: bool = True) -> None:
        """Learn from the last batches, of which the newest is new.

        - ``sizes``, ``seconds`` (shape (batches,)): as
          :func:`~flowcontrol.link.batch_size.fit_costs` takes them.
        - ``is_limited``: whether the newest was as large as it was allowed to be.
        """
        self._is_least = bool(sizes[-1] > NO_SMALLER * self._allowed)
        expected_s = self.belief.expected_s(float(sizes[-1])) if self.belief else np.inf
        self._is_surprised = bool(seconds[-1] > SURPRISE * expected_s)
        self._sizes, self._seconds = sizes, seconds
        belief = self.belief = fit_costs(sizes, seconds)
        # However small, one that took the target's time shows that it was not too small to tell.
        is_late = bool(seconds[-1] > self.target_s / (2 if self._is_surprised else 1))
        self._is_telling = is_limited or is_late or bool(sizes[-1] >= TELLS * self._kept)
        if self._is_telling or not self.byte_s:
            self.byte_s = belief.byte
        before = self.keeps_target
        if not before:
            self.keeps_target = belief.chance_above(LEAVE_BELOW * self.target_s) <= ENTER
        elif len(sizes) >= LEAST_SEEN and not self._is_surprised:
            is_known = belief.quantile(belief.fixed_s, 0.1) > AT_LEAST * self.target_s
            self.keeps_target = not is_known or belief.chance_above(self.target_s) <= ENTER
        self._steps = self._steps + is_limited if self.keeps_target == before else 0

    def next(self) -> float:
        """Return the bytes of the next batch."""
        belief = self.belief
        if belief is None:
            return float(self.first_bytes)
        aims = self._aims(belief)
        sizes = np.maximum(aims - belief.fixed_s, 0) / np.maximum(belief.byte_s, 1e-15)
        size = belief.quantile(sizes, CAUTION if self.keeps_target else 0.5)
        self._aim_s = float(belief.weights @ aims)
        size = self._bounded(size)
        if self._is_telling:
            self._kept = size
        size = max(size, self._kept)
        step = self._steps - FIRST_PROBE
        if step >= 0 and step % PROBE_EVERY == 0:
            size = self._probing(size, belief)
        self._allowed = max(1.0, size)
        return self._allowed

    def _aims(self, belief: CostBelief) -> Floats:
        """Return how long a batch is meant to take, for each line."""
        if self.keeps_target:
            over = np.clip(2 * belief.fixed_s / self.target_s - 1, 0, 1)
            return self.target_s * (1 + MOST_OVER * over)
        # No more than for the median: a batch that was slow once must not make the next ones long.
        aims: Floats = np.minimum(belief.fixed_s, belief.fixed) / FALL_BACK_SHARE
        return np.maximum(aims, self.target_s)

    def _probing(self, size: float, belief: CostBelief) -> float:
        """Return another size than usual, as batches of one size say nothing new."""
        is_hidden = self.keeps_target and 2 * belief.fixed > self.target_s
        if is_hidden and self._is_least:
            # A row is more than is allowed, so all batches are of one: only more rows tell whether
            # it is the batch or the row that takes so long.
            return float(self._sizes[-1]) * LARGER
        if not is_hidden or self._sizes[-belief.since :].min() > 0.5 * size:
            return size * SMALLER  # also tells whether the fixed cost is what hides the speed
        if belief.chance_above(DOUBTFUL * self.target_s) > PROBE_DOUBT:
            return self._bounded(size * LARGER)
        left_s = np.maximum(PROBE_OVER * self.target_s - belief.fixed_s, 0)
        fits = belief.quantile(left_s / np.maximum(belief.byte_s, 1e-15), PROBE_DOUBT)
        return self._bounded(max(size, min(fits, size * LARGER)))

    def _bounded(self, size: float) -> float:
        """Keep a size within what batches so far make safe, were all of their time for bytes."""
        since = 1 if self._is_surprised or self.belief is None else self.belief.since
        sizes, seconds = self._sizes[-since:], self._seconds[-since:]
        fastest, largest = float((sizes / seconds).max()), float(sizes.max())
        times = 1.0 if since == 1 else MOST_TIMES  # one batch alone is not a rule
        most = times * self._aim_s * fastest
        if since > 1 and self.belief is not None:
            most = max(most, self._sure(self.belief))
        most = min(most, GROWTH * largest)
        least = sizes[-1] / MOST_TIMES * min(1.0, self._aim_s / seconds[-1])
        return max(min(size, most), min(float(least), most))

    def _sure(self, belief: CostBelief) -> float:
        """Return the size that all but surely takes no longer than a batch may."""
        left_s = np.maximum(MOST_TIMES * self._aim_s - belief.fixed_s, 0)
        return belief.quantile(left_s / np.maximum(belief.byte_s, 1e-15), SURE)


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
    """Lines that explain the last batches, and how likely each is."""

    fixed_s: Floats  # Duration of a batch without any bytes, s (shape (lines,))
    byte_s: Floats  # What each byte adds, s (shape (lines,))
    weights: Floats  # Probabilities; their sum is 1 (shape (lines,))
    since: int  # Newest batches that the same costs explain, most likely

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

    - ``sizes`` (shape (batches,)): bytes of each batch, oldest first, above 0.
    - ``seconds`` (shape (batches,)): their durations, above 0.
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
    """Return how likely the first batches together are, for each number of them."""
    together = np.cumsum(likely, axis=1)
    most = together.max(axis=(0, 2))
    own = np.exp(together - most[None, :, None])
    return most + np.log(own.mean(axis=(0, 2))), own


# --- How much of each channel a micro-batch may take, so that it takes its target time.
#
# As Flink's buffer debloating (:mod:`flowcontrol.protocol.network.debloating`) sizes what is in
# flight by the throughput, this sizes a micro-batch by what the last ones took. A batch has one
# duration for all of its channels: :mod:`.batch_size` finds its size, and here channels share it.


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
