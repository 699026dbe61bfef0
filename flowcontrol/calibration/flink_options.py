"""Flink's options of a job, as a scenario takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.readings import FlinkJob

SEGMENT: Final = "taskmanager.memory.segment-size"

BUFFERS: Final = {
    SEGMENT: "32kb",
    "taskmanager.network.memory.buffers-per-channel": "2",
    "taskmanager.network.memory.floating-buffers-per-gate": "8",
    "taskmanager.network.memory.max-buffers-per-channel": "10",
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": "5",
    "execution.buffer-timeout.interval": "100ms",
}
"""Options that decide what is in flight, with Flink's defaults."""

FIXED_IN_2: Final = frozenset(key for key in BUFFERS if key.startswith("taskmanager.network."))
"""Options that Flink 2 has fixed."""

OTHERS: Final = (
    "execution.buffer-timeout.enabled",
    "taskmanager.network.memory.read-buffer.required-per-gate.max",
    "taskmanager.network.memory.buffer-debloat.enabled",
    "taskmanager.network.memory.buffer-debloat.period",
    "taskmanager.network.memory.buffer-debloat.target",
    "taskmanager.network.memory.buffer-debloat.samples",
    "taskmanager.network.memory.buffer-debloat.threshold-percentages",
    "execution.checkpointing.interval",
    "execution.checkpointing.mode",
    "execution.checkpointing.timeout",
    "execution.checkpointing.min-pause",
    "execution.checkpointing.max-concurrent-checkpoints",
    "execution.checkpointing.unaligned.enabled",
    "execution.checkpointing.aligned-checkpoint-timeout",
)
"""Options that are taken over where the input says them."""

MARKERS: Final = "metrics.latency.interval"

OLD: Final = {
    "execution.buffer-timeout": "execution.buffer-timeout.interval",
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
    "execution.checkpointing.alignment-timeout": (
        "execution.checkpointing.aligned-checkpoint-timeout"
    ),
}
"""Keys that Flink still reads."""


def system_options(draft: Draft, job: FlinkJob) -> dict[str, Any]:
    """Return ``system`` and ``options`` of a scenario."""
    stated = {OLD.get(key, key): value for key, value in job.config.items()}
    is_2 = job.version.startswith("2.")
    if job.version:
        draft.measured(
            "system", "flink-2" if is_2 else "flink", f"flink-version {job.version}", 0.0
        )
    else:
        draft.assumed("system", "flink", "no poll holds /config: Flink 1.x")
    options: dict[str, Any] = {}
    for key, default in BUFFERS.items():
        if is_2 and key in FIXED_IN_2:
            continue
        path = f"options.{key}"
        if key == SEGMENT and job.segment_bytes is not None:
            text = "nettyShuffleMemoryTotal / nettyShuffleMemorySegmentsTotal of a task manager"
            options[key] = draft.measured(path, job.segment_bytes, text, 0.0)
        elif key in stated:
            options[key] = draft.measured(path, stated[key], "/jobmanager/config", 0.0)
        else:
            why = "the input does not say it: Flink's default"
            options[key] = draft.assumed(path, default, why)
    for key in OTHERS:
        if key in stated:
            text = "/jobmanager/config or /checkpoints/config"
            options[key] = draft.measured(f"options.{key}", stated[key], text, 0.0)
    if "execution.checkpointing.interval" not in options:
        options = {k: v for k, v in options.items() if not k.startswith("execution.checkpointing")}
    if job.latencies:
        options |= _markers(draft, stated, options)
    return {"system": "flink-2" if is_2 else "flink", "options": options}


def _markers(draft: Draft, stated: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option of latency markers, which no clock emulates beside checkpoints."""
    if "execution.checkpointing.interval" in options:
        draft.notes.append(
            "latency markers are not predicted: they are not emulated beside checkpoints yet"
        )
        return {}
    path = f"options.{MARKERS}"
    if stated.get(MARKERS, "0") not in {"0", "0ms"}:
        return {MARKERS: draft.measured(path, stated[MARKERS], "/jobmanager/config", 0.0)}
    return {MARKERS: draft.assumed(path, "1s", "there are markers, how often is not said")}
