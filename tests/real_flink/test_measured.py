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
