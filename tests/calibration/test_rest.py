"""A job manager that is polled: only what a dump needs, and the same scenario as from a dump."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.calibration.dump import read_dump, write_dump
from flowcontrol.calibration.fit import fit_scenario
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
