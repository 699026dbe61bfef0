"""``flowcontrol new``: what it writes is read, planned and run; what it refuses writes nothing."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from flowcontrol.cli import new as questions
from flowcontrol.cli.main import main
from flowcontrol.layout.plan import plan_memory
from flowcontrol.layout.sketch import Sketch, scenario_text
from flowcontrol.scenario import Scenario, check_clock, load_scenario, parse_scenario
from flowcontrol.scenario.syntax import read_yaml_value
from flowcontrol.scenario.system import ALIASES, PRESETS
from flowcontrol.virtual import simulate

NEEDED = ["--name", "my-job", "--source-rate", "1000", "--stages", "map:2000,sink:1200"]
SYSTEMS = [*PRESETS, *ALIASES]


class Terminal(io.StringIO):
    """Standard input that somebody sits at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return tmp_path


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(*lines: str) -> int:
        monkeypatch.setattr("sys.stdin", Terminal("".join(f"{line}\n" for line in lines)))
        return main(["new"])

    return give


def rates(scenario: Scenario, stage: str) -> list[float]:
    """The rate of all subtasks together, phase by phase."""
    found = scenario.stage(stage)
    schedules = found.emit_rate or found.service_rate or ()
    return [
        float(sum(s.rate_at(at * 1_000_000) for s in schedules))
        for at in dict.fromkeys([0, *(us // 1_000_000 for us in schedules[0].changes())])
    ]


def run(path: Path) -> None:
    """Plan it as the command does, and run it on the virtual clock."""
    scenario = load_scenario(path)
    assert check_clock(scenario, "virtual") == []
    if not scenario.system.counts_records:
        assert main(["plan", str(path)]) == 0
    last = simulate(scenario).tables["stages"].to_pandas().query("t_s == 60")
    assert last[last.stage == scenario.stages[-1].name].records_in.sum() > 0


# ---------------------------------------------------------------- flags


def test_flags_make_a_scenario_that_is_planned_and_run(capsys: Any, folder: Path) -> None:
    given = ["--parallelism", "2,4,3", "--slow", "sink:300", "--system", "flink-1.4"]
    assert main(["new", *NEEDED, *given]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[0] == "wrote my-job.yaml: source -> map -> sink"
    assert "  flowcontrol plan my-job.yaml\n" in out
    scenario = load_scenario(folder / "my-job.yaml")
    assert scenario.name == "my-job"
    assert [stage.parallelism for stage in scenario.stages] == [2, 4, 3]
    assert [rates(scenario, name) for name in ("source", "map")] == [[1000], [2000]]
    assert rates(scenario, "sink") == [1200, 300, 1200]
    assert scenario.system.transport == "tcp"
    run(folder / "my-job.yaml")


@pytest.mark.parametrize("system", ["flink", "storm", "kafka-streams", "pulsar"])
def test_every_kind_of_system_runs(system: str, folder: Path, capsys: Any) -> None:
    assert main(["new", *NEEDED, "--system", system, "--out", "x.yaml"]) == 0
    run(folder / "x.yaml")
    counts = load_scenario(folder / "x.yaml").system.counts_records
    assert ("flowcontrol plan x.yaml" in capsys.readouterr().out) != counts


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_can_be_asked_for(system: str) -> None:
    text = scenario_text(Sketch("a", 100, {"b": 50}, (2, 2), system))
    assert check_clock(parse_scenario(read_yaml_value(text)), "virtual") == []


@pytest.mark.parametrize(
    ("sketch", "expected"),
    [
        (Sketch("a", 0.1, {"b": None}, (1, 1)), {"source": [0.1]}),
        (Sketch("a", 100, {"b": None}, (1, 1), slow=("b", 5)), {"b": [200, 5, 200]}),
        (Sketch("a", 100, {"b": 3}, (3, 1), slow=("source", 5)), {"source": [100, 5, 100]}),
        (Sketch("1e5", 1e-7, {"true": 3, "12": 10**12}, (1, 1, 1)), {"true": [3], "12": [1e12]}),
    ],
)
def test_odd_answers_are_kept(sketch: Sketch, expected: dict[str, list[float]]) -> None:
    scenario = parse_scenario(read_yaml_value(scenario_text(sketch)))
    assert scenario.name == sketch.name
    for stage, found in expected.items():
        assert rates(scenario, stage) == pytest.approx(found)
    assert plan_memory(scenario).failures == []


def test_a_large_job_states_the_memory_that_it_needs(folder: Path) -> None:
    assert main(["new", *NEEDED, "--parallelism", "200"]) == 0
    text = (folder / "my-job.yaml").read_text()
    assert "taskmanager.memory.network.min: " in text
    scenario = load_scenario(folder / "my-job.yaml")
    plan = plan_memory(scenario)
    assert plan.failures == []
    assert plan.wanted <= scenario.options.network_buffers
    assert scenario.cluster.task_managers == 50


def test_what_it_says_to_try_can_be_tried() -> None:
    text = scenario_text(Sketch("a", 100, {"b": 50, "c": 20}, (2, 2, 2)))
    mapping = read_yaml_value(text)
    tail = text[text.index("# To try") :]
    uncommented = [line[1:] for line in tail.splitlines() if re.match(r"#  ", line)]
    [edge] = yaml.safe_load("\n".join(uncommented[:4]))
    mapping["edges"][-1] = edge
    mapping["stages"][1] |= yaml.safe_load("\n".join(uncommented[4:]))
    scenario = parse_scenario(mapping)
    assert str(scenario.edges[1].key_distribution) == "1,000 keys, zipf 1.1"
    assert len(scenario.stages[1].stalls) == 1


def test_every_key_has_a_comment_or_is_plain() -> None:
    text = scenario_text(Sketch("a", 100, {"b": 50}, (2, 2), slow=("b", 10)))
    assert max(map(len, text.splitlines())) <= 100
    for key in ("duration_s", "system", "task_managers", "total_rate", "record_bytes"):
        assert re.search(rf"^ *{key}:.*  # \w", text, re.MULTILINE), key


def test_a_source_may_read_a_log(folder: Path) -> None:
    assert main(["new", *NEEDED, "--log", "--parallelism", "3"]) == 0
    assert "arrival_rate" in (folder / "my-job.yaml").read_text()
    run(folder / "my-job.yaml")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (
            [],
            ["--name, --source-rate, --stages are missing", "no terminal", "flowcontrol new --na"],
        ),
        (["--name", "a"], ["--source-rate, --stages are missing"]),
        (NEEDED[:4], ["--stages is missing"]),
        ([*NEEDED, "--name", "a/b"], ["--name: 'a/b' is not allowed", "letters"]),
        ([*NEEDED, "--source-rate", "-1"], ["--source-rate: -1 is out of range"]),
        ([*NEEDED, "--source-rate", "fast"], ["--source-rate: 'fast' is not a number"]),
        ([*NEEDED, "--source-rate", "[1"], ["--source-rate: '[1' is not a number"]),
        ([*NEEDED, "--stages", ","], ["--stages: a job has at least one stage"]),
        ([*NEEDED, "--stages", "a:x"], ["--stages: 'x' is not a number"]),
        ([*NEEDED, "--stages", "a,A"], ["--stages: 'A' is the name of a stage before it"]),
        ([*NEEDED, "--stages", "source"], ["--stages: 'source' is the name of a stage before it"]),
        ([*NEEDED, "--stages", "a.b"], ["--stages: 'a.b' is not allowed"]),
        ([*NEEDED, "--parallelism", "0"], ["--parallelism: 0 is out of range", "at least 1"]),
        ([*NEEDED, "--parallelism", "1,2"], ["2 numbers for 3 stages (source, map, sink)"]),
        ([*NEEDED, "--system", "flinc"], ["--system: unknown system 'flinc'", "'flink'"]),
        ([*NEEDED, "--slow", "sinc:5"], ["--slow: unknown stage 'sinc'", "'sink'"]),
        ([*NEEDED, "--slow", "sink"], ["--slow: 'sink' has no rate", "sink:RATE"]),
        ([*NEEDED, "--parallelism", "2000"], ["my-job is refused", "4000000", "1000000"]),
        ([*NEEDED, "--out", "no/such/x.yaml"], ["--out: no/such/x.yaml cannot be written"]),
    ],
)
def test_refused(arguments: list[str], texts: list[str], capsys: Any, folder: Path) -> None:
    assert main(["new", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    for text in texts:
        assert text in err
    assert "Traceback" not in err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["--out", "my-job.yaml"]])
def test_a_file_is_never_overwritten(arguments: list[str], capsys: Any, folder: Path) -> None:
    (folder / "my-job.yaml").write_text("mine")
    assert main(["new", *NEEDED, *arguments]) == 2
    assert "my-job.yaml exists and is not overwritten" in capsys.readouterr().err
    assert (folder / "my-job.yaml").read_text() == "mine"


def test_a_file_that_comes_up_meanwhile_is_not_overwritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (folder / "my-job.yaml").write_text("mine")
    monkeypatch.setattr(questions, "check_new", lambda path: None)
    assert main(["new", *NEEDED]) == 2
    assert "my-job.yaml cannot be written: File exists" in capsys.readouterr().err
    assert (folder / "my-job.yaml").read_text() == "mine"


def test_a_broken_link_is_not_followed(folder: Path) -> None:
    (folder / "my-job.yaml").symlink_to(folder / "elsewhere")
    assert main(["new", *NEEDED]) == 2
    assert not (folder / "elsewhere").exists()


@pytest.mark.parametrize("kind", questions.SINKS)
def test_every_connector_runs(kind: str, folder: Path, capsys: Any) -> None:
    assert main(["new", *NEEDED, "--sink", f"{kind}:20"]) == 0
    sink = load_scenario(folder / "my-job.yaml").stages[-1].requests
    assert sink is not None and sink.like == kind
    run(folder / "my-job.yaml")


# ---------------------------------------------------------------- questions


def test_six_questions_make_a_scenario(answers: Any, folder: Path, capsys: Any) -> None:
    assert answers("orders", "500", "parse: 900, sink:600", "2 2 3", "storm-2, parse:100", "") == 0
    err = capsys.readouterr().err
    assert [line[:2] for line in re.findall(r"\d\. ", err)] == ["1.", "2.", "3.", "4.", "5.", "6."]
    scenario = load_scenario(folder / "orders.yaml")
    assert [stage.name for stage in scenario.stages] == ["source", "parse", "sink"]
    assert [stage.parallelism for stage in scenario.stages] == [2, 2, 3]
    assert rates(scenario, "parse") == [900, 100, 900]
    assert scenario.system.transport == "hop_hysteresis"


def test_enter_takes_what_is_in_brackets(answers: Any, folder: Path) -> None:
    assert answers("", "", "", "", "", "") == 0
    scenario = load_scenario(folder / "my-job.yaml")
    assert rates(scenario, "source") == [10000]
    assert rates(scenario, "sink") == [12000, 5000, 12000]
    run(folder / "my-job.yaml")


def test_a_system_alone_slows_nothing_down(answers: Any, folder: Path) -> None:
    assert answers("", "", "", "", "flink", "none") == 0
    assert rates(load_scenario(folder / "my-job.yaml"), "sink") == [12000]


def test_a_wrong_answer_is_asked_again(answers: Any, folder: Path, capsys: Any) -> None:
    (folder / "taken.yaml").write_text("mine")
    lines = ["taken", "a b", "mine", "much", "7 logs", "7", "s:x", "s", "0", "1,2,3", "1",
             "flink storm", "t:5", "s:3", "dynamo:2", "kafka", "kafka:x", "kafka:5"]  # fmt: skip
    assert answers(*lines) == 0
    err = capsys.readouterr().err
    assert "quotes" not in err
    for text in (
        "taken.yaml exists", "'a b' is not allowed", "'much' is not a number", "'logs': write",
        "'x' is not a number", "0 is out of range", "3 numbers for 2 stages",
        "write one system", "unknown stage 't'", "unknown connector", "has no latency",
    ):  # fmt: skip
        assert text in err
    scenario = load_scenario(folder / "mine.yaml")
    assert rates(scenario, "s") == [14, 3, 14]
    requests = scenario.stage("s").requests
    assert requests is not None
    assert (requests.like, requests.own_style) == ("kafka", "producer")


def test_answers_that_end_write_nothing(answers: Any, folder: Path, capsys: Any) -> None:
    assert answers("orders", "500") == 2
    assert "the answers ended; nothing is written" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_a_file_to_write_may_be_named_with_the_questions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\n" * 6))
    assert main(["new", "--out", "here.yaml"]) == 0
    assert load_scenario(folder / "here.yaml").name == "my-job"
    monkeypatch.setattr("sys.stdin", Terminal("\n" * 6))
    assert main(["new", "--out", "here.yaml"]) == 2
