"""A search from end to end, with a simulation that takes no time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.sweep import store
from flowcontrol.experiments.sweep.variants import variant_id
from flowcontrol.experiments.tune import tune
from flowcontrol.experiments.tune.page import front_chart
from flowcontrol.scenario.given import as_scenario

ROOT = Path(__file__).resolve().parents[3]
LIMITS = ("sink.rate_in>=450", "sink.latency_p99_ms<=120ms")
DRIVER = """
import sys
sys.path[:0] = sys.argv[3:]
import tune_fakes
from flowcontrol.experiments.sweep import store
from flowcontrol.experiments.tune import tune
runner = sys.modules["flowcontrol.experiments.tune.tune"]
store.run_variant = runner.run_variant = tune_fakes.rows_of
tune(tune_fakes.CHAIN, tune_fakes.VARY, minimise="sink.latency_p99_ms", maximise="sink.rate_in",
     subject_to="memory<=1mb", runs=30, batch=5, out=sys.argv[1], processes=1,
     simulate=getattr(tune_fakes, sys.argv[2]), quiet=True)
"""


@pytest.fixture
def quick(fakes, monkeypatch):
    """Runs without a summary of their tables, in this process."""
    monkeypatch.setattr(store, "run_variant", fakes.rows_of)
    runner = sys.modules["flowcontrol.experiments.tune.tune"]  # not the function of that name
    monkeypatch.setattr(runner, "run_variant", fakes.rows_of)


@pytest.fixture
def run(chain, fakes, tmp_path, quick):
    """A function that searches here, without Spark."""

    def run_it(*, simulate=fakes.simulate, out="out", processes=1, **more):
        more = {"minimise": "memory", "subject_to": LIMITS, "runs": 25, **more}
        vary = more.pop("vary", fakes.VARY)
        return tune(chain, vary, simulate=simulate, out=tmp_path / out, processes=processes, **more)

    return run_it


def rows(result):
    return result.table.to_pylist()


def test_a_search_leaves_tables_a_page_figures_and_the_best_scenario(run, chain, tmp_path):
    result = run()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        ".lock", "tuning.json", "results", "tuning", "report.html", "summary.json", "best.yaml",
    }  # fmt: skip
    table = DeltaTable(str(tmp_path / "out" / "tuning")).to_pyarrow_table()
    assert table.to_pylist() == rows(result)
    assert [row["run"] for row in rows(result)] == list(range(1, table.num_rows + 1))
    (best,) = [row for row in rows(result) if row["is_best"]]
    assert best["feasible"]
    assert best["on_front"]
    assert best["missed_by"] == 0
    assert best["memory"] == min(row["memory"] for row in rows(result) if row["feasible"])
    for row in rows(result):
        is_good = row["sink_rate_in"] >= 450 and row["sink_latency_p99_ms"] <= 120
        assert row["feasible"] == is_good == (row["missed_by"] == 0)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary == result.summary
    assert summary["best"]["figures"]["memory"] == best["memory"]
    assert summary["runs"] == len(rows(result)) <= 25
    assert summary["points"] == 160
    # As given: 2 + 8 buffers of 8 KiB get 500 records/s through, and miss nothing.
    assert summary["as_given"]["sink.rate_in"] == 500


def test_the_best_scenario_is_a_file_that_runs_as_its_row_did(run, tmp_path):
    result = run()
    (best,) = [row for row in rows(result) if row["is_best"]]
    file = tmp_path / "out" / "best.yaml"
    assert variant_id(as_scenario(file)) == best["variant"]
    text = file.read_text()
    assert text.startswith("# chain, tuned by flowcontrol tune: minimise memory;")
    assert "sink.latency_p99_ms at most 120 ms" in text
    assert "# chosen; before: 8kb" in text or "# chosen; as before" in text
    assert text.count("# chosen; not stated before") == 2
    options = yaml.safe_load(text)["options"]
    assert options["taskmanager.memory.segment-size"] == best["segment_size"]


def test_two_workers_find_what_one_does(chain, fakes, tmp_path):
    """Whole runs, since what replaces them in other tests is not there in other processes."""

    def run(out, processes):
        aims = {"minimise": "memory", "subject_to": LIMITS, "runs": 6, "batch": 3}
        place = {"out": tmp_path / out, "processes": processes, "simulate": fakes.simulate}
        return tune(chain, fakes.VARY, **aims, **place)

    assert rows(run("one", 1)) == rows(run("two", 2))


def test_another_seed_searches_otherwise(run):
    aim = {"minimise": "sink.latency_p99_ms", "subject_to": ()}
    assert rows(run(**aim)) != rows(run(seed=2, out="two", **aim))


@pytest.mark.slow
def test_a_search_that_was_killed_goes_on_and_finds_the_same(fakes, tmp_path, monkeypatch):
    here = Path(__file__).parent
    marks = tmp_path / "marks"
    marks.mkdir()

    def start(out, name):
        words = [str(tmp_path / out), name, str(here), str(here.parent / "sweep")]
        environment = {**os.environ, "FAKE_MARKS": str(marks)}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen([sys.executable, "-c", DRIVER, *words], env=environment)

    killed = start("killed", "slowly")
    results = tmp_path / "killed" / "results" / "_delta_log"
    while len(list(results.glob("*.json"))) < 4:  # the empty table, and three commits
        assert killed.poll() is None
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    before = DeltaTable(str(results.parent)).to_pyarrow_table()["variant"].unique()
    assert 3 <= len(before) < 30
    assert not (tmp_path / "killed" / "tuning").exists()
    began = len(list(marks.iterdir()))
    assert start("killed", "slowly").wait() == 0
    # What was committed is not run again; what was not may be.
    assert len(list(marks.iterdir())) - began == 30 - len(before)
    assert start("whole", "simulate").wait() == 0
    tables = [DeltaTable(str(tmp_path / out / "tuning")) for out in ("killed", "whole")]
    one, two = (table.to_pyarrow_table().to_pylist() for table in tables)
    assert one == two
    assert len(one) == 30
    for name in ("summary.json", "best.yaml", "report.html"):
        texts = [(tmp_path / out / name).read_text() for out in ("killed", "whole")]
        assert texts[0] == texts[1]


def test_a_finished_search_is_read_and_one_of_more_runs_goes_on(run, fakes):
    aim = {"minimise": "sink.latency_p99_ms", "subject_to": (), "batch": 5}
    first = run(runs=12, **aim)

    def no(scenario):
        raise AssertionError("nothing is left to run")

    assert rows(run(runs=12, simulate=no, **aim)) == rows(first)
    ran = []

    def counted(scenario):
        ran.append(scenario)
        return fakes.simulate(scenario)

    more = run(runs=20, simulate=counted, **aim)
    assert len(ran) == 8
    assert [row["variant"] for row in rows(more)][:12] == [row["variant"] for row in rows(first)]


def test_a_damaged_table_is_said_with_what_to_do(run, tmp_path):
    run(runs=4)
    file = next((tmp_path / "out" / "results").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(RunError, match=r"results cannot be read .* anew with --overwrite"):
        run(runs=6)
    assert run(runs=4, overwrite=True).best is not None


def test_another_search_in_the_folder_is_refused(run):
    run()
    with pytest.raises(ScenarioError, match="holds a finished search of another kind"):
        run(minimise="slots")
    with pytest.raises(ScenarioError, match=r"minimise memory, .*latency_p99_ms<=120"):
        run(seed=3)
    assert run(minimise="slots", overwrite=True, runs=2).summary["objectives"] == ["minimise slots"]


def test_no_point_satisfies_the_constraints(run, fakes, tmp_path):
    vary = {fakes.EXCLUSIVE: "2,4", fakes.SEGMENT: "8kb,16kb"}
    assert run(vary=vary, out="all").best is not None
    assert (tmp_path / "all" / "best.yaml").exists()
    result = run(vary=vary, subject_to=("sink.rate_in>=510",), out="none")
    assert result.best is None
    assert not (tmp_path / "none" / "best.yaml").exists()
    assert result.summary["nearest"]["figures"]["sink.rate_in"] == 500
    assert "No point that was run satisfies the constraints. Nearest: " in result.sentence
    assert (
        "sink.rate_in at least 510 records/s: it is 500 records/s, 2 % beyond." in result.sentence
    )
    assert not any(row["feasible"] or row["on_front"] for row in rows(result))
    assert "star-open" in (tmp_path / "none" / "report.html").read_text()


def test_a_limit_far_away_is_said_with_its_digits(run, fakes):
    vary = {fakes.EXCLUSIVE: "2,4"}
    result = run(vary=vary, subject_to=("sink.latency_p99_ms<=0.001",))
    latency = result.summary["nearest"]["figures"]["sink.latency_p99_ms"]
    words = f"{latency / 0.001:,.0f} times as much"
    assert "sink.latency_p99_ms at most 0.001 ms: it is " in result.sentence
    assert words in result.sentence


def test_the_figure_that_no_run_has_is_named_alone(run, fakes):
    result = run(
        vary={fakes.EXCLUSIVE: "1,2"}, simulate=fakes.nothing_ever_arrives,
        minimise="sink.latency_p99_ms", maximise="sink.rate_in", subject_to=(),
    )  # fmt: skip
    assert result.sentence.startswith("No run has sink.latency_p99_ms. ")


def test_a_figure_that_a_run_has_not_misses_its_limit(run, fakes):
    result = run(simulate=fakes.nothing_arrives, subject_to=("sink.latency_p99_ms<=90",))
    without = [row for row in rows(result) if row["sink_latency_p99_ms"] is None]
    assert without
    assert {row["missed_by"] for row in without} == {10.0}
    assert not any(row["feasible"] for row in without)
    # An objective that a run has not is worse than any; without constraints too.
    result = run(
        simulate=fakes.nothing_arrives, minimise="sink.latency_p99_ms", subject_to=(), out="two",
        runs=60,
    )  # fmt: skip
    best = next(row for row in rows(result) if row["is_best"])
    assert best["sink_latency_p99_ms"] is not None
    assert any(row["sink_latency_p99_ms"] is None for row in rows(result))


def test_refused_points_are_in_the_table_with_their_reason(run, fakes):
    buffers = "options.taskmanager.network.numberOfBuffers"
    vary = {fakes.EXCLUSIVE: "1,4,8", buffers: "10,20,40"}
    result = run(vary=vary, subject_to=(), minimise="sink.latency_p99_ms", runs=9)
    refused = [row for row in rows(result) if row["state"] == "refused"]
    assert refused
    for row in refused:
        assert "Insufficient number of network buffers" in row["reason"]
        assert (row["variant"], row["feasible"], row["missed_by"]) == ("", False, None)
    assert result.summary["refused"] == len(refused)
    assert result.summary["runs"] == 9 - len(refused)
    assert "more were not valid scenarios" in result.sentence


def test_a_run_that_fails_ends_the_search_and_the_same_call_retries_it(run, fakes):
    aim = {"minimise": "sink.latency_p99_ms", "subject_to": (), "runs": 40}
    with pytest.raises(RunError, match=r"buffers-per-channel=8.*a planted fault.*goes on"):
        run(simulate=fakes.fails_at_8, **aim)
    assert len(rows(run(**aim))) == 40


def test_what_is_lost_is_said(run):
    """Least latency alone takes the smallest window, which lets few records through."""
    result = run(minimise="sink.latency_p99_ms", subject_to=(), runs=40)
    assert "But sink.rate_in falls by " in result.sentence
    assert '--subject-to "sink.rate_in>=500"' in result.sentence
    kept = run(minimise="sink.latency_p99_ms", subject_to="sink.rate_in>=500", out="kept")
    assert "But " not in kept.sentence


def test_two_objectives_have_a_front_and_the_chosen_one_lies_on_it(run, tmp_path):
    result = run(minimise="memory", maximise="sink.rate_in", subject_to=(), runs=60)
    front = [row for row in rows(result) if row["on_front"]]
    assert len(front) >= 4
    assert sum(row["is_best"] for row in front) == 1
    ordered = sorted(front, key=lambda row: row["memory"])
    rates = [row["sink_rate_in"] for row in ordered]
    assert rates == sorted(set(rates))
    # In the middle, not at one of the ends.
    assert not ordered[0]["is_best"]
    assert not ordered[-1]["is_best"]
    # Memory differs by more than twenty times, and its axis is logarithmic, with whole labels.
    xaxis = front_chart(result).figure["layout"]["xaxis"]
    assert xaxis["type"] == "log"
    assert {"50", "100", "200", "1,000"} <= set(xaxis["ticktext"])
    assert len(xaxis["ticktext"]) == len(xaxis["tickvals"])
    page = (tmp_path / "out" / "report.html").read_text()
    for text in ("memory (KiB), less is better", "sink.rate_in (records/s), more is better"):
        assert text in page


def test_marks_differ_without_their_colours(run, tmp_path):
    chart = front_chart(run(minimise="memory", maximise="sink.rate_in", subject_to=LIMITS[1]))
    symbols = {trace["name"]: trace["marker"]["symbol"] for trace in chart.figure["data"]}
    assert {"misses a constraint", "satisfies all", "front", "as given", "chosen"} >= set(symbols)
    assert len(set(symbols.values())) == len(symbols) >= 4
    chart = front_chart(run(subject_to=LIMITS, out="two"))
    (limit,) = chart.figure["layout"]["shapes"]
    assert limit["y0"] == limit["y1"] == 450
    assert limit["line"]["dash"] == "dash"
