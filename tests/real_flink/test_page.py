"""docs/explanation/real-flink.md states what is in bench/real_flink/measured."""

from __future__ import annotations

import re
from pathlib import Path

import compare
import measure
import pytest
import runs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "real-flink.md"
ROW = re.compile(
    r"^\| ([a-z-]+) \| ([a-z]+(?:/\d)?) \| ([a-z0-9_]+) \| ([\d,]+) \| ([\d,]+) \|", re.MULTILINE
)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("run", runs.RUNS, ids=str)
def test_the_page_shows_every_run(run: runs.RunName) -> None:
    assert str(run) in {row[0] for row in ROWS}


@pytest.mark.parametrize(("name", "place", "figure", "value", "emulated"), ROWS)
def test_a_figure_of_the_page_is_the_one_measured(
    name: str, place: str, figure: str, value: str, emulated: str
) -> None:
    [run] = (run for run in runs.RUNS if str(run) == name)
    measured = compare.figures(compare.read(compare.MEASURED, run))[place, figure]
    assert f"{measured:,.0f}" == value
    row = compare.Row(
        name,
        place,
        figure,
        measured,
        float(emulated.replace(",", "")),
        compare.tolerance(place, figure, measured),
    )
    assert row.holds


@pytest.mark.parametrize("run", runs.RUNS, ids=str)
def test_nothing_disturbed_a_stored_run(run: runs.RunName) -> None:
    kept = compare.read(compare.MEASURED, run)
    assert kept["flink"].startswith("1.20.")
    steady = [at for at in kept["checkpoints"]["triggered_s"] if at >= runs.WARM_UP_S]
    assert len(steady) >= 15
    assert measure.disturbance(kept, runs.scenario(run)) is None


@pytest.mark.parametrize("run", runs.RUNS, ids=str)
def test_only_what_may_overtake_persists_data(run: runs.RunName) -> None:
    kept = compare.read(compare.MEASURED, run)["checkpoints"]
    for at, size in zip(kept["triggered_s"], kept["persisted_bytes"], strict=True):
        if at >= runs.WARM_UP_S:
            assert (size > 0) == (run.mode != "aligned")
