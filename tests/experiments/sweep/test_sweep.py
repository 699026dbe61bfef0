"""A sweep from end to end, with a simulation that takes no time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments import executor
from flowcontrol.experiments.sweep import sweep
from flowcontrol.ledger.commit import Writer

RATE = "stages.sink.service_rate"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(chain, fakes, tmp_path):
    """A function that sweeps the chain here, without Spark."""

    def run_it(vary, *, simulate=fakes.simulate, processes=1, **more):
        more = {"out": tmp_path / "out", **more}
        return sweep(chain, vary, simulate=simulate, processes=processes, **more)

    return run_it


class Shown:
    """Keeps what progress was told."""

    def __init__(self):
        self.told = []

    def __call__(self, total, done):
        self.told.append((total, done))
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, done, failed=0):
        self.told.append((done, failed))


def test_a_sweep_leaves_a_table_and_a_report(run, tmp_path):
    result = run({RATE: "100:1000:4", "stages.map.service_rate": [300, 2000]}, replications=2)
    frame = result.table.to_pandas()
    assert len(frame) == 4 * 2 * 2 * 3
    sinks = frame[frame["stage"] == "sink"].set_index(
        ["sink_service_rate", "map_service_rate", "replication"]
    )
    assert sinks.loc[(700, 2000, 0), "rate_in"] == 707
    assert sinks.loc[(700, 2000, 1), "rate_in"] == 708
    assert sinks.loc[(700, 300, 1), "rate_in"] == 308
    assert result.results == tmp_path / "out" / "results"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        ".lock", "sweep.json", "results", "report.html",
    }  # fmt: skip


def test_spark_reads_the_table_that_is_returned(run):
    from deltalake import DeltaTable

    result = run({RATE: [100, 200]})
    table = DeltaTable(str(result.results)).to_pyarrow_table()
    key = [("variant", "ascending"), ("stage", "ascending")]
    assert table.sort_by(key) == result.table.sort_by(key)
    field = next(f for f in DeltaTable(str(result.results)).schema().fields if f.name == "rate_in")
    assert field.metadata["unit"] == "records/s"


def test_a_second_run_runs_what_is_missing_only(run, fakes):
    first, second = fakes.Recording(), fakes.Recording()
    vary = {RATE: "100:1000:10"}
    shown = Shown()
    run(vary, simulate=first)
    result = run(vary, simulate=second, progress=shown)
    assert (len(first.ran), len(second.ran), shown.told) == (10, 0, [])
    assert result.table.num_rows == 30


def test_a_sweep_that_failed_in_part_goes_on(run, fakes):
    recording = fakes.Recording()
    vary = {RATE: [100, 250, 400]}
    with pytest.raises(RunError) as caught:
        run(vary, simulate=fakes.fails_at_250)
    for text in ("1 of 3 variants", "sink service_rate=250", "ArithmeticError: a planted fault"):
        assert text in str(caught.value)
    result = run(vary, simulate=recording)
    assert [float(s.stage("sink").service_rate[0].rate_at(0)) for s in recording.ran] == [250]
    assert sorted(result.table["variant"].to_pylist()) == sorted(
        3 * list(set(result.table["variant"].to_pylist()))
    )
    assert result.table.num_rows == 9


def test_a_report_is_written_of_what_there_is(run, fakes, tmp_path):
    with pytest.raises(RunError):
        run({RATE: [100, 250, 400]}, simulate=fakes.fails_at_250)
    assert (
        "Best over the second half of the run: sink.rate_in 407"
        in (tmp_path / "out" / "report.html").read_text()
    )


@pytest.mark.parametrize(
    ("vary", "more", "words"),
    [
        ({RATE: [100, -1]}, {}, ["variant 2 of 2", "at least 0"]),
        ({RATE: []}, {}, ["at least one"]),
        ({RATE: [100]}, {"metrics": ["sink.rate_on"]}, ["--metric sink.rate_on", "'rate_on'"]),
        ({RATE: [100]}, {"metrics": ["snik.rate_in"]}, ["'snik'", "'sink'"]),
        ({RATE: [100]}, {"replications": -1}, ["--replications"]),
        ({RATE: [100]}, {"overrides": ["stages.x.y=1"]}, ["'x'"]),
    ],
)
def test_what_is_refused_is_refused_before_anything_runs(run, fakes, tmp_path, vary, more, words):
    recording = fakes.Recording()
    with pytest.raises(ScenarioError) as caught:
        run(vary, simulate=recording, **more)
    for word in words:
        assert word in str(caught.value)
    assert recording.ran == []
    assert list(tmp_path.iterdir()) == []


def test_progress_starts_at_what_is_there_and_ends_at_all(run, fakes):
    shown = Shown()
    with pytest.raises(RunError):
        run({RATE: [100, 250, 400]}, simulate=fakes.fails_at_250)
    run({RATE: [100, 250, 400]}, progress=shown)
    assert shown.told[0] == (3, 2)
    assert shown.told[-1] == (3, 0)


@pytest.mark.parametrize(("count", "is_said"), [(499, False), (500, True)])
def test_a_long_check_is_announced(run, monkeypatch, capsys, count, is_said):
    monkeypatch.setattr(sys.modules["flowcontrol.experiments.sweep.sweep"], "_CHECK_S", 2 / 499.5)
    vary = {RATE: [*range(1, count), -1]}
    with pytest.raises(ScenarioError):
        run(vary)
    said = "checking 500 points before the first one runs, usually 2 to 6 s\n"
    assert capsys.readouterr().err == (said if is_said else "")


def test_a_key_may_be_given_twice_only_in_a_list_and_then_is_refused(run):
    with pytest.raises(ScenarioError, match="varied twice"):
        run([(RATE, "100"), (RATE, "200")])


def test_the_default_folder_is_named_after_the_scenario(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run({RATE: [100]}, out=None).path == tmp_path / "out" / "chain-sweep"


def test_processes_share_the_work(run, fakes, tmp_path, monkeypatch):
    marks = tmp_path / "marks"
    marks.mkdir()
    monkeypatch.setenv("FAKE_MARKS", str(marks))
    result = run({RATE: "100:1200:12"}, simulate=fakes.slowly, processes=2)
    assert len(set(result.table["variant"].to_pylist())) == 12
    ran_by = [path.name.split("-")[1] for path in marks.iterdir()]
    assert len(ran_by) == 12
    assert str(os.getpid()) not in ran_by


def test_a_worker_that_dies_fails_the_sweep_and_not_for_good(run, fakes):
    vary = {RATE: [250, 300, 350, 400]}
    with pytest.raises(RunError, match="the workers failed"):
        run(vary, simulate=fakes.dies_at_250, processes=2)
    assert run(vary).table.num_rows == 12


def test_no_processes_are_too_few(run):
    with pytest.raises(ScenarioError, match="--processes"):
        run({RATE: [100]}, processes=0)


ENDS = [(signal.SIGKILL, 2)]
if "FLOWCONTROL_LONG" in os.environ:
    ENDS += [(signal.SIGKILL, 1), (signal.SIGINT, 1), (signal.SIGINT, 2)]

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import sweep_fakes
from flowcontrol.experiments import executor
from flowcontrol.experiments.sweep import sweep
if __name__ == "__main__":
    sweep({scenario!r}, {{"stages.sink.service_rate": "1:40:40"}}, out={out!r},
          simulate=sweep_fakes.slowly, processes={processes})
"""


@pytest.mark.parametrize(("how", "processes"), ENDS)
def test_a_sweep_that_is_killed_goes_on(run, chain, fakes, tmp_path, monkeypatch, how, processes):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    monkeypatch.setenv("FAKE_MARKS", str(marks))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    scenario = tmp_path / "chain.yaml"
    scenario.write_text(yaml.safe_dump(chain))
    script = tmp_path / "killed.py"
    script.write_text(
        SCRIPT.format(
            tests=str(Path(__file__).parent), scenario=str(scenario), out=str(out),
            processes=processes,
        )
    )  # fmt: skip
    child = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL)
    while len(list(out.glob("results/_delta_log/*.json"))) < 3:  # two commits of rows
        assert child.poll() is None
        time.sleep(0.02)
    child.send_signal(how)
    child.wait()
    before = len(list(marks.iterdir()))
    time.sleep(0.5)
    assert len(list(marks.iterdir())) - before <= processes  # no worker outlives its driver
    recording = fakes.Recording()
    result = sweep(
        scenario, {RATE: "1:40:40"}, out=out, simulate=recording, processes=1
    )  # fmt: skip
    counts = result.table.to_pandas()["variant"].value_counts()
    assert (len(counts), set(counts)) == (40, {3})
    assert 0 < len(recording.ran) < 40
    if how == signal.SIGINT:  # what was under way was waited for
        assert len(recording.ran) + len(list(marks.iterdir())) == 40


@pytest.mark.parametrize("is_committed", [False, True])
def test_an_interrupt_inside_a_commit_loses_and_doubles_nothing(
    run, fakes, monkeypatch, is_committed
):
    """Ctrl-C may come at any moment, also while rows are committed."""
    commit, calls = Writer.commit, []

    def interrupted(writer, *args, **keys):
        calls.append(args)
        if len(calls) != 2:
            return commit(writer, *args, **keys)
        if is_committed:
            commit(writer, *args, **keys)
        raise KeyboardInterrupt

    def a_little(scenario):
        time.sleep(0.02)
        return first(scenario)

    monkeypatch.setattr(Writer, "commit", interrupted)
    monkeypatch.setattr(executor, "POLL_S", 0.02)
    first, second = fakes.Recording(), fakes.Recording()
    with pytest.raises(KeyboardInterrupt):
        run({RATE: "1:16:16"}, simulate=a_little)
    result = run({RATE: "1:16:16"}, simulate=second)
    counts = result.table.to_pandas()["variant"].value_counts()
    assert (len(counts), set(counts)) == (16, {3})
    assert len(first.ran) + len(second.ran) == 16
    assert len(second.ran) > 0
