"""How large the next micro-batch should be, so that it takes its target time.

Where the fixed cost of a batch is above the target no size keeps it, and smaller batches only cost
throughput. Then, and only then, batches are made so large that the fixed cost is a small part of
them; :attr:`BatchSize.keeps_target` is then False.
"""

from __future__ import annotations

import numpy as np

from flowcontrol.link.batch_cost import CostBelief, Floats, fit_costs

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

FIRST_PROBE, PROBE_EVERY = 3, 6
"""Batches before the first probing one, and from one to the next."""

TELLS = 0.25
"""Part of the allowed size from which a batch that took everything available shows the speed."""

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

    Parameters
    ----------
    target_s : float
        How long a batch should take, s.
    first_bytes : int
        Size that is tried without having seen any as large.

    Attributes
    ----------
    keeps_target : bool
        Whether batches can meet the target; False if their fixed cost is above it.
    belief : CostBelief or None
        What batches cost; None as long as nothing is known.
    byte_s : float
        What a byte costs, s, according to the last batch that was large enough.
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

    def learn(self, sizes: Floats, seconds: Floats, *, is_limited: bool = True) -> None:
        """Learn from the last batches, of which the newest is new.

        Parameters
        ----------
        sizes, seconds : ndarray, shape (batches,)
            As :func:`~flowcontrol.link.batch_cost.fit_costs` takes them.
        is_limited : bool, default True
            Whether the newest was as large as it was allowed to be.
        """
        expected_s = self.belief.expected_s(float(sizes[-1])) if self.belief else np.inf
        self._is_surprised = bool(seconds[-1] > SURPRISE * expected_s)
        self._sizes, self._seconds = sizes, seconds
        belief = self.belief = fit_costs(sizes, seconds)
        self._is_telling = is_limited or bool(sizes[-1] >= TELLS * self._kept)
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
        return max(1.0, size)

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
        return self._bounded(size * LARGER) if is_hidden else size * SMALLER

    def _bounded(self, size: float) -> float:
        """Keep a size within what batches so far make safe, were all of their time for bytes."""
        since = 1 if self._is_surprised or self.belief is None else self.belief.since
        sizes, seconds = self._sizes[-since:], self._seconds[-since:]
        fastest, largest = float((sizes / seconds).max()), float(sizes.max())
        times = 1.0 if since == 1 else MOST_TIMES  # one batch alone is no rule
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
