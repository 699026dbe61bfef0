"""A run with a trace: its table and figures, its line on the terminal, its part of the page."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flowcontrol.cli.main import main
from flowcontrol.experiments.base import varied_base
from flowcontrol.records import MESSAGES
from flowcontrol.scenario import load_scenario
from flowcontrol.trace.message_table import overhead, read_messages
from flowcontrol.virtual import clock, run_job

run_emulate = import_module("flowcontrol.run.emulate")
"""The module; the package has the function of that name."""

TEXT = """\
schema: 1
name: traced
duration_s: 2
round_ms: 200
trace: {from_s: 1, to_s: 1.6}
stages:
- {name: source, emit_rate: 100, record_bytes: 200, placement: [0]}
- {name: sink, service_rate: 50, placement: [1]}
edges:
- {from: source, to: sink}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scenario, in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traced.yaml").write_text(TEXT)
    return tmp_path / "traced.yaml"


def results(folder: Path) -> tuple[Any, Any, str]:
    """Return table, figures and page of a run."""
    table = DeltaTable(str(folder / "messages")).to_pyarrow_table()
    summary = json.loads((folder / "summary.json").read_text())
    return table, summary["trace"], (folder / "report.html").read_text()


def test_a_virtual_run_writes_and_shows_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", str(file), "--clock", "virtual", "--out", "out"]) == 0
    table, trace, page = results(Path("out"))
    assert table.schema.equals(MESSAGES.arrow_schema())
    messages = read_messages(table)
    assert {one.name for one in messages} == {"BufferResponse", "AddCredit"}
    assert [one.t_s for one in messages] == sorted(one.t_s for one in messages)
    assert trace == {"from_s": 1.0, "to_s": 1.6, "edges": None, **overhead(messages)}
    buffers, carried = trace["data_buffers"], trace["data_bytes"]
    assert trace["header_bytes"] == 43 * buffers
    assert trace["control_bytes"] == 29 * (len(messages) - buffers)
    every = carried + trace["header_bytes"] + trace["control_bytes"]
    assert trace["overhead_share"] == (every - carried) / every
    said = f"From 1 s to 1.6 s: {len(messages)} messages for {buffers} data buffers"
    assert said in " ".join(capsys.readouterr().out.split())
    assert '<section id="messages">' in page
    assert "<td>AddCredit</td>" in page


def test_a_live_run_is_run_again_by_its_own_subtasks(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Spark: the kernel in place of the queries, whose run has no memory to run again."""

    def begin(job: Any, spark: Any, replayed: Any) -> Any:
        run = run_job(job)
        return lambda folder, watch: type(run)(**{**vars(run), "again": None})

    monkeypatch.setitem(run_emulate._CLOCKS, "live", begin)
    live = run_emulate.emulate(file, out="live", clock="live", quiet=True)
    virtual = run_emulate.emulate(file, out="virtual", clock="virtual", quiet=True)
    for name in ("messages", "control_messages"):
        assert live.tables[name].equals(virtual.tables[name])
    assert live.summary["trace"] == virtual.summary["trace"]


def test_no_trace_no_table(file: Path) -> None:
    run = run_emulate.emulate(
        file, overrides={"trace": None}, out="out", clock="virtual", quiet=True
    )
    assert "messages" not in run.tables
    assert "trace" not in run.summary
    assert '<section id="messages">' not in (Path("out") / "report.html").read_text()
    assert not (Path("out") / "messages").exists()


def test_a_sweep_and_a_comparison_leave_it_out(file: Path) -> None:
    assert load_scenario(file).trace is not None
    assert varied_base(str(file)).scenario([(("system",), "arroyo")]).trace is None


def test_only_the_run_itself_is_traced(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the changes of which advice is made, nor the rates that a capacity is found by."""
    traced = []

    def noted(job: Any, *rest: Any, **named: Any) -> Any:
        traced.append(job)
        return record(job, *rest, **named)

    record = clock.record
    monkeypatch.setattr(clock, "record", noted)
    command = ["emulate", str(file), "--clock", "virtual", "--out", "out", "--quiet"]
    assert main([*command, "--set", "round_ms=1"]) == 0
    assert json.loads(Path("out/summary.json").read_text())["advice"]["proposals"]
    assert len(traced) == 1
    assert main(["capacity", str(file), "--stage", "source", "--tolerance", "0.5"]) == 0
    assert len(traced) == 1
