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


def first_poll(ask: Ask, jobs: Sequence[str]) -> Poll:
    """Return what does not change while jobs run: who sends to whom, options, machines."""
    paths = ["/config", "/jobmanager/config", "/taskmanagers"]
    paths += [f"/jobs/{job}/{what}" for job in jobs for what in ("plan", "checkpoints/config")]
    found = {path: ask(path) for path in paths}
    for one in (found["/taskmanagers"] or {}).get("taskmanagers", ()):
        found[f"/taskmanagers/{one['id']}"] = ask(f"/taskmanagers/{one['id']}")
    return {path: body for path, body in found.items() if body is not None}


def poll(ask: Ask, jobs: Sequence[str], operators: Sequence[str] = ()) -> Poll:
    """Return the figures of jobs at a moment, which was `FRESH_S` before its ``now``.

    Parameters
    ----------
    ask : callable
        From `asking`.
    jobs : sequence of str
        Their ids; one that was not submitted yet is left out.
    operators : sequence of str
        Ids of metrics of operators, such as ``map.numRecordsIn``; a subtask that has none of them
        leaves it out.
    """
    ask(f"/jobs/{jobs[0]}/metrics?get=numRestarts")
    time.sleep(FRESH_S)
    asked = {f"/jobs/{job}": ask(f"/jobs/{job}") for job in jobs}
    found: Poll = {root: body for root, body in asked.items() if body is not None}
    get = ",".join([*SUBTASK_IDS, *operators])
    for root, body in [*found.items()]:
        for vertex in body["vertices"]:
            place = f"{root}/vertices/{vertex['id']}"
            found[place] = ask(place)
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
