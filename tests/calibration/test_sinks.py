"""From the metrics of a sink's writer to its requests: sizes, latency, errors and limits."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.calibration.calibrate import fit_scenario
from flowcontrol.calibration.draft import Figure
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import Scenario
from flowcontrol.virtual import run_job
from modules import load

synthesise = load("tests/calibration/synthesise.py")


def job(rate: float, name: str, requests: dict[str, Any], **sink: Any) -> dict[str, Any]:
    """Return a source and a sink that sends requests."""
    return {
        "schema": 1, "name": "sends", "duration_s": 60, "sample_interval_s": 0.37,
        "cluster": {"task_managers": 2},
        "stages": [{"name": "orders", "parallelism": 2, "emit_rate": rate},
                   {"name": name, "parallelism": 2, "requests": requests, **sink}],
        "edges": [{"from": "orders", "to": name}],
    }  # fmt: skip


def refitted(
    scenario: dict[str, Any], errors: str = "records_retried", **odd: Any
) -> tuple[Scenario, dict[str, Figure], float]:
    """Run a scenario and fit one to its metrics; return it, its figures, and the first's rate.

    - ``errors``: the column that the dump has as numRecordsSendErrors.
    - ``odd``: metrics in place of those of the run.
    """
    dump, run = synthesise.dump_of(scenario, since_s=20)
    stage = scenario["stages"][1]["name"]
    sent = run.tables["requests"].to_pandas()
    place = f"/vertices/{synthesise.identity(stage)}/subtasks"
    for poll in dump["polls"]:
        at = (poll[f"/jobs/{synthesise.identity('sends')}"]["now"] - synthesise.EPOCH_MS) / 1000
        rows = sent[(sent["t_s"] - at).abs() < 1e-6].sort_values("subtask")
        assert len(rows) == 2
        for row in rows.to_dict("records"):
            metrics = {
                "numRecordsSend": row["records_sent"],
                "numRecordsSendErrors": row[errors],
                "currentSendTime": row["send_time_ms"],
                **odd,
            }
            path = f"/jobs/{synthesise.identity('sends')}{place}/{row['subtask']}/metrics?get=sink"
            poll[path] = [
                {"id": f"Sink__Writer.{name}", "value": str(value)}
                for name, value in metrics.items()
            ]
    fitted, figures = fit_scenario(flink_rest=dump)
    return fitted, figures, rate_of(run)


def rate_of(run: Any) -> float:
    """Return what the destination took from 20 s on, records/s of a subtask."""
    rows = run.tables["requests"].to_pandas()
    rows = rows[rows["t_s"] >= 20]
    taken = rows.groupby("subtask")["records_acknowledged"].agg(lambda own: own.max() - own.min())
    return float(taken.mean() / (rows["t_s"].max() - rows["t_s"].min()))


def again(scenario: Scenario) -> float:
    """Return what the destination of a fitted scenario takes, records/s of a subtask."""
    return rate_of(run_job(job_for(scenario, "virtual")))


def test_requests_in_flight_that_limit() -> None:
    like = {"like": "sqs", "latency_ms": 400}
    fitted, figures, rate = refitted(job(2000, "sqs-queue", like))
    own = fitted.stages[1].requests
    assert own is not None
    assert own.like == "sqs"
    assert own.latency_ms[0].ms == 400
    assert fitted.stages[1].service_rate is None
    assert "waits for requests" in figures["stages.sqs-queue.service_rate"].origin
    assert again(fitted) == pytest.approx(rate, rel=0.03)


def test_a_destination_that_takes_no_more() -> None:
    limited = {"like": "dynamodb", "latency_ms": 20, "limit": {"records_per_s": 2000}}
    fitted, figures, rate = refitted(job(2500, "dynamo", limited))
    found = figures["stages.dynamo.requests.limit.records_per_s"]
    assert found.value == pytest.approx(2000, rel=0.02)
    assert again(fitted) == pytest.approx(rate, rel=0.03)


def test_errors_of_a_sink_that_keeps_up() -> None:
    failing = {"like": "http", "latency_ms": 5, "errors": {"record": 0.005}}
    fitted, figures, rate = refitted(job(300, "calls", failing, service_rate=2000))
    assert figures["stages.calls.requests.errors.record"].value == pytest.approx(0.005, rel=0.15)
    assert figures["stages.calls.requests.like"].is_assumed
    assert "no metric names" in figures["stages.calls.requests.like"].origin
    assert again(fitted) == pytest.approx(rate, rel=0.03)


def test_a_producer_that_fails_has_errors_for_it_has_no_limit() -> None:
    failing = {"like": "kafka", "latency_ms": 20, "errors": {"record": 0.2}}
    fitted, figures, _ = refitted(job(2000, "kafka", failing, service_rate=500))
    assert figures["stages.kafka.requests.errors.record"].value > 0
    assert fitted.stages[1].requests is not None and fitted.stages[1].requests.limit is None


@pytest.mark.parametrize("errors", ["records_sent", "bytes_sent"])
def test_a_sink_that_stores_nothing(errors: str) -> None:
    """All that it sends fails, or more than that: no limit of the destination says so."""
    sends = {"like": "sqs", "latency_ms": 400}
    _, figures, _ = refitted(job(2000, "sqs", sends), errors=errors)
    assert figures["stages.sqs.requests.errors.record"].value == 1


def test_a_latency_is_in_whole_microseconds() -> None:
    sends = {"like": "sqs", "latency_ms": 400}
    fitted, _, _ = refitted(job(200, "sqs", sends), currentSendTime=0.04567)
    assert fitted.stages[1].requests is not None
    assert float(fitted.stages[1].requests.latency_ms[0].ms) == 0.046


def test_a_gauge_of_kafka_that_stays_0_says_nothing() -> None:
    sends = {"like": "kafka", "latency_ms": 20}
    _, figures, _ = refitted(job(500, "kafka", sends), **{"request-latency-avg": 0})
    found = figures["stages.kafka.requests.latency_ms"]
    assert found.value == pytest.approx(20, rel=0.01) and "currentSendTime" in found.origin
