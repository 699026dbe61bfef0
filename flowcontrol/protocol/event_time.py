"""Event time: watermarks from generators to valves, and sources that wait for each other.

Pure, as the whole of :mod:`flowcontrol.protocol`: functions of integers and of states, which
the compiled kernel runs as they stand; the valve of a link is an object over them. All times
are whole milliseconds in 64 bits.

Source: Flink 1.20 (``reference/checkpoints-and-time.md`` section 6, ``flink-network.md``
section 14). A latency marker needs no rule but its size: it goes to one random channel of each
output, in order with data, and its value at an operator is now less when it was marked.
"""

from collections.abc import Sequence
from typing import TypeAlias

from flowcontrol.state.tasks import (
    MAX_TIME,
    ActivityClock,
    AlignedSource,
    Generator,
    Valve,
    ValveChannel,
    WatermarkOutput,
    earlier,
    is_first,
    later,
)

# --- Rules of the valve of a task, which has one watermark out of those of its input channels.
#
# `channels` are all input channels of the task, all gates in order (an indexable sequence).
# Rules check nothing, and return what is given out
# (flowcontrol.protocol.event_time); the watermark is the valve's.
#
# Source: `StatusWatermarkValve`; section 14 of flink-network.


ValveChannels: TypeAlias = Sequence[ValveChannel]


def on_watermark(valve: Valve, channels: ValveChannels, index: int, watermark: int) -> int:
    """Take a watermark from a channel (``inputWatermark``).

    ``watermark``: ms. Ignored from an idle channel, and if it is not later than the channel's last.

    Returns 0 or WATERMARK.
    """
    channel = channels[index]
    if channel.is_idle == 1 or watermark <= channel.watermark:
        return 0
    if channel.watermark == valve.watermark:  # aligned: an active one that is not is behind
        valve.ahead += 1
    channel.watermark = watermark
    if channel.is_unaligned == 1:
        align(valve, channel)
    return find_least(valve, channels)


def on_status(valve: Valve, channels: ValveChannels, index: int, is_idle: int) -> int:
    """Take a status from a channel, IDLE (1) or ACTIVE (0), if it is news.

    ``inputWatermarkStatus``. ACTIVE alone moves no watermark: the channel's next one does.

    Returns what the valve emits. The last channel that turns idle flushes it: the valve emits the
    latest watermark of all channels before IDLE if this channel held it back.
    """
    channel = channels[index]
    if channel.is_idle == is_idle:
        return 0
    channel.is_idle = is_idle
    if is_idle == 0:
        valve.idle -= 1
        align(valve, channel)
        return become_active(valve)
    valve.idle += 1
    leave(valve, channel)
    is_holding = channel.watermark == valve.watermark
    if valve.idle < len(channels):
        return find_least(valve, channels) if is_holding else 0
    done = advance(valve, latest_of(channels)) if is_holding else 0
    return done | become_idle(valve)


# ---- what these are made of


def align(valve: Valve, channel: ValveChannel) -> None:
    """Have a channel count again, unless it is still behind what the valve has given out."""
    if channel.watermark < valve.watermark:
        return
    channel.is_unaligned = 0
    valve.unaligned -= 1
    if channel.watermark > valve.watermark:
        valve.ahead += 1


def leave(valve: Valve, channel: ValveChannel) -> None:
    """Have a channel count no more."""
    if channel.is_unaligned == 1:
        return
    channel.is_unaligned = 1
    valve.unaligned += 1
    if channel.watermark > valve.watermark:
        valve.ahead -= 1


def find_least(valve: Valve, channels: ValveChannels) -> int:
    """Give out the least watermark of the aligned channels, if all are ahead of the valve."""
    aligned = len(channels) - valve.unaligned
    if aligned == 0 or valve.ahead < aligned:
        return 0
    least = MAX_TIME
    at_least = 0
    for i in range(len(channels)):
        channel = channels[i]
        if channel.is_unaligned == 1 or channel.watermark > least:
            continue
        if channel.watermark < least:
            least = channel.watermark
            at_least = 0
        at_least += 1
    valve.ahead = aligned - at_least
    return advance(valve, least)


def latest_of(channels: ValveChannels) -> int:
    """Latest watermark of all channels, ms."""
    latest = -MAX_TIME - 1
    for i in range(len(channels)):
        latest = max(latest, channels[i].watermark)
    return latest


# --- What leaves a generator, the splits of a source or a valve: each rule returns a sum of bits.
#
# A caller sends what they stand for in this order: ACTIVE, then WATERMARK, which is the
# `watermark` of the state, then IDLE.
#
# Source: `WatermarkToDataOutput` and `TimestampsAndWatermarksOperator` of Flink 1.20;
# sections 6 of checkpoints-and-time and 14 of flink-network.


ACTIVE = 1
"""The status ACTIVE: there will be watermarks again."""
WATERMARK = 2
"""A watermark, later than all before."""
IDLE = 4
"""The status IDLE: until ACTIVE there will be no watermark; do not wait for one."""


def advance(output: WatermarkOutput, watermark: int) -> int:
    """Give a watermark out if it is later than the last one; what was idle is active then.

    0, WATERMARK, or ACTIVE and WATERMARK. One that is not later leaves what is idle idle.
    """
    if watermark <= output.watermark:
        return 0
    output.watermark = watermark
    return become_active(output) | WATERMARK


def become_active(output: WatermarkOutput) -> int:
    """Give ACTIVE out if the last status was IDLE."""
    if output.is_idle == 0:
        return 0
    output.is_idle = 0
    return ACTIVE


def become_idle(output: WatermarkOutput) -> int:
    """Give IDLE out if the last status was ACTIVE."""
    if output.is_idle == 1:
        return 0
    output.is_idle = 1
    return IDLE


# --- Rules of a generator of watermarks, and of its idleness.
#
# A generator hears of each event, and is probed every `pipeline.auto-watermark-interval`;
# what it gives out is a sum of bits (flowcontrol.protocol.event_time). At the end
# of input it is probed once more.
#
# Source: `BoundedOutOfOrdernessWatermarks`, `AscendingTimestampsWatermarks`,
# `WatermarksWithIdleness`, `PausableRelativeClock`; section 6 of checkpoints-and-time.


def on_event(generator: Generator, timestamp: int) -> int:
    """Take an event with its time, ms; or several that no probe divides, with the latest time.

    Returns what is emitted: a punctuated generator's watermark, which is the event's time; else 0.
    """
    generator.has_events = 1
    generator.is_quiet = 0
    generator.latest = max(generator.latest, timestamp)
    return advance(generator, timestamp) if generator.is_punctuated == 1 else 0


def on_probe(generator: Generator, now: int) -> int:
    """Probe a generator (``onPeriodicEmit``).

    ``now``: time of its clock of idleness (:func:`activity_time`), in any unit.

    Returns what is emitted. A probe that finds the source idle emits no watermark.
    """
    if is_quiet_too_long(generator, now) == 1:
        generator.is_quiet = 1
        return become_idle(generator)
    if generator.is_punctuated == 1:
        return 0
    return advance(generator, bounded_watermark(generator.latest, generator.out_of_orderness))


def bounded_watermark(latest: int, out_of_orderness: int) -> int:
    """Watermark below which no event comes: latest - out_of_orderness - 1, at least MIN_TIME, ms.

    Flink starts from MIN_TIME + out_of_orderness + 1 to the same effect.
    """
    return earlier(earlier(latest, out_of_orderness), 1)


def is_quiet_too_long(generator: Generator, now: int) -> int:
    """Look at the timer of idleness: 1 if it is over (``IdlenessTimer.checkIfIdle``).

    The first probe without new events starts the timer, also at the very beginning; it is over at
    the first one that is *more* than ``idle_after`` later.
    """
    if generator.idle_after == 0:
        return 0
    if generator.has_events == 1:
        generator.has_events = 0
        generator.is_counting = 0
        return 0
    if generator.is_counting == 0:
        generator.is_counting = 1
        generator.quiet_since = now
        return 0
    return 1 if now - generator.quiet_since > generator.idle_after else 0


def activity_time(clock: ActivityClock, now: int) -> int:
    """Time of the clock of idleness: now, less how long it has stood.

    It stands while a task is back-pressured, or blocked by the alignment of sources: such a task is
    not idle (1.20.1).
    """
    return now - clock.stood


# --- Rules by which the sources of a group wait for each other: flow control by event time.
#
# Every interval each subtask reports its watermark, and is told which watermark its group
# allows it.
#
# Source: `SourceCoordinator` and `SourceOperator`; section 6 of checkpoints-and-time.


Sources: TypeAlias = Sequence[AlignedSource]

PAUSE = 1
"""The subtask emits nothing from now on."""
RESUME = 2
"""It goes on."""


def report_of(watermark: int, is_idle: int, is_finished: int) -> int:
    """Watermark that a subtask reports, ms; MIN_TIME: it reports nothing.

    - ``watermark``: its last one, ms, which never falls; MIN_TIME: none so far, and it says
      nothing.
    - ``is_idle``, ``is_finished``: 1: it is, and holds nobody back (MAX_TIME).
    """
    if is_finished == 0 and (is_idle == 0 or is_first(watermark) == 1):
        return watermark
    return MAX_TIME


def note_report(source: AlignedSource, watermark: int) -> None:
    """Take the report of a subtask, ms, at its coordinator."""
    source.reported = watermark
    source.has_reported = 1


def allowed_watermark(sources: Sources, drift: int) -> int:
    """Watermark that a group allows, ms.

    ``drift``: how far a subtask may be ahead of the last, ms, at least 0.

    Returns the minimum report + drift, at most MAX_TIME; MAX_TIME before the first report.
    """
    least = MAX_TIME
    for i in range(len(sources)):
        if sources[i].has_reported == 1:
            least = min(least, sources[i].reported)
    return later(least, drift)


def must_pause(watermark: int, allowed: int) -> int:
    """Tell whether a subtask, or a split of one, is too far ahead: 1 if it is beyond, strictly."""
    return 1 if watermark > allowed else 0


def on_allowed(source: AlignedSource, watermark: int, allowed: int) -> int:
    """Tell a subtask what its group allows; return PAUSE or RESUME if that changes anything."""
    source.allowed = allowed
    return check_watermark(source, watermark)


def check_watermark(source: AlignedSource, watermark: int) -> int:
    """Compare a subtask's watermark, ms, when it has a new one or is told what is allowed.

    Returns PAUSE, RESUME, or 0 if nothing changes.
    """
    pauses = must_pause(watermark, source.allowed)
    if pauses == source.is_paused:
        return 0
    source.is_paused = pauses
    return PAUSE if pauses == 1 else RESUME


# --- Rules of stamps: one number that says when a record happened and which record it is.
#
# A stamp is the event time, ms, above ID_BITS bits of an id, from which a record's key
# follows. What a record causes inherits its stamp. Times that a stamp cannot hold, 69 years
# from the start of the run, are those at the ends of its range.


ID_BITS = 21
"""Bits of an id."""
IDS = 1 << ID_BITS
"""How many ids there are."""
LAST_TIME = (1 << 42) - 1
"""The latest event time of a stamp, ms; the earliest is -LAST_TIME - 1."""


def stamp_of(time: int, number: int) -> int:
    """Stamp of an event time, ms, and an id, from 0 to IDS - 1."""
    return max(-LAST_TIME - 1, min(LAST_TIME, time)) * IDS + number


def time_of(stamp: int) -> int:
    """Event time of a stamp, ms."""
    return stamp >> ID_BITS


def id_of(stamp: int) -> int:
    """Id of a stamp."""
    return stamp & (IDS - 1)


# --- Watermarks, statuses and latency markers on their way: serialised like records.
#
# `RecordWriter.broadcastEmit` writes one into the open buffer of each channel, where it takes
# its bytes and closes nothing, and may block there as a record does. Here it is called a
# *mark*. Its kind is one of the bits of flowcontrol.protocol.event_time, or
# MARKER, of which `RecordWriter.randomEmit` writes one into one channel.
#
# Source: `StreamElementSerializer`; section 14 of flink-network.


MARKER = 8
"""A latency marker: its value is when it was marked."""

WATERMARK_BYTES = 13
"""Length, tag and the time."""
STATUS_BYTES = 9
"""Length, tag and the status."""
MARKER_BYTES = 33
"""Length, tag, the time, the id of the source's operator (16 bytes) and the number of its
subtask."""

_CODES = 3


def mark_bytes(kind: int) -> int:
    """Size of a mark with its length header, bytes."""
    if kind == MARKER:
        return MARKER_BYTES
    return WATERMARK_BYTES if kind == WATERMARK else STATUS_BYTES


def pending_mark(channel: int, kind: int) -> int:
    """What stands for a mark in a queue of channels of records that are not written: below 0."""
    code = 2 if kind == MARKER else 1 if kind == WATERMARK else 0
    return -1 - (_CODES * channel + code)


def is_pending_mark(entry: int) -> int:
    """Tell whether an entry of such a queue is a mark: 1 if so."""
    return 1 if entry < 0 else 0


def channel_of_mark(entry: int) -> int:
    """Channel of a mark in such a queue."""
    return (-1 - entry) // _CODES


def bytes_of_mark(entry: int) -> int:
    """Size of a mark in such a queue, bytes."""
    code = (-1 - entry) % _CODES
    if code == 2:
        return MARKER_BYTES
    return WATERMARK_BYTES if code == 1 else STATUS_BYTES
