"""One type for what a run returns: a job's result reads like a run of the virtual clock."""

from __future__ import annotations

from pathlib import Path

from flowcontrol.experiments.executor import virtual_clock
from flowcontrol.results.run import Run
from flowcontrol.run import emulate
from flowcontrol.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]


def facts(run: Run) -> tuple[object, ...]:
    names = ("rounds", "round_us", "is_bounded", "heap_exhausted_s")
    return *(getattr(run, name) for name in names), run.tables["stages"]


def test_a_result_of_emulate_is_a_run(tmp_path: Path) -> None:
    scenario = load_scenario(ROOT / "conf" / "experiment.yaml", overrides=["duration_s=2"])
    result = emulate(scenario, out=tmp_path, clock="virtual")
    assert facts(result) == facts(virtual_clock()(scenario))
    assert result.wall_s > 0
