"""run.sh SCENARIO, without Flink: what it refuses, prints and writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import dumps
import flink_run
import pytest
import rest
import scenario_run
import tables

from flowcontrol.records import RESULTS
from flowcontrol.scenario import Scenario
from tests.real_flink import recorded


def recorded_tables(name: str) -> dict[str, Any]:
    start = recorded.start_ms(name)
    return tables.result_tables(recorded.polls(name), [], start, recorded.scenario(name))


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A Flink that says what it said when the job of a dump ran; the versions asked for."""
    asked: list[str] = []

    def measured(scenario: Scenario, version: str) -> tuple[Any, Any]:
        name = scenario.name
        polls, start = recorded.polls(name), recorded.start_ms(name)
        run = flink_run.FlinkRun(polls, [], start, version, "17", 45, 0, 0)
        return run, recorded_tables(name)

    monkeypatch.setattr(scenario_run, "build", asked.append)
    monkeypatch.setattr(scenario_run, "measured", measured)
    return asked


def test_a_run_prints_both_sides_and_keeps_the_tables(
    versions: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(dumps.SHAPES / "fan-in.yaml")
    out, dump = tmp_path / "out", tmp_path / "dump.json.gz"
    assert scenario_run.main([file, "--out", str(out), "--dump", str(dump)]) == 0
    said = capsys.readouterr().out
    assert versions == ["1.20.1"]
    assert "5 to 45 s" in said
    assert "Flink: Bottleneck: sink" in said
    assert "emulated: Bottleneck: sink" in said
    stages = deltalake.DeltaTable(str(out / "stages")).to_pyarrow_table()
    assert tuple(stages.column_names) == RESULTS["stages"].names
    assert (out / "beside.json").stat().st_size > 0
    assert dump.exists()


@pytest.mark.parametrize(("word", "version"), [("2", "2.3.0"), ("1.20", "1.20.1"), ("2.1.0",) * 2])
def test_a_version_has_a_short_name(
    versions: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, word: str, version: str
) -> None:
    monkeypatch.setattr(scenario_run, "emulated", lambda *_, **__: recorded_tables("fan-out"))
    file = str(dumps.SHAPES / "fan-out.yaml")
    assert scenario_run.main([file, "--flink", word, "--out", str(tmp_path)]) == 0
    assert versions == [version]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["conf/head-of-line.yaml"], "system.transport: tcp: Flink 1.20 and 2.x exchange by"),
        (["conf/three-stages.yaml", "--set", "cluster.network_latency_ms=5"], "loopback"),
        (["conf/none.yaml"], "conf/none.yaml"),
    ],
)
def test_what_flink_cannot_run_is_refused_before_anything_is_built(
    versions: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert scenario_run.main(arguments) == 2
    assert words in capsys.readouterr().err
    assert versions == []


class Endpoint:
    """REST of a job with a vertex of two subtasks; notes what is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, path: str) -> Any:
        self.asked.append(path)
        if path == "/jobs/j":
            return {"vertices": [{"id": "v", "parallelism": 2}]}
        if path == "/jobs/j/checkpoints":
            return {"history": [{"id": 7}]}
        return None if path.endswith("config") else {"taskmanagers": [{"id": "t"}]}


def test_a_poll_asks_for_the_job_its_vertices_and_each_subtask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(rest.time, "sleep", waits.append)
    ask = Endpoint()
    found = rest.poll(ask, ["j"], ["map.numRecordsIn"])
    place = "/jobs/j/vertices/v"
    metrics = [f"{place}/subtasks/{n}/metrics" for n in range(2)]
    assert list(found) == ["/jobs/j", place, *metrics]
    # The first question only makes Flink ask its task managers.
    assert ask.asked[0].startswith("/jobs/j/metrics")
    assert waits == [rest.FRESH_S]
    assert ask.asked[-1].endswith(",map.numRecordsIn")


def test_a_poll_leaves_out_a_job_that_was_not_submitted_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rest.time, "sleep", lambda _: None)
    monkeypatch.setattr(rest, "SUBTASK_IDS", ())
    ask = Endpoint()
    found = rest.poll(
        lambda path: None if path.startswith("/jobs/later") else ask(path), ["j", "later"]
    )
    assert set(tables.job_paths(found)) == {"/jobs/j"}


def test_the_first_poll_leaves_out_what_the_endpoint_does_not_have() -> None:
    found = rest.first_poll(Endpoint(), ["j"])
    assert set(found) == {"/jobs/j/plan", "/taskmanagers", "/taskmanagers/t"}


def test_the_last_poll_has_the_checkpoints_and_their_tasks() -> None:
    found = rest.last_poll(Endpoint(), "j")
    details = "/jobs/j/checkpoints/details/7/subtasks/v"
    assert set(found) == {"/jobs/j/checkpoints", details}


@pytest.mark.parametrize(
    ("every", "until", "moments"), [(1, 3, [1, 2, 3]), (2, 5, [2, 4, 5]), (0.5, 1.2, [0.5, 1, 1.2])]
)
def test_polls_come_at_every_sample_and_at_the_end(
    every: float, until: float, moments: list[float]
) -> None:
    assert list(rest.moments(every, until)) == pytest.approx(moments)
