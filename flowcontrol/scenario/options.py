"""What Flink's options mean together: the sizes that flow control works with."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from flowcontrol.errors import Problem
from flowcontrol.scenario.option_table import ALIASES, OPTIONS, Value
from flowcontrol.scenario.problems import key_path, nearest
from flowcontrol.scenario.units import LONG_MAX

__all__ = ["NEVER", "NetworkOptions", "read_options"]

NEVER: Final = -1
"""Flush interval of a job without a flusher: only full buffers and events are sent."""

_SEGMENT = "taskmanager.memory.segment-size"
_EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
_FLOATING = "taskmanager.network.memory.floating-buffers-per-gate"
_QUOTA = "taskmanager.network.memory.max-buffers-per-channel"
_OVERDRAFT = "taskmanager.network.memory.max-overdraft-buffers-per-gate"
_THRESHOLD = "taskmanager.network.memory.read-buffer.required-per-gate.max"
_INTERVAL = "execution.buffer-timeout.interval"
_ENABLED = "execution.buffer-timeout.enabled"
_BUFFERS = "taskmanager.network.numberOfBuffers"
_FRACTION, _MIN, _MAX = (f"taskmanager.memory.network.{end}" for end in ("fraction", "min", "max"))
_FLINK, _PROCESS = (f"taskmanager.memory.{end}.size" for end in ("flink", "process"))
_OVERHEAD = "taskmanager.memory.jvm-overhead."
_METASPACE = "taskmanager.memory.jvm-metaspace.size"
_CHECKPOINTS = "execution.checkpointing.interval"
_REQUEST_TIMEOUT = "taskmanager.network.memory.buffers-request-timeout"
_SMALLEST = "taskmanager.memory.min-segment-size"
_DEBLOAT, _PERIOD, _TARGET, _SAMPLES, _LEAST_CHANGE = (
    f"taskmanager.network.memory.buffer-debloat.{end}"
    for end in ("enabled", "period", "target", "samples", "threshold-percentages")
)
_SORT_BUFFERS, _SORT_FROM = (
    f"taskmanager.network.sort-shuffle.{end}" for end in ("min-buffers", "min-parallelism")
)
_READ_MEMORY = "taskmanager.memory.framework.off-heap.batch-shuffle.size"

_SELDOM: Final = {
    _REQUEST_TIMEOUT: "buffers_request_timeout_us",
    _DEBLOAT: "debloat_enabled",
    _PERIOD: "debloat_period_us",
    _TARGET: "debloat_target_us",
    _SAMPLES: "debloat_samples",
    _LEAST_CHANGE: "debloat_threshold_percent",
    _SMALLEST: "min_segment_bytes",
    _SORT_BUFFERS: "sort_min_buffers",
    _SORT_FROM: "sort_min_parallelism",
    _READ_MEMORY: "read_memory_bytes",
}
"""Options that most scenarios leave at their defaults, and their fields."""


class NetworkOptions(BaseModel):
    """Flink's options, as flow control uses them.

    Attributes
    ----------
    segment_bytes : int, default 32768
        Size of a buffer, bytes (``taskmanager.memory.segment-size``).
    exclusive_buffers : int, default 2
        Of a channel (``taskmanager.network.memory.buffers-per-channel``).
    floating_buffers : int, default 8
        Of a gate (``taskmanager.network.memory.floating-buffers-per-gate``).
    max_buffers_per_channel : int, default 10
        Soft quota of a subpartition (``....max-buffers-per-channel``).
    max_overdraft_buffers : int, default 5
        Of a result partition (``....max-overdraft-buffers-per-gate``).
    read_buffer_threshold : int or None, default None
        Most buffers that a gate may require (``....read-buffer.required-per-gate.max``);
        None: no limit, as for streaming jobs.
    flush_interval_us : int, default 100000
        Period of the output flusher, microseconds (``execution.buffer-timeout.interval``);
        0 flushes after every record, -1 never.
    network_buffers : int, default 2048
        Buffers of a task manager: its network memory divided by the size of a buffer.
    buffers_request_timeout_us : int, default 30000000
        How long a job that starts waits for segments that another one still uses,
        microseconds (``....buffers-request-timeout``).
    debloat_enabled : bool, default False
        Whether buffers change their size (``....buffer-debloat.enabled``).
    debloat_period_us : int, default 200000
        Time between two sizes of a gate, microseconds (``....buffer-debloat.period``).
    debloat_target_us : int, default 1000000
        How long a gate should take to consume all that is in flight to it, microseconds
        (``....buffer-debloat.target``).
    debloat_samples : int, default 20
        Of the moving average of sizes (``....buffer-debloat.samples``).
    debloat_threshold_percent : int, default 25
        Least change that is announced, percent (``....threshold-percentages``).
    min_segment_bytes : int, default 256
        Smallest size of a buffer, bytes (``taskmanager.memory.min-segment-size``).
    sort_min_buffers : int, default 512
        Least buffers of a sort-merge partition (``taskmanager.network.sort-shuffle.min-buffers``).
    sort_min_parallelism : int, default 1
        Subpartitions from which on a sort-merge partition sorts; fewer are written by hash
        (``....sort-shuffle.min-parallelism``).
    read_memory_bytes : int, default 67108864
        Of a task manager, from which sort-merge partitions are read, bytes
        (``taskmanager.memory.framework.off-heap.batch-shuffle.size``).
    unemulated : tuple of (str, value)
        Options whose mechanism no clock emulates, set to something that would change the
        run; :func:`~flowcontrol.scenario.check_clock` refuses them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    segment_bytes: int = 32_768
    exclusive_buffers: int = 2
    floating_buffers: int = 8
    max_buffers_per_channel: int = 10
    max_overdraft_buffers: int = 5
    read_buffer_threshold: int | None = None
    flush_interval_us: int = 100_000
    network_buffers: int = 2_048
    buffers_request_timeout_us: int = 30_000_000
    debloat_enabled: bool = False
    debloat_period_us: int = 200_000
    debloat_target_us: int = 1_000_000
    debloat_samples: int = 20
    debloat_threshold_percent: int = 25
    min_segment_bytes: int = 256
    sort_min_buffers: int = 512
    sort_min_parallelism: int = 1
    read_memory_bytes: int = 64 * 1024 * 1024
    unemulated: tuple[tuple[str, bool | int | str], ...] = ()

    def canonical(self) -> dict[str, bool | int | str]:
        """Return the options as a scenario file states them, one way for equal options."""
        flush_ms = self.flush_interval_us // 1000 if self.flush_interval_us > 0 else None
        stated: dict[str, bool | int | str | None] = {
            _SEGMENT: self.segment_bytes,
            _EXCLUSIVE: self.exclusive_buffers,
            _FLOATING: self.floating_buffers,
            _QUOTA: self.max_buffers_per_channel,
            _OVERDRAFT: self.max_overdraft_buffers,
            _THRESHOLD: self.read_buffer_threshold,
            _INTERVAL: f"{flush_ms}ms" if flush_ms else self.flush_interval_us,
            _BUFFERS: self.network_buffers,
            **self._seldom(),
            **dict(self.unemulated),
        }
        return {key: value for key, value in stated.items() if value is not None}

    def _seldom(self) -> dict[str, bool | int | str]:
        """Return what is stated of options that most scenarios say nothing of."""
        fields = type(self).model_fields
        values = {key: (name, getattr(self, name)) for key, name in _SELDOM.items()}
        return {
            key: f"{value // 1000}ms" if name.endswith("_us") else value
            for key, (name, value) in values.items()
            if value != fields[name].default
        }


def read_options(raw: Mapping[Any, Any], problems: list[Problem]) -> NetworkOptions | None:
    """Read the options of a scenario.

    Parameters
    ----------
    raw : mapping
        Flink's keys and values.
    problems : list of Problem
        Grows by everything that is wrong.

    Returns
    -------
    NetworkOptions or None
        None if something is wrong.
    """
    before = len(problems)
    given = _read_values(raw, problems)
    _check_together(given, problems)
    if len(problems) > before:
        return None
    buffers = _network_buffers(given, problems)
    if buffers is None:
        return None
    threshold = _value(given, _THRESHOLD)
    return NetworkOptions(
        segment_bytes=_int(given, _SEGMENT),
        exclusive_buffers=_int(given, _EXCLUSIVE),
        floating_buffers=_int(given, _FLOATING),
        max_buffers_per_channel=_int(given, _QUOTA),
        max_overdraft_buffers=_int(given, _OVERDRAFT),
        read_buffer_threshold=None if threshold is None else int(threshold),
        flush_interval_us=_int(given, _INTERVAL) if _value(given, _ENABLED) else NEVER,
        network_buffers=buffers,
        buffers_request_timeout_us=_int(given, _REQUEST_TIMEOUT),
        debloat_enabled=bool(_value(given, _DEBLOAT)),
        debloat_period_us=_int(given, _PERIOD),
        debloat_target_us=_int(given, _TARGET),
        debloat_samples=_int(given, _SAMPLES),
        debloat_threshold_percent=_int(given, _LEAST_CHANGE),
        min_segment_bytes=_int(given, _SMALLEST),
        sort_min_buffers=_int(given, _SORT_BUFFERS),
        sort_min_parallelism=_int(given, _SORT_FROM),
        read_memory_bytes=_int(given, _READ_MEMORY),
        unemulated=_unemulated(given),
    )


def _place(key: str) -> str:
    return key_path(["options", key])


def _read_values(raw: Mapping[Any, Any], problems: list[Problem]) -> dict[str, Value]:
    """Read each value by its own syntax."""
    given: dict[str, Value] = {}
    for key, value in raw.items():
        name = ALIASES.get(key, key)
        if name not in OPTIONS:
            hint = nearest(str(key), [*OPTIONS, *ALIASES])
            problems.append(
                Problem(_place(str(key)), f"{str(key)!r} is no option of Flink's network{hint}")
            )
        elif name in given:
            old = next(alias for alias, new in ALIASES.items() if new == name)
            problems.append(
                Problem(_place(key), f"{old!r} is the old name of {name!r}: state it once")
            )
        else:
            _read_one(str(key), value, given, problems)
    return given


def _read_one(key: str, value: object, given: dict[str, Value], problems: list[Problem]) -> None:
    option = OPTIONS[ALIASES.get(key, key)]
    try:
        given[option.key] = option.read(value)
    except ValueError as error:
        problems.append(Problem(_place(key), f"{error} ({option.meaning})"))


def _value(given: Mapping[str, Value], key: str) -> Value:
    return given[key] if key in given else OPTIONS[key].default


def _int(given: Mapping[str, Value], key: str) -> int:
    return int(_value(given, key) or 0)


def _check_together(given: Mapping[str, Value], problems: list[Problem]) -> None:
    """Refuse options that contradict each other."""
    limits = ((_MIN, _MAX), (f"{_OVERHEAD}min", f"{_OVERHEAD}max"), (_SMALLEST, _SEGMENT))
    for low, high in limits:
        if _int(given, low) > _int(given, high):
            text = f"{_int(given, low)} bytes is more than {high}, {_int(given, high)} bytes"
            problems.append(Problem(_place(low), f"{text}: lower it, or raise the other"))
    rivals = [key for key in (_FRACTION, _MIN, _MAX) if key in given]
    if _BUFFERS in given and rivals:
        text = f"{given[_BUFFERS]} has no effect in Flink beside {', '.join(rivals)}: state one way"
        problems.append(Problem(_place(_BUFFERS), text))


def _network_buffers(given: Mapping[str, Value], problems: list[Problem]) -> int | None:
    """Return the buffers of a task manager: its network memory / the size of a buffer.

    Notes
    -----
    Flink's ``TaskExecutorFlinkMemoryUtils``: a share of Flink's memory within its limits; the
    legacy number of buffers only if none of the three is given. Without any total size, with
    which no task manager of Flink would start, the least network memory counts.
    """
    segment, total = _int(given, _SEGMENT), _flink_memory(given)
    if _BUFFERS in given:
        memory = _int(given, _BUFFERS) * segment
    elif total is None:
        memory = _int(given, _MIN)
    else:
        memory = _clamped_share(given, total, _FRACTION, _MIN)
    if total is not None and memory > total:
        stated = _FLINK if _FLINK in given else _PROCESS
        least = "" if _BUFFERS in given else "at least "
        text = (
            f"{_int(given, stated)} bytes leave {max(total, 0)} for Flink, of which the network "
            f"takes {least}{memory}: raise it, or lower {_BUFFERS if _BUFFERS in given else _MIN}"
        )
        problems.append(Problem(_place(stated), text))
        return None
    if memory < segment:
        text = f"{memory} bytes for the network hold no buffer of {segment} bytes: raise it"
        problems.append(Problem(_place(_MIN), text))
        return None
    return memory // segment


def _flink_memory(given: Mapping[str, Value]) -> int | None:
    """Return Flink's memory in bytes, perhaps negative; None if no size was stated."""
    if _FLINK in given:
        return _int(given, _FLINK)
    if _PROCESS not in given:
        return None
    process = _int(given, _PROCESS)
    overhead = _clamped_share(given, process, f"{_OVERHEAD}fraction", f"{_OVERHEAD}min")
    return process - _int(given, _METASPACE) - overhead


def _clamped_share(given: Mapping[str, Value], total: int, fraction: str, low: str) -> int:
    """Return floor(fraction x total), within the minimum and its maximum."""
    share = int(Fraction(_value(given, fraction) or 0) * total)
    high = _int(given, f"{low.removesuffix('min')}max")
    return min(max(share, _int(given, low)), high, LONG_MAX)


def _unemulated(given: Mapping[str, Value]) -> tuple[tuple[str, bool | int | str], ...]:
    """Return what is set to something that would change the run, as a file may state it."""
    changed = {
        key: value
        for key, value in sorted(given.items())
        if OPTIONS[key].effect == "refused" and value != OPTIONS[key].default
    }
    if _CHECKPOINTS in changed:
        changed[_CHECKPOINTS] = f"{_int(given, _CHECKPOINTS) // 1000}ms"
    return tuple((key, value) for key, value in changed.items() if isinstance(value, int | str))
