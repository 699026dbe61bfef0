"""How measurements of a real Flink are read and compared, on ones made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import compare
import measure
import pytest
import runs


def measured(triggered: list[float], e2e: list[float], persisted: list[int]) -> dict[str, Any]:
    """A run of one task, in the form that measure.py writes."""
    return {
        "checkpoints": {"triggered_s": triggered, "e2e_ms": e2e, "persisted_bytes": persisted},
        "tasks": {
            "sink/0": {
                "e2e_ms": e2e,
                "start_delay_ms": [value - 1 for value in e2e],
                "alignment_ms": [0.0 for _ in e2e],
                "async_ms": [1.0 for _ in e2e],
                "processed_bytes": [0 for _ in e2e],
                "persisted_bytes": persisted,
            }
        },
    }


def test_durations_are_medians_and_bytes_means_of_what_follows_the_warm_up() -> None:
    run = measured([1, 9.999, 10, 14, 18], [9000, 9000, 100, 500, 110], [9, 9, 0, 30, 60])
    assert compare.figures(run) == {
        ("checkpoint", "e2e_ms"): 110,
        ("checkpoint", "persisted_bytes"): 30,
        ("sink/0", "e2e_ms"): 110,
        ("sink/0", "start_delay_ms"): 109,
        ("sink/0", "alignment_ms"): 0,
        ("sink/0", "async_ms"): 1,
        ("sink/0", "processed_bytes"): 0,
        ("sink/0", "persisted_bytes"): 30,
    }


def test_a_run_that_ends_in_its_warm_up_is_refused() -> None:
    with pytest.raises(ValueError, match=r"warm-up of 10 s; run for longer"):
        compare.figures(measured([1, 9.999], [1, 1], [0, 0]))


@pytest.mark.parametrize(
    ("place", "figure", "value", "limit"),
    [
        ("checkpoint", "e2e_ms", 2400, 72),
        ("checkpoint", "e2e_ms", 500, 15),
        ("checkpoint", "e2e_ms", 4, 15),
        ("sink/0", "start_delay_ms", 2400, 120),
        ("sink/0", "start_delay_ms", 0, 15),
        ("sink/0", "start_delay_ms", 301, 15.05),
        ("sink/0", "alignment_ms", 1200, 60),
        ("sink/0", "async_ms", 600, 30),
        ("sink/0", "e2e_ms", 2400, 120),
        ("sink/0", "processed_bytes", 900_000, 45_000),
        ("checkpoint", "persisted_bytes", 1_000_000, 50_000),
        ("checkpoint", "persisted_bytes", 50_000, 7627.5),
        ("checkpoint", "persisted_bytes", 0, 0),
        ("sink/0", "persisted_bytes", 1_000_000, 50_000),
        ("sink/0", "persisted_bytes", 300_000, 32768),
    ],
)
def test_the_tolerances(place: str, figure: str, value: float, limit: float) -> None:
    assert compare.tolerance(place, figure, value) == pytest.approx(limit)


@pytest.mark.parametrize(("emulated", "holds"), [(1030, True), (1030.1, False), (969.9, False)])
def test_a_figure_holds_up_to_its_tolerance(emulated: float, holds: bool) -> None:
    row = compare.Row("run", "checkpoint", "e2e_ms", 1000, emulated, 30)
    assert row.holds is holds


def test_every_figure_that_was_measured_is_compared_with_its_own() -> None:
    rows = list(
        compare.rows(runs.RUNS[0], measured([10], [1000], [80000]), measured([11], [1001], [90000]))
    )
    assert {(row.place, row.figure): (row.measured, row.emulated) for row in rows} == {
        ("checkpoint", "e2e_ms"): (1000, 1001),
        ("checkpoint", "persisted_bytes"): (80000, 90000),
        ("sink/0", "e2e_ms"): (1000, 1001),
        ("sink/0", "start_delay_ms"): (999, 1000),
        ("sink/0", "alignment_ms"): (0, 0),
        ("sink/0", "async_ms"): (1, 1),
        ("sink/0", "processed_bytes"): (0, 0),
        ("sink/0", "persisted_bytes"): (80000, 90000),
    }
    assert [row.figure for row in rows if not row.holds] == ["persisted_bytes"]
    assert not next(row for row in rows if not row.holds).place.startswith("sink")


def test_tables_of_a_run_are_read_in_the_order_of_checkpoints_and_only_completed_ones() -> None:
    def checkpoint(number: int, status: str) -> dict[str, Any]:
        return {
            "checkpoint_id": number,
            "status": status,
            "triggered_s": 10.0 * number,
            "e2e_ms": 100.0 * number,
            "persisted_bytes": number,
        }

    def task(number: int, subtask: int) -> dict[str, Any]:
        return {
            **dict.fromkeys(compare.OF_TASKS, number),
            "checkpoint_id": number,
            "stage": "sink",
            "subtask": subtask,
            "start_delay_ms": 10.0 * number + subtask,
        }

    found = compare.from_tables(
        [checkpoint(3, "completed"), checkpoint(2, "expired"), checkpoint(1, "completed")],
        [task(number, subtask) for number in (3, 2, 1) for subtask in (1, 0)],
    )
    assert found["checkpoints"]["triggered_s"] == [10, 30]
    assert found["checkpoints"]["e2e_ms"] == [100, 300]
    assert found["tasks"]["sink/0"]["start_delay_ms"] == [10, 30]
    assert found["tasks"]["sink/1"]["start_delay_ms"] == [11, 31]


@pytest.mark.parametrize(
    ("sink_rate", "late", "found"),
    [
        (499.0, 0, None),
        (498.9, 0, "sink/0 processed 498.9 records/s of 500"),
        (501.1, 0, "sink/0 processed 501.1 records/s of 500"),
        (500.0, 1, None),
        (500.0, 3, "one source in ten began its checkpoint 40 ms late or more"),
    ],
)
def test_a_busy_machine_shows(sink_rate: float, late: int, found: str | None) -> None:
    """By the rate of the sink, which is the slowest of chain, or by sources that wait."""
    run = measured([5] * 9 + [10] * 20, [1] * 29, [0] * 29)
    run["records_per_s"] = {"map/0": 499.0, "sink/0": sink_rate}
    run["tasks"]["source/0"] = {"start_delay_ms": [40] * 9 + [2] * (20 - late) + [40] * late}
    run["tasks"]["map/0"] = run["tasks"]["sink/0"]
    assert measure.disturbance(run, runs.scenario(runs.RUNS[0])) == found


def test_a_disturbed_run_is_made_again_and_the_last_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = iter([400.0, 500.0, 500.0])

    def reported(run: runs.RunName) -> dict[str, Any]:
        task = dict.fromkeys(measure.TASK_COLUMNS, 0)
        checkpoint = {**dict.fromkeys(measure.CHECKPOINT_COLUMNS, 20), "tasks": []}
        checkpoint["tasks"] = [
            {**task, "stage": name, "subtask": 0} for name in ("source", "map", "sink")
        ]
        return {"records_per_s": {"sink/0": next(rates)}, "checkpoints": [checkpoint] * 3}

    monkeypatch.setattr(measure, "run_flink", reported)
    measure.measure(runs.RUNS[0], tmp_path)
    kept = json.loads((tmp_path / "chain-aligned.json").read_text(encoding="utf-8"))
    assert kept["records_per_s"] == {"sink/0": 500.0}
    assert next(rates) == 500.0  # the third attempt was not needed
    assert capsys.readouterr().out == (
        "chain-aligned was disturbed: sink/0 processed 400 records/s of 500. Trying again.\n"
    )


def test_what_flink_reports_is_kept_by_column_and_read_again(tmp_path: Path) -> None:
    def checkpoint(number: int) -> dict[str, Any]:
        task = dict.fromkeys(measure.TASK_COLUMNS, number)
        return {
            **dict.fromkeys(measure.CHECKPOINT_COLUMNS, 10 * number),
            "tasks": [{**task, "stage": "sink", "subtask": n} for n in range(2)],
        }

    reported = {
        "flink": "1.20.1",
        "records_per_s": {"sink/0": 499.98765},
        "checkpoints": [checkpoint(1), checkpoint(2)],
    }
    measure.write(measure.columns(reported), tmp_path / "run.json")
    text = (tmp_path / "run.json").read_text(encoding="utf-8")
    assert '"e2e_ms": [10, 20],' in text
    kept = json.loads(text)
    assert kept["records_per_s"] == {"sink/0": 499.99}
    assert kept["tasks"]["sink/1"] == {key: [1, 2] for key in measure.TASK_COLUMNS}
    assert kept["checkpoints"] == {key: [10, 20] for key in measure.CHECKPOINT_COLUMNS}
