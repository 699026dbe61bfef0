"""The command ``scale``: what policies choose, beside the run as it is."""

from __future__ import annotations

import json

import pytest
import yaml

from flowcontrol.cli.main import main

JOB = {
    "schema": 1,
    "name": "small",
    "duration_s": 40,
    "round_ms": 20,
    "sample_interval_s": 1,
    "cluster": {"task_managers": 2},
    "options": {"taskmanager.memory.segment-size": "4kb"},
    "stages": [
        {
            "name": "source",
            "emit_rate": 1000,
            "total_arrival_rate": 330,
            "latency_from": "arrival",
            "record_bytes": 200,
        },
        {"name": "map", "service_rate": 100},
        {"name": "sink", "service_rate": 1000},
    ],
    "edges": [
        {"from": "source", "to": "map", "partitioner": "rebalance"},
        {"from": "map", "to": "sink", "partitioner": "rebalance"},
    ],
}
DS2 = {"policy": "ds2", "policy_interval": 4, "warm_up_time": 1, "redeploy_s": 3}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB | {"scaling": DS2}))
    return tmp_path


def test_it_prints_and_writes_what_each_policy_chose(here, capsys):
    assert main(["scale", "job.yaml", "--out", "found", "--quiet"]) == 0
    said = capsys.readouterr().out
    for text in ("map", "1 → 4", "needs 3.30 of 1", "ds2 scaled the job once", "none", "Scaled"):
        assert text in said
    found = json.loads((here / "found" / "scaling.json").read_text())
    assert list(found["runs"]) == ["none", "ds2"]
    none, own = found["runs"]["none"], found["runs"]["ds2"]
    (step,) = own["steps"]
    (change,) = step["changes"]
    assert (step["t_s"], change["stage"], change["old"], change["new"]) == (5.0, "map", 1, 4)
    # one subtask does 100/s, four do what comes, and more while they catch up
    assert step["before"]["throughput"] == pytest.approx(100, rel=0.05)
    assert step["after"]["throughput"] == pytest.approx(400, rel=0.05)
    assert step["after"]["parallelism"] == {"source": 1, "map": 4, "sink": 1} == own["end"]
    assert step["after"]["end_lag_s"] < step["before"]["max_lag_s"] + step["restart_s"]
    assert (none["restarts"], none["down_s"], none["policy"]) == (0, 0, "none")
    assert none["subtasks"] == 3 < own["subtasks"]
    assert own["throughput"] > 2 * none["throughput"]
    assert own["slots"] == pytest.approx((5 + 35 * 4 - (step["restart_s"] - 3) * 3) / 40, rel=0.05)
    assert own["wasted_subtasks"] > 0
    summary = json.loads((here / "found" / "ds2" / "summary.json").read_text())
    assert summary["scaling"]["steps"] == own["steps"]
    assert summary["stages"]["map"]["parallelism"] == 4
    page = (here / "found" / "ds2" / "report.html").read_text()
    assert 'id="scalings"' in page
    assert "Parallelism, and what came of it" in page
    assert "flowcontrol step" not in page
    assert (here / "found" / "none" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--policy", "dhalion"], ["--policy", "unknown policy 'dhalion'", "ds2"]),
        (["--set", "scaling.interval_s=3"], ["scaling.interval_s", "not of ds2"]),
        (["--set", "stages.map.state={bytes: 3}"], ["stages[1].state", "leave it out"]),
        (["--set", "system=storm"], ["system.transport", "use credit"]),
        (["--set", "scaling=5"], ["scaling: 5"]),
        (["--set", "scaling={interval_s: 5}", "--policy", "ds2"], ["scaling"]),
        (["--set", "scaling.policy=[1]"], ["scaling.policy"]),
    ],
)
def test_it_refuses_and_writes_nothing(here, capsys, words, texts):
    assert main(["scale", "job.yaml", "--out", "found", *words]) == 2
    said = capsys.readouterr().err
    for text in texts:
        assert text in said
    assert not (here / "found").exists()


def test_the_runs_are_beside_each_other_in_a_narrow_terminal(here, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    (here / "plain.yaml").write_text(yaml.safe_dump(JOB))
    words = ["--set", "duration_s=2", "--quiet", "--out", "both"]
    assert main(["scale", "plain.yaml", *words]) == 0
    said = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["none", "ds2", "flink-autoscaler"] for line in said)
    assert any(line.split() == ["Scaled", "0", "0", "0"] for line in said)


def test_a_folder_is_replaced_only_on_demand(here, capsys):
    short = ["--set", "duration_s=2", "--quiet"]
    assert main(["scale", "job.yaml", "--out", "found", *short]) == 0
    assert main(["scale", "job.yaml", "--out", "found", *short]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["scale", "job.yaml", "--out", "found", "--overwrite", *short]) == 0
    assert "ds2 left the parallelism as it was." in capsys.readouterr().out


def test_without_a_policy_of_its_own_both_run(here):
    (here / "plain.yaml").write_text(yaml.safe_dump(JOB))
    words = ["--set", "duration_s=2", "--quiet", "--out", "both"]
    assert main(["scale", "plain.yaml", *words]) == 0
    found = json.loads((here / "both" / "scaling.json").read_text())
    assert list(found["runs"]) == ["none", "ds2", "flink-autoscaler"]
