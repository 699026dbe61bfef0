"""How Flink watches a job: sampling, meters, gauges of time, levels of backpressure, data skew.

Pure, as the whole of :mod:`flowcontrol.protocol`: time is an argument, and what is watched is
given. Source: Flink 1.12 and 1.20 (``reference/deployment-and-diagnosis.md`` section 5,
``flink-network.md`` section 9).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

# --- Levels of backpressure: the two thresholds that sampling and timers have in common


LOW_ABOVE = 0.10
"""Blocked share of the time above which a subtask is LOW; at it, it is still OK."""

HIGH_ABOVE = 0.5
"""Blocked share of the time above which a subtask is HIGH; at it, it is still LOW."""

POOL_HIGH = 0.75
"""Usage of buffers from which a pool is full, near 1."""


class Pressure(StrEnum):
    """How much of its time a task was blocked by what comes after it."""

    OK = "OK"
    LOW = "LOW"
    HIGH = "HIGH"

    @property
    def rank(self) -> int:
        """Order of severity: 0 for OK, 1 for LOW, 2 for HIGH."""
        return ("OK", "LOW", "HIGH").index(self.value)


def pressure_level(ratio: float) -> Pressure:
    """Return the level of one subtask.

    Flink's ``JobVertexBackPressureHandler``: of samples up to 1.12, of timers since 1.13
    (FLINK-20852), by the same two thresholds. A vertex has the level of its worst subtask.

    ``ratio``: share of its time, or of its samples, in which it waited for a buffer; 0 to 1.

    OK <= 0.10 < LOW <= 0.5 < HIGH; equal to its name as text. Raises ValueError if the
    ratio is not a number or below zero.
    """
    if not ratio >= 0:
        raise ValueError(f"a blocked share is at least 0, not {ratio}")
    if ratio > HIGH_ABOVE:
        return Pressure.HIGH
    return Pressure.LOW if ratio > LOW_ABOVE else Pressure.OK


# --- Flink's data skew score


def data_skew(figures: Iterable[float]) -> float:
    """Return Flink's data skew score.

    ``DoubleAccumulator.DoubleDataSkew`` of Flink 1.20 and later (FLIP-418), the column "Data Skew"
    of its web interface. It passes 50 only if few subtasks take nearly all: one of four with
    twice what each of the others takes makes 30 %.

    ``figures``: one per subtask, none negative; Flink takes their numRecordsInPerSecond.

    Returns the mean distance from the mean, in per cent of the mean, at most 100; 0 if the mean is
    0 (%). Raises ValueError if a figure is negative or not a number.

    Examples
    --------
    >>> data_skew([100, 100, 100, 200])
    30.0
    """
    values = list(figures)
    for value in values:
        if not value >= 0:
            raise ValueError(f"a figure is at least 0, not {value}")
    mean = sum(values) / len(values) if values else 0.0
    if mean == 0:
        return 0.0
    deviation = sum(abs(value - mean) for value in values) / len(values)
    return min(100.0 * deviation / mean, 100.0)


# --- Flink's rates and shares of time as its metrics show them: late, and in the first minute
# wrong.
#
# Both views are updated every 5 s. A meter of events divides by its whole span from the
# start, a gauge of time by the updates that it has had (`reference/deployment-and-
# diagnosis.md` section 5.2, `flink-network.md` section 9).


UPDATE_S = 5
"""Seconds between two updates of a view (``View.UPDATE_INTERVAL_SECONDS``)."""


class MeterView:
    """The rate of a counter, over a span that it takes for full from the start.

    ``org.apache.flink.metrics.MeterView``. The counter was 0 before the first update, so in the
    first minute a steady rate shows as rate x t / 60.

    - ``span_s``: time over which it averages, s; cut to whole updates, at least one.
    - ``rate``: events a second, as of the last update; 0 before the first.

    Raises ValueError if the span is not positive.

    Examples
    --------
    >>> meter = MeterView(span_s=60)
    >>> for seconds in (5, 10, 15):
    ...     meter.update(2000 * seconds)
    >>> meter.rate
    500.0
    """

    def __init__(self, span_s: int = 60) -> None:
        if not span_s > 0:
            raise ValueError(f"a span is above 0 s, not {span_s}")
        self._span_s = max(int(span_s) // UPDATE_S, 1) * UPDATE_S
        self._counts = [0] * (self._span_s // UPDATE_S + 1)
        self._at = 0
        self.rate = 0.0

    def update(self, count: int) -> None:
        """Take up what the counter says; to be called every 5 s.

        ``count``: its value so far, not the difference.
        """
        self._at = (self._at + 1) % len(self._counts)
        self._counts[self._at] = count
        oldest = self._counts[(self._at + 1) % len(self._counts)]
        self.rate = (count - oldest) / self._span_s


class TimerGaugeView:
    """A share of time, averaged over the updates of a window, as busyTimeMsPerSecond is.

    ``org.apache.flink.runtime.metrics.TimerGauge``: Java's division of whole numbers, so the
    figure is rounded down.

    - ``span_s``: length of the window, s; cut to whole updates, at least one.
    - ``value`` (ms/s): whole milliseconds a second, 0 to 1000; 0 before the first update.

    Raises ValueError if the span is not positive.

    Examples
    --------
    >>> gauge = TimerGaugeView()
    >>> gauge.update(2500)
    >>> gauge.update(2500)
    >>> gauge.value
    250
    """

    def __init__(self, span_s: int = 60) -> None:
        if not span_s > 0:
            raise ValueError(f"a span is above 0 s, not {span_s}")
        self._most = max(int(span_s) // UPDATE_S, 1)
        self._times: list[int] = []
        self._before = 0
        self.value = 0

    def update(self, total_ms: int) -> None:
        """Take up the time so far; to be called every 5 s.

        ``total_ms``: whole milliseconds since the start, not the difference.
        """
        self._times = [*self._times, total_ms - self._before][-self._most :]
        self._before = total_ms
        self.value = max(min(sum(self._times) // (UPDATE_S * len(self._times)), 1000), 0)


# --- Backpressure by sampling, as Flink up to 1.12 found it while its page was open.
#
# Source: `BackPressureStatsTrackerImpl` and `BackPressureRequestCoordinator` of Flink 1.12,
# and the options `web.backpressure.*` (`reference/deployment-and-diagnosis.md` section 5.1).


@dataclass(frozen=True)
class Stats:
    """The result of a set of samples of one vertex."""

    # Per subtask that was sampled: samples that waited for a buffer, of those that were taken.
    ratios: Mapping[int, float]
    level: Pressure  # That of the worst subtask; OK if none was sampled
    end_ms: int  # When the last sample was due


@dataclass
class _Taken:
    """Samples of one subtask in a set: how many, how many of them waited, and the latest."""

    count: int = 0
    blocked: int = 0
    last: int = -1


@dataclass
class _Vertex:
    """What is known of a vertex: the set under way, the result, and when it was last accessed."""

    accessed_ms: int
    start_ms: int | None = None
    taken: dict[int, _Taken] = field(default_factory=dict)
    result: Stats | None = None


class BackPressureSampler:
    """Sets of samples of each vertex, begun when somebody asks and no fresh result is there.

    - ``delay_ms``: time between two of them; the first is due at once, so a set takes (samples - 1)
      x delay.
    - ``cleanup_ms``: time after which a result is forgotten, from the last question or from its own
      arrival, whichever is later (Guava's ``expireAfterAccess``: putting in is an access).
    - ``samples``, ``delay_ms``, ``refresh_ms``, ``cleanup_ms``: as given.

    Raises ValueError if ``samples`` is below 1 or a time is negative.

    Examples
    --------
    >>> sampler = BackPressureSampler(samples=2, delay_ms=50)
    >>> sampler.ask("map", now_ms=0) is None
    True
    >>> sampler.sample("map", subtask=0, blocked=True, now_ms=0)
    >>> sampler.sample("map", subtask=0, blocked=False, now_ms=50)
    >>> sampler.ask("map", now_ms=51).level
    <Pressure.LOW: 'LOW'>
    """

    def __init__(
        self,
        samples: int = 100,
        delay_ms: int = 50,
        refresh_ms: int = 60_000,
        cleanup_ms: int = 600_000,
    ) -> None:
        if samples < 1:
            raise ValueError(f"a set has at least 1 sample, not {samples}")
        times = {"delay_ms": delay_ms, "refresh_ms": refresh_ms, "cleanup_ms": cleanup_ms}
        for name, value in times.items():
            if not value >= 0:
                raise ValueError(f"{name} is at least 0 ms, not {value}")
        self.samples, self.delay_ms = samples, delay_ms
        self.refresh_ms, self.cleanup_ms = refresh_ms, cleanup_ms
        self._vertices: dict[str, _Vertex] = {}

    @property
    def length_ms(self) -> int:
        """Time from the first sample of a set to the last one."""
        return (self.samples - 1) * self.delay_ms

    def ask(self, vertex: str, now_ms: int) -> Stats | None:
        """Return the latest result; begin a set if there is none that is fresh.

        Returns the result of the last finished set, however old; None if there is none,
        or it was forgotten. A set that this question begins is not waited for.
        """
        known = self._vertices.setdefault(vertex, _Vertex(now_ms))
        self._close(known, now_ms)
        if now_ms - known.accessed_ms >= self.cleanup_ms:
            known.result = None
        known.accessed_ms = now_ms
        is_fresh = known.result is not None and now_ms - known.result.end_ms < self.refresh_ms
        if known.start_ms is None and not is_fresh:
            known.start_ms, known.taken = now_ms, {}
        return known.result

    def result(self, vertex: str, now_ms: int) -> Stats | None:
        """Return the latest result as :meth:`ask` does, without a question: no set begins."""
        known = self._vertices.get(vertex)
        if known is None:
            return None
        self._close(known, now_ms)
        return known.result

    def sample(self, vertex: str, subtask: int, blocked: bool, now_ms: int) -> None:
        """Offer what a subtask is doing at a moment; it counts if a sample of it is due.

        - ``blocked``: whether it waits for a buffer at this moment.
        - ``now_ms``: the moment. The i-th sample of a set, from 0, is due at its start + i x delay;
          the first offer from then on is that sample, and what is offered more often does not
          count.
        """
        known = self._vertices.get(vertex)
        if known is None or known.start_ms is None:
            return
        passed = now_ms - known.start_ms
        if not 0 <= passed <= self.length_ms:
            return
        due = passed // self.delay_ms if self.delay_ms else self.samples - 1
        own = known.taken.setdefault(subtask, _Taken())
        if (self.delay_ms and due == own.last) or own.count == self.samples:
            return
        own.last = due
        own.count += 1
        own.blocked += bool(blocked)

    def _close(self, known: _Vertex, now_ms: int) -> None:
        """Make a result of a set that was over before a moment."""
        if known.start_ms is None or now_ms <= known.start_ms + self.length_ms:
            return
        ratios = {number: one.blocked / one.count for number, one in sorted(known.taken.items())}
        level = pressure_level(max(ratios.values(), default=0.0))
        end_ms = known.start_ms + self.length_ms
        known.result = Stats(MappingProxyType(ratios), level, end_ms)
        known.accessed_ms = max(known.accessed_ms, end_ms)
        known.start_ms = None
