"""Flink's options that a scenario may state: key, kind of value, default, limits, effect.

``options.yaml`` has them. One that flow control uses as it is stated is also a field of
:class:`NetworkOptions`. What the options mean together is worked out in
:mod:`flowcontrol.scenario.options`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from flowcontrol.scenario.fields import exact
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.units import LONG_MAX, read_boolean, read_duration_us, read_memory
from flowcontrol.scenario.yaml_file import read_table

Value = int | bool | Fraction | str | None

MIN_SEGMENT_BYTES: Final = 4096
"""Flink's ``MemoryManager.MIN_PAGE_SIZE``, bytes."""
MAX_SEGMENT_BYTES: Final = 2**30
"""Largest power of two that is a Java int, bytes."""
MAX_DURATION_US: Final = 10**15
"""Longest duration, microseconds: as long as a run may be."""


@dataclass(frozen=True)
class Option:
    """One option of Flink.

    Attributes
    ----------
    key : str
        Its full key.
    kind : str
        Of its values: boolean, choice, duration, memory, page, share or whole.
    limits : mapping
        Of its values, by the reader's argument.
    read : callable
        Reads a value in Flink's syntax; ValueError with value, limit and syntax.
    default : Value
        Flink's default (None: unset, or without limit).
    effect : str
        ``emulated``; ``none``: nothing here depends on it; ``refused``: what it does is not
        emulated on any clock, so that only its default is accepted.
    meaning : str
        What it does.
    old : str
        Its deprecated key; empty without one.
    always : bool
        Whether it is written down at its default too; most scenarios leave the others alone.
    """

    key: str
    kind: str
    limits: Mapping[str, Any]
    read: Callable[[object], Value]
    default: Value
    effect: str
    meaning: str
    old: str = ""
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


def _duration(value: object, least_us: int = 0) -> Value:
    """Read a duration in whole milliseconds; where the least is negative, -1 is never."""
    duration = read_duration_us(value)
    if not least_us <= duration <= MAX_DURATION_US or (duration > 0 and duration % 1000):
        least = "0, or -1 for never" if least_us < 0 else f"{least_us // 1000} ms"
        raise ValueError(
            f"{show(value)} is out of range: needs whole milliseconds, at least {least} and at "
            f"most {MAX_DURATION_US // 1_000_000} s"
        )
    return duration


def _choice(value: object, words: Sequence[str]) -> Value:
    if not isinstance(value, str) or value.strip().lower() not in words:
        raise ValueError(f"{show(value)} is not one of {', '.join(words)}")
    return value.strip().lower()


_READERS: Final[dict[str, Callable[..., Value]]] = {
    "boolean": read_boolean,
    "choice": _choice,
    "duration": _duration,
    "memory": _memory,
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


OPTIONS: Final = {
    key: _read_option(effect, key, **row)
    for effect, rows in read_table("options.yaml").items()
    for key, row in rows.items()
}
"""Every option that is known, by its key."""

ALIASES: Final = {option.old: key for key, option in OPTIONS.items() if option.old}
"""Deprecated keys of Flink, and their replacements."""

_TM = "taskmanager.memory."
_NET = "taskmanager.network."
_NETMEM = "taskmanager.network.memory."


def _field(key: str) -> Any:
    """Return the field that an emulated option is."""
    option = OPTIONS[key]
    return Field(default=option.default, serialization_alias=key, description=option.meaning)


class NetworkOptions(BaseModel):
    """Flink's options, as flow control uses them: each field with the option that it is.

    Names end in the unit; what has none is a number of buffers, or of samples.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    segment_bytes: int = _field(_TM + "segment-size")
    exclusive_buffers: int = _field(_NETMEM + "buffers-per-channel")
    floating_buffers: int = _field(_NETMEM + "floating-buffers-per-gate")
    max_buffers_per_channel: int = _field(_NETMEM + "max-buffers-per-channel")
    max_overdraft_buffers: int = _field(_NETMEM + "max-overdraft-buffers-per-gate")
    read_buffer_threshold: int | None = _field(_NETMEM + "read-buffer.required-per-gate.max")
    """None: no limit, as for streaming jobs."""
    flush_interval_us: int = _field("execution.buffer-timeout.interval")
    """0 flushes after every record, -1 never."""
    network_buffers: int = Field(default=2_048, serialization_alias=_NET + "numberOfBuffers")
    """Of a task manager: its network memory divided by the size of a buffer."""
    buffers_request_timeout_us: int = _field(_NETMEM + "buffers-request-timeout")
    debloat_enabled: bool = _field(_NETMEM + "buffer-debloat.enabled")
    debloat_period_us: int = _field(_NETMEM + "buffer-debloat.period")
    debloat_target_us: int = _field(_NETMEM + "buffer-debloat.target")
    """How long a gate should take to consume all that is in flight to it."""
    debloat_samples: int = _field(_NETMEM + "buffer-debloat.samples")
    debloat_threshold_percent: int = _field(_NETMEM + "buffer-debloat.threshold-percentages")
    min_segment_bytes: int = _field(_TM + "min-segment-size")
    sort_min_buffers: int = _field(_NET + "sort-shuffle.min-buffers")
    sort_min_parallelism: int = _field(_NET + "sort-shuffle.min-parallelism")
    """Subpartitions from which on a sort-merge partition sorts; fewer are written by hash."""
    read_memory_bytes: int = _field(_TM + "framework.off-heap.batch-shuffle.size")
    unemulated: tuple[tuple[str, bool | int | str], ...] = ()
    """Options whose mechanism no clock emulates, set to something that would change the run;
    :func:`~flowcontrol.scenario.check_clock` refuses them."""

    @model_serializer
    def canonical(self) -> dict[str, bool | int | str]:
        """Return the options as a scenario file states them, one way for equal options."""
        written: dict[str, bool | int | str] = {}
        for name, field in type(self).model_fields.items():
            key, value = field.serialization_alias, getattr(self, name)
            if key is None or (value == field.default and not OPTIONS[key].always):
                continue
            in_ms = name.endswith("_us") and (value > 0 or name != "flush_interval_us")
            written[key] = f"{value // 1000}ms" if in_ms else value
        return written | dict(self.unemulated)
