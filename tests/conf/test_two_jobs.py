"""conf/two-jobs.yaml on the virtual clock: what its first lines say."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[2] / "conf"


def test_the_second_job_takes_buffers_and_the_first_waits_less() -> None:
    run = simulate(load_scenario(CONF / "two-jobs.yaml", overrides=["round_ms=1"]))
    stages = run.tables["stages"].to_pandas()
    orders = stages[(stages.stage == "orders") & (stages.subtask == 0)].set_index("t_s")
    sizes = orders.output_pool_size
    assert [sizes[at] for at in (1.0, 20.0, 21.0, 40.0, 41.0, 60.0)] == [12, 12, 7, 7, 12, 12]
    latency = run.tables["latency"].to_pandas()
    median = latency[(latency.stage == "bill") & (latency.subtask == 0)].set_index("t_s").p50_ms
    alone, together, again = (median[at : at + 10].mean() for at in (10.0, 25.0, 45.0))
    assert together < 0.7 * alone
    assert again == pytest.approx(alone, rel=0.02)
    bill = stages[(stages.stage == "bill")].groupby("t_s").records_in.sum()
    assert bill[60.0] - bill[1.0] == pytest.approx(59 * 2000, rel=0.01)
    assert [job["state"] for job in run.jobs] == ["finished", "stopped", "failed"]
