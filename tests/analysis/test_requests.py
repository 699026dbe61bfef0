"""What limits a stage with requests: its figures, causes, and the words for them."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis.causes.find import find_causes
from flowcontrol.analysis.requests import request_summary
from flowcontrol.scenario import load_scenario, parse_scenario
from flowcontrol.virtual import simulate
from modules import ROOT

OWN: dict[str, Any] = {"batch_records": 20, "in_flight": 2, "buffered": 200, "buffer_s": 1}


def found(rate: float, **requests: Any) -> tuple[dict[str, Any], list[str], list[str]]:
    """Run a source and a sink; return its figures, the sentences, and advice of causes.

    Calls are those of an operator, before another sink.
    """
    calls = [{"name": "end"}] if requests.get("style") in {"await", "lookup"} else []
    content = {
        "schema": 1, "name": "requests", "duration_s": 30, "round_ms": 1,
        "stages": [
            {"name": "src", "emit_rate": rate}, {"name": "sink", "requests": requests}, *calls,
        ],
        "edges": [{"from": "src", "to": "sink"}, *({"from": "sink", "to": "end"} for _ in calls)],
    }  # fmt: skip
    scenario = parse_scenario(content)
    tables = simulate(scenario).tables
    summary = request_summary(tables, scenario)
    causes = [one for one in find_causes(tables, scenario) if one.cause == "external"]
    advice = [one.advice or "" for one in causes]
    return summary["stages"]["sink"], summary["sentences"], advice


@pytest.mark.parametrize(
    ("requests", "limit", "advice"),
    [
        ({"like": "jdbc-sql", "latency_ms": 50, "per_record_ms": 0.1}, "blocking", "batch_records"),
        ({"like": "jdbc", "latency_ms": 5, "per_record_ms": 1}, "records", "less on a record"),
        ({"like": "kafka", "latency_ms": 100, "buffered_bytes": "1mb"}, "producer", "partitions"),
        (
            {"like": "kafka", "latency_ms": 2, "per_kb_ms": 8, "buffered_bytes": "1mb"},
            "records", "less on a record",
        ),
        (
            {"like": "elasticsearch-7", "latency_ms": 5, "limit": {"records_per_s": 1000}},
            "destination", "send it less",
        ),
        ({**OWN, "latency_ms": 100, "rate_limiting": "none"}, "in_flight", "more requests"),
        ({"style": "await", "latency_ms": 50, "in_flight": 9}, "calls", "more calls in flight"),
        (
            {"style": "await", "latency_ms": 50, "latency_distribution": "exponential"},
            "order", "ordered: false",
        ),
        ({"style": "lookup", "latency_ms": 5}, "lookup", "style: await"),
    ],
)  # fmt: skip
def test_what_limits_a_sink_that_waits(requests: dict[str, Any], limit: str, advice: str) -> None:
    figures, sentences, advised = found(5000, **requests)
    assert figures["limit"] == limit
    assert figures["waited_share"] > 0.5
    assert any("sink waited for its requests" in one and advice in one for one in sentences)
    assert len(advised) == 1 and advice in advised[0]


def test_a_sink_that_keeps_up_has_no_limit() -> None:
    figures, sentences, advised = found(100, like="jdbc", batch_records=100, latency_ms=20)
    assert (figures["limit"], figures["requests"], advised) == (None, 29, [])
    assert sentences == [
        "sink: the destination acknowledged 97 records/s, in requests of 100.0 records, 20 ms each."
    ]


def test_an_operator_that_keeps_up_has_no_limit() -> None:
    figures, sentences, advised = found(
        100, style="await", latency_ms=20, errors={"request": 0.1}
    )  # fmt: skip
    assert (figures["limit"], advised) == (None, [])
    assert sentences == [
        "sink: its service answered 90 calls/s, 20 ms each.",
        "10 % of the calls of sink had no result, failed or timed out.",
    ]


def test_attempts_that_are_used_up_are_named() -> None:
    _, sentences, _ = found(
        100, like="elasticsearch-7-sql", latency_ms=20, errors={"request": 0.5},
    )  # fmt: skip
    [sentence] = [one for one in sentences if "for the last time" in one]
    assert "retry.attempts" in sentence and "Flink fails the job" in sentence


def test_bursts_of_a_throttled_sink_are_no_fault_of_its_channel() -> None:
    """Between two of them its pools are empty while it waits, which is not a want of buffers."""
    scenario = load_scenario(ROOT / "conf" / "dynamodb-throttled.yaml")
    tables = simulate(scenario).tables
    assert [one.cause for one in find_causes(tables, scenario)] == ["external"]
