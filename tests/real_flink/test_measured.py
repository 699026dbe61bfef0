"""Checkpoints on the virtual clock are those that a real Flink took."""

from __future__ import annotations

import compare
import pytest
import runs


@pytest.mark.holds("credit", "virtual", "the checkpoints of a real Flink, task by task")
@pytest.mark.parametrize("run", runs.RUNS, ids=str)
def test_every_figure_is_within_its_tolerance(run: runs.RunName) -> None:
    rows = list(compare.rows(run, compare.read(compare.MEASURED, run), compare.emulated(run)))
    subtasks = sum(stage.get("parallelism", 1) for stage in runs.scenario(run)["stages"])
    is_split_otherwise = run.job == "local-chain" and run.mode != "aligned"
    assert len(rows) == 2 + (3 if is_split_otherwise else 6) * subtasks
    assert [row for row in rows if not row.holds] == []


@pytest.mark.parametrize("sink", ["sink/0", "sink/1"])
def test_channels_stay_blocked_until_the_last_barrier(sink: str) -> None:
    """A buffer of a channel that resumed at the switch would be half as much again."""
    run = runs.RunName("fan", "late-timeout")
    figures = [
        compare.figures(one)[sink, "processed_bytes"]
        for one in (compare.read(compare.MEASURED, run), compare.emulated(run))
    ]
    assert figures[1] == pytest.approx(figures[0], rel=0.05)
