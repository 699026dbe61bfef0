"""The classic experiment: the consumer throttles the producer, and a run without credits fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable

from flowcontrol.errors import ProtocolError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.ledger.ledger import Ledger
from flowcontrol.live.runtime import rounds_at_once
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual.clock import run_job

CONF = Path(__file__).resolve().parents[2] / "conf" / "experiment.yaml"
NETWORK = "taskmanager.network.memory"


def experiment(*overrides: str) -> Job:
    return build_physical_graph(load_scenario(CONF, overrides=overrides))


def test_a_run_of_the_rules_passes(checks: ModuleType) -> None:
    job = experiment()
    assert job.rounds == 1000
    assert {rounds_at_once(job, plan) for plan in job.stages} == {3}
    assert checks.violations(run_job(job).tables) == []


def test_the_check_fails_where_there_are_no_credits(checks: ModuleType) -> None:
    """A receiver with room for everything, and a sender that asks nobody: it is not throttled."""
    found = checks.violations(run_job(experiment("system={transport: unbounded}")).tables)
    assert "producer ran at 600/s from 25 s, not at 30% of 1000/s" in found
    assert "producer ran at 1000/s from 65 s, not at 30% of 1000/s" in found
    assert "at 40 s the producer is not blocked" in found
    assert any(text.startswith("at 40 s") and "records in flight" in text for text in found)


def test_a_receiver_refuses_what_no_credit_covers(
    driver: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Ledger.commit

    def flood(ledger: Ledger, batch: int, newest: Any, earlier: Any = ()) -> bool:
        for row in [*newest, *(row for rows in earlier for row in rows)]:
            state = json.loads(row["channel_state"])
            if "messages" in state:
                state["messages"] *= 3
                row["channel_state"] = json.dumps(state)
        return commit(ledger, batch, newest, earlier=earlier)

    monkeypatch.setattr(Ledger, "commit", flood)
    with pytest.raises(ProtocolError, match=r"round \d: a message came without a buffer"):
        driver.Driver(experiment("stages.consumer.service_rate=10"), tmp_path).run()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (f'options."{NETWORK}.floating-buffers-per-gate"=4', "floating buffers are held"),
        (f'options."{NETWORK}.buffers-per-channel"=12', "buffers are promised, not all"),
        (f'options."{NETWORK}.max-buffers-per-channel"=6', "producer ran at"),
        (f'options."{NETWORK}.max-buffers-per-channel"=10', "the producer's pool holds 9 of 37"),
        ("stages.consumer.service_rate=300", "producer ran at 299/s from 5 s"),
        ("stages.consumer.service_rate=1200", "producer ran at 600/s from 25 s"),
        ("stages.producer.emit_rate=580", "producer ran at 580/s"),
        ("round_ms=500", "producer ran at"),
    ],
)
def test_the_check_fails_where_anything_else_is_off(
    change: str, text: str, checks: ModuleType
) -> None:
    found = checks.violations(run_job(experiment(change)).tables)
    assert any(text in violation for violation in found), found[:5]


@pytest.mark.holds("credit", "live", "the classic experiment's rates and buffers")
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long  # the README runs it, and a run of the rules is checked above
def test_the_experiment_live(
    runs: ModuleType, checks: ModuleType, run_live: Callable[..., Any], spark: Any, tmp_path: Path
) -> None:
    """In the quick form until the slow consumer has filled all buffers and stopped the producer."""
    is_long = "FLOWCONTROL_LONG" in os.environ
    job, said = experiment(*([] if is_long else ["duration_s=24"])), list[str]()
    result = run_live(job.scenario, tmp_path / "run", warn=said.append)
    assert said == []  # the window carries the rates
    tables = {
        name: DeltaTable(str(result.path / name)).to_pyarrow_table() for name in result.tables
    }
    if is_long:
        assert checks.violations(tables) == []
        assert result.summary["bottleneck"] == "consumer"
    ledgers = runs.assert_is_virtual(job, result.path)
    assert runs.saw(ledgers) == {"floating", "waiting", "no credit", "blocked"}
    assert result.summary["rounds"] == (1000 if is_long else 240)
    expected = run_job(job).tables
    for name in ("stages", "channels"):
        assert_df_equality(
            spark.read.format("delta").load(str(result.path / name)),
            spark.createDataFrame(expected[name].to_pandas()),
            ignore_row_order=True,
            ignore_nullable=True,
            ignore_metadata=True,  # units and meanings of the columns
        )
    assert len(tables["latency"]) == (100 if is_long else 24)
    assert (result.path / "report.html").stat().st_size > 10_000
