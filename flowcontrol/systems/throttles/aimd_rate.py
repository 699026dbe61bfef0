"""A rate that grows by steps and falls by a factor: OpenSearch's bulk limiter before the sources.

``BulkRequestRateLimiterImpl`` and ``RequestRateMeter`` of OpenSearch for Spark; TCP's congestion
avoidance (RFC 5681, with a unit for a segment) is the same rule.

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

from collections.abc import Sequence

from flowcontrol.systems.throttles import controller as c

GOOD, BAD, TIMEOUT = 0, 1, 2
"""What a request has met: an answer in time; a failure that may be tried again, or a late answer;
none at all."""


def outcome(age_ms: float, late_ms: float) -> int:
    """Return what the oldest request has met, by its age; negative if there is none."""
    return BAD if age_ms > late_ms else GOOD


def used_rate(sent: int, window_ms: float) -> float:
    """Return the rate that was measured lately, a second.

    ``RequestRateMeter``: what was sent within the window, over the whole window even while the
    window is older than the flow, so a rate cannot grow in its first seconds.
    """
    return sent * 1000 / window_ms


def next_rate(
    rate: float,
    outcome: int,
    used: float,
    since_fall_ms: int,
    least: float,
    most: float,
    add: float,
    factor: float,
    cooldown_ms: int,
    use_share: float,
) -> tuple[float, int]:
    """Return the rate after a request, and 1 if it fell.

    - ``rate``: the rate, in whatever a second.
    - ``outcome``: :data:`GOOD`, :data:`BAD` or :data:`TIMEOUT`.
    - ``used``: rate that was measured lately: who does not use what it has gets no more.
    - ``since_fall_ms``: time since the rate last fell.
    - ``least``, ``most``: bounds; 500 kB/s and 3500 kB/s.
    - ``add``, ``factor``: 100 kB/s for a good answer, half for a bad one; a timeout goes to the
      least.
    - ``cooldown_ms``: 20 s in which it does not fall again.
    - ``use_share``: 0.8 of the rate must be used for it to grow.
    """
    if outcome == GOOD:
        grown = min(rate + add, most) if used >= use_share * rate else rate
        return grown, 0
    if since_fall_ms < cooldown_ms:
        return rate, 0
    fallen = least if outcome == TIMEOUT else max(rate * factor, least)
    return fallen, 1


class AimdRate(c.Controller):
    """Raise the sources' rate while records arrive in time and it is used; else cut it.

    Messages are the changes of the rate that each source is told.
    """

    _kept = ("rate", "fell_us", "history")

    def __init__(self, settings: c.ControllerSettings) -> None:
        super().__init__(settings)
        values = settings.values
        self._least, self._most = values["min_rate"], values["max_rate"]
        self._add, self._factor = values["add"], values["factor"]
        self._late_ms, self._use_share = values["late_ms"], values["use_share"]
        self._cooldown_us = round(values["cooldown_ms"] * 1000)
        self._window_us = round(values["window_ms"] * 1000)
        self.rate = self._least
        self.fell_us = -1
        # Time and records emitted: looks of the window, and the newest one before it.
        self.history: list[list[int]] = [[0, 0]]

    def first(self, sources: Sequence[c.SourceObservation]) -> list[c.Command]:
        """Begin with the least rate."""
        return self._commands(sources)

    def observe(self, job: c.JobObservation) -> list[c.Command]:
        """Take notice of what the oldest record has met."""
        if self._is_due(job):
            self._answer(job)
        return self._commands(job.sources)

    def _answer(self, job: c.JobObservation) -> None:
        now_us = job.now_us
        age_us = now_us - job.oldest_us if job.oldest_us >= 0 else -1
        since_us = now_us - self.fell_us if self.fell_us >= 0 else self._cooldown_us
        before = self.rate
        self.rate, has_fallen = next_rate(
            before, outcome(age_us / 1000, self._late_ms), self._used(job), since_us,
            self._least, self._most, self._add, self._factor, self._cooldown_us, self._use_share,
        )  # fmt: skip
        if has_fallen == 1:
            self.fell_us = now_us
        if self.rate != before:
            for source in job.sources:
                self._tell("rate", source)

    def _used(self, job: c.JobObservation) -> float:
        """Return the rate at which the sources have emitted within the window."""
        emitted = sum(source.emitted for source in job.sources)
        begin_us = job.now_us - self._window_us
        while len(self.history) > 1 and self.history[1][0] <= begin_us:
            self.history.pop(0)
        used = used_rate(emitted - self.history[0][1], self._window_us / 1000)
        self.history.append([job.now_us, emitted])
        return used

    def _commands(self, sources: Sequence[c.SourceObservation]) -> list[c.Command]:
        offered = sum(source.rate for source in sources)
        shares = [
            self.rate * source.rate / offered if source.rate > 0 else self.rate / len(sources)
            for source in sources
        ]
        return [c.Command(0, c.rate_gap_ns(share), -1) for share in shares]


CONTROLLER = AimdRate
