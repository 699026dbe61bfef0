"""Checkpoints in the bodies of Flink's REST API: options, durations, state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from flowcontrol.calibration.bodies import known, known_rows, plain
from flowcontrol.calibration.dump import Poll
from flowcontrol.calibration.flink_metrics import number

_OPTIONS: Final = {
    "interval": ("execution.checkpointing.interval", "ms"),
    "timeout": ("execution.checkpointing.timeout", "ms"),
    "min_pause": ("execution.checkpointing.min-pause", "ms"),
    "max_concurrent": ("execution.checkpointing.max-concurrent-checkpoints", ""),
    "unaligned_checkpoints": ("execution.checkpointing.unaligned.enabled", ""),
    "aligned_checkpoint_timeout": ("execution.checkpointing.aligned-checkpoint-timeout", "ms"),
    "checkpoints_after_tasks_finish": (
        "execution.checkpointing.checkpoints-after-tasks-finish",
        "",
    ),
    "tolerable_failed_checkpoints": ("execution.checkpointing.tolerable-failed-checkpoints", ""),
}
"""Keys of /checkpoints/config, each with Flink's option and the unit of its value."""

NEVER_MS: Final = 2**62
"""An interval from which on it means that nothing is checkpointed (Long.MAX_VALUE)."""


def checkpoint_options(polls: Sequence[Poll], root: str) -> dict[str, str]:
    """Return what the job says of its checkpoints as Flink's options."""
    found: dict[str, str] = {}
    for poll in polls:
        body = known(poll.get(f"{root}/checkpoints/config"))
        interval = number(body.get("interval"))
        if interval is None or not 0 < interval < NEVER_MS:
            continue
        for key, (option, unit) in _OPTIONS.items():
            if body.get(key) is not None:
                value = body[key]
                text = str(value).lower() if isinstance(value, bool) else plain(str(value))
                found[option] = f"{text}{unit}"
        mode = str(body.get("mode", "")).lower()
        if mode in {"exactly_once", "at_least_once"}:
            found["execution.checkpointing.mode"] = mode.upper()
    return found


def _completed(polls: Sequence[Poll], root: str, since_ms: float) -> Iterator[Mapping[str, Any]]:
    """Yield the completed checkpoints that were triggered in the window, each once."""
    seen: set[float | None] = set()
    for poll in polls:
        body = poll.get(f"{root}/checkpoints")
        for one in known_rows(known(body).get("history")):
            is_done = str(one.get("status", "COMPLETED")).upper() == "COMPLETED"
            own, at_ms = number(one.get("id")), number(one.get("trigger_timestamp"))
            if is_done and own not in seen and at_ms is not None and at_ms >= since_ms:
                seen.add(own)
                yield one


def durations(polls: Sequence[Poll], root: str, since_ms: float) -> tuple[float, ...]:
    """Return the end-to-end durations of the completed checkpoints since a moment, ms."""
    found = _completed(polls, root, since_ms)
    times = (number(one.get("end_to_end_duration")) for one in found)
    return tuple(time for time in times if time is not None)


def states(
    polls: Sequence[Poll], root: str, stage_of: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return the means of a subtask's part by stage: ``bytes``, ``sync_ms``, ``async_ms``."""
    rows: dict[str, dict[str, list[float]]] = {}
    prefix = f"{root}/checkpoints/details/"
    for poll in polls:
        for path, body in poll.items():
            vertex = path.rpartition("/")[2]
            if not path.startswith(prefix) or vertex not in stage_of:
                continue
            kept = rows.setdefault(stage_of[vertex], {"bytes": [], "sync_ms": [], "async_ms": []})
            for one in known_rows(known(body).get("subtasks")):
                if str(one.get("status", "completed")).lower() != "completed":
                    continue
                took = known(one.get("checkpoint"))
                kept["bytes"].append(number(one.get("state_size")) or 0.0)
                kept["sync_ms"].append(number(took.get("sync")) or 0.0)
                kept["async_ms"].append(number(took.get("async")) or 0.0)
    return {
        stage: {name: sum(values) / len(values) for name, values in found.items()}
        for stage, found in rows.items()
        if found["bytes"]
    }
