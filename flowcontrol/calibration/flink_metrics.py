"""Metrics of subtasks in the bodies of Flink's REST API, by our names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from flowcontrol.calibration.bodies import known, known_rows
from flowcontrol.calibration.dump import Poll

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
    "pendingRecords": "lag_records",
    "busyTimeMsPerSecond": "busy_ms_per_s",
    "idleTimeMsPerSecond": "idle_ms_per_s",
    "backPressuredTimeMsPerSecond": "blocked_ms_per_s",
}
"""Ids of metrics, without their scope (``buffers.``, ``Shuffle.Netty.Input.Buffers.``)."""

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
        # Of operators only what a source waits for: their records are counted by tasks.
        if plain.endswith(".pendingRecords"):
            plain = "pendingRecords"
        if plain in _IDS:
            yield _IDS[plain], value


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
