"""conf/cpu-bound.yaml on the virtual clock: what its first lines say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[2] / "conf"
FROM_S, TO_S = 20, 30


def shown(*overrides: str) -> tuple[Any, Any]:
    """Means of the stages and of the task managers, of each subtask, when all is even."""
    more = (f"duration_s={TO_S}", *overrides)
    tables = simulate(load_scenario(CONF / "cpu-bound.yaml", overrides=more), track=False).tables
    stages, processes = (tables[name].to_pandas() for name in ("stages", "processes"))
    return (
        stages[stages.t_s > FROM_S].groupby("stage").mean(numeric_only=True),
        processes[processes.t_s > FROM_S].groupby("task_manager").mean(),
    )


def test_parsers_share_two_cores_and_calls_wait_outside() -> None:
    stages, processes = shown()
    assert stages.rate_in["parse"] == pytest.approx(500, rel=1e-3)
    assert stages.busy_ms_per_s["parse"] == 1000
    assert stages.backpressured_ms_per_s["source"] == pytest.approx(1000 / 3, rel=1e-2)
    assert stages.busy_ms_per_s["call"] == pytest.approx(625, rel=1e-3)
    assert processes.load.tolist() == pytest.approx([0, 2, 0.5], rel=1e-3)
    assert processes.cpu_share.tolist() == pytest.approx([0, 1, 0.25], rel=1e-3)


@pytest.mark.parametrize("change", ["cluster.cores=3", "stages.parse.placement=[1, 1, 0, 0]"])
def test_what_is_to_be_tried_helps(change: str) -> None:
    stages, _ = shown(change)
    assert stages.rate_in["parse"] == pytest.approx(750, rel=1e-3)
    assert stages.backpressured_ms_per_s["source"] < 1


def test_more_parsers_do_not() -> None:
    eight = ("stages.parse.parallelism=8", f"stages.parse.placement={[1] * 8}")
    stages, processes = shown(*eight)
    assert stages.rate_in["parse"] == pytest.approx(250, rel=1e-3)
    assert processes.load[1] == pytest.approx(2, rel=1e-6)
