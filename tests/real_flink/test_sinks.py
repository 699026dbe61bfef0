"""Sinks and operators with requests do what those of a real Flink did (shapes/requests/)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import beside
import pytest
import translate

import report
from flowcontrol.scenario.given import as_scenario
from flowcontrol.virtual import simulate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "real-flink.md"
SHAPES = sorted(file.stem for file in report.SHAPES.iterdir())
KEPT = report.read(report.SENT)


@cache
def emulated(shape: str) -> dict[tuple[Any, ...], float]:
    """The figures of a shape on the virtual clock."""
    scenario = as_scenario(report.SHAPES / f"{shape}.yaml")
    tables = simulate(scenario).tables
    return {
        (*window, place, figure): value
        for window in beside.windows(scenario)
        for (place, figure, _), value in beside.figures(scenario, tables, window)
    }


def differences(run: str) -> Iterator[tuple[str, float, float]]:
    """Yield a figure, by how much both differ, and by how much they may."""
    [place] = {row[2] for row in KEPT[run] if row[3] == "delivered"}
    for *key, measured, _ in KEPT[run]:
        apart = abs(emulated(run.split()[0])[tuple(key)] - measured)
        figure = key[3]
        if figure == "end to end":
            yield figure, apart / measured, 0.05
        elif key[2] != place:
            continue
        elif figure == "delivered":
            yield figure, apart / measured, 0.03
        elif figure in {"requests in flight", "batch"}:
            yield figure, apart / measured, 0.05
        elif figure.startswith("failed"):
            yield figure, apart, 0.05
        elif figure in {"busy", "idle", "blocked"}:
            yield figure, apart / 1000, 0.05


def test_every_shape_is_measured() -> None:
    assert set(KEPT) >= {f"{shape} 1.20.1" for shape in SHAPES}


@pytest.mark.holds("credit", "virtual", "sinks and calls of a real Flink")
@pytest.mark.parametrize("run", KEPT)
def test_a_stage_sends_what_it_sends_on_flink(run: str) -> None:
    found = list(differences(run))
    assert len(found) == (9 if run.startswith("checkpointed") else 8)
    assert [row for row in found if row[1] > row[2]] == []


@pytest.mark.parametrize("run", KEPT)
def test_what_is_kept_is_what_the_emulation_makes_of_it(run: str) -> None:
    kept = {tuple(row[:4]): row[5] for row in KEPT[run]}
    assert kept == pytest.approx(emulated(run.split()[0]), rel=1e-4, abs=1e-4)


def test_the_page_has_the_table() -> None:
    table = "\n".join([report.HEAD_OF_REQUESTS, *report.lines_of_requests(KEPT)])
    assert table in PAGE.read_text(encoding="utf-8")


def requests_of(shape: str, **changes: Any) -> dict[str, Any]:
    """What Flink is told of the second stage of a shape."""
    given = as_scenario(report.SHAPES / f"{shape}.yaml", changes)
    found: dict[str, Any] = translate.flink_job(given)["stages"][1]["requests"]
    return found


def test_a_sink_has_the_sizes_and_the_destination_of_the_scenario() -> None:
    found = requests_of("throttled-kinesis")
    assert found["window"] == {"initial": 25, "increase": 10, "decrease": 0.99, "threshold": 250}
    assert found["records_limit"] == [1000, 100]
    assert found["requests_limit"] is None
    assert found["latency"] == [(0, 50_000)]
    sizes = ("batch_records", "buffered", "in_flight", "buffer_ms", "timeout_ms")
    assert [found[key] for key in sizes] == [25, 500, 10, 5000, 600_000]


def test_an_operator_has_its_queue_and_its_retries() -> None:
    found = requests_of("await-retry")
    assert (found["in_flight"], found["ordered"], found["timeout_ms"]) == (20, False, 10_000)
    assert found["retry"] == {
        "attempts": 3, "delay_ms": 30, "multiplier": 2, "max_delay_ms": 60, "when": ["error"],
    }  # fmt: skip
    assert found["request_errors"] == 0.2
    assert requests_of("await-ordered")["retry"] is None
