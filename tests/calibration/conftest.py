"""What the tests of calibrations share: dumps made of emulated runs, and a job manager to ask."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs

import pytest

from modules import load

CHAIN: dict[str, Any] = {
    "schema": 1,
    "name": "chain",
    "duration_s": 60,
    "sample_interval_s": 0.37,
    "cluster": {"task_managers": 3, "slots": 8},
    "options": {
        "taskmanager.memory.segment-size": "16kb",
        "execution.checkpointing.interval": "5s",
    },
    "stages": [
        {"name": "orders", "emit_rate": 5000, "record_bytes": 1017},
        {"name": "map", "parallelism": 2, "service_rate": [900, 1500], "selectivity": 0.5},
        {"name": "sink", "parallelism": 3, "service_rate": 500},
    ],
    "edges": [
        {"from": "orders", "to": "map", "partitioner": "rebalance"},
        {"from": "map", "to": "sink", "partitioner": "hash", "channel_weights": [0.5, 0.3, 0.2]},
    ],
}
"""The first map limits: its half of the records is more than it can take."""


@pytest.fixture(scope="session")
def synthesise() -> ModuleType:
    """Return ``synthesise.py``: dumps made of emulated runs."""
    return load("tests/calibration/synthesise.py")


@pytest.fixture(scope="session")
def _chain(synthesise: ModuleType) -> dict[str, Any]:
    dump: dict[str, Any] = synthesise.dump_of(CHAIN)[0]
    return dump


@pytest.fixture
def chain(_chain: dict[str, Any]) -> dict[str, Any]:
    """Return a dump of `CHAIN`, the test's own."""
    return copy.deepcopy(_chain)


Serve = Callable[[list[dict[str, Any]]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve polls as a job manager does, one after the other; returns its URL.

    The next poll begins when the job's own body is asked for again.
    """
    servers: list[ThreadingHTTPServer] = []

    def begin(polls: list[dict[str, Any]]) -> str:
        state = {"poll": -1}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, mark, query = self.path.removeprefix("/v1").partition("?")
                asked = "get=" + parse_qs(query)["get"][0] if query else ""
                body = _body(polls, state, path + mark + asked)
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write(b"not found" if body is None else json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def _body(polls: list[dict[str, Any]], state: dict[str, int], path: str) -> Any:
    """Return the body of a path in the poll that is under way; of metrics those asked for."""
    plain, _, asked = path.partition("?get=")
    if plain.count("/") == 2 and plain.startswith("/jobs/") and plain != "/jobs/overview":
        state["poll"] = min(state["poll"] + 1, len(polls) - 1)
    poll = polls[max(0, state["poll"])]
    if plain in poll:
        return poll[plain]
    if plain == "/jobs/overview":
        jobs = [body for key, body in poll.items() if key.count("/") == 2 and "jid" in body]
        return {"jobs": [{k: one[k] for k in ("jid", "name", "state")} for one in jobs]}
    found = [body for key, body in poll.items() if key.partition("?")[0] == plain]
    if not found:
        return None
    rows = [row for body in found for row in body]
    names = asked.split(",")
    return [row for row in rows if row["id"] in names] if asked else [{"id": r["id"]} for r in rows]
