"""The valve of a task: one watermark out of those of its channels."""

from collections.abc import Sequence
from typing import TypeAlias

from flowcontrol.protocol.event_time.watermarks import advance, become_active, become_idle
from flowcontrol.state.tasks import MAX_TIME, Valve, ValveChannel

# --- Rules of the valve of a task, which has one watermark out of those of its input channels.
#
# `channels` are all input channels of the task, all gates in order (an indexable sequence).
# Rules check nothing, and return what is given out
# (flowcontrol.protocol.event_time.watermarks); the watermark is the valve's.
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

    Returns what is given out. The last channel that turns idle flushes the valve: the latest
    watermark of all channels is given out before IDLE if this one held the valve back.
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
