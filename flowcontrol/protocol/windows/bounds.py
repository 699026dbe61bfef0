"""Event times: whole milliseconds in 64 bits, as Flink's ``long``; sums stop at the ends."""

MAX_TIME = (1 << 63) - 1
"""The end of time, milliseconds: the watermark behind the last element (``Long.MAX_VALUE``)."""
MIN_TIME = -MAX_TIME - 1
"""The watermark before the first one, milliseconds (``Long.MIN_VALUE``)."""


def plus(number: int, more: int) -> int:
    """Return a sum, or the end of the 64 bits that it would leave.

    Parameters
    ----------
    number : int
        A time in milliseconds, or anything else of 64 bits.
    more : int
        What is added; may be negative.
    """
    if more > 0:
        return number + more if number <= MAX_TIME - more else MAX_TIME
    return number + more if number >= MIN_TIME - more else MIN_TIME
