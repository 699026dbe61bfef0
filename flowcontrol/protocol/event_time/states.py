"""The state that the rules of event time work on, each kind declared once."""

from dataclasses import dataclass

from flowcontrol.protocol.event_time.bounds import MAX_TIME, MIN_TIME


@dataclass(slots=True)
class WatermarkOutput:
    """What was given out last (``WatermarkToDataOutput``, ``StatusWatermarkValve``)."""

    watermark: int = MIN_TIME
    """The last watermark, ms; never falls."""
    is_idle: int = 0
    """1: the last status was IDLE."""


@dataclass(slots=True)
class Generator(WatermarkOutput):
    """What makes the watermarks of a source (``BoundedOutOfOrdernessWatermarks``)."""

    latest: int = MIN_TIME
    """Latest event time seen, ms."""
    out_of_orderness: int = 0
    """How far behind it an event may be, ms; constant. 0: ascending times."""
    is_punctuated: int = 0
    """1: each event is a watermark; constant."""
    idle_after: int = 0
    """Time without events after which it is idle, in the unit of the probes' times; constant.
    0: never."""
    has_events: int = 0
    """1: there were events since the last probe."""
    is_counting: int = 0
    """1: the timer of idleness runs."""
    quiet_since: int = 0
    """When it began, if it runs: at the first probe without new events."""
    is_quiet: int = 0
    """1: a probe has found it idle, and no event has come since."""


@dataclass(slots=True)
class ActivityClock:
    """The clock of idleness, which stands now and then (``PausableRelativeClock``)."""

    stood: int = 0
    """How long it has stood."""


@dataclass(slots=True)
class Valve(WatermarkOutput):
    """The valve of a task over all its input channels (``StatusWatermarkValve``).

    The three counts follow from the channels. Of aligned channels none is behind the valve's
    watermark, so while one stands at it the valve cannot move, and nobody has to look.
    """

    idle: int = 0
    """Idle channels."""
    unaligned: int = 0
    """Channels that are not aligned."""
    ahead: int = 0
    """Aligned channels beyond the valve's watermark."""


@dataclass(slots=True)
class ValveChannel(WatermarkOutput):
    """An input channel at its valve (``SubpartitionStatus``): its watermark, ms."""

    is_unaligned: int = 0
    """1: it does not count: it is idle, or was and has not caught up."""


@dataclass(slots=True)
class AlignedSource:
    """A subtask of a source whose group is aligned."""

    reported: int = MIN_TIME
    """The watermark that it reported last, ms."""
    has_reported: int = 0
    """1: it has reported one; until then it holds nobody back."""
    allowed: int = MAX_TIME
    """The watermark that it may have at most, as it was told last, ms."""
    is_paused: int = 0
    """1: it is ahead of that, and emits nothing."""
