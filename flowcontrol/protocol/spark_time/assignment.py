"""Which windows a row is in, as functions of integers.

The start of a window is Flink's formula in Spark too (:func:`.windows.assigners.start_of`), in
microseconds there; whole milliseconds give the same windows.

Source: Spark 4.2's ``TimeWindowing`` and ``SessionWindowing``; section 7 of checkpoints-and-time.
"""


def window_count(timestamp: int, last: int, size: int, slide: int) -> int:
    """Number of windows that hold a time: those that start at ``last``, a slide before, and so on.

    Parameters
    ----------
    timestamp : int
        Event time, ms.
    last : int
        Start of the last one, ms.
    size, slide : int
        Length of a window, and distance of two starts, ms.
    """
    return (last - timestamp + size + slide - 1) // slide


def touches(start: int, end: int) -> int:
    """Tell whether a session that starts there belongs to one that ends there: 1 if so.

    Parameters
    ----------
    start : int
        Of the later one, ms.
    end : int
        Of the earlier one, ms, exclusive. Sessions that touch are one.
    """
    return 1 if start <= end else 0
