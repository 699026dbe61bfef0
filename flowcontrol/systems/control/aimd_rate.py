"""A rate that grows by steps and falls by half: OpenSearch's bulk limiter before the sources.

``BulkRequestRateLimiterImpl`` and ``RequestRateMeter`` of OpenSearch for Spark; the formulas are in
:mod:`flowcontrol.systems.aimd_rate`.

Where this differs from it:

- It has an answer for each request, here there is one every ``interval_ms``: late if the oldest
  record under way is older than ``late_ms``, so a late answer is known before it comes. Nothing
  fails and nothing times out.
- Records are counted, not bytes. What counts as used is what the sources have emitted in the last
  ``window_ms``, over all of that time, also while the job is younger: as there, a rate cannot grow
  before it has been used for some time.
- One rate holds for the whole job. Each source gets of it in proportion to what it is offered now;
  one that is offered nothing now gets an equal part, for it may be offered something before the
  next look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from flowcontrol.systems.aimd_rate import next_rate, outcome, used_rate
from flowcontrol.systems.control.controller import Controller, interval_us, next_tick_us
from flowcontrol.systems.control.seen import Command, Seen, SourceSeen
from flowcontrol.systems.emission import rate_gap_ns

__all__ = ["AimdRate"]


class AimdRate(Controller):
    """Raise the sources' rate while records arrive in time and it is used; else cut it.

    Messages are the changes of the rate that each source is told.

    Parameters
    ----------
    values : mapping of str to float
        The throttle's parameters.
    round_us : int
        Length of a round, microseconds.
    """

    needs_ages: ClassVar[bool] = True

    _kept: ClassVar[tuple[str, ...]] = ("look_us", "rate", "fell_us", "history")

    def __init__(self, values: Mapping[str, float], round_us: int) -> None:
        super().__init__()
        self._least, self._most = values["min_rate"], values["max_rate"]
        self._add, self._factor = values["add"], values["factor"]
        self._late_ms, self._use_share = values["late_ms"], values["use_share"]
        self._cooldown_us = round(values["cooldown_ms"] * 1000)
        self._window_us = round(values["window_ms"] * 1000)
        self._interval_us = interval_us(values["interval_ms"], round_us)
        self.look_us = self._interval_us
        self.rate = self._least
        self.fell_us = -1
        # Time and records emitted: looks of the window, and the newest one before it.
        self.history: list[list[int]] = [[0, 0]]

    def first(self, sources: Sequence[SourceSeen]) -> list[Command]:
        """Begin with the least rate."""
        return self._commands(sources)

    def next_look_us(self) -> int:
        """Return when the next answer is taken notice of."""
        return self.look_us

    def observe(self, seen: Seen) -> list[Command]:
        """Take notice of what the oldest record has met."""
        if seen.now_us >= self.look_us:
            self.look_us = next_tick_us(seen.now_us, self._interval_us)
            self._answer(seen)
        return self._commands(seen.sources)

    def _answer(self, seen: Seen) -> None:
        now_us = seen.now_us
        age_us = now_us - seen.oldest_us if seen.oldest_us >= 0 else -1
        since_us = now_us - self.fell_us if self.fell_us >= 0 else self._cooldown_us
        before = self.rate
        self.rate, has_fallen = next_rate(
            before, outcome(age_us / 1000, self._late_ms), self._used(seen), since_us,
            self._least, self._most, self._add, self._factor, self._cooldown_us, self._use_share,
        )  # fmt: skip
        if has_fallen == 1:
            self.fell_us = now_us
        if self.rate != before:
            self.messages += len(seen.sources)

    def _used(self, seen: Seen) -> float:
        """Return the rate at which the sources have emitted within the window."""
        emitted = sum(source.emitted for source in seen.sources)
        begin_us = seen.now_us - self._window_us
        while len(self.history) > 1 and self.history[1][0] <= begin_us:
            self.history.pop(0)
        used = used_rate(emitted - self.history[0][1], self._window_us / 1000)
        self.history.append([seen.now_us, emitted])
        return used

    def _commands(self, sources: Sequence[SourceSeen]) -> list[Command]:
        offered = sum(source.rate for source in sources)
        shares = [
            self.rate * source.rate / offered if source.rate > 0 else self.rate / len(sources)
            for source in sources
        ]
        return [Command(0, rate_gap_ns(share), -1) for share in shares]
