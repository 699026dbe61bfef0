"""The ends of time, and sums of times that stop at them.

Event times and watermarks are whole milliseconds in 64 bits, as Flink's ``long``. Rules do not name
:data:`MIN_TIME`: compiled, it would be an unsigned number. They have ``-MAX_TIME - 1``.
"""

MAX_TIME = (1 << 63) - 1
"""The watermark behind which nothing comes (``Watermark.MAX_WATERMARK``), ms."""
MIN_TIME = -MAX_TIME - 1
"""The watermark before the first (``Watermark.UNINITIALIZED``), ms."""


def later(time: int, duration: int) -> int:
    """Time after a duration of at least 0, at most MAX_TIME.

    Notes
    -----
    What Flink does where ``Math.addExact`` fails.
    """
    return MAX_TIME if time > MAX_TIME - duration else time + duration


def earlier(time: int, duration: int) -> int:
    """Time before a duration of at least 0, at least MIN_TIME."""
    least = -MAX_TIME - 1
    return least if time < least + duration else time - duration


def is_first(time: int) -> int:
    """Tell whether this is MIN_TIME, that of a watermark before the first: 1 if so."""
    return 1 if time < -MAX_TIME else 0
