"""Random jobs: both sides take what is drawn, and what agrees is counted for both alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import random_flink
from drawing import draw
from random_flink import Kept, Tally, agree
from refusals import check

from flowcontrol.scenario import parse_scenario

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "real-flink.md"


@pytest.mark.parametrize("version", ["1.20.1", "2.3.0"])
def test_a_drawn_job_runs_on_both_sides(version: str) -> None:
    drawn = [draw(seed, version) for seed in range(20)]
    for stated in drawn:
        check(parse_scenario(stated), version)
    assert drawn[3] == draw(3, version)
    assert len({str(sorted(one["stages"], key=str)) for one in drawn}) == 20
    options = {key for one in drawn for key in one["options"]}
    assert "execution.checkpointing.interval" in options
    assert any("arrival_rate" in stage for one in drawn for stage in one["stages"])
    assert any(isinstance(stage.get("emit_rate"), list) for one in drawn for stage in one["stages"])


def test_figures_agree_within_a_share_or_a_least() -> None:
    assert agree("records", 1000, 1030)
    assert not agree("records", 1000, 1035)
    assert agree("records", 1, 2.9)
    assert agree("blocked", 500, 560)
    assert not agree("blocked", 500, 561)


def test_each_run_of_flink_counts_half_for_the_emulation() -> None:
    tally = Tally()
    key = (5, 24, "sink", "records")
    other = (5, 24, "sink", "busy")
    apart = tally.add(
        Kept({}, {key: (100.0, 110.0), other: (10.0, 20.0)}), {key: 100.0, other: 300.0}
    )
    assert "0 of 1" in tally.show() and "0.5 of 1" in tally.show()
    assert len(apart) == 1 and "busy" in apart[0]


def test_kept_runs_are_read_as_they_were_written(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(random_flink, "path_of", lambda version: tmp_path / f"{version}.json")
    own = Kept(draw(1, "1.20.1"), {(5.0, 24.0, "sink", "records"): (1.5, 2.25)})
    random_flink.keep("any", {1: own})
    assert random_flink.kept("any") == {1: own}
    assert random_flink.kept("none") == {}


def test_the_kept_jobs_are_those_of_their_seeds() -> None:
    """But for the places that Flink gave the subtasks."""
    found = random_flink.kept("1.20.1")
    assert len(found) >= 30
    for seed, own in found.items():
        drawn = draw(seed, "1.20.1")
        for stage, placed in zip(drawn["stages"], own.stated["stages"], strict=True):
            assert {**placed, "placement": stage["placement"]} == stage
        assert {**own.stated, "stages": drawn["stages"]} == drawn


@pytest.mark.long
def test_the_page_says_how_often_the_kept_jobs_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert random_flink.main(["--kept"]) == 0
    _, head, table = capsys.readouterr().out.partition("figure  ")
    assert head + table.rstrip() in PAGE.read_text(encoding="utf-8")
