"""Keys of requests: defaults of connectors, and what is refused as the connectors refuse it."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.connectors import CONNECTORS, Connector, RetryDefaults
from flowcontrol.scenario.requests import Requests


def read(guarantee: str = "at-least-once", **keys: Any) -> Requests:
    """Return the requests of a sink as they are read."""
    scenario = {
        "schema": 1, "name": "requests", "duration_s": 1,
        "stages": [
            {"name": "src", "emit_rate": 1},
            {"name": "sink", "guarantee": guarantee, "requests": {"latency_ms": 5, **keys}},
        ],
        "edges": [{"from": "src", "to": "sink"}],
    }  # fmt: skip
    found = parse_scenario(scenario).stage("sink").requests
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("keys", "place", "text"),
    [
        ({"style": "blocking", "like": "kinesis"}, "style", "kinesis has another style"),
        ({"style": "async", "like": "jdbc"}, "style", "jdbc has another style"),
        ({"style": "blocking"}, "like", "batch_records"),
        ({"like": "jdbc", "in_flight": 2}, "in_flight", "style blocking have no in_flight"),
        ({"like": "jdbc", "timeout_s": 2}, "timeout_s", "have no timeout_s"),
        ({"like": "dynamodb", "retry": {}}, "retry", "style async have no retry"),
        ({"like": "dynamodb", "batch_records": 0}, "batch_records", "blocking style"),
        ({"like": "dynamodb", "batch_bytes": 0}, "batch_bytes", "blocking style"),
        ({"like": "dynamodb", "buffer_s": 0}, "buffer_s", "blocking style"),
        ({"like": "jdbc", "batch_records": -1}, "batch_records", "at least 0"),
        ({"like": "jdbc", "retry": {"attempts": -1}}, "retry.attempts", "at least 0"),
        ({"like": "jdbc", "retry": {"multiplier": 0.5}}, "retry.multiplier", "at least 1"),
        ({"like": "jdbc", "limit": {"records_per_s": 4999}}, "limit", "raise burst_s"),
        ({"like": "kafka", "limit": {"records_per_s": 9}}, "limit", "producer have no limit"),
        ({"like": "kafka", "batch_records": 5}, "batch_records", "have no batch_records"),
        ({"like": "kafka", "batch_bytes": 0}, "batch_bytes", "blocking style"),
        ({"like": "kafka", "buffered_bytes": 16_383}, "buffered_bytes", "below batch_bytes"),
        ({"like": "kafka", "timeout_s": 30}, "timeout_s", "30 s after which"),
        ({"like": "kafka", "partitions": 0}, "partitions", "at least 1"),
        ({"style": "producer"}, "like", "in_flight, batch_bytes, buffered_bytes"),
        ({"like": "jdbc", "partitions": 2}, "partitions", "have no partitions"),
        (
            {"like": "dynamodb", "rate_limiting": {"records_per_s": 99, "increase": 2}},
            "rate_limiting.records_per_s",
            "has no window",
        ),
        (
            {"like": "dynamodb", "rate_limiting": {"records_per_s": 24}},
            "rate_limiting.burst_s",
            "fewer than a request of 25 records",
        ),
        (
            {"like": "dynamodb", "rate_limiting": {"burst_s": 2}},
            "rate_limiting.burst_s",
            "2 s are of a token bucket: state records_per_s",
        ),
        ({"like": "dynamodb", "rate_limiting": {"x": 1}}, "rate_limiting.x", "unknown key"),
        ({"like": "dynamodb", "rate_limiting": "None"}, "rate_limiting", "did you mean 'none'?"),
        ({"like": "dynamodb", "rate_limiting": 3}, "rate_limiting", "not a mapping"),
        ({"like": "dynamodb", "buffered": 25}, "buffered", "not above batch_records"),
        ({"like": "dynamodb", "record_bytes_max": 16_000_001}, "record_bytes_max", "batch_bytes"),
    ],
)  # fmt: skip
def test_refusals(keys: dict[str, Any], place: str, text: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(**keys)
    [problem] = refused.value.problems
    assert problem.place == f"stages[1].requests.{place}"
    assert text in problem.message


@pytest.mark.parametrize(
    ("requests", "place", "text"),
    [
        ({"like": "dynamodb"}, "guarantee", "without transactions"),
        ({"like": "opensearch"}, "guarantee", "opensearch has no transactions"),
        ({"like": "jdbc"}, "requests.retry", "3: the transactions of JDBC (XA) allow no retry"),
        (
            {"like": "kafka", "flush_on_checkpoint": False},
            "requests.flush_on_checkpoint",
            "ends with a flush",
        ),
    ],
)
def test_who_has_no_transactions(requests: dict[str, Any], place: str, text: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(guarantee="exactly-once", **requests)
    [problem] = refused.value.problems
    assert problem.place == f"stages[1].{place}"
    assert text in problem.message


def test_defaults_of_jdbc() -> None:
    plain, sql = read(like="jdbc"), read(like="jdbc-sql")
    assert (plain.own_style, plain.batch_most, plain.buffer_us) == ("blocking", 5000, 0)
    assert (sql.batch_most, sql.buffer_us) == (100, 1_000_000)
    assert sql.retrying == RetryDefaults(3, 1000, "linear", 1, None, True)
    assert read(like="jdbc", retry={"attempts": 5}).retrying.delay_ms == 1000


def test_defaults_of_bulk_indexers() -> None:
    for like in ("elasticsearch-7", "opensearch"):
        own = read(like=like)
        assert (own.batch_most, own.bytes_most, own.buffer_us) == (1000, 5 << 20, 0)
        assert own.retrying.attempts == 0
    sql = read(like="elasticsearch-7-sql")
    assert (sql.bytes_most, sql.buffer_us) == (2 << 20, 1_000_000)


def test_defaults_of_kafka() -> None:
    own = read(like="kafka", buffered_bytes="64mb")
    assert (own.own_style, own.in_flight_most, own.bytes_most) == ("producer", 5, 16_384)
    assert (own.buffer_us, own.timeout_us, own.max_block_us) == (5000, 120 * 10**6, 60 * 10**6)
    assert (own.record_most, own.pool_bytes) == (1 << 20, 64 << 20)
    assert own.retrying[:2] == (2**31 - 1, 100)


def test_zero_sends_nothing_by_size() -> None:
    own = read(like="elasticsearch-7-sql", batch_records=0, batch_bytes=0)
    assert (own.batch_most, own.bytes_most > 1 << 50) == (1_000_000, True)


def test_every_connector_is_named() -> None:
    assert set(CONNECTORS) == set(Connector.__args__)  # type: ignore[attr-defined]
    for like, own in CONNECTORS.items():
        if own.style in {"async", "blocking", "producer"}:
            assert read(like=like).missing == ""
