"""Polling the REST API of a running Flink: only GET, some polls with a pause between them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from flowcontrol.calibration.bodies import (
    known,
    known_rows,
    mapping_at,
    plain,
    rows_at,
    width_at,
    word_at,
)
from flowcontrol.calibration.draft import refuse
from flowcontrol.calibration.flink_bodies import OPERATOR_IDS, SUBTASK_IDS

TIMEOUT_S: Final = 20.0
"""How long an answer may take; Flink gives up on its task managers after 10 s."""

POLLS: Final = 13
EVERY_S: Final = 10.0
"""Two minutes: Flink fetches metrics every 10 s (``metrics.fetcher.update-interval``)."""

OVERVIEW: Final = "/jobs/overview"
"""Where the jobs are listed: the first request."""

_EXAMPLE: Final = "http://localhost:8081"
_USUAL: Final = ",".join(SUBTASK_IDS)
_LATENCY: Final = ".latency_mean"
_OF_OPERATORS: Final = tuple(f".{name}" for name in OPERATOR_IDS)
_RUNNING: Final = frozenset({"RUNNING", "RESTARTING", "FAILING", "CREATED", "CANCELLING"})


def is_url(text: str) -> bool:
    """Tell whether ``--flink`` names a job manager rather than a dump."""
    return str(text).lower().startswith(("http:", "https:"))


class Rest:
    """GET requests to a job manager.

    ``url``: of its REST endpoint: ``http://localhost:8081``; what the page of Flink has behind
    ``#`` is left out.

    Raises ScenarioError if it is no URL of a machine.
    """

    def __init__(self, url: str) -> None:
        self.url = url.partition("#")[0].rstrip("/").removesuffix("/v1")
        why = "it names no machine"
        try:
            parts = urlsplit(self.url)
            if parts.hostname and parts.port != 0:
                return
        except ValueError as error:
            why = str(error)
        refuse("--flink", f"{url} is no URL, {why}: name one as {_EXAMPLE}", "command")

    def get(self, path: str, *, is_needed: bool = True) -> Any:
        """Return the body at a path; None if there is none and it is not needed.

        Raises ScenarioError if the job manager does not answer, or answers something else than
        JSON.
        """
        # Names of metrics have any letters in them; what parts a URL has stays.
        address = f"{self.url}{quote(path, safe='/?=,', errors='replace')}"
        request = Request(address, headers={"Accept": "application/json"})
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                body = answer.read()
        except HTTPError as error:
            error.close()
            if not is_needed:
                return None
            text = f"{self.url} answers {error.code} ({plain(str(error.reason))}): "
            refuse(path, text + _what_to_do(error.code, path), "--flink")
        except (URLError, OSError, HTTPException, UnicodeError) as error:
            why = getattr(error, "reason", None) or error
            refuse(
                path,
                f"{self.url} cannot be reached ({why}): is the job manager running, and its port "
                "open from here? A dump can be made where it is (--save), and read here",
                "--flink",
            )
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            if not is_needed:
                return None
            text = f"{self.url} does not answer with JSON: it does not look like Flink's REST API"
            refuse(path, text, "--flink")

    def job(self, wanted: str | None) -> str:
        """Return the id of the running job.

        Raises ScenarioError if none runs, several do and none is named, or the named one does not.
        """
        body = self.get(OVERVIEW)
        rows = known(body).get("jobs")
        if not isinstance(rows, list):
            text = f"{self.url} lists no jobs: it does not look like Flink's REST API"
            refuse(OVERVIEW, text, "--flink")
        rows = rows_at(rows, OVERVIEW, "--flink")
        running = {
            word_at(row, "jid", OVERVIEW, "--flink"): plain(str(row.get("name", "")))
            for row in rows
            if _runs(row)
        }
        if not running:
            text = f"{self.url}: no job is running; start it, or name a dump"
            refuse(OVERVIEW, text, "--flink")
        names = "; ".join(f"{job} ({name})" for job, name in running.items())
        if wanted is not None:
            if wanted not in running:
                refuse("--job", f"{wanted}: no such job is running; there are: {names}", self.url)
            return wanted
        if len(running) > 1:
            refuse("--job", f"{len(running)} jobs are running, name one of them: {names}", self.url)
        return next(iter(running))


def poll(
    url: str,
    *,
    job: str | None = None,
    polls: int = POLLS,
    every_s: float = EVERY_S,
    pause: Callable[[float], None] = time.sleep,
    watch: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Poll a running job.

    - ``job``: id of the job; by default the only one that runs.
    - ``pause``: waits for some seconds.

    Returns the polls, each a mapping of path to body. Raises ScenarioError if the job manager
    cannot be reached, or it is not clear which job is meant.
    """
    rest = Rest(url)
    root = f"/jobs/{rest.job(job)}"
    found: list[dict[str, Any]] = []
    asked: dict[str, str] = {}
    for number in range(polls):
        begun = time.monotonic()
        one: dict[str, Any] = {root: rest.get(root)}
        body = mapping_at(one[root], root, "--flink")
        vertices = [
            (
                f"{root}/vertices/{word_at(row, 'id', root, '--flink')}",
                width_at(row, root, "--flink"),
            )
            for row in rows_at(body.get("vertices"), f"{root}.vertices", "--flink")
        ]
        if number == 0:
            one |= _once(rest, root)
            asked = _ids(rest, root, vertices)
        for place, parallelism in vertices:
            one[place] = rest.get(place)
            for k in range(parallelism):
                path = f"{place}/subtasks/{k}/metrics?get={asked.get(place, _USUAL)}"
                _add(one, path, rest.get(path, is_needed=False))
        if asked[root]:
            path = f"{root}/metrics?get={asked[root]}"
            _add(one, path, rest.get(path, is_needed=False))
        _add(one, f"{root}/checkpoints", rest.get(f"{root}/checkpoints", is_needed=False))
        if number == 0:
            one |= _task_managers(rest, one)
        if number == polls - 1:
            one |= _details(rest, root, one, [place for place, _ in vertices])
        found.append(one)
        if watch is not None:
            watch(number + 1)
        if number < polls - 1:
            pause(max(0.0, every_s - (time.monotonic() - begun)))
    return found


def _what_to_do(status: int, path: str) -> str:
    """Return what to do about an answer that is an error."""
    if status >= 500:
        return "its log says why; poll again once it answers"
    if status == 404 and path != OVERVIEW:
        return "does the job still run? Poll again while it does"
    return f"name the URL of a job manager's REST API, as {_EXAMPLE}"


def _runs(row: Mapping[str, Any]) -> bool:
    return str(row.get("state", "RUNNING")).upper() in _RUNNING


def _add(one: dict[str, Any], path: str, body: Any) -> None:
    if body is not None:
        one[path] = body


def _once(rest: Rest, root: str) -> dict[str, Any]:
    """Return what does not change while a job runs."""
    found: dict[str, Any] = {}
    for path in (f"{root}/plan", "/config", "/jobmanager/config", f"{root}/checkpoints/config"):
        _add(found, path, rest.get(path, is_needed=False))
    return found


def _ids(rest: Rest, root: str, vertices: list[tuple[str, int]]) -> dict[str, str]:
    """Return the metrics to ask each vertex's subtasks for, and the job for its latencies."""
    found: dict[str, str] = {}
    for place, _ in vertices:
        # Of all subtasks: one without a partition has no pendingRecords.
        names = _listed(rest.get(f"{place}/subtasks/metrics", is_needed=False))
        names = names or _listed(rest.get(f"{place}/subtasks/0/metrics", is_needed=False))
        own = [name for name in names if name in SUBTASK_IDS or name.endswith(_OF_OPERATORS)]
        found[place] = ",".join(own) or _USUAL
    names = _listed(rest.get(f"{root}/metrics", is_needed=False))
    found[root] = ",".join(
        name for name in names if name.startswith("latency.") and name.endswith(_LATENCY)
    )
    return found


def _listed(body: Any) -> list[str]:
    return [str(row["id"]) for row in known_rows(body) if "id" in row]


def _task_managers(rest: Rest, one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task manager's body, which holds the size of its buffers."""
    rows = [
        row
        for path, body in one.items()
        if "/vertices/" in path
        for row in rows_at(known(body).get("subtasks"), f"{path}.subtasks", "--flink")
    ]
    ids = [str(row["taskmanager-id"]) for row in rows if row.get("taskmanager-id")]
    found: dict[str, Any] = {}
    for path in [f"/taskmanagers/{name}" for name in ids[:1]]:
        _add(found, path, rest.get(path, is_needed=False))
    return found


def _details(rest: Rest, root: str, one: Mapping[str, Any], places: list[str]) -> dict[str, Any]:
    """Return the parts of each vertex in the newest completed checkpoint."""
    place = f"{root}/checkpoints"
    body = mapping_at(one.get(place) or {}, place, "--flink")
    history = rows_at(body.get("history"), f"{place}.history", "--flink")
    done = [row.get("id") for row in history if row.get("status") == "COMPLETED"]
    found: dict[str, Any] = {}
    for place in places if done else ():
        vertex = place.rpartition("/")[2]
        path = f"{root}/checkpoints/details/{done[0]}/subtasks/{vertex}"
        _add(found, path, rest.get(path, is_needed=False))
    return found
