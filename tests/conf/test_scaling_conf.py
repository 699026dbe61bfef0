"""The scenarios with scaling: each shows what its first lines say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.run.jobs import job_for
from flowcontrol.scaling.runs.scaled import run_scaled
from flowcontrol.scenario import load_scenario
from flowcontrol.topics.scaling import scaling_summary

CONF = Path(__file__).resolve().parents[2] / "conf"


@cache
def show(name: str) -> tuple[Any, dict[str, Any]]:
    """Return tables and figures of a run."""
    scenario = load_scenario(CONF / f"{name}.yaml")
    tables = run_scaled(job_for(scenario, "virtual")).tables
    return tables, scaling_summary(tables, scenario)


def test_the_autoscaler_follows_the_daily_curve() -> None:
    tables, found = show("daily-curve")
    rows = tables["scalings"].to_pandas()
    assert set(rows["stage"]) == {"enrich"}
    assert rows["new"].tolist() == [4, 6, 9, 12, 7]
    # up in the morning, from 720 s on, down in the evening
    assert rows["t_s"].between(720, 2600).all()
    assert rows["t_s"].tolist()[-1] > 2280
    # a restart of 10 s, and what came since the last checkpoint, at most 10 s before
    assert found["down_s"] == 50
    assert found["max_lag_s"] < 60
    stages = tables["stages"].to_pandas()
    lag = stages[stages["stage"] == "orders"].groupby("t_s")["lag_s"].max()
    assert lag.iloc[-1] < 1
    for at_s in rows["t_s"]:
        assert lag[at_s + 10 + 80] < 2
    enrich = stages[stages["stage"] == "enrich"]
    busy = enrich["busy_ms_per_s"].mean() / 1000
    assert busy == pytest.approx(0.6, abs=0.06)
    # 12 subtasks all day would be busy for less
    work = enrich.groupby("t_s")["busy_ms_per_s"].sum().mean() / 1000
    assert work / 12 == pytest.approx(0.4, abs=0.04)
    # all that was written came through
    taken = stages[stages["stage"] == "store"].groupby("subtask")["records_in"].last().sum()
    orders = load_scenario(CONF / "daily-curve.yaml").stage("orders")
    written = orders.total_arrival_rate.records_until(2_880_000_000)
    assert taken >= written - 50


def test_ds2_needs_one_step_for_the_word_count() -> None:
    tables, found = show("ds2-word-count")
    rows = tables["scalings"].to_pandas()
    assert rows[["t_s", "stage", "old", "new"]].to_numpy().tolist() == [
        [20.0, "split", 1, 12],
        [20.0, "count", 1, 24],
    ]
    assert rows["reason"].str.contains("split needs 7.98 of 1, count needs 15.96 of 1").all()
    # the savepoint waits for what is in flight, then 30 s of a new deployment
    (step,) = found["steps"]
    assert 30 < step["restart_s"] < 60
    assert step["before"]["throughput"] == pytest.approx(1667, rel=0.02)
    stages = tables["stages"].to_pandas()
    lag = stages[stages["stage"] == "sentences"].groupby("t_s")["lag_records"].sum()
    assert lag[62] > 50_000
    assert lag[300] < 100
    # at the end it keeps up: 1,330 sentences/s of 20 words
    last = stages[(stages["stage"] == "count") & (stages["t_s"] > 320)]
    assert last.groupby("t_s")["rate_in"].sum().mean() == pytest.approx(26_600, rel=0.02)
