"""Numbers for people: thousands separated, about three significant digits."""

from flowcontrol.analysis.wording import size as size_text


def number(value: float) -> str:
    """Return a number with about three significant digits: ``6,000``, ``12.5``, ``0.25``."""
    size = abs(value)
    decimals = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}"


def rate(records_per_s: float) -> str:
    """Return a rate with its unit: ``6,000 records/s``."""
    return f"{number(records_per_s)} records/s"


def percent(ratio: float) -> str:
    """Return a ratio in per cent: ``47 %``; between 0 and 1 % with a decimal."""
    decimals = 1 if 0 < abs(ratio) < 0.01 else 0
    return f"{100 * ratio:.{decimals}f} %"


def share_of_time(ms_per_s: float) -> str:
    """Return a share of time, ms/s, in per cent."""
    return percent(ms_per_s / 1000)


def score(per_cent: float) -> str:
    """Return a score that is in per cent already: ``30 %``."""
    return percent(per_cent / 100)


def milliseconds(value: float) -> str:
    """Return a time with its unit: ``196 ms``, from a second on ``4.51 s``."""
    return f"{number(value / 1000)} s" if value >= 1000 else f"{number(value)} ms"


def bytes_text(value: float) -> str:
    """Return a size with a binary unit, as sentences have it: ``320 KiB``, ``12 B``."""
    return size_text(value).replace("bytes", "B")
