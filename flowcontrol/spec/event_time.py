"""Event time as objects: generators, aligned sources, the valve of a task, splits of a source."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flowcontrol.protocol import event_time as watermarks
from flowcontrol.protocol.event_time import (
    ACTIVE,
    IDLE,
    WATERMARK,
    advance,
    become_idle,
    on_status,
    on_watermark,
)
from flowcontrol.state.tasks import (
    MAX_TIME,
    MIN_TIME,
    ActivityClock,
    AlignedSource,
    Generator,
    Valve,
    ValveChannel,
    WatermarkOutput,
)

# --- Sources in event time as objects: a generator of watermarks, its clock, and an aligned group.


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
    :mod:`flowcontrol.protocol.event_time`.

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
    :mod:`flowcontrol.protocol.event_time`; what a subtask reports is
    :func:`~flowcontrol.protocol.event_time.report_of`: MAX_TIME if it is idle or
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

        Returns the allowed watermark, ms: the minimum report + drift, at most MAX_TIME.
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


# --- The valve of a task as an object: checks arguments, and lists what each call gave out.


Output = int | str
"""A watermark, ms, ``"idle"`` or ``"active"``."""


def listed(done: int, output: WatermarkOutput) -> list[Output]:
    """Return what a rule gave out, in the order in which it is sent."""
    named = ((ACTIVE, "active"), (WATERMARK, output.watermark), (IDLE, "idle"))
    return [value for bit, value in named if done & bit]


def checked(what: str, time: int) -> int:
    """Return a time that fits into 64 bits.

    Raises ValueError if it does not.
    """
    if not MIN_TIME <= time <= MAX_TIME:
        raise ValueError(f"{what} is {time}: times are whole ms from {MIN_TIME} to {MAX_TIME}")
    return time


class WatermarkValve:
    """One watermark out of those of a task's input channels: the least of those that count.

    Idle channels do not count, nor do those that were and have not caught up yet. Calls return what
    they gave out, in order: watermarks, ms, ``"idle"`` and ``"active"``.

    Flink's ``StatusWatermarkValve``. The rules are in
    :mod:`flowcontrol.protocol.event_time`.

    ``channels``: input channels, at least 1; they are counted from 0.

    Raises ValueError if there are none.

    Examples
    --------
    >>> valve = WatermarkValve(channels=2)
    >>> valve.watermark(0, 20), valve.watermark(1, 10)
    ([], [10])
    >>> valve.status(1, idle=True), valve.status(0, idle=True)
    ([20], ['idle'])
    >>> valve.status(1, idle=False), valve.watermark(1, 15), valve.watermark(1, 25)
    (['active'], [], [25])
    """

    def __init__(self, channels: int) -> None:
        if channels < 1:
            raise ValueError(f"{channels} channels: a task with a valve has at least 1")
        self._state = Valve()
        self._channels = [ValveChannel() for _ in range(channels)]

    @property
    def last(self) -> int:
        """The watermark given out last; MIN_TIME before the first."""
        return self._state.watermark

    @property
    def is_idle(self) -> bool:
        """Whether all channels are idle."""
        return self._state.is_idle == 1

    @property
    def aligned(self) -> tuple[int, ...]:
        """Channels that count, in order."""
        return tuple(i for i, channel in enumerate(self._channels) if channel.is_unaligned == 0)

    def watermark(self, channel: int, w: int) -> list[Output]:
        """Take a watermark from a channel.

        ``w``: watermark, ms. Ignored from an idle channel, and if not later than the channel's
        last.

        Raises ValueError if there is no such channel, or the watermark does not fit into 64 bits.
        """
        args = self._place(channel), checked("watermark", w)
        return listed(on_watermark(self._state, self._channels, *args), self._state)

    def status(self, channel: int, idle: bool = True) -> list[Output]:
        """Take the status of a channel.

        Raises ValueError if there is no such channel.
        """
        args = self._place(channel), int(idle)
        return listed(on_status(self._state, self._channels, *args), self._state)

    def _place(self, channel: int) -> int:
        most = len(self._channels) - 1
        if not 0 <= channel <= most:
            raise ValueError(f"channel {channel}: the task has channels 0 to {most}")
        return channel


# --- The splits of a source, as rules and as an object: one watermark out of theirs.
#
# ``output`` is what the source has given out, ``splits`` its places for splits (an indexable
# sequence). Rules return what is given out (:mod:`flowcontrol.protocol.event_time`).
#
# Source: ``WatermarkOutputMultiplexer``, ``CombinedWatermarkStatus``; section 6 of
# checkpoints-and-time.


@dataclass(slots=True)
class Split(WatermarkOutput):
    """A split of a source (``CombinedWatermarkStatus.PartialWatermark``): its watermark, ms."""

    is_known: int = 0
    """1: this place is taken."""


Splits: TypeAlias = Sequence[Split]


def add_split(split: Split) -> None:
    """Take a place for a new split: it holds the source back until it has a watermark."""
    split.is_known = 1
    split.is_idle = 0
    split.watermark = -MAX_TIME - 1


def remove_split(split: Split) -> None:
    """Free the place of a split. By itself that moves no watermark."""
    split.is_known = 0


def on_split_watermark(
    output: WatermarkOutput, splits: Splits, index: int, watermark: int, is_deferred: int
) -> int:
    """Take the watermark of a split, which is active by that, later or not.

    - ``watermark``: its watermark, ms.
    - ``is_deferred``: 1: only the next probe (:func:`combine`) gives it out, as of a periodic
      generator.
    """
    split = splits[index]
    split.is_idle = 0
    if watermark <= split.watermark:
        return 0
    split.watermark = watermark
    if is_deferred == 1 or watermark <= output.watermark:
        return 0
    return combine(output, splits)


def on_split_idle(output: WatermarkOutput, splits: Splits, index: int) -> int:
    """Take the idleness of a split, which may have held the others back."""
    splits[index].is_idle = 1
    return combine(output, splits)


def combine(output: WatermarkOutput, splits: Splits) -> int:
    """Give out the least watermark of the active splits; IDLE if there are splits and all are idle.

    Without splits nothing is given out.
    """
    least = MAX_TIME
    known = 0
    active = 0
    for i in range(len(splits)):
        split = splits[i]
        if split.is_known == 1:
            known += 1
            if split.is_idle == 0:
                active += 1
                least = min(least, split.watermark)
    if known == 0:
        return 0
    return become_idle(output) if active == 0 else advance(output, least)


class SplitWatermarks:
    """One watermark out of those of a source's splits: the least of the active ones.

    Calls return what they gave out, in order: watermarks, ms, ``"idle"`` and ``"active"``. A split
    that was idle is active with its next watermark; downstream hear ``"active"`` with the next
    watermark of the source.

    Flink's ``WatermarkOutputMultiplexer``.

    Examples
    --------
    >>> splits = SplitWatermarks()
    >>> splits.add("a"), splits.add("b")
    (None, None)
    >>> splits.update("a", 20), splits.update("b", 10)
    ([], [10])
    >>> splits.idle("b"), splits.idle("a"), splits.update("b", 30)
    ([20], ['idle'], ['active', 30])
    """

    def __init__(self) -> None:
        self._output = WatermarkOutput()
        self._splits: list[Split] = []
        self._places: dict[Hashable, int] = {}

    @property
    def watermark(self) -> int:
        """The source's last watermark; MIN_TIME before the first."""
        return self._output.watermark

    @property
    def is_idle(self) -> bool:
        """Whether the source is idle for those downstream."""
        return self._output.is_idle == 1

    def add(self, id: Hashable) -> None:
        """Take a new split, which holds the source back until it has a watermark or is idle.

        Raises ValueError if there is one with this id.
        """
        if id in self._places:
            raise ValueError(f"split {id!r} is there already: remove it first")
        free = (place for place, split in enumerate(self._splits) if split.is_known == 0)
        place = next(free, len(self._splits))
        if place == len(self._splits):
            self._splits.append(Split())
        self._places[id] = place
        add_split(self._splits[place])

    def remove(self, id: Hashable) -> bool:
        """Forget a split; return whether it was known. Only the next probe shows what changes."""
        place = self._places.pop(id, None)
        if place is None:
            return False
        remove_split(self._splits[place])
        return True

    def update(self, id: Hashable, watermark: int, deferred: bool = False) -> list[Output]:
        """Take the watermark of a split.

        ``watermark``: ms; one that is not later than its last makes it active and no more.

        Raises ValueError if there is no such split, or the watermark does not fit into 64 bits.
        """
        args = self._splits, self._place(id), checked("watermark", watermark), int(deferred)
        return listed(on_split_watermark(self._output, *args), self._output)

    def idle(self, id: Hashable) -> list[Output]:
        """Take the idleness of a split; return what was given out: the source may be idle by that.

        Raises ValueError if there is no such split.
        """
        place = self._place(id)
        return listed(on_split_idle(self._output, self._splits, place), self._output)

    def probe(self) -> list[Output]:
        """Give out what deferred watermarks and removed splits changed (``onPeriodicEmit``)."""
        return listed(combine(self._output, self._splits), self._output)

    def _place(self, id: Hashable) -> int:
        if id not in self._places:
            raise ValueError(f"split {id!r} is unknown: add it first")
        return self._places[id]
