"""What is refused: with the place, the value and what to do; status 2, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.calibration.bodies import read_dump
from flowcontrol.calibration.calibrate import check, fit_scenario
from flowcontrol.calibration.fit_flink import fit_flink
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.writing import scenario_text
from flowcontrol.cli.main import main
from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.syntax import read_yaml_value

Serve = Callable[[list[dict[str, Any]]], str]

PROGRESS = {
    "id": "a", "runId": "r", "name": "orders", "timestamp": "2026-11-26T03:00:00.000Z",
    "batchId": 0, "numInputRows": 1000,
    "durationMs": {"addBatch": 1200, "triggerExecution": 1500},
    "stateOperators": [], "sources": [], "sink": {"description": "ForeachBatchSink"},
}  # fmt: skip


def progress(batch: int, **changes: Any) -> dict[str, Any]:
    stamp = f"2026-11-26T03:{batch // 20:02d}:{3 * (batch % 20):02d}.000Z"
    rows = 1000 + 100 * (batch % 5)
    took = {"addBatch": 200 + rows, "triggerExecution": 500 + rows}
    found = {**PROGRESS, "batchId": batch, "timestamp": stamp, "numInputRows": rows}
    return {**found, "durationMs": took, **changes}


def refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], *texts: str
) -> None:
    """Check that a command ends with 2, says some texts, and leaves no folder."""
    out = tmp_path / "out"
    assert main(["calibrate", *words, "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for text in texts:
        assert text in said.err
    assert not out.exists()


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "given"
    file.write_text(text)
    return str(file)


def without_metrics(dump: dict[str, Any]) -> None:
    for poll in dump["polls"]:
        for path in [path for path in poll if "/vertices/" in path]:
            del poll[path]


def one_poll(dump: dict[str, Any]) -> None:
    del dump["polls"][1:]


def one_moment(dump: dict[str, Any]) -> None:
    dump["polls"] = [dump["polls"][0]] * 2


def without_plan(dump: dict[str, Any]) -> None:
    for path in [path for path in dump["polls"][0] if path.endswith("/plan")]:
        del dump["polls"][0][path]


def silent_source(dump: dict[str, Any]) -> None:
    for poll in dump["polls"]:
        for path, body in poll.items():
            if "/vertices/" in path and isinstance(body, dict):
                for row in body["subtasks"]:
                    row["metrics"]["write-records"] = 0


def restarted(dump: dict[str, Any]) -> None:
    half = len(dump["polls"]) // 2
    for poll in dump["polls"][half:]:
        for path, body in poll.items():
            if "/vertices/" in path and isinstance(body, dict):
                for row in body["subtasks"]:
                    row["attempt"] = 1


def counters_reset(dump: dict[str, Any]) -> None:
    polls = dump["polls"]
    half = len(polls) // 2
    for poll in polls[half:]:
        for path, body in poll.items():
            if "/vertices/" in path and isinstance(body, dict):
                for row, old in zip(
                    body["subtasks"], polls[half - 1][path]["subtasks"], strict=True
                ):
                    for key in ("read-records", "write-records"):
                        row["metrics"][key] -= old["metrics"][key]


def rescaled(dump: dict[str, Any]) -> None:
    for path, body in dump["polls"][-1].items():
        if "/vertices/" in path and isinstance(body, dict):
            body["subtasks"] = body["subtasks"][:1]


def cancelled(dump: dict[str, Any]) -> None:
    for path, body in dump["polls"][-1].items():
        if path.count("/") == 2 and path.startswith("/jobs/"):
            body["state"] = "CANCELED"


def out_of_order(dump: dict[str, Any]) -> None:
    dump["polls"] = [dump["polls"][at] for at in (0, 5, 3)]


def another_plan(dump: dict[str, Any]) -> None:
    [plan] = [body for path, body in dump["polls"][0].items() if path.endswith("/plan")]
    plan["plan"]["nodes"][1]["inputs"][0]["id"] = "f00"


def no_moment(dump: dict[str, Any]) -> None:
    for body in dump["polls"][3].values():
        if isinstance(body, dict) and "now" in body:
            body["now"] = float("nan")


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (without_metrics, ["polls: no poll holds metrics of a subtask", "/vertices/"]),
        (one_poll, ["polls: 1 of at least 2", "poll again"]),
        (one_moment, ["all are of one moment", "poll again"]),
        (without_plan, ["/plan: no poll holds it", "dump it too"]),
        (silent_source, ["stages.orders: subtask 0 emitted nothing", "while the source runs"]),
        (restarted, ["the job was restarted in the window", "dump again"]),
        (counters_reset, ["of every subtask went back", "the job was restarted in the window"]),
        (rescaled, ["parallelism 1, before 2", "the job was restarted in the window"]),
        (cancelled, ["the job is CANCELED: dump while it runs"]),
        (out_of_order, ["is before that of the poll before", "polls in the order of time"]),
        (another_plan, ['/plan.nodes: "f00" is not a vertex of the job']),
        (no_moment, [".now: is not a time"]),
    ],
)
def test_a_dump_that_says_too_little(
    change: Callable[[dict[str, Any]], None],
    texts: list[str],
    chain: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(chain)
    refused(["--flink", write(tmp_path, json.dumps(chain))], tmp_path, capsys, *texts)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("", ["the file is cut"]),
        ('{"polls": [{"/jobs/a": {"now": 1', ["line 1, column", "the file is cut", "again"]),
        ("[1, 2]", ["polls[0]: is not a mapping of REST paths"]),
        ('{"pols": []}', ["polls: there are none", "--save"]),
        ('{"polls": [{}, {}]}', ["no poll holds a job"]),
    ],
)
def test_a_file_that_is_no_dump(
    text: str, texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["--flink", write(tmp_path, text)], tmp_path, capsys, *texts)


def test_a_cut_file_is_refused_wherever_it_is_cut(chain: dict[str, Any], tmp_path: Path) -> None:
    chain["polls"] = [chain["polls"][0], chain["polls"][-1]]
    text = json.dumps(chain)
    for length in range(1, len(text) - 1, len(text) // 20):
        with pytest.raises(ScenarioError, match="line 1, column"):
            fit_scenario(flink_rest=write(tmp_path, text[:length]))


def test_a_cut_compressed_file(
    chain: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import gzip

    file = tmp_path / "dump.gz"
    content = gzip.compress(json.dumps(chain).encode())
    file.write_bytes(content[: len(content) // 2])
    refused(["--flink", str(file)], tmp_path, capsys, "the file is cut", "make it again")


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--flink", str(tmp_path / "no.json")]
    refused(words, tmp_path, capsys, "no.json is refused", "No such file")


def test_several_jobs_are_listed_and_one_can_be_chosen(
    chain: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for poll in chain["polls"]:
        [job] = [path for path in poll if path.count("/") == 2 and path.startswith("/jobs/")]
        poll["/jobs/abc"] = {**poll[job], "name": "other"}
    given = write(tmp_path, json.dumps(chain))
    refused(["--flink", given], tmp_path, capsys, "--job: 2 jobs", "(chain)", "abc (other)")
    refused(["--flink", given, "--job", "x"], tmp_path, capsys, "x: there is no such job")


def test_an_unreachable_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--flink", "http://127.0.0.1:9", "--polls", "2"]
    refused(words, tmp_path, capsys, "http://127.0.0.1:9 cannot be reached", "--save")


def test_a_url_without_a_job(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve([{"/jobs/overview": {"jobs": []}}])
    refused(["--flink", url], tmp_path, capsys, "no job is running")


def test_a_url_that_is_no_flink(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["--flink", serve([{"/jobs/overview": ["what"]}])], tmp_path, capsys, "lists no jobs")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "give one of --flink, --spark and --link"),
        (["--flink", "a", "--spark", "b"], "give one of"),
        (["--flink", "http://127.0.0.1:9", "--polls", "1"], "needs at least 2"),
        (["--flink", "http://127.0.0.1:9", "--every", "0"], "more than 0"),
        (["--flink", "dump.json", "--save", "x"], "is a dump already"),
        (["--link", "nowhere"], "there is no link here"),
        (["--link", "nowhere", "--job", "a"], "--job: a: only with --flink"),
        (["--spark", "nowhere", "--save", "a"], "--save: a: only with --flink"),
    ],
)
def test_arguments_that_do_not_go_together(
    words: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(words, tmp_path, capsys, text)


def lines(count: int, **changes: Any) -> str:
    return "".join(json.dumps(progress(n, **changes)) + "\n" for n in range(count))


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        (lines(9) + lines(9, id="b", name="other"),
         ["id: progress of 2 queries, a (orders), b (other)", "in a file of its own"]),
        (lines(9) + '{"id": "a", "batchId"', ["line 10, column", "the line is cut"]),
        ("{half\n" + lines(9), ["line 1, column 2: no JSON"]),
        (lines(3), ["numInputRows: 2 batches with rows", "for longer"]),
        (lines(9) + lines(9), ["batch 0 comes after batch 8", "restarted"]),
        ("", ["holds no progress"]),
        ("[]\n", ["line 1: is no progress of a query"]),
        (lines(9) + json.dumps(progress(9, durationMs={})) + "\n", ["line 10: no", "addBatch"]),
    ],
)  # fmt: skip
def test_progress_that_is_refused(
    text: str, texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["--spark", write(tmp_path, text)], tmp_path, capsys, *texts)


def test_every_way_to_write_a_file_of_progress(tmp_path: Path) -> None:
    """Windows' ends of lines, a byte order mark, empty lines, compressed, U+2028 in a name."""
    import gzip

    text = "".join(json.dumps(progress(n, name="a\u2028b"), ensure_ascii=False) + "\n"
                   for n in range(9))  # fmt: skip
    expected = fit_scenario(spark_progress=[progress(n, name="a b") for n in range(9)]).scenario
    for content in (
        text.encode(),
        text.replace("\n", "\r\n\r\n").encode("utf-8-sig"),
        gzip.compress(text.encode()),
    ):
        file = tmp_path / "progress"
        file.write_bytes(content)
        assert fit_scenario(spark_progress=file).scenario == expected


def test_a_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "given"
    file.write_bytes(lines(9).encode("utf-16"))
    for argument in ("--spark", "--flink"):
        refused([argument, str(file)], tmp_path, capsys, argument, "is not a text in UTF-8")


def test_a_query_that_only_restarts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each start the first batch is left out, so that no two are in a row."""
    text = "".join(json.dumps(progress(n, runId=f"r{n // 2}")) + "\n" for n in range(12))
    said = ["runId: the query was started 6 times", "let it run for longer"]
    refused(["--spark", write(tmp_path, text)], tmp_path, capsys, *said)


def test_a_dump_with_a_byte_order_mark(chain: dict[str, Any], tmp_path: Path) -> None:
    chain["polls"] = [chain["polls"][0], chain["polls"][-1]]
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(chain), encoding="utf-8-sig")
    assert fit_scenario(flink_rest=file).scenario == fit_scenario(flink_rest=chain).scenario


def test_nothing_of_a_file_writes_into_the_scenario(chain: dict[str, Any], tmp_path: Path) -> None:
    """A name with an end of a line in it stays within its comment."""
    chain["polls"] = [chain["polls"][0], chain["polls"][-1]]
    [plan] = [body for path, body in chain["polls"][0].items() if path.endswith("/plan")]
    plan["plan"]["nodes"][1]["inputs"][0]["ship_strategy"] = "FORWARD\nseed: 5\x1b[31m"
    chain["polls"][0]["/config"] = {"flink-version": "1.20\nseed: 7"}
    draft = fit_flink(read_job(*read_dump(chain)))
    draft.source = "a\nseed: 9"
    found = read_yaml_value(scenario_text(draft))
    assert "seed" not in found
    assert parse_scenario(found) == check(draft)


def test_what_cannot_be_written_is_said_before_the_job_is_polled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Polling takes minutes, and what was polled would be lost."""
    words = ["--flink", "http://127.0.0.1:9", "--save"]
    refused([*words, str(tmp_path)], tmp_path, capsys, "is a folder; name a file")
    refused([*words, str(tmp_path / "no" / "x")], tmp_path, capsys, "there is no folder")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").touch()
    assert main(["calibrate", *words[:2], "--out", str(tmp_path / "mine")]) == 2
    assert "holds something that is not a calibration" in capsys.readouterr().err


def test_fit_scenario_wants_a_list_of_progress() -> None:
    with pytest.raises(ScenarioError, match="the progress: is not a list"):
        fit_scenario(spark_progress=5)  # type: ignore[arg-type]


def test_fit_scenario_wants_one_input() -> None:
    with pytest.raises(ValueError, match="give one of them"):
        fit_scenario()


def test_a_folder_with_a_calibration_is_kept(
    chain: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "calibrate.json").write_text(
        json.dumps({"calibration": "x", "is_own_place": False, "finished": True})
    )
    given = write(tmp_path, json.dumps(chain))
    assert main(["calibrate", "--flink", given, "--out", str(out), "--quiet"]) == 2
    assert "holds a calibration already; use --overwrite" in capsys.readouterr().err
    assert [file.name for file in out.iterdir() if file.name != ".lock"] == ["calibrate.json"]
