"""The valve of a task as an object: checks arguments, and lists what each call gave out."""

from flowcontrol.protocol.event_time.valve import on_status, on_watermark
from flowcontrol.protocol.event_time.watermarks import ACTIVE, IDLE, WATERMARK
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME, Valve, ValveChannel, WatermarkOutput

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
    :mod:`flowcontrol.protocol.event_time.valve`.

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
