"""``flowcontrol deploy``: five jobs with known answers, what it writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from flowcontrol.cli.main import main
from flowcontrol.run.plan import deploy
from modules import ROOT

WORD_COUNT = ROOT / "conf" / "word-count.yaml"

# Operators, edges and cluster by hand; what must come out, by hand from Flink's rules.
JOBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two lanes": (
        {
            "operators": [
                {"name": "in", "parallelism": 2},
                {"name": "map", "parallelism": 2, "chaining": "head"},
            ],
            "edges": [{"from": "in", "to": "map"}],
        },
        {
            "vertices": ["Source: in", "map"],
            "not_chained": [("in", "map", 5)],
            "channels": [2],
            "regions": [[["Source: in", 0], ["map", 0]], [["Source: in", 1], ["map", 1]]],
            "slots": ["0.0 in0 map0", "1.0 in1 map1"],
        },
    ),
    "rescale to five": (
        {
            "operators": [{"name": "in", "parallelism": 2}, {"name": "map", "parallelism": 5}],
            "edges": [{"from": "in", "to": "map", "partitioner": "rescale"}],
            "cluster": {"slots": 3, "task_managers": 2},
        },
        {
            "vertices": ["Source: in", "map"],
            "not_chained": [("in", "map", 6)],
            "channels": [5],
            "regions": [
                [["Source: in", 0], ["map", 0], ["map", 1], ["map", 2]],
                [["Source: in", 1], ["map", 3], ["map", 4]],
            ],
            # map 0 and map 3 go to their producers, the others get new slots.
            "slots": ["0.0 in0 map0", "0.1 in1 map3", "0.2 map1", "1.0 map2", "1.1 map4"],
        },
    ),
    "a join with a group of its own": (
        {
            "operators": [
                {"name": "left", "parallelism": 1},
                {"name": "right", "parallelism": 2},
                {"name": "join", "parallelism": 2, "slot_group": "big"},
                {"name": "out", "parallelism": 1, "kind": "classic-sink"},
            ],
            "edges": [
                {"from": "left", "to": "join", "partitioner": "hash"},
                {"from": "right", "to": "join", "partitioner": "hash", "input": 1},
                {"from": "join", "to": "out"},
            ],
            "cluster": {"slots": 2},
        },
        {
            "vertices": ["Source: left", "Source: right", "join", "Sink: out"],
            "not_chained": [("left", "join", 2), ("right", "join", 2), ("join", "out", 6)],
            "channels": [2, 4, 2],
            "regions": None,
            "slots": ["0.0 left0 right0", "0.1 right1", "1.0 join0 out0", "1.1 join1"],
        },
    ),
    "sources drawn in, then a fan-out": (
        {
            "operators": [
                {"name": "a"},
                {"name": "b"},
                {"name": "merge", "chaining": "head-with-sources"},
                {"name": "left", "kind": "sink"},
                {"name": "right", "kind": "sink"},
            ],
            "edges": [
                {"from": "a", "to": "merge"},
                {"from": "b", "to": "merge", "input": 1},
                {"from": "merge", "to": "left"},
                {"from": "merge", "to": "right"},
            ],
        },
        {
            "vertices": ["merge [Source: a, Source: b] -> (left: Writer, right: Writer)"],
            "not_chained": [],
            "channels": [],
            "regions": None,
            "slots": ["0.0 merge0"],
        },
    ),
}


def answers(graphs: dict[str, Any]) -> dict[str, Any]:
    """Return of ``graphs.json`` what the jobs have answers for."""
    job, execution = graphs["job_graph"], graphs["execution_graph"]
    heads = {vertex["name"]: vertex["operators"][0] for vertex in job["vertices"]}
    return {
        "vertices": [vertex["name"] for vertex in job["vertices"]],
        "not_chained": [(e["source"], e["target"], e["condition"]) for e in job["not_chained"]],
        "channels": [edge["channel_count"] for edge in execution["edges"]],
        "regions": execution["regions"],
        "slots": [
            " ".join(
                [f"{s['task_manager']}.{s['slot']}", *(f"{heads[n]}{i}" for n, i in s["tasks"])]
            )
            for s in graphs["slots"]
        ],
    }


@pytest.mark.parametrize("name", JOBS)
def test_a_job_with_known_answers(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, expected = JOBS[name]
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({"name": "job", **job}))
    assert main(["deploy", str(file), "--out", str(tmp_path / "out")]) == 0
    found = answers(json.loads((tmp_path / "out" / "graphs.json").read_text()))
    if expected["regions"] is None:
        assert len(found.pop("regions")) == 1
    assert found == {key: value for key, value in expected.items() if value is not None}
    said = capsys.readouterr()
    assert said.err == ""
    for vertex in expected["vertices"]:
        assert vertex in " ".join(said.out.split())


def test_the_word_count_of_flinks_documentation(tmp_path: Path) -> None:
    """Four slots: source and flatMap are one task, window and sink the other; keyBy is between."""
    found = deploy(WORD_COUNT, out=tmp_path)
    graphs = json.loads((tmp_path / "graphs.json").read_text())
    assert list(graphs) == ["stream_graph", "job_graph", "execution_graph", "slots"]
    first, second = "Source: source -> flatMap", "window -> sink: Writer"
    assert answers(graphs) == {
        "vertices": [first, second],
        "not_chained": [("flatMap", "window", 7)],
        "channels": [16],
        "regions": [[[name, i] for name in (first, second) for i in range(4)]],
        "slots": [f"{i // 2}.{i % 2} source{i} window{i}" for i in range(4)],
    }
    [edge] = graphs["execution_graph"]["edges"]
    assert [c for c in edge["channels"] if c["receiver"] == 3] == [
        {"sender": sender, "subpartition": 3, "receiver": 3} for sender in range(4)
    ]
    assert graphs["job_graph"]["slots_required"] == {"default": 4}
    assert {slot["network_bytes"] for slot in graphs["slots"]} == {32 << 20}
    assert {slot["managed_bytes"] for slot in graphs["slots"]} == {None}
    assert [node["operator_name"] for node in graphs["stream_graph"]["nodes"]] == [
        "Source: source", "flatMap", "window", "sink: Writer"
    ]  # fmt: skip
    assert found.sentence == (
        "word-count: 4 operators become 2 vertices, 8 subtasks, 16 channels, in 4 slots."
    )
    assert found.to_pandas("slots").groupby(["task_manager", "slot"]).size().tolist() == [2] * 4


def test_stages_keep_their_placement(tmp_path: Path) -> None:
    stages = [
        {"name": "a", "parallelism": 2, "emit_rate": 1, "placement": [1, 1]},
        {"name": "b", "parallelism": 2, "placement": [0, 1]},
        {"name": "c", "parallelism": 2},
    ]
    edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "c", "chain": True}]
    head = {"schema": 1, "name": "spelled-out", "duration_s": 1}
    deploy({**head, "stages": stages, "edges": edges}, out=tmp_path)
    found = answers(json.loads((tmp_path / "graphs.json").read_text()))
    assert found["vertices"] == ["Source: a", "b -> c"]
    assert found["not_chained"] == [("a", "b", 5)]
    assert found["slots"] == ["0.0 b0", "1.0 a0 b1", "1.1 a1"]


def test_the_share_of_a_slot(tmp_path: Path) -> None:
    changes = {
        "cluster.slots": 4,
        "options.taskmanager.memory.flink.size": "1000mb",
        "options.taskmanager.memory.network.fraction": 0.2,
    }
    [*slots] = deploy(WORD_COUNT, overrides=changes, out=tmp_path).deployment.slots
    assert {(s.network_bytes, s.managed_bytes) for s in slots} == {(50 << 20, 100 << 20)}


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["deploy", *words])
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ("cluster.task_managers=1",
         ["cluster.task_managers: 1 with 2 slots each", "required 4 slots, but only 2 available",
          "taskmanager.numberOfTaskSlots", "needed: 2"]),
        ("edges.0.partitioner=forwrd", ["edges[0].partitioner", "forward"]),
        ("edges.0.chain=true", ["edges[0].chain"]),
        ("operators.window.parallelism=5", ["edge flatMap->window", "forward"]),
        ("opions.a=1", ["unknown key 'opions'; did you mean 'options'"]),
        ("options.parallelism.default=0", ["parallelism.default", "0 is out of range"]),
        ("operators.sink.kind=surce", ["operators[3].kind", "surce"]),
    ],
)  # fmt: skip
def test_refused(
    change: str, texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--set", "edges.1.partitioner=forward"] if "window.par" in change else []
    out = tmp_path / "out"
    status, said = run([str(WORD_COUNT), "--set", change, *more, "--out", str(out)], capsys)
    assert status == 2
    for text in texts:
        assert text in said
    assert not out.exists()


def test_several_jobs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run([str(ROOT / "conf" / "two-jobs.yaml"), "--out", str(tmp_path)], capsys)
    assert status == 2
    assert "\n  jobs: the graphs are those of one job, not of 3: keep one" in said


def test_a_folder_of_graphs_is_replaced_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # a place of its own: replaced
        assert run([str(WORD_COUNT)], capsys) == (0, "")
    assert (tmp_path / "out" / "word-count-graphs" / "report.html").exists()
    words = [str(WORD_COUNT), "--out", "mine"]
    assert run(words, capsys) == (0, "")
    status, said = run(words, capsys)
    assert status == 2
    assert "mine holds a deployment already; use --overwrite" in said
    assert run([*words, "--overwrite"], capsys) == (0, "")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    status, said = run([str(WORD_COUNT), "--out", "other", "--overwrite"], capsys)
    assert status == 2
    assert "other holds something that is not a deployment" in said


@pytest.mark.parametrize("columns", [40, 60, 100, 200])
def test_it_fits_a_terminal(
    columns: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.chdir(tmp_path)
    assert run([str(WORD_COUNT), "--out", "o"], capsys)[0] == 0
    main(["deploy", str(WORD_COUNT), "--out", "o", "--overwrite"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= min(columns, 100)
    assert len(lines) > 20


def test_the_page_has_the_four_graphs_and_fetches_nothing(tmp_path: Path) -> None:
    deploy(WORD_COUNT, out=tmp_path)
    page = (tmp_path / "report.html").read_text()
    for title in ("Stream graph", "Job graph", "Execution graph", "Slots"):
        assert f"· {title}</h2>" in page
    assert len(re.findall('class="channel"', page)) == 16
    assert set(re.findall(r'data-subtask="(\w+)"', page)) == {
        f"{v}{i}" for v in "AB" for i in range(4)
    }
    assert len(re.findall('<span class="task"', page)) == 8
    assert "default-src 'none'" in page
    assert len(page) < 60_000
    assert len(re.findall('marker id="([a-z-]+)"', page)) == 3
    assert "arrow-of-this-drawing" not in page


def test_names_are_escaped_and_large_jobs_bounded(tmp_path: Path) -> None:
    job = {
        "name": "large",
        "operators": [
            {"name": "<b>", "parallelism": 110},
            {"name": "x", "parallelism": 110, "slot_group": "<i>"},
        ],
        "edges": [{"from": "<b>", "to": "x", "partitioner": "hash"}],
    }
    found = deploy(job, out=tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "<b>" not in page
    assert "<i>" not in page
    assert len(page) < 200_000
    assert "The first 12 of a vertex are drawn." in page
    assert "20 slots more, in graphs.json." in page
    [edge] = json.loads((tmp_path / "graphs.json").read_text())["execution_graph"]["edges"]
    assert edge["channel_count"] == 12_100
    assert edge["channels"] is None
    assert found.deployment.task_managers == 220
