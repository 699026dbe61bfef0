"""Flink's REST API, polled: bodies by path, as ``flowcontrol calibrate --flink`` reads them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Poll = dict[str, Any]
"""Bodies by path."""

FRESH_S = 0.25
"""A question makes Flink ask its task managers; their answers are there so much later."""

REFRESH_MS = 700
"""Flink asks them again at the earliest after this: all questions of a poll see one moment."""

SUBTASK_IDS = (
    *("numRecordsIn", "numRecordsOut", "numBytesOut", "numBuffersOut"),
    *("accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs"),
    *("Shuffle.Netty.Input.numBytesInRemote", "Shuffle.Netty.Input.numBuffersInRemote"),
    *("Shuffle.Netty.Input.numBytesInLocal", "Shuffle.Netty.Input.numBuffersInLocal"),
    *("Shuffle.Netty.Input.Buffers.inPoolUsage", "Shuffle.Netty.Output.Buffers.outPoolUsage"),
    "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage",
    "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage",
    "Shuffle.Netty.Input.Buffers.inputQueueLength",
    "Shuffle.Netty.Output.Buffers.outputQueueLength",
)
"""Metrics that every subtask is asked for."""

OPTIONS = {
    "metrics.fetcher.update-interval": str(REFRESH_MS),
    "web.refresh-interval": "500",
    "taskmanager.network.detailed-metrics": "false",
}
"""Flink's options that let a job be polled once a second."""

Ask = Callable[[str], Any]
"""The body of a path; None where there is none."""


def asking(root: str) -> Ask:
    """Return a function that asks a REST endpoint, such as http://localhost:8081."""

    def ask(path: str) -> Any:
        try:
            with urllib.request.urlopen(root + path, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            return None

    return ask


def first_poll(ask: Ask, job: str) -> Poll:
    """Return what does not change while a job runs: who sends to whom, options, machines."""
    paths = ["/config", "/jobmanager/config", f"/jobs/{job}/plan"]
    paths += [f"/jobs/{job}/checkpoints/config", "/taskmanagers"]
    found = {path: ask(path) for path in paths}
    for one in (found["/taskmanagers"] or {}).get("taskmanagers", ()):
        found[f"/taskmanagers/{one['id']}"] = ask(f"/taskmanagers/{one['id']}")
    return {path: body for path, body in found.items() if body is not None}


def poll(ask: Ask, job: str, operators: Sequence[str] = ()) -> Poll:
    """Return the figures of a job at a moment, which was `FRESH_S` before its ``now``.

    Parameters
    ----------
    ask : callable
        From `asking`.
    job : str
        Its id.
    operators : sequence of str
        Ids of metrics of operators, such as ``map.numRecordsIn``; a subtask that has none of them
        leaves it out.
    """
    root = f"/jobs/{job}"
    ask(f"{root}/metrics?get=numRestarts")
    time.sleep(FRESH_S)
    found: Poll = {root: ask(root)}
    for vertex in found[root]["vertices"]:
        place = f"{root}/vertices/{vertex['id']}"
        found[place] = ask(place)
        get = ",".join([*SUBTASK_IDS, *operators])
        for subtask in range(vertex["parallelism"]):
            path = f"{place}/subtasks/{subtask}/metrics"
            found[path] = ask(f"{path}?get={get}")
    return found


def last_poll(ask: Ask, job: str) -> Poll:
    """Return the checkpoints of a job, each with what its tasks reported."""
    root = f"/jobs/{job}"
    found = {f"{root}/checkpoints": ask(f"{root}/checkpoints")}
    vertices = ask(root)["vertices"]
    for one in found[f"{root}/checkpoints"]["history"]:
        for vertex in vertices:
            path = f"{root}/checkpoints/details/{one['id']}/subtasks/{vertex['id']}"
            found[path] = ask(path)
    return {path: body for path, body in found.items() if body is not None}


def moments(every_s: float, until_s: float) -> Iterator[float]:
    """Yield when to poll, s: every so often, and at the end."""
    count = int(until_s / every_s + 1e-9)
    yield from (every_s * k for k in range(1, count + 1))
    if until_s - count * every_s > 1e-6:
        yield until_s
