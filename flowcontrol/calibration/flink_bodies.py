"""Bodies of Flink's REST API: checkpoints, metrics of subtasks, and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from flowcontrol.calibration.bodies import Poll, known, known_rows, plain
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.readings import FlinkJob

# --- Checkpoints in the bodies of Flink's REST API: options, durations, state.


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


# --- Metrics of subtasks in the bodies of Flink's REST API, by our names.


TIME_GAUGES: Final = ("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")
"""Shares of the last 5 s: all that Flink 1.13 to 1.15 says of times (FLINK-28308 accumulates)."""

METERS: Final = ("numRecordsInPerSecond", "numRecordsOutPerSecond")
"""Means of the last minute, of which no scenario is made."""

_RATIOS: Final = {
    "busyRatio": "busy_ms_per_s",
    "idleRatio": "idle_ms_per_s",
    "ratio": "blocked_ms_per_s",
}
"""Of a subtask in the body of ``/vertices/<vertex>/backpressure``, 1.13 and later."""

_IN_VERTEX: Final = {
    "read-records": "records_in",
    "write-records": "records_out",
    "read-bytes": "bytes_in",
    "write-bytes": "bytes_out",
    "accumulated-busy-time": "busy_ms",
    "accumulated-idle-time": "idle_ms",
    "accumulated-backpressured-time": "blocked_ms",
}
"""Keys of ``metrics`` in the body of a vertex; of the first four ``KEY-complete`` says whether all
subtasks are in."""

_IDS: Final = {
    "numRecordsIn": "records_in",
    "numRecordsOut": "records_out",
    "numBytesIn": "bytes_in",
    "numBytesOut": "bytes_out",
    "accumulateBusyTimeMs": "busy_ms",
    "accumulateIdleTimeMs": "idle_ms",
    "accumulateBackPressuredTimeMs": "blocked_ms",
    "inPoolUsage": "in_pool_usage",
    "outPoolUsage": "out_pool_usage",
    "inputFloatingBuffersUsage": "floating_buffers_usage",
    "inputExclusiveBuffersUsage": "exclusive_buffers_usage",
    "inputQueueLength": "input_queue_buffers",
    "outputQueueLength": "output_queue_buffers",
    "busyTimeMsPerSecond": "busy_ms_per_s",
    "idleTimeMsPerSecond": "idle_ms_per_s",
    "backPressuredTimeMsPerSecond": "blocked_ms_per_s",
}
"""Ids of metrics, without their scope (``buffers.``, ``Shuffle.Netty.Input.Buffers.``)."""

OPERATOR_IDS: Final = {
    "pendingRecords": "lag_records",
    "numRecordsSend": "records_sent",
    "numRecordsSendErrors": "send_errors",
    "currentSendTime": "send_ms",
    "request-latency-avg": "request_ms",
}
"""Ids of metrics that sources and sinks have as operators; the last is of Kafka's producer."""

SUBTASK_IDS: Final = (
    *(key for key in _IDS if key.startswith(("num", "accumulate")) or key in TIME_GAUGES),
    *(f"buffers.{key}" for key in _IDS if key.endswith(("Usage", "Length"))),
    *(f"Shuffle.Netty.Input.Buffers.{key}" for key in _IDS if key.startswith(("in", "debloated"))),
    *(f"Shuffle.Netty.Output.Buffers.{key}" for key in _IDS if key.startswith("out")),
)
"""Ids to ask a subtask for: of 1.x and of 2.x."""

_GROUPS: Final = re.compile(r"^(buffers|Shuffle\.Netty\.(Input|Output)\.Buffers)\.")
_LATENCY: Final = re.compile(
    r"latency(?:\.source_id\.\w+(?:\.source_subtask_index\.\d+)?)?"
    r"\.operator_id\.(\w+)\.operator_subtask_index\.(\d+)\.latency_mean$"
)


_MOST: Final = 2.0**63
"""Below it is every counter of Flink, a long."""


def number(value: Any, least: float = 0.0) -> float | None:
    """Return a number of a body; None of what no counter, time or gauge can be.

    ``"NaN"``, what is missing, words, and numbers below the least or beyond a long are unknown.
    """
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if least <= found < _MOST else None


def asked_names(polls: Sequence[Poll], place: str) -> set[str]:
    """Return the ids of all metrics that polls have below a path, without their scopes."""
    return {
        _GROUPS.sub("", re.sub(r"^\d+\.", "", str(row.get("id", ""))))
        for poll in polls
        for path, body in poll.items()
        if path.startswith(place) and "/metrics" in path
        for row in known_rows(body)
    }


def reading(
    poll: Poll,
    place: str,
    subtask: int,
    count: int,
    row: Mapping[str, Any],
    whole: Mapping[str, Any] | None,
) -> dict[str, float]:
    """Return what a poll says of a subtask.

    Metrics that were asked of the subtask itself come before those in the body of the vertex: they
    are of one moment.

    - ``row``: the subtask in the body of the vertex; empty if there is none.
    - ``whole``: metrics of the whole vertex in the body of the job, of which the subtask then has
      an even part; None: the subtasks say it themselves.
    """
    own = dict(_asked(poll, place, subtask))
    found = {
        name: value / share
        for metrics, share in ((known(whole), count), (known(row.get("metrics")), 1))
        for key, name in _IN_VERTEX.items()
        if metrics.get(f"{key}-complete", True) is not False
        and (value := number(metrics.get(key))) is not None
    }
    return found | own


def _asked(poll: Poll, place: str, subtask: int) -> Iterator[tuple[str, float]]:
    """Yield the metrics that a poll asked a subtask for, or its vertex for all of them."""
    for path, body in poll.items():
        plain = urlsplit(path).path
        if not plain.startswith(place):
            continue
        inner = plain.removeprefix(place)
        if inner == f"/subtasks/{subtask}/metrics":
            yield from _named(body, "value", "")
        elif inner == "/metrics":
            yield from _named(body, "value", f"{subtask}.")
        elif inner == "/backpressure":
            yield from _ratios(body, subtask)
        elif inner == "/subtasks/metrics":
            usages = (one for one in _named(body, "avg", "") if one[0].endswith("usage"))
            yield from usages


def _ratios(body: Any, subtask: int) -> Iterator[tuple[str, float]]:
    for row in known_rows(known(body).get("subtasks")):
        if row.get("subtask") == subtask:
            for key, name in _RATIOS.items():
                if "busyRatio" in row and (value := number(row.get(key))) is not None:
                    yield name, 1000 * value


def _named(body: Any, key: str, prefix: str) -> Iterator[tuple[str, float]]:
    for row in known_rows(body):
        name = str(row.get("id", ""))
        plain = _GROUPS.sub("", name.removeprefix(prefix))
        value = number(row.get(key), -1000.0 if plain in TIME_GAUGES else 0.0)
        if value is None or not name.startswith(prefix):
            continue
        # Flink's busy share is what is left of a second, -2 where the others are 1,002.
        value = max(0.0, value)
        # Of operators only what tasks do not count: their records are counted by tasks.
        of_operator = OPERATOR_IDS.get(plain.rpartition(".")[2])
        if of_operator or plain in _IDS:
            yield of_operator or _IDS[plain], value


def latencies(polls: Sequence[Poll], root: str, stage_of: Mapping[str, str]) -> dict[str, float]:
    """Return the mean of the latency markers at each stage, ms, over subtasks and polls.

    The id of an operator is that of its vertex if it is the vertex's first.
    """
    found: dict[str, list[float]] = {}
    for poll in polls:
        for path, body in poll.items():
            if urlsplit(path).path != f"{root}/metrics":
                continue
            for row in known_rows(body):
                match = _LATENCY.search(str(row.get("id", "")))
                value = number(row.get("value"))
                if match and value is not None and match.group(1) in stage_of:
                    found.setdefault(stage_of[match.group(1)], []).append(value)
    return {stage: sum(values) / len(values) for stage, values in found.items()}


# --- Flink's options of a job, as a scenario takes them.


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
