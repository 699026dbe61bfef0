"""From the progress of a Spark query to a scenario: costs, loads, triggers; real queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.calibration.calibrate import fit_scenario
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.predict import beside
from flowcontrol.calibration.spark_progress import fit_progress, predict_batches
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job
from modules import ROOT

REAL = ROOT / "bench" / "spark_progress"
SIZES = (1000, 4000, 2500, 3300, 1700, 2800)


def stamp(at_ms: float) -> str:
    minutes, ms = divmod(round(at_ms), 60_000)
    return f"2026-11-26T03:{minutes:02d}:{ms / 1000:06.3f}Z"


def progress(
    sizes: list[int], row_ms: float, base_ms: float, *, gaps_ms: list[float] | None = None
) -> list[dict[str, Any]]:
    """Return batches one behind the other, or with gaps between them."""
    found: list[dict[str, Any]] = []
    at = 0.0
    for number, rows in enumerate(sizes):
        work = round(base_ms + row_ms * rows)
        found.append(
            {
                "id": "q", "runId": "r", "name": "orders", "batchId": number,
                "timestamp": stamp(at), "numInputRows": rows,
                "durationMs": {"addBatch": work, "triggerExecution": work + 300},
            }
        )  # fmt: skip
        at += work + 300 + (0 if gaps_ms is None else gaps_ms[number])
    return found


def figure(draft: Draft, key: str) -> Any:
    return next(one for one in draft.figures if one.key == key)


@given(st.floats(0.05, 5), st.floats(0, 3000))
def test_a_line_comes_back(row_ms: float, base_ms: float) -> None:
    draft = fit_progress(progress([*SIZES] * 3, row_ms, base_ms))
    rate = figure(draft, "stages.query.service_rate")
    assert rate.value == pytest.approx(1000 / row_ms, rel=0.02)
    over = figure(draft, "system.throttle.overhead_ms").value
    assert over == pytest.approx(base_ms + 300, abs=2)
    assert rate.error < 0.02


def test_a_pause_is_no_point_of_the_line() -> None:
    rows = progress([*SIZES] * 4, 0.5, 800)
    rows[9]["durationMs"] = {"addBatch": 60_000, "triggerExecution": 60_300}
    draft = fit_progress(rows)
    assert figure(draft, "stages.query.service_rate").value == pytest.approx(2000, rel=0.01)
    assert any(note.startswith("batch 9 is far off the line") for note in draft.notes)
    rows[14]["durationMs"] = {"addBatch": 60_000, "triggerExecution": 60_300}
    notes = fit_progress(rows).notes
    assert any(note.startswith("batches 9 and 14 are far off the line") for note in notes)


def test_batches_of_one_size_leave_one_cost_open() -> None:
    draft = fit_progress(progress([2000] * 9, 0.5, 800))
    rate = figure(draft, "stages.query.service_rate")
    assert rate.is_assumed
    assert "calibrate on batches of different sizes" in rate.origin
    assert rate.value == pytest.approx(2000 / 1.8, rel=1e-4)


def test_a_backlog_is_told_from_a_rate() -> None:
    draft = fit_progress(progress([*SIZES] * 3, 0.5, 800))
    assert draft.bottleneck == "query"
    assert draft.mapping["system"]["throttle"]["max_records"] == pytest.approx(2550, rel=0.05)
    assert figure(draft, "stages.source.emit_rate").is_assumed
    # The next batch has what came while the last one ran: 900 rows a second.
    sizes = [1000]
    for _ in range(19):
        sizes.append(round(0.9 * (800 + 300 + 0.5 * sizes[-1])))
    coming = fit_progress(progress(sizes, 0.5, 800))
    assert coming.bottleneck is None


def test_a_trigger_is_seen() -> None:
    sizes = [*SIZES] * 3
    gaps = [5000 - (800 + 300 + 0.5 * rows) for rows in sizes]
    draft = fit_progress(progress(sizes, 0.5, 800, gaps_ms=gaps))
    assert draft.mapping["system"]["throttle"]["interval_ms"] == 5000
    assert figure(draft, "stages.source.emit_rate").value == pytest.approx(510, rel=0.06)


def test_a_batch_longer_than_its_trigger_is_a_contradiction() -> None:
    rows = progress([*SIZES] * 3, 0.5, 800)
    rows[5]["durationMs"]["triggerExecution"] = 100
    [one] = fit_progress(rows).contradictions
    assert one.place == "query"
    assert "batch 5: addBatch" in one.sentence


def test_fit_scenario_takes_progress(tmp_path: Path) -> None:
    rows = progress([*SIZES] * 2, 0.5, 800)
    file = tmp_path / "progress.jsonl"
    file.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    scenario, figures = fit_scenario(spark_progress=file)
    assert [stage.name for stage in scenario.stages] == ["source", "query"]
    assert figures["stages.query.service_rate"].value == pytest.approx(2000, rel=0.01)
    assert fit_scenario(spark_progress=rows).scenario == scenario


@pytest.mark.parametrize("name", ["files", "counts"])
def test_a_real_query_is_predicted(name: str) -> None:
    """Throughput, size and time of its batches, within 3 %."""
    draft = fit_progress(REAL / f"{name}.jsonl")
    scenario = parse_scenario(draft.mapping)
    tables = run_job(job_for(scenario, "virtual")).tables
    rows = beside(draft.observed, predict_batches(tables, draft))
    assert [row.name for row in rows] == ["batch_ms", "rows", "rows_per_s"]
    assert [row for row in rows if not row.is_within] == []
