"""Flink's options that a scenario may state: key, kind of value, default, limits, effect.

An option that flow control uses as it is stated is declared as a field of
:class:`NetworkOptions`; the others are in tables below it. The defaults are those of Flink 1.20
(``TaskManagerOptions``, ``NettyShuffleEnvironmentOptions``, ``ExecutionOptions``). What the
options mean together is worked out in :mod:`flowcontrol.scenario.options`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from flowcontrol.scenario.fields import exact
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.units import LONG_MAX, read_boolean, read_duration_us, read_memory

Value = int | bool | Fraction | str | None
Effect = Literal["emulated", "none", "refused"]

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
    read : callable
        Reads a value in Flink's syntax; ValueError with value, limit and syntax.
    default : Value
        Flink's default (None: unset, or without limit).
    effect : str
        ``emulated``; ``none``: nothing here depends on it; ``refused``: what it does is not
        emulated on any clock, so that only its default is accepted.
    meaning : str
        What it does.
    """

    key: str
    read: Callable[[object], Value]
    default: Value
    effect: Effect
    meaning: str


def _whole(low: int, high: int = 2**31 - 1, why: str = "") -> Callable[[object], Value]:
    """Return a reader of whole numbers, also written as text, as Flink's file does."""

    def read(value: object) -> Value:
        limits = f"a whole number, at least {low} and at most {high}{why}"
        text = value.strip() if isinstance(value, str) else value
        number = exact(text)
        if isinstance(text, str) and text.removeprefix("-").isdecimal():
            number = Fraction(text)
        if number is None or number.denominator != 1 or not low <= number <= high:
            raise ValueError(f"{show(value)} is out of range: needs {limits}")
        return int(number)

    return read


def _fraction(value: object) -> Value:
    """Read a share of a whole: at least 0, less than 1 (Flink's ``RangeFraction``)."""
    number = exact(value)
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal():
        number = Fraction(value.strip())
    if number is None or not 0 <= number < 1:
        raise ValueError(f"{show(value)} is out of range: needs a share, at least 0, less than 1")
    return number


def _memory(low: int = 0, high: int = LONG_MAX) -> Callable[[object], Value]:
    def read(value: object) -> Value:
        size = read_memory(value)
        if not low <= size <= high:
            raise ValueError(
                f"{show(value)} is out of range: needs at least {low} bytes and at most {high}"
            )
        return size

    return read


def _segment(value: object) -> Value:
    """Read a page size as ``ConfigurationParserUtils.getPageSize`` checks it."""
    size = read_memory(value)
    if not MIN_SEGMENT_BYTES <= size <= MAX_SEGMENT_BYTES or size & (size - 1):
        raise ValueError(
            f"{show(value)} is out of range: Flink takes powers of two, at least "
            f"{MIN_SEGMENT_BYTES} bytes (4kb) and at most {MAX_SEGMENT_BYTES}"
        )
    return size


def _duration(low_us: int = 0) -> Callable[[object], Value]:
    def read(value: object) -> Value:
        duration = read_duration_us(value)
        if not low_us <= duration <= MAX_DURATION_US or (duration > 0 and duration % 1000):
            least = "0, or -1 for never" if low_us < 0 else f"{low_us // 1000} ms"
            raise ValueError(
                f"{show(value)} is out of range: needs whole milliseconds, at least {least} and at "
                f"most {MAX_DURATION_US // 1_000_000} s"
            )
        return duration

    return read


def _choice(*words: str) -> Callable[[object], Value]:
    def read(value: object) -> Value:
        if not isinstance(value, str) or value.strip().lower() not in words:
            raise ValueError(f"{show(value)} is not one of {', '.join(words)}")
        return value.strip().lower()

    return read


_TM = "taskmanager.memory."
_NET = "taskmanager.network."
_NETMEM = "taskmanager.network.memory."
_CKPT = "execution.checkpointing."
_MIB = 1024 * 1024
_SHARE = Fraction(1, 10)

OPTIONS: Final[dict[str, Option]] = {}
"""Every option that is known, by its key."""

_ALWAYS: Final = frozenset(
    {
        "segment_bytes",
        "exclusive_buffers",
        "floating_buffers",
        "max_buffers_per_channel",
        "max_overdraft_buffers",
        "flush_interval_us",
        "network_buffers",
    }
)
"""Fields that are written down at their defaults too; most scenarios leave the others alone."""


def _option(key: str, read: Callable[[object], Value], default: Value, meaning: str) -> Any:
    """Enter an emulated option into the table, and return the field that it is."""
    OPTIONS[key] = Option(key, read, default, "emulated", meaning)
    return Field(default=default, serialization_alias=key, description=meaning)


class NetworkOptions(BaseModel):
    """Flink's options, as flow control uses them: each field with the option that it is.

    Names end in the unit; what has none is a number of buffers, or of samples.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    segment_bytes: int = _option(_TM + "segment-size", _segment, 32 * 1024, "size of a buffer")
    exclusive_buffers: int = _option(
        _NETMEM + "buffers-per-channel", _whole(0), 2, "exclusive buffers of a channel"
    )
    floating_buffers: int = _option(
        _NETMEM + "floating-buffers-per-gate",
        _whole(1, why=" (a gate needs one floating buffer to make progress)"),
        8,
        "floating buffers of a gate",
    )
    max_buffers_per_channel: int = _option(
        _NETMEM + "max-buffers-per-channel", _whole(1), 10, "soft quota of a subpartition"
    )
    max_overdraft_buffers: int = _option(
        _NETMEM + "max-overdraft-buffers-per-gate", _whole(0), 5, "overdraft of a result partition"
    )
    read_buffer_threshold: int | None = _option(
        _NETMEM + "read-buffer.required-per-gate.max", _whole(1), None, "most a gate may require"
    )
    """None: no limit, as for streaming jobs."""
    flush_interval_us: int = _option(
        "execution.buffer-timeout.interval", _duration(-1), 100_000, "period of the flusher"
    )
    """0 flushes after every record, -1 never."""
    network_buffers: int = Field(default=2_048, serialization_alias=_NET + "numberOfBuffers")
    """Of a task manager: its network memory divided by the size of a buffer."""
    buffers_request_timeout_us: int = _option(
        _NETMEM + "buffers-request-timeout", _duration(), 30_000_000, "wait for exclusive buffers"
    )
    debloat_enabled: bool = _option(
        _NETMEM + "buffer-debloat.enabled", read_boolean, False, "buffer debloating"
    )
    debloat_period_us: int = _option(
        _NETMEM + "buffer-debloat.period", _duration(1000), 200_000, "period of debloating"
    )
    debloat_target_us: int = _option(
        _NETMEM + "buffer-debloat.target",
        _duration(1000),
        1_000_000,
        "time to consume (debloating)",
    )
    """How long a gate should take to consume all that is in flight to it."""
    debloat_samples: int = _option(
        _NETMEM + "buffer-debloat.samples", _whole(1), 20, "samples of debloating"
    )
    debloat_threshold_percent: int = _option(
        _NETMEM + "buffer-debloat.threshold-percentages", _whole(0, 100), 25, "least change, %"
    )
    min_segment_bytes: int = _option(
        _TM + "min-segment-size", _memory(1, MAX_SEGMENT_BYTES), 256, "smallest buffer (debloating)"
    )
    sort_min_buffers: int = _option(
        _NET + "sort-shuffle.min-buffers", _whole(1), 512, "buffers of a sort-merge partition"
    )
    sort_min_parallelism: int = _option(
        _NET + "sort-shuffle.min-parallelism", _whole(1), 1, "from when on partitions sort"
    )
    """Subpartitions from which on a sort-merge partition sorts; fewer are written by hash."""
    read_memory_bytes: int = _option(
        _TM + "framework.off-heap.batch-shuffle.size", _memory(), 64 * _MIB, "for batch reads"
    )
    unemulated: tuple[tuple[str, bool | int | str], ...] = ()
    """Options whose mechanism no clock emulates, set to something that would change the run;
    :func:`~flowcontrol.scenario.check_clock` refuses them."""

    @model_serializer
    def canonical(self) -> dict[str, bool | int | str]:
        """Return the options as a scenario file states them, one way for equal options."""
        written: dict[str, bool | int | str] = {}
        for name, field in type(self).model_fields.items():
            key, value = field.serialization_alias, getattr(self, name)
            if key is None or (name not in _ALWAYS and value == field.default):
                continue
            in_ms = name.endswith("_us") and (value > 0 or name != "flush_interval_us")
            written[key] = f"{value // 1000}ms" if in_ms else value
        return written | dict(self.unemulated)


_EMULATED: Final = (
    ("execution.buffer-timeout.enabled", read_boolean, True, "whether there is a flusher"),
    (_TM + "network.fraction", _fraction, _SHARE, "share of Flink's memory for the network"),
    (_TM + "network.min", _memory(), 64 * _MIB, "least memory for the network"),
    (_TM + "network.max", _memory(), LONG_MAX, "most memory for the network"),
    (_NET + "numberOfBuffers", _whole(1), None, "network buffers of a task manager (legacy)"),
    (_TM + "flink.size", _memory(1), None, "Flink's memory of a task manager"),
    (_TM + "process.size", _memory(1), None, "all memory of a task manager"),
    (_TM + "jvm-metaspace.size", _memory(), 256 * _MIB, "metaspace of the JVM"),
    (_TM + "jvm-overhead.fraction", _fraction, _SHARE, "share of the JVM's own memory"),
    (_TM + "jvm-overhead.min", _memory(), 192 * _MIB, "least of the JVM's own memory"),
    (_TM + "jvm-overhead.max", _memory(), 1024 * _MIB, "most of the JVM's own memory"),
)
_WITHOUT_EFFECT: Final = (
    (_TM + "starting-segment-size", _memory(1), 1024, "first buffer (debloating)"),
    (_NET + "request-backoff.initial", _whole(0), 100, "first delay of a partition request, ms"),
    (_NET + "request-backoff.max", _whole(0), 10_000, "longest delay of a partition request, ms"),
    (_NET + "partition-request-timeout", _duration(), 10_000_000, "wait for a partition"),
    (_NET + "detailed-metrics", read_boolean, False, "metrics per gate"),
    (_NET + "adaptive-partitioner.max-traverse-size", _whole(1), 4, "channels looked at"),
    (_TM + "framework.heap.size", _memory(), 128 * _MIB, "heap of the framework"),
    (_TM + "framework.off-heap.size", _memory(), 128 * _MIB, "off-heap of the framework"),
    (_TM + "task.off-heap.size", _memory(), 0, "off-heap of the tasks"),
    (_TM + "managed.fraction", _fraction, Fraction(2, 5), "share of managed memory"),
    (_CKPT + "mode", _choice("exactly_once", "at_least_once"), "exactly_once", "guarantee"),
    (_CKPT + "unaligned.enabled", read_boolean, False, "barriers that overtake data"),
    (_CKPT + "aligned-checkpoint-timeout", _duration(), 0, "until a barrier overtakes"),
    (_CKPT + "timeout", _duration(), 600_000_000, "until a checkpoint fails"),
    (_CKPT + "max-concurrent-checkpoints", _whole(1), 1, "checkpoints at a time"),
    (_CKPT + "min-pause", _duration(), 0, "pause between checkpoints"),
    (_CKPT + "tolerable-failed-checkpoints", _whole(0), 0, "failures until the job fails"),
)
_REFUSED: Final = (
    (
        _NET + "max-num-tcp-connections",
        _whole(1),
        1,
        "more than one connection of two task managers",
    ),
    (_NET + "credit-model", read_boolean, True, "flow control without credits (Flink up to 1.9)"),
    (_NET + "adaptive-partitioner.enabled", read_boolean, False, "the adaptive partitioner"),
    (_CKPT + "interval", _duration(), None, "checkpoints"),
    (_TM + "task.heap.size", _memory(), None, "network memory derived from the heap of the tasks"),
    (_TM + "managed.size", _memory(), None, "network memory derived from managed memory"),
    ("taskmanager.numberOfTaskSlots", _whole(1), None, "slots as an option (state cluster.slots)"),
    ("pipeline.max-parallelism", _whole(1, 32_768), None, "a number of key groups of one's own"),
)


_GROUPS: tuple[tuple[Effect, tuple[tuple[str, Callable[[object], Value], Value, str], ...]], ...]
_GROUPS = (("emulated", _EMULATED), ("none", _WITHOUT_EFFECT), ("refused", _REFUSED))
OPTIONS.update(
    (key, Option(key, read, default, effect, meaning))
    for effect, rows in _GROUPS
    for key, read, default, meaning in rows
)

ALIASES: Final[dict[str, str]] = {
    "execution.buffer-timeout": "execution.buffer-timeout.interval",
    "taskmanager.network.memory.fraction": "taskmanager.memory.network.fraction",
    "taskmanager.network.memory.min": "taskmanager.memory.network.min",
    "taskmanager.network.memory.max": "taskmanager.memory.network.max",
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
}
"""Deprecated keys of Flink, and their replacements."""
