"""Numbers in few letters, for a table of 80 columns and for sentences."""

from datetime import datetime

_THOUSANDS = ("", "k", "M", "G", "T")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_LARGER = (("s", 60.0), ("min", 60.0), ("h", 24.0))
_BEFORE_NEXT = 1.5
"""Times a unit from which the next one is used: 80 s, but 2 min."""


def _scaled(value: float, base: float, units: tuple[str, ...]) -> tuple[float, str]:
    """Return a number below a thousand and its unit; 999.6 goes to the next unit."""
    for unit in units[:-1]:
        if value < 999.5:
            return value, unit
        value /= base
    return value, units[-1]


def _digits(value: float, most: int) -> str:
    """Return a number with a limited count of significant digits; no decimals if it is whole."""
    decimals = 0 if value == int(value) else max(0, most - len(str(int(value))))
    text = f"{value:.{decimals}f}"
    return text if len(text) <= most + 1 else f"{value:.{max(0, decimals - 1)}f}"


def count(value: float) -> str:
    """Return a count or a rate in at most five letters: ``950``, ``12.3k``, ``1.25M``."""
    if 0 < value < 10 and value != int(value):
        return f"{value:.1f}"
    number, unit = _scaled(round(value), 1000.0, _THOUSANDS)
    return f"{_digits(number, 3)}{unit}"


def size(value: float) -> str:
    """Return a size in at most seven letters: ``0``, ``950 B``, ``1.2 MiB``."""
    number, unit = _scaled(round(value), 1024.0, _BINARY)
    return f"{_digits(number, 2)} {unit}" if value else "0"


def duration(seconds: float | None) -> str:
    """Return a time in at most seven letters: ``250 ms``, ``1.05 s``; ``?`` if not known."""
    if seconds is None:
        return "?"
    if 0 < seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    for unit, most in _LARGER:
        if seconds < _BEFORE_NEXT * most:
            return f"{_digits(seconds, 3 if unit == 's' else 2)} {unit}"
        seconds /= most
    return f"{_digits(seconds, 2)} d"


DAY_S = 20 * 3600.0
"""How far a moment may be from now to be shown by its time of day alone."""


def moment(seconds: float, now: float) -> str:
    """Return a Unix time in at most sixteen letters: the time of day, with the date if it is far.

    One that no calendar has, as of counters, is shown as the number that it is.
    """
    if abs(seconds - now) < DAY_S:
        return clock_time(seconds)
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.3g} s"


def clock_time(seconds: float) -> str:
    """Return the time of day, here, of a Unix time: ``18:22:07``."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")
