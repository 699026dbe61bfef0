"""Sources in event time as objects: a generator of watermarks, its clock, and an aligned group."""

from collections.abc import Hashable
from dataclasses import dataclass

from flowcontrol.protocol.event_time import watermarks
from flowcontrol.protocol.event_time.watermarks import WATERMARK, advance
from flowcontrol.spec.valve import checked
from flowcontrol.state.tasks import MAX_TIME, ActivityClock, AlignedSource, Generator


def on_incoming(generator: Generator, watermark: int) -> int:
    """Take a watermark from upstream, where a generator is not at the source.

    It gives out MAX_TIME and no other: its own watermarks take their place. Statuses go no further.
    """
    return advance(generator, watermark) if watermark == MAX_TIME else 0


@dataclass(slots=True)
class PausableClock(ActivityClock):
    """The clock of idleness, which reasons to stand come to and leave."""

    pauses: int = 0
    """How many reasons there are for it to stand now."""
    stopped_at: int = 0
    """Since when it stands, if it does."""

    def stop(self, now: int) -> None:
        """Have it stand, for one reason more."""
        if self.pauses == 0:
            self.stopped_at = now
        self.pauses += 1

    def resume(self, now: int) -> None:
        """Have it go on once no reason to stand is left."""
        self.pauses -= 1
        if self.pauses == 0:
            self.stood += now - self.stopped_at

    def time(self, now: int) -> int:
        """Return its time, which is that of its last stop while it stands."""
        moment = self.stopped_at if self.pauses > 0 else now
        return watermarks.activity_time(self, moment)


class WatermarkGenerator:
    """What makes the watermarks of a source or of one of its splits.

    All times are whole milliseconds.

    Flink's ``BoundedOutOfOrdernessWatermarks`` and ``WatermarksWithIdleness``. The rules are in
    :mod:`flowcontrol.protocol.event_time.watermarks`.

    - ``out_of_orderness``: how far behind the latest event another may be, at least 0; 0: ascending
      times (``forBoundedOutOfOrderness``, ``forMonotonousTimestamps``).
    - ``punctuated``: each event is a watermark, at once; ``out_of_orderness`` counts for nothing
      then.
    - ``idle_ms``: time without events after which it is idle, more than 0 (``withIdleness``); by
      default never.

    Raises ValueError if a number is out of range.

    Examples
    --------
    >>> generator = WatermarkGenerator(out_of_orderness=10, idle_ms=300)
    >>> generator.event(now=5, timestamp=1_000)
    >>> [generator.probe(now) for now in (200, 400, 600, 800)]
    [989, None, None, 'idle']
    """

    def __init__(
        self, out_of_orderness: int, punctuated: bool = False, idle_ms: int | None = None
    ) -> None:
        if checked("out_of_orderness", out_of_orderness) < 0:
            raise ValueError(f"out_of_orderness is {out_of_orderness} ms: needs at least 0")
        if idle_ms is not None and checked("idle_ms", idle_ms) <= 0:
            raise ValueError(f"idle_ms is {idle_ms}: needs more than 0, or None for never")
        self._state = Generator(
            out_of_orderness=out_of_orderness,
            is_punctuated=int(punctuated),
            idle_after=idle_ms or 0,
        )

    @property
    def watermark(self) -> int:
        """The last watermark; MIN_TIME before the first."""
        return self._state.watermark

    @property
    def is_idle(self) -> bool:
        """Whether it is idle for those downstream: from "idle" to the next watermark."""
        return self._state.is_idle == 1

    def event(self, now: int, timestamp: int) -> int | None:
        """Take an event.

        ``now``: time; it does not matter.

        Returns a watermark, only if punctuated: the event's time, if it is the latest so far.
        Raises ValueError if the event time does not fit into 64 bits.
        """
        return self._given(watermarks.on_event(self._state, checked("event time", timestamp)))

    def probe(self, now: int) -> int | str | None:
        """Probe it, as Flink does every ``pipeline.auto-watermark-interval``.

        An event after ``"idle"`` starts idleness anew. Those downstream see activity only with the
        next watermark (:attr:`is_idle`), as in Flink.

        Returns a watermark if it is later than the last one; ``"idle"`` at the first probe that
        finds it idle since the last event.
        """
        was_quiet = self._state.is_quiet
        done = watermarks.on_probe(self._state, now)
        return "idle" if self._state.is_quiet > was_quiet else self._given(done)

    def _given(self, done: int) -> int | None:
        return self._state.watermark if done & WATERMARK else None


class SourceAlignment:
    """A group of sources of which none may be too far ahead (``withWatermarkAlignment``).

    Flink's ``SourceCoordinator``. The rules are in
    :mod:`flowcontrol.protocol.event_time.watermarks`; what a subtask reports is
    :func:`~flowcontrol.protocol.event_time.watermarks.report_of`: MAX_TIME if it is idle or
    has finished, and nothing before its first watermark.

    ``drift``: how far a subtask may be ahead of the last, ms, at least 0.

    Raises ValueError if it is negative.

    Examples
    --------
    >>> group = SourceAlignment(drift=1_000)
    >>> group.report("fast", 9_000), group.report("slow", 5_000)
    (10000, 6000)
    >>> group.is_paused("fast", 9_000), group.is_paused("slow", 6_000)
    (True, False)
    """

    def __init__(self, drift: int) -> None:
        if checked("drift", drift) < 0:
            raise ValueError(f"drift is {drift} ms: needs at least 0")
        self._drift = drift
        self._sources: dict[Hashable, AlignedSource] = {}
        self._allowed = MAX_TIME

    @property
    def allowed(self) -> int:
        """The watermark allowed last, ms; MAX_TIME before the first report."""
        return self._allowed

    def report(self, subtask: Hashable, watermark: int) -> int:
        """Take the report of a subtask, in the place of its last one.

        ``subtask``: a subtask of a source of the group; it counts from its first report on.

        Returns watermark that is allowed now, ms: the least report + drift, at most MAX_TIME.
        Raises ValueError if the watermark does not fit into 64 bits.
        """
        at = checked("watermark", watermark)
        watermarks.note_report(self._sources.setdefault(subtask, AlignedSource()), at)
        self._allowed = watermarks.allowed_watermark(list(self._sources.values()), self._drift)
        return self._allowed

    def is_paused(self, subtask: Hashable, watermark: int) -> bool:
        """Tell whether a subtask with a watermark emits nothing, as the group's last allowed says.

        - ``subtask``: which one; all have the same limit.
        - ``watermark``: its watermark now, ms, which need not be reported yet.
        """
        return watermarks.must_pause(watermark, self._allowed) == 1
