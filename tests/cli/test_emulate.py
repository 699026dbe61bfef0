"""The command line of emulate.py as far as no Spark is needed: refusals and overrides."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from flowcontrol.cli import emulate as emulate_cli
from flowcontrol.cli.main import main as flowcontrol
from flowcontrol.errors import RunError
from flowcontrol.live.folder import open_folder
from flowcontrol.run import RunResult
from flowcontrol.run.emulate import emulate
from flowcontrol.scenario.given import as_scenario

ROOT = Path(__file__).resolve().parents[2]
NETWORK = "taskmanager.memory.network."


def main(words: list[str]) -> int:
    """Run the command."""
    return flowcontrol(["emulate", *words])


SMALL: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 2,
    "round_ms": 200,
    "cluster": {"task_managers": 2},
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 200},
        {"name": "sink", "service_rate": 50},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}

Write = Callable[..., Path]


class Started(Exception):
    """The job got as far as its folder: nothing was refused."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(here: Path) -> Write:
    """A function that writes the small scenario with values changed; returns its file."""

    def write_it(**changes: Any) -> Path:
        mapping = copy.deepcopy(SMALL)
        for path, value in changes.items():
            *keys, last = [int(k) if k.isdecimal() else k for k in path.split("__")]
            target: Any = mapping
            for key in keys:
                target = target.setdefault(key, {}) if isinstance(target, dict) else target[key]
            target[last] = value
        (here / "scenario.yaml").write_text(yaml.safe_dump(mapping))
        return here / "scenario.yaml"

    return write_it


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# ---------------------------------------------------------------------- refusals


REFUSED = [
    ({"duration": 3}, ["duration", "unknown key", "did you mean 'duration_s'"]),
    ({"stages__0__emit_rate": -5}, ["stages[0].emit_rate", "-5", "at least 0"]),
    ({"stages__1__parallelism": 0}, ["stages[1].parallelism", "0", "at least 1"]),
    ({"edges__0__to": "snik"}, ["edges[0].to", "'snik'", "did you mean 'sink'"]),
    ({"round_ms": float("nan")}, ["round_ms", "nan", "finite"]),
    ({"edges": SMALL["edges"] * 2}, ["edges[1]", "like edges[0]"]),
    ({"edges": [*SMALL["edges"], {"from": "sink", "to": "source", "partitioner": "hash"}]},
     ["cycle", "source"]),
    ({"stages__0__input": {"format": "csv", "path": "no/such.csv"}},
     ["stages[0].input.path", "no/such.csv"]),
    ({"edges__0__chain": True, "edges__0__partitioner": "forward"},
     ["edges[0].chain", "not emulated on the live clock yet"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "texts"), REFUSED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("out", [[], ["--out", "results"]], ids=["", "out"])
def test_a_bad_scenario_is_refused_and_nothing_is_written(
    changes: dict[str, Any],
    texts: list[str],
    out: list[str],
    write: Write,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(**changes)
    assert main([str(path), *out]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "is refused (" in said.err
    for text in texts:
        assert text in said.err
    assert files_below(here) == {"scenario.yaml"}


def test_all_problems_are_named_at_once(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(round_ms=0, stages__0__emit_rate=-1, edges__0__partitioner="robin")
    assert main([str(path)]) == 2
    said = capsys.readouterr().err
    assert "(3 problems)" in said
    assert all(place in said for place in ("round_ms", "stages[0].emit_rate", "partitioner"))


def test_the_virtual_clock_writes_what_the_live_one_writes(write: Write, here: Path) -> None:
    """Tables, summary and page, without Java and without a ledger."""
    assert main([str(write()), "--clock", "virtual"]) == 0
    out = next((here / "out").iterdir())
    found = {path.name for path in out.iterdir() if path.name[0] != "."}
    tables = {"stages", "channels", "latency", "metrics"}
    assert found == {*tables, "summary.json", "report.html", "run.json"}
    for name in tables:  # users' tables keep Delta's own retention
        assert DeltaTable(str(out / name)).metadata().configuration == {}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["clock"] == "virtual"
    assert summary["rounds"] > 0


def test_too_few_network_buffers_are_refused_in_flinks_words(
    write: Write, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4 buffers on the sink's side: 1 floating, 2 of the first channel, 1 of the second's 2."""
    path = write(
        stages__0__parallelism=2,
        stages__0__placement=[0, 0],
        stages__1__placement=[1],
        cluster__slots=2,
        options={f"{NETWORK}min": "128kb", f"{NETWORK}max": "128kb"},
    )
    assert main([str(path), "--out", "results"]) == 2
    said = capsys.readouterr().err
    assert "Insufficient number of network buffers: required 2, but only 1 available." in said
    assert "currently set to 4 of 32768 bytes each" in said
    assert "sink subtask 0, task manager 1" in said
    assert f"'{NETWORK}max'" in said
    assert files_below(here) == {"scenario.yaml"}


@pytest.mark.parametrize("name", ["nothing.yaml", "."])
def test_a_file_that_is_not_there_is_refused(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 2
    assert name in capsys.readouterr().err
    assert files_below(here) == set()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "the following arguments are required: scenario"),
        (["s.yaml", "--clock", "atomic"], "--clock: unknown value 'atomic'"),
        (["s.yaml", "--over"], "unknown option '--over'"),
        (["s.yaml", "--out"], "expected one argument"),
        (["s.yaml", "t.yaml"], "'t.yaml' is one argument too many"),
    ],
)
def test_a_bad_command_is_refused(
    arguments: list[str], text: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_refusing_needs_no_spark(write: Write, here: Path) -> None:
    code = (
        "import sys; from flowcontrol.cli.main import main; status = main(sys.argv[1:]);"
        "assert not {'pyspark', 'delta'} & set(sys.modules); sys.exit(status)"
    )
    path = write(stages__0__emit_rate=-5)
    run = subprocess.run(
        [sys.executable, "-c", code, "emulate", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert "stages[0].emit_rate" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_pipeline_is_this_command(write: Write) -> None:
    path = write(stages__0__emit_rate=-5)
    pipeline = ROOT / "pipelines" / "emulate.py"
    run = subprocess.run(
        [sys.executable, str(pipeline), str(path)], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert "stages[0].emit_rate" in run.stderr


# ---------------------------------------------------------------------- folders


def leave_run(root: Path, scenario: Path, *, finished: bool) -> None:
    from flowcontrol.scenario import load_scenario

    folder = open_folder(root, load_scenario(scenario), named=True, overwrite=False)
    folder.mark(finished=finished)
    folder.close()


@pytest.mark.parametrize(
    ("finished", "text"), [(True, "add --overwrite"), (False, "unfinished run of another scenario")]
)
def test_a_run_that_must_be_kept_is_refused(
    finished: bool, text: str, write: Write, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run(here / "results", write(), finished=finished)
    path = write(duration_s=4)
    before = (here / "results" / "run.json").read_bytes()
    assert main([str(path), "--out", "results"]) == 2
    assert text in capsys.readouterr().err
    assert (here / "results" / "run.json").read_bytes() == before


def test_a_folder_with_something_else_is_refused(
    write: Write, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "results").mkdir()
    (here / "results" / "thesis.txt").write_text("mine")
    assert main([str(write()), "--out", "results", "--overwrite"]) == 2
    assert "holds something that is not a run" in capsys.readouterr().err
    assert files_below(here / "results") == {"thesis.txt"}


def test_a_folder_in_use_is_refused(
    write: Write, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from flowcontrol.scenario import load_scenario

    path = write()
    folder = open_folder(here / "results", load_scenario(path), named=True, overwrite=False)
    assert main([str(path), "--out", "results"]) == 2
    folder.close()
    said = capsys.readouterr().err
    assert said.startswith("flowcontrol: command is refused (1 problem):")
    assert "another process runs in this folder" in said


# ---------------------------------------------------------------------- what is passed on


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """A function that runs the command up to the run, and returns what that is given."""

    def run(*arguments: str) -> dict[str, Any]:
        given: dict[str, Any] = {}

        def begin(scenario: Path, **options: Any) -> RunResult:
            given.update(options, scenario=as_scenario(scenario, options["overrides"]))
            raise Started

        monkeypatch.setattr(emulate_cli, "emulate", begin)
        with pytest.raises(Started):
            main(list(arguments))
        return given

    return run


def test_the_defaults(write: Write, run_with: Callable[..., dict[str, Any]]) -> None:
    given = run_with(str(write()))
    assert (given["out"], given["clock"], given["overwrite"]) == (None, "live", False)
    assert given["scenario"].duration_s == 2


def test_set_changes_keys_of_the_scenario(
    write: Write, run_with: Callable[..., dict[str, Any]]
) -> None:
    arguments = ["--set", "duration_s=4", "--set", "stages[1].service_rate=70", "--set"]
    arguments.append('options."taskmanager.memory.segment-size"=4kb')
    scenario = run_with(str(write()), *arguments, "--out", "here", "--overwrite")["scenario"]
    assert scenario.duration_s == 4
    assert scenario.stage("sink").service_rate[0].rate_at(0) == 70
    assert scenario.options.segment_bytes == 4096


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ("duration_s=-1", ["duration_s", "-1", "more than 0"]),
        ("durations_s=1", ["durations_s", "did you mean 'duration_s'"]),
        ("stages[7].parallelism=2", ["stages[7]"]),
        ("duration_s", ["duration_s", "="]),
    ],
)
def test_a_bad_set_is_refused(
    change: str, texts: list[str], write: Write, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(write()), "--set", change]) == 2
    said = capsys.readouterr().err
    assert all(text in said for text in texts), said
    assert files_below(here) == {"scenario.yaml"}


# ---------------------------------------------------------------------- how a run ends


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (RunError("stage sink: it broke"), 1, "the run failed: stage sink: it broke"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_run_that_ends_early(
    error: BaseException,
    status: int,
    text: str,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> RunResult:
        raise error

    monkeypatch.setattr(emulate_cli, "emulate", fail)
    assert main([str(write())]) == status
    assert text in capsys.readouterr().err


def test_a_rate_beyond_the_window_is_said_and_not_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def stop(*_: object) -> RunResult:
        raise Started

    monkeypatch.setattr(sys.modules[emulate.__module__], "_run", stop)
    with pytest.raises(Started):
        emulate(write(stages__0__emit_rate=100_000, stages__1__service_rate=1e6), warn=said.append)
    [remark] = said
    assert "source->sink, receiver 0: 100,000 records/s need" in remark
    with pytest.raises(Started):
        emulate(write())


def test_jobs_that_start_stop_and_fail_are_told_of(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 0 as long as a job ran; every job stands in summary.json."""
    path = ROOT / "conf" / "two-jobs.yaml"
    changes = [part for text in ("round_ms=5", "seed=3") for part in ("--set", text)]
    assert main([str(path), "--clock", "virtual", "--out", "results", *changes]) == 0
    summary = json.loads((here / "results" / "summary.json").read_text())
    found = [(job["name"], job["state"], job["message"] is None) for job in summary["jobs"]]
    assert found == [
        ("orders", "finished", True), ("audit", "stopped", True), ("backfill", "failed", False)
    ]  # fmt: skip
    text = (
        "history subtask 6, task manager 0: Insufficient number of network buffers: required 9, "
        "but only 0 available."
    )
    assert summary["jobs"][2]["message"].startswith(text)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Job orders finished. Job audit stopped at 40 s." in shown
    assert f"Job backfill failed, submitted at 50 s: {text}" in shown
    assert "Job audit stopped at 40 s." in (here / "results" / "report.html").read_text()
    # What a stopped job had in flight is gone: 20 of 60 s count.
    edge = summary["edges"]["events->store"]
    assert edge["second_half"]["in_flight_buffers"] < edge["whole"]["max_in_flight_buffers"] / 2


def test_jobs_of_which_none_fits_fail_the_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "conf" / "two-jobs.yaml"
    change = 'options."taskmanager.network.numberOfBuffers"=2'
    assert main([str(path), "--clock", "virtual", "--set", change, "--out", "results"]) == 1
    assert "the run failed: no job could run: orders: orders subtask 0" in capsys.readouterr().err


def test_the_live_clock_refuses_scaling(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(ROOT / "conf" / "daily-curve.yaml")]) == 2
    said = capsys.readouterr().err
    assert "scaling" in said
    assert "on the live clock yet" in said
    assert files_below(here) == set()


def test_the_table_may_have_a_row_a_subtask(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = [{**SMALL["stages"][0], "parallelism": 2}, SMALL["stages"][1]]
    (here / "two.yaml").write_text(yaml.safe_dump({**SMALL, "stages": two}))
    assert main(["two.yaml", "--clock", "virtual", "--quiet", "--by", "subtask"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert rows[0][:3] == ["Stage", "Subtask", "In"]
    assert [row[:2] for row in rows[1:4]] == [["source", "0"], ["1", "0"], ["sink", "0"]]


def test_the_live_clock_without_pyspark_is_one_sentence(tmp_path: Path) -> None:
    """As in the environment that the virtual clock needs, which has no Spark."""
    code = "import sys; sys.modules['pyspark'] = None\nfrom flowcontrol.cli.main import main\n"
    command = [sys.executable, "-c", f"{code}sys.exit(main())", "emulate"]
    command += [str(ROOT / "conf" / "three-stages.yaml"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("flowcontrol: the run failed: Spark is needed and pyspark is not")
    assert "or use the virtual clock" in done.stderr
