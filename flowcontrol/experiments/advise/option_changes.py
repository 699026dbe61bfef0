"""Changes of Flink's options, and of the flow control itself, that may help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from flowcontrol.analysis.checkpoint_causes import timer_windows
from flowcontrol.experiments.advise.changes import Change, Path, Subject
from flowcontrol.report.numbers import milliseconds

_MEMORY: Final = "taskmanager.network.memory."
_CHECKPOINT: Final = "execution.checkpointing."
_SEGMENT: Final = "taskmanager.memory.segment-size"
_TIMEOUT: Final = "execution.buffer-timeout.interval"
_LEAST_SEGMENT: Final = 4096
"""Bytes of the smallest segment that Flink takes."""

_MS: Final = 1000
"""Microseconds."""


def buffer_changes(subject: Subject) -> Iterator[Change]:
    """Twice and half the buffers of each kind, and twice and half their size."""
    scenario = subject.scenario
    if scenario.system.counts_records:
        return
    options = scenario.options
    own: Sequence[tuple[str, str, str, int, int]] = (
        ("exclusive buffer{}", "exclusive", "buffers-per-channel", options.exclusive_buffers, 0),
        ("floating buffer{}", "floating", "floating-buffers-per-gate", options.floating_buffers, 1),
        ("buffer{} a subpartition", "quota", "max-buffers-per-channel",
         options.max_buffers_per_channel, 1),
    )  # fmt: skip
    for noun, kind, key, now, least in own:
        for count in (2 * now or 2, now // 2):
            if count >= least and count != now:
                more = "more in flight" if count > now else "less in flight"
                name = f"{count} {noun.format('s' * (count != 1))} instead of {now}"
                yield Change(kind, name, (_option(_MEMORY + key, count),), more)
    now = options.segment_bytes
    for size in (2 * now, now // 2):
        if size >= _LEAST_SEGMENT:
            name = f"segments of {size // 1024} KiB instead of {now // 1024}"
            why = "fewer, larger buffers" if size > now else "buffers that fill sooner"
            yield Change("segment", name, (_option(_SEGMENT, size),), why)
    if not options.debloat_enabled and not scenario.jobs:
        key = _MEMORY + "buffer-debloat.enabled"
        why = "as much in flight as its target takes to consume"
        yield Change("debloating", "buffer debloating", (_option(key, True),), why)


def timeout_changes(subject: Subject) -> Iterator[Change]:
    """A flusher that runs ten times as often, and a tenth as often."""
    scenario = subject.scenario
    now = scenario.options.flush_interval_us
    if scenario.system.counts_records or now <= 0:
        return
    for value in (now // 10 // _MS * _MS, now * 10):  # whole milliseconds, as it is written
        if value >= _MS:
            why = "records leave sooner" if value < now else "buffers leave fuller"
            name = f"a buffer timeout of {_time(value)} instead of {_time(now)}"
            yield Change("timeout", name, (_option(_TIMEOUT, f"{value // _MS}ms"),), why)


def checkpoint_changes(subject: Subject) -> Iterator[Change]:
    """Barriers that overtake, and fewer checkpoints."""
    scenario = subject.scenario
    own = scenario.checkpointing
    if own is None or own.interval_us is None:
        return
    if own.mode == "exactly_once" and not own.is_unaligned:
        key = _option(_CHECKPOINT + "unaligned.enabled", True)
        why = "barriers overtake what waits before them"
        cautions = ["What they overtake is written with the checkpoint."]
        if timer_windows(scenario):
            cautions.append("They wait behind a window that fires into full outputs.")
        yield Change("unaligned", "unaligned checkpoints", (key,), why, tuple(cautions))
    if own.mode == "exactly_once" and timer_windows(scenario) and not own.interrupts_timers:
        names = ("unaligned.enabled", "unaligned.interruptible-timers.enabled")
        keys = tuple(_option(_CHECKPOINT + name, True) for name in names)
        name = "unaligned checkpoints with interruptible timers"
        why = "barriers pass between two timers of a window that fires"
        caution = "Flink 1.20 and later; windows of the DataStream API ignore it."
        yield Change("interruptible", name, keys, why, (caution,))
    twice = 2 * own.interval_us
    name = f"a checkpoint every {_time(twice)} instead of {_time(own.interval_us)}"
    caution = "A failure costs up to twice as many records again."
    keys = (_option(_CHECKPOINT + "interval", f"{twice // _MS}ms"),)
    yield Change("interval", name, keys, "fewer checkpoints", (caution,))


def batch_changes(subject: Subject) -> Iterator[Change]:
    """Larger and smaller batches, where a source has a most of them."""
    system = subject.scenario.system
    now = int(system.throttle_values.get("max_records", 0))
    if system.throttle != "static_admission" or now == 0:
        return
    for most in (2 * now, 4 * now, now // 2):
        if most > 0:
            name = f"batches of at most {most:,} records instead of {now:,}"
            why = "what a batch costs beside them is shared by more" if most > now else "shorter"
            yield Change("batches", name, ((("system", "throttle", "max_records"), most),), why)


def system_changes(subject: Subject) -> Iterator[Change]:
    """Credits, where there are none yet."""
    scenario = subject.scenario
    if scenario.system.transport == "tcp" and scenario.system.throttle == "none":
        why = "a slow channel no longer holds up the others of its connection"
        yield Change("system", "credit-based flow control", ((("system",), "flink"),), why)


def _option(key: str, value: Any) -> tuple[Path, Any]:
    return ("options", key), value


def _time(length_us: int) -> str:
    return milliseconds(length_us / _MS)
