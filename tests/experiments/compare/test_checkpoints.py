"""A comparison of a scenario with checkpoints: who takes them, who is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.compare import run
from flowcontrol.experiments.compare.plan import plan_comparison
from flowcontrol.scenario.presets import PRESETS

CONF = Path(__file__).resolve().parents[3] / "conf" / "experiment.yaml"
INTERVAL = 'options."execution.checkpointing.interval"=1s'


@pytest.mark.parametrize("name", PRESETS)
def test_a_system_runs_or_says_why_it_takes_no_checkpoints(name: str) -> None:
    plan = plan_comparison(CONF, systems=[name], overrides=[INTERVAL])
    preset = PRESETS[name]
    if "exactly_once" not in preset.barriers:
        with pytest.raises(ScenarioError) as refused:
            run.check_one(plan.base, name, plan.clock)
        text = run.refusal(refused.value)
        assert text.startswith(f"system: {name!r} has no barriers")
        assert preset.checkpoints in text
    elif preset.transport != "tcp":
        job = run.check_one(plan.base, name, plan.clock)
        assert job.checkpoints is not None
        assert job.scenario.system.transport == preset.transport
