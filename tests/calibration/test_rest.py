"""A job manager that is polled: only what a dump needs, and the same scenario as from a dump."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.calibration.bodies import read_dump, write_dump
from flowcontrol.calibration.calibrate import fit_scenario
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.rest import poll
from flowcontrol.errors import ScenarioError

Serve = Callable[[list[dict[str, Any]]], str]


def thinned(dump: dict[str, Any]) -> list[dict[str, Any]]:
    """Return some of a dump's polls: first and last, and some in between."""
    polls = dump["polls"]
    return [*polls[: -1 : len(polls) // 4], polls[-1]]


def test_polling_gives_what_a_dump_gives(
    chain: dict[str, Any], serve: Serve, tmp_path: Path
) -> None:
    polls = thinned(chain)
    waited: list[float] = []
    done: list[int] = []
    url = serve(polls)
    found = poll(f"{url}/v1/", polls=len(polls), every_s=10, pause=waited.append, watch=done.append)
    assert len(found) == len(polls)
    assert done == [*range(1, len(polls) + 1)]
    assert len(waited) == len(polls) - 1
    assert all(0 <= one <= 10 for one in waited)
    write_dump(tmp_path / "kept.json", found)
    kept = fit_scenario(flink_rest=tmp_path / "kept.json")
    assert kept.scenario == fit_scenario(flink_rest=polls).scenario
    assert read_dump(tmp_path / "kept.json")[0][0].keys() == found[0].keys()


def test_latency_markers_and_lag_are_asked_for(chain: dict[str, Any], serve: Serve) -> None:
    polls = thinned(chain)
    for one in polls:
        [job] = [path for path in one if path.count("/") == 2 and path.startswith("/jobs/")]
        one[f"{job}/metrics?get=all"] = [
            {"id": "numRestarts", "value": "0"},
            {"id": "latency.operator_id.a.operator_subtask_index.0.latency_mean", "value": "3.5"},
            {"id": "latency.operator_id.a.operator_subtask_index.0.latency_p99", "value": "9"},
        ]
    found = poll(serve(polls), polls=2, pause=lambda _: None)
    [(path, body)] = [(path, body) for path, body in found[-1].items() if "/metrics?" in path
                      and "vertices" not in path]  # fmt: skip
    assert path.endswith("get=latency.operator_id.a.operator_subtask_index.0.latency_mean")
    assert body == [
        {"id": "latency.operator_id.a.operator_subtask_index.0.latency_mean", "value": "3.5"}
    ]


def test_two_running_jobs_are_listed(chain: dict[str, Any], serve: Serve) -> None:
    polls = thinned(chain)
    jobs = [
        {"jid": "a", "name": "one", "state": "RUNNING"},
        {"jid": "b", "name": "two", "state": "RUNNING"},
        {"jid": "c", "name": "old", "state": "FINISHED"},
    ]
    url = serve([{**one, "/jobs/overview": {"jobs": jobs}} for one in polls])
    with pytest.raises(ScenarioError) as refusal:
        poll(url, polls=2, pause=lambda _: None)
    assert "--job: 2 jobs are running, name one of them: a (one); b (two)" in str(refusal.value)
    with pytest.raises(ScenarioError, match="c: no such job is running"):
        poll(url, job="c", polls=2, pause=lambda _: None)


def test_a_dump_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be written: No such file"):
        write_dump(tmp_path / "no" / "dump.json", [])


def test_metrics_with_any_letters_in_their_names_are_asked_for(
    chain: dict[str, Any], serve: Serve
) -> None:
    polls = thinned(chain)
    name = "Source__Aufträge & Co #1 +50%.KafkaSourceReader.pendingRecords"
    for one in polls:
        for path in [path for path in one if path.endswith("/metrics?get=pools")]:
            one[path] = [*one[path], {"id": name, "value": "7"}]
    found = poll(serve(polls), polls=2, pause=lambda _: None)
    asked = [body for path, body in found[-1].items() if "/subtasks/0/metrics?" in path]
    assert asked
    assert all({"id": name, "value": "7"} in body for body in asked)
    read = read_dump(found)[0]
    job = read_job(read, "")
    assert {one.readings[0].values["lag_records"] for v in job.vertices for one in v.subtasks} == {
        7
    }


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://[::1", "is no URL, Invalid IPv6 URL"),
        ("http://localhost:port", "is no URL"),
        ("http://localhost:99999", "is no URL"),
        ("http:/localhost:8081", "is no URL, it names no machine"),
        ("https://", "is no URL, it names no machine"),
    ],
)
def test_what_is_no_url_is_refused(url: str, text: str) -> None:
    with pytest.raises(ScenarioError, match="name one as http://localhost:8081") as refusal:
        poll(url, polls=2, pause=lambda _: None)
    assert text in str(refusal.value)


def test_the_address_of_the_page_of_flink_will_do(chain: dict[str, Any], serve: Serve) -> None:
    assert len(poll(f"{serve(thinned(chain))}/#/overview", polls=2, pause=lambda _: None)) == 2


Answer = Callable[[socket.socket], None]


def _cut(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


def _garbage(peer: socket.socket) -> None:
    peer.sendall(b"\x00\x01 what\r\n\r\n")


def _silence(peer: socket.socket) -> None:
    """Close without an answer."""


def _page(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n<html>\xff</html>")


def _deep(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (_cut, "cannot be reached"),
        (_garbage, "cannot be reached"),
        (_silence, "cannot be reached"),
        (_page, "does not answer with JSON"),
        (_deep, "does not answer with JSON"),
    ],
)
def test_an_answer_that_is_none(answer: Answer, text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_once() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                answer(peer)

        thread = threading.Thread(target=serve_once, daemon=True)
        thread.start()
        with pytest.raises(ScenarioError, match=text):
            poll(f"http://127.0.0.1:{server.getsockname()[1]}", polls=2, pause=lambda _: None)
        thread.join()


@pytest.mark.parametrize("body", [None, [], "x", {"vertices": 5}, {"vertices": [{}]}])
def test_a_job_of_another_form(body: Any, chain: dict[str, Any], serve: Serve) -> None:
    [first, *_] = thinned(chain)
    [path] = [path for path in first if path.count("/") == 2 and path.startswith("/jobs/")]
    jobs = {"jobs": [{"jid": first[path]["jid"], "name": "x", "state": "RUNNING"}]}
    url = serve([{**first, "/jobs/overview": jobs, path: body}])
    with pytest.raises(ScenarioError, match="--flink is refused"):
        poll(url, polls=2, pause=lambda _: None)


def test_a_job_that_is_gone_half_way(chain: dict[str, Any], serve: Serve) -> None:
    [first, second, *_] = thinned(chain)
    gone = {path: body for path, body in second.items() if path.count("/") != 2}
    [path] = [path for path in first if path.count("/") == 2 and path.startswith("/jobs/")]
    url = serve([first, gone])
    with pytest.raises(ScenarioError, match="does the job still run") as refusal:
        poll(url, polls=3, pause=lambda _: None)
    assert path in str(refusal.value)
