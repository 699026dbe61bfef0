"""What the objects of this package share: what they take, and the lists that they return."""

from flowcontrol.protocol.event_time.bounds import MAX_TIME, MIN_TIME
from flowcontrol.protocol.event_time.output_rules import ACTIVE, IDLE, WATERMARK
from flowcontrol.protocol.event_time.states import WatermarkOutput

Output = int | str
"""A watermark, ms, ``"idle"`` or ``"active"``."""


def listed(done: int, output: WatermarkOutput) -> list[Output]:
    """Return what a rule gave out, in the order in which it is sent."""
    named = ((ACTIVE, "active"), (WATERMARK, output.watermark), (IDLE, "idle"))
    return [value for bit, value in named if done & bit]


def checked(what: str, time: int) -> int:
    """Return a time that fits into 64 bits.

    Raises
    ------
    ValueError
        If it does not.
    """
    if not MIN_TIME <= time <= MAX_TIME:
        raise ValueError(f"{what} is {time}: times are whole ms from {MIN_TIME} to {MAX_TIME}")
    return time
