"""What monitoring gives people: every form of Spark's progress, Flink's gauges, foreign files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.calibration.batches import read_progress
from flowcontrol.calibration.bodies import read_dump
from flowcontrol.calibration.calibrate import fit_scenario
from flowcontrol.calibration.fit_flink import _simple, fit_flink
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.link_ledger import _window
from flowcontrol.calibration.predict import beside, bottleneck, predict
from flowcontrol.calibration.rest import poll
from flowcontrol.calibration.spark_progress import fit_progress
from flowcontrol.cli.main import main
from flowcontrol.errors import ScenarioError
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job
from modules import ROOT, load

synthesise = load("tests/calibration/synthesise.py")

Rows = list[dict[str, Any]]
FILES = ROOT / "bench" / "spark_progress" / "files.jsonl"
EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
STAMP = "26/11/26 06:44:14 INFO"


def recorded() -> Rows:
    return [json.loads(line) for line in FILES.read_text().splitlines()]


def _lines(rows: Rows, form: Callable[[dict[str, Any]], str]) -> str:
    return "".join(form(row) + "\n" for row in rows)


def _log(row: dict[str, Any]) -> str:
    end = f"{STAMP} DAGScheduler: Job 0 finished: start at Native.java:0 {{Map(a -> [1])}}"
    pretty = json.dumps(row, indent=2, separators=(",", " : "))
    return f"{STAMP} MicroBatchExecution: Streaming query made progress: {pretty}\n{end}"


def _structured(row: dict[str, Any]) -> str:
    """Return a line as Spark 4 logs it with spark.log.structuredLogging.enabled."""
    text = f"Streaming query made progress: {json.dumps(row, indent=2)}"
    return json.dumps({"ts": "2026-11-26T06:44:14.522Z", "level": "INFO", "msg": text})


def _event_log(row: dict[str, Any]) -> str:
    """Return what Spark's event log has: rows are counted by source alone."""
    own = {key: value for key, value in row.items() if key != "numInputRows"}
    events = [{"Event": "SparkListenerJobEnd", "Job ID": 0}, {"Event": EVENT, "progress": own}]
    return "\n".join(map(json.dumps, events))


def _old(row: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in row.items() if key != "batchId"})


def _twice(row: dict[str, Any]) -> str:
    return f"{json.dumps(row)}\n{json.dumps(row)}"


FORMS: dict[str, Callable[[Rows], str]] = {
    "a list": json.dumps,
    "an indented list": lambda rows: json.dumps(rows, indent=2),
    "pretty objects": lambda rows: _lines(rows, lambda row: json.dumps(row, indent=2)),
    "a prefix": lambda rows: (
        "query started: a\n" + _lines(rows, lambda row: f"Query made progress: {json.dumps(row)}")
    ),
    "a driver's log": lambda rows: _lines(rows, _log),
    "a structured log": lambda rows: _lines(rows, _structured),
    "an event log": lambda rows: _lines(rows, _event_log),
    "Python's print": repr,
    "Python's print, by line": lambda rows: _lines(rows, repr),
    "Spark's shell": lambda rows: f"res0: Array[...] = Array({', '.join(map(json.dumps, rows))})",
    "Spark 2.2": lambda rows: _lines(rows, _old),
    "lastProgress, asked for too often": lambda rows: _lines(rows, _twice),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_progress_is_read(form: str, tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_text(FORMS[form](recorded()))
    found, name, _ = read_progress(file)
    expected, expected_name, _ = read_progress(FILES)
    assert found == expected
    assert name == expected_name


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        (f"{_log(recorded()[0])[:300]}", "line ", "is cut"),
        (f"Query made progress: {json.dumps(recorded()[0])[:-9]}\nnext", "line 1", "no JSON"),
        (json.dumps(recorded())[:3000], "line 1", "is cut"),
    ],
)
def test_damaged_progress_is_refused(text: str, place: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=what) as refusal:
        read_progress(file)
    assert refusal.value.problems[0].place.startswith(place)


def test_one_of_two_queries_can_be_chosen() -> None:
    rows = recorded()
    other = [{**row, "id": "b", "name": "other", "numInputRows": 7} for row in rows]
    both = [row for pair in zip(rows, other, strict=True) for row in pair]
    with pytest.raises(ScenarioError, match="name one of them with --job"):
        read_progress(both)
    for wanted in (rows[0]["id"], rows[0]["name"]):
        assert read_progress(both, wanted)[0] == read_progress(rows)[0]
    with pytest.raises(ScenarioError, match=r"--job: c: there is no progress .* b \(other\)"):
        fit_progress(both, "c")


def test_rows_that_spark_did_not_count_are_said() -> None:
    rows = [{**row, "numInputRows": 0} for row in recorded()]
    with pytest.raises(ScenarioError, match="although their offsets move"):
        read_progress(rows)
    still = {"sources": [{"startOffset": 5, "endOffset": 5, "numInputRows": 0}]}
    with pytest.raises(ScenarioError, match="while rows come"):
        read_progress([{**row, **still} for row in rows])


def test_one_progress_is_too_few() -> None:
    with pytest.raises(ScenarioError, match=r"one batch, as query.lastProgress .* 5 or more"):
        read_progress(recorded()[3:4])
    assert len(read_progress(recorded()[:5])[0]) == 4


HTML = "<!DOCTYPE html>\n<html><body>Sign in</body></html>"
PROMETHEUS = """# TYPE flink_taskmanager_job_task_busyTimeMsPerSecond gauge
flink_taskmanager_job_task_busyTimeMsPerSecond{job_id="d",subtask_index="0"} 800.0
"""
FOREIGN: dict[str, tuple[str, str]] = {
    "empty": ("", "is empty"),
    "html": (HTML, "is a page in HTML, as a login"),
    "prometheus": (PROMETHEUS, "is text of Prometheus"),
    "query": ('{"status": "success", "data": {"result": []}}', "is an answer of Prometheus"),
    "vertices": ('{"jid": "a", "name": "b", "vertices": []}', "is one answer of Flink's REST API"),
    "metrics": ('[{"id": "numRecordsIn", "value": "5"}]', "is one answer of Flink's REST API"),
    "connect": ('{"name": "x", "connector": {}, "tasks": []}', "is an answer of Kafka Connect"),
    "pipeline": ('{"id": "a", "event_type": "flow_progress"}', "of a Databricks pipeline"),
    "deployment": ('{"apiVersion": "v1", "kind": "Deployment"}', "is a deployment of Kubernetes"),
    "jobs": ('[{"jobId": 1, "stageIds": [2]}]', "is an answer of Spark's REST API"),
    "log": (f"{STAMP} DAGScheduler: Job 0 finished\n", "is a log"),
    "csv": ("time,rows\n1,2\n", "is a table in CSV"),
    "scenario": ("schema: 1\nstages:\n  - name: a\n", "is a scenario, for"),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("option", ["--spark", "--flink"])
def test_a_foreign_file_is_named(
    name: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, word = FOREIGN[name]
    file = tmp_path / "given"
    file.write_bytes(gzip.compress(text.encode()))
    assert main(["calibrate", option, str(file), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert {"--spark": "query.recentProgress", "--flink": "--flink URL --save"}[option] in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        (b"LZ4Block\x16", "LZ4"),
        (b"PK\x03\x04\x00", "ZIP"),
        (gzip.compress(bytes(257) + b"ustar" + bytes(200), mtime=0), "tar archive"),
        (b"PAR1\x15", "Parquet"),
    ],
)
def test_what_is_no_text_is_named(content: bytes, word: str, tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_bytes(content)
    for read in (read_progress, read_dump):
        with pytest.raises(ScenarioError, match=word):
            read(file)
        with pytest.raises(ScenarioError, match="is a folder"):
            read(tmp_path)


def test_progress_and_dump_change_places(chain: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_text(json.dumps(chain))
    with pytest.raises(ScenarioError, match="is a dump of Flink, for --flink"):
        read_progress(file)
    for text in (FILES.read_text(), json.dumps(recorded())):
        file.write_text(text)
        with pytest.raises(ScenarioError, match="is progress of a Spark query, for --spark"):
            read_dump(file)


# ---------------------------------------------------------------------- Flink

NAMES = {"busy": "busyTimeMsPerSecond", "idle": "idleTimeMsPerSecond",
         "backpressured": "backPressuredTimeMsPerSecond"}  # fmt: skip


def without_times(dump: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    """Take the accumulated times out of a dump; return each subtask's shares of a second."""
    before: dict[str, Any] = {}
    shares: dict[str, list[dict[str, float]]] = {}
    for one in dump["polls"]:
        for path, body in list(one.items()):
            for row in body["subtasks"] if "/vertices/" in path and "now" in body else ():
                place = f"{path}/subtasks/{row['subtask']}/metrics"
                times = {key: row["metrics"].pop(f"accumulated-{key}-time") for key in NAMES}
                now, old = body["now"], before.get(place)
                before[place] = now, times
                if old is not None:
                    rate = {key: 1000 * (times[key] - old[1][key]) / (now - old[0])
                            for key in NAMES}  # fmt: skip
                    shares.setdefault(place, []).append(rate)
                    one[f"{place}?get=times"] = [
                        {"id": NAMES[key], "value": str(round(rate[key]))} for key in NAMES
                    ]
    return shares


def test_gauges_stand_for_times_that_are_not_accumulated(chain: dict[str, Any]) -> None:
    without_times(chain)
    draft = fit_flink(read_job(*read_dump(chain)))
    figures = {one.key: one for one in draft.figures}
    rate = figures["stages.map.service_rate"]
    assert rate.value == pytest.approx([900, 1500], rel=0.01)
    assert "mean of busyTimeMsPerSecond" in rate.origin
    assert any("accumulates no times" in note for note in draft.notes)
    scenario = parse_scenario(draft.mapping)
    tables = run_job(job_for(scenario, "virtual")).tables
    rows = beside(draft.observed, predict(tables, scenario, draft.warm_up_s))
    assert [(row.place, row.name) for row in rows if not row.is_within] == []
    assert draft.bottleneck == bottleneck(tables, scenario, draft.warm_up_s) == "map"


def test_the_bodies_of_back_pressure_have_gauges_too(chain: dict[str, Any]) -> None:
    shares = without_times(chain)
    for at, one in enumerate(chain["polls"][1:]):
        for path in [path for path in one if path.endswith("get=times")]:
            del one[path]
        for place, own in shares.items():
            vertex, _, subtask = place.removesuffix("/metrics").rpartition("/subtasks/")
            body = one.setdefault(f"{vertex}/backpressure", {"status": "ok", "subtasks": []})
            ratios = {"ratio": own[at]["backpressured"] / 1000, "busyRatio": own[at]["busy"] / 1000}
            row = {"subtask": int(subtask), "idleRatio": own[at]["idle"] / 1000, **ratios}
            body["subtasks"].append(row)
    figures = fit_scenario(flink_rest=chain).figures
    assert figures["stages.map.service_rate"].value == pytest.approx([900, 1500], rel=0.01)


def test_a_dump_without_times_is_refused_by_what_to_ask_for(chain: dict[str, Any]) -> None:
    without_times(chain)
    for one in chain["polls"]:
        for path in [path for path in one if path.endswith("get=times")]:
            del one[path]
    chain["polls"][0]["/config"] = {"flink-version": "1.14.6"}
    with pytest.raises(ScenarioError, match=r"Flink 1.14.6 .*get=busyTimeMsPerSecond,idle"):
        fit_scenario(flink_rest=chain)


def test_gauges_alone_are_refused_by_the_counters_to_ask_for(chain: dict[str, Any]) -> None:
    without_times(chain)
    for one in chain["polls"]:
        for path, body in one.items():
            for row in body["subtasks"] if "/vertices/" in path and "now" in body else ():
                row["metrics"] = {}
    with pytest.raises(ScenarioError, match=r"busyTimeMsPerSecond, .*get=numRecordsIn,numRec"):
        fit_scenario(flink_rest=chain)


def silenced(dump: dict[str, Any], synthesise: ModuleType, blocked: float = 0.0) -> None:
    """Give the source a second subtask, which emits nothing."""
    place = f"/vertices/{synthesise.identity('orders')}"
    for one in dump["polls"]:
        for path, body in one.items():
            if path.endswith(place):
                own = body["subtasks"][0]
                time = sum(own["metrics"][f"accumulated-{key}-time"] for key in NAMES)
                times = {"accumulated-busy-time": 0, "accumulated-idle-time": (1 - blocked) * time}
                times["accumulated-backpressured-time"] = blocked * time
                metrics = {"read-records": 0, "write-records": 0, "write-bytes": 0, **times}
                body["subtasks"] = [own, {**own, "subtask": 1, "metrics": metrics}]
            elif isinstance(body, dict) and "vertices" in body:
                body["vertices"][0]["parallelism"] = 2


@pytest.mark.parametrize("has_lag", [False, True])
def test_a_source_without_a_partition_emits_nothing(has_lag: bool, chain: dict[str, Any]) -> None:
    silenced(chain, synthesise)
    if has_lag:
        for one in chain["polls"]:
            [path] = [path for path in one if f"{synthesise.identity('orders')}/subtasks/0" in path]
            one[path].append({"id": "Source__orders.pendingRecords", "value": "70"})
    draft = fit_flink(read_job(*read_dump(chain)))
    figures = {one.key: one.value for one in draft.figures if one.value is not None}
    key = "arrival_rate" if has_lag else "emit_rate"
    assert figures[f"stages.orders.{key}"][1] == 0
    assert ("stages.orders.arrival_rate" in figures) == has_lag
    scenario = parse_scenario(draft.mapping)
    tables = run_job(job_for(scenario, "virtual")).tables
    rows = beside(draft.observed, predict(tables, scenario, draft.warm_up_s))
    own = {(row.place, row.name): row.predicted for row in rows}
    assert own["orders/1", "rate_out"] == 0
    assert own["orders", "rate_out"] == pytest.approx(1800, rel=0.02)


def test_a_silent_source_that_is_blocked_is_refused(chain: dict[str, Any]) -> None:
    silenced(chain, synthesise, blocked=1.0)
    with pytest.raises(ScenarioError, match="subtask 1 emitted nothing"):
        fit_flink(read_job(*read_dump(chain)))


def test_ids_are_asked_of_all_subtasks(chain: dict[str, Any], serve: Any) -> None:
    """The first subtask may be the one without a partition, and without pendingRecords."""
    polls = [chain["polls"][0], chain["polls"][-1]]
    name = "Source__orders.pendingRecords"
    for one in polls:
        [job] = [path for path in one if path.count("/") == 2 and path.startswith("/jobs/")]
        vertex = f"{job}/vertices/{one[job]['vertices'][0]['id']}"
        one[f"{vertex}/subtasks/metrics"] = [{"id": "numRecordsOut"}, {"id": name}]
    found = poll(serve(polls), polls=2, pause=lambda _: None)
    assert any(path.endswith(f"get=numRecordsOut,{name}") for path in found[0])


def test_the_idle_time_of_a_legacy_source_is_not_compared(chain: dict[str, Any]) -> None:
    """Its busy time is NaN and its idle time stays 0, whatever it does."""
    place = f"/vertices/{synthesise.identity('orders')}"
    for one in chain["polls"]:
        for path, body in one.items():
            if path.endswith(place):
                times = {"accumulated-busy-time": "NaN", "accumulated-idle-time": 0}
                body["subtasks"][0]["metrics"] |= times
    draft = fit_flink(read_job(*read_dump(chain)))
    names = {one.name for one in draft.observed if one.place == "orders"}
    assert "backpressured_ms_per_s" in names
    assert names.isdisjoint({"idle_ms_per_s", "busy_ms_per_s"})


def test_a_record_a_minute_is_within_a_record() -> None:
    """In 100 s of polls there is one record, or two: neither is an error."""
    slow = {
        "schema": 1, "name": "slow", "duration_s": 150, "sample_interval_s": 1,
        "cluster": {"task_managers": 1},
        "stages": [
            {"name": "s", "emit_rate": 0.0168, "record_bytes": 100},
            {"name": "k", "service_rate": 0.1},
        ],
        "edges": [{"from": "s", "to": "k", "partitioner": "rebalance"}],
    }  # fmt: skip
    dump, _ = synthesise.dump_of(slow, since_s=30)
    draft = fit_flink(read_job(*read_dump(dump)))
    scenario = parse_scenario(draft.mapping)
    tables = run_job(job_for(scenario, "virtual")).tables
    rows = beside(draft.observed, predict(tables, scenario, draft.warm_up_s))
    assert [(row.place, row.name) for row in rows if not row.is_within] == []


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [(3.6e-05, 0.112, 3.6e-05), (3.6e-05, 1.0, 3.6e-05), (0.49987, 0.002, 0.5), (1.96, 0.03, 1.96)],
)
def test_rounding_takes_little_of_the_error(value: float, error: float, expected: float) -> None:
    assert _simple(value, error) == expected


# ---------------------------------------------------------------------- links


def test_a_last_batch_that_was_slow_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches begun at 0, 1, 2 and 3 s, the last one ended at 12.01 s: none behind the quarter."""
    from types import SimpleNamespace

    ends = (1.0, 2.0, 3.0, 12.01)
    steps = [SimpleNamespace(at=float(n), end=end, is_busy=True, is_cut=False)
             for n, end in enumerate(ends)]  # fmt: skip
    monkeypatch.setattr("flowcontrol.calibration.link_ledger._steps", lambda *_: steps)
    monkeypatch.setattr("flowcontrol.calibration.link_ledger.member_of", lambda one: "r")
    with pytest.raises(ScenarioError, match="0 batches of the receiver behind the first quarter"):
        _window(None, [None], "link")  # type: ignore[arg-type, list-item]
