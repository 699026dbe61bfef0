"""Flink's options in a scenario: key, kind of value, default, limits, effect.

``options.yaml`` has them. One that is used as it is stated is also a field of
:class:`~flowcontrol.scenario.options.NetworkOptions`. What the options mean together is
worked out in :mod:`flowcontrol.scenario.options`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field

from flowcontrol.scenario.fields import exact
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.syntax import (
    LONG_MAX,
    read_boolean,
    read_duration_us,
    read_memory,
    read_table,
)

_NO_WORDS: Final[Mapping[str, str]] = MappingProxyType({})

Value = int | bool | float | Fraction | str | None

MIN_SEGMENT_BYTES: Final = 4096
"""Flink's ``MemoryManager.MIN_PAGE_SIZE``, bytes."""
MAX_SEGMENT_BYTES: Final = 2**30
"""Largest power of two that is a Java int, bytes."""
MAX_DURATION_US: Final = 10**15
"""Longest duration, microseconds: as long as a run may be."""


@dataclass(frozen=True)
class Option:
    """One option of Flink."""

    key: str  # Its full key
    # Of its values: boolean, choice, decimal, duration, memory, names, page, share or whole.
    kind: str
    limits: Mapping[str, Any]  # Of its values, by the reader's argument
    # Reads a value in Flink's syntax; ValueError with value, limit and syntax.
    read: Callable[[object], Value]
    default: Value  # Flink's default (None: unset, or without limit)
    # ``emulated``; ``none``: nothing here depends on it; ``refused``: what it does is not emulated
    # on any clock, so that only its default is accepted.
    effect: str
    meaning: str  # What it does
    old: str = ""  # Its deprecated key; empty without one
    # Whether it is written down at its default too; most scenarios leave the others alone.
    always: bool = False


def _whole(value: object, least: int = 0, most: int = 2**31 - 1, why: str = "") -> Value:
    """Read a whole number, also written as text, as Flink's file does."""
    text = value.strip() if isinstance(value, str) else value
    number = exact(text)
    if isinstance(text, str) and text.removeprefix("-").isdecimal():
        number = Fraction(text)
    if number is None or number.denominator != 1 or not least <= number <= most:
        limits = f"a whole number, at least {least} and at most {most}{why}"
        raise ValueError(f"{show(value)} is out of range: needs {limits}")
    return int(number)


def _share(value: object) -> Value:
    """Read a share of a whole: at least 0, less than 1 (Flink's ``RangeFraction``)."""
    number = exact(value)
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal():
        number = Fraction(value.strip())
    if number is None or not 0 <= number < 1:
        raise ValueError(f"{show(value)} is out of range: needs a share, at least 0, less than 1")
    return number


def _decimal(
    value: object, most: float, least: float = 0, *, is_least_allowed: bool = True, why: str = ""
) -> Value:
    """Read a decimal number, which Flink keeps as a double."""
    number = exact(value)
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal():
        number = Fraction(value.strip())
    is_above = number is not None and (number >= least if is_least_allowed else number > least)
    if number is None or not is_above or number > most:
        edge = "at least" if is_least_allowed else "more than"
        limits = f"a number, {edge} {least:g} and at most {most:g}{why}"
        raise ValueError(f"{show(value)} is out of range: needs {limits}")
    return float(number)


def _memory(value: object, least: int = 0, most: int = LONG_MAX) -> Value:
    """Read a size of memory within limits."""
    size = read_memory(value)
    if not least <= size <= most:
        raise ValueError(
            f"{show(value)} is out of range: needs at least {least} bytes and at most {most}"
        )
    return size


def _page(value: object) -> Value:
    """Read a page size as ``ConfigurationParserUtils.getPageSize`` checks it."""
    size = read_memory(value)
    if not MIN_SEGMENT_BYTES <= size <= MAX_SEGMENT_BYTES or size & (size - 1):
        raise ValueError(
            f"{show(value)} is out of range: Flink takes powers of two, at least "
            f"{MIN_SEGMENT_BYTES} bytes (4kb) and at most {MAX_SEGMENT_BYTES}"
        )
    return size


def _duration(value: object, least_us: int = 0, why: str = "") -> Value:
    """Read a duration in whole milliseconds; where the least is negative, -1 is never."""
    duration = read_duration_us(value)
    if not least_us <= duration <= MAX_DURATION_US or (duration > 0 and duration % 1000):
        least = "0, or -1 for never" if least_us < 0 else f"{least_us // 1000} ms"
        raise ValueError(
            f"{show(value)} is out of range: needs whole milliseconds, at least {least} and at "
            f"most {MAX_DURATION_US // 1_000_000} s{why}"
        )
    return duration


def _choice(value: object, words: Sequence[str], also: Mapping[str, str] = _NO_WORDS) -> Value:
    """Read one of some words; ``also`` has words that mean one of them."""
    found = "off" if value is False else value  # YAML takes off for a truth value
    word = found.strip().lower() if isinstance(found, str) else ""
    if word not in words and word not in also:
        raise ValueError(f"{show(value)} is not one of {', '.join(words)}")
    return also.get(word, word)


def _names(value: object) -> Value:
    """Read names, a list, or text in which commas part them; return such text."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{show(value)} is not a list of names: write a,b or [a, b]")
    return ",".join(name.strip() for name in found if name.strip())


_READERS: Final[dict[str, Callable[..., Value]]] = {
    "boolean": read_boolean,
    "choice": _choice,
    "decimal": _decimal,
    "duration": _duration,
    "memory": _memory,
    "names": _names,
    "page": _page,
    "share": _share,
    "whole": _whole,
}
"""By kind of value; the arguments are the limits of the table."""


def _read_option(effect: str, key: str, kind: str, default: Any = None, **row: Any) -> Option:
    """Return the option of a row of the table."""
    limits = row.pop("limits", {})
    read = partial(_READERS[kind], **limits)
    value = None if default is None else read(default)
    return Option(key, kind, limits, read, value, effect, **row)


def read_option_table(name: str) -> dict[str, Option]:
    """Return the options of a table of this package, by key."""
    return {
        key: _read_option(effect, key, **row)
        for effect, rows in read_table(name).items()
        for key, row in rows.items()
    }


OPTIONS: Final = read_option_table("options.yaml")
"""Every option that is known, by its key."""

ALIASES: Final = {option.old: key for key, option in OPTIONS.items() if option.old}
"""Deprecated keys of Flink, and their replacements."""


def option_field(key: str) -> Any:
    """Return the field that an emulated option is."""
    option = OPTIONS[key]
    return Field(default=option.default, serialization_alias=key, description=option.meaning)
