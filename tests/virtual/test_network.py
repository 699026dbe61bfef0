"""What only the virtual clock does with a network: delays of several rounds, and bandwidth."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from flowcontrol.results.run import Run
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

NETMEM = "taskmanager.network.memory."
ROUND_MS = 1
SEGMENT = 4096
HEADER = 43
"""Bytes of a message besides its data (reference section 13)."""


def run(
    stages: list[dict[str, Any]], edges: list[tuple[str, str]], *, rounds: int, **keys: Any
) -> Run:
    """Run stages whose records are a buffer each, with a sample after every round."""
    scenario = {
        "schema": 1,
        "name": "network",
        "duration_s": rounds * ROUND_MS / 1000,
        "round_ms": ROUND_MS,
        "sample_interval_s": ROUND_MS / 1000,
        "cluster": keys["cluster"],
        "options": {
            "taskmanager.memory.segment-size": SEGMENT,
            "execution.buffer-timeout.interval": 0,
            NETMEM + "buffers-per-channel": 2,
            NETMEM + "floating-buffers-per-gate": 3,
            **keys.get("options", {}),
        },
        "stages": [{"record_bytes": SEGMENT, **stage} for stage in stages],
        "edges": [{"from": a, "to": b, "partitioner": "rebalance"} for a, b in edges],
    }
    return simulate(parse_scenario(scenario), round_us=1000 * ROUND_MS)


def channels(found: Run, **values: Any) -> pd.DataFrame:
    frame = found.tables["channels"].to_pandas()
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame.reset_index(drop=True)


PAIR = [{"name": "source", "emit_rate": 20}, {"name": "sink"}]
ONE_EDGE = [("source", "sink")]


def cluster(latency_ms: float = 0, bandwidth: float | None = None, managers: int = 2) -> Any:
    return {
        "task_managers": managers,
        "network_latency_ms": latency_ms,
        "bandwidth_bytes_per_s": bandwidth,
    }


@pytest.mark.parametrize(
    ("latency_ms", "rounds"), [(0, 1), (0.4, 1), (1, 1), (1.001, 2), (3, 3), (7.5, 8)]
)
def test_a_message_takes_whole_rounds(latency_ms: float, rounds: int) -> None:
    """A lone record is sent in the round of its emission, and taken up in that of its arrival."""
    found = run(PAIR, ONE_EDGE, rounds=300, cluster=cluster(latency_ms))
    ages = found.tables["latency"].to_pandas()
    assert ages["count"].sum() == 5  # the last of 6 falls due in the last round
    assert set(ages.max_ms) == {rounds * ROUND_MS}


@pytest.mark.parametrize("bandwidth", [None, 1e9])
@pytest.mark.parametrize(
    ("latency_ms", "rounds"), [(0, 1), (0.4, 1), (1, 1), (1.001, 2), (3, 3), (7.5, 8)]
)
def test_without_exclusive_buffers_a_message_waits_for_an_announcement_and_a_credit(
    latency_ms: float, rounds: int, bandwidth: float | None
) -> None:
    """A lone record's backlog goes there, a credit comes back, and then the record goes."""
    options = {NETMEM + "buffers-per-channel": 0}
    made = cluster(latency_ms, bandwidth)
    found = run(PAIR, ONE_EDGE, rounds=300, cluster=made, options=options)
    ages = found.tables["latency"].to_pandas()
    assert ages["count"].sum() == 5
    on_the_wire = latency_ms + 1e-6 if bandwidth else 0  # a moment more than the latency
    arrives = max(rounds, math.ceil(on_the_wire))
    assert set(ages.max_ms) == {(2 * rounds + arrives) * ROUND_MS}


@pytest.mark.parametrize("latency_ms", [1, 2, 5])
def test_what_is_under_way_does_not_hurry_what_follows(latency_ms: int) -> None:
    """A message is sent and one arrives in each round, so that both ends look every time."""
    stages = [{"name": "source", "emit_rate": 1000}, {"name": "sink"}]
    wide = {NETMEM + "buffers-per-channel": 20}
    found = run(stages, ONE_EDGE, rounds=300, cluster=cluster(latency_ms), options=wide)
    ages = found.tables["latency"].to_pandas()
    assert ages["count"].sum() == 300 - latency_ms
    assert set(ages.mean_ms) == {latency_ms * ROUND_MS}
    # The sender lacks the credit of what is under way to the receiver, and on its way back.
    assert set(channels(found).credit.iloc[50:]) == {20 - 2 * latency_ms}


@pytest.mark.parametrize("latency_ms", [1, 2, 5, 11])
def test_a_credit_takes_as_long(latency_ms: int) -> None:
    """Of what uses up its credit, the next comes after there and back; never more than 2 + 3."""
    stages = [{"name": "source", "emit_rate": 20_000}, {"name": "sink"}]
    found = run(stages, ONE_EDGE, rounds=400, cluster=cluster(latency_ms))
    bursts = channels(found).consumed.diff().iloc[100:]
    rounds = [int(number) for number in bursts[bursts > 0].index]
    assert {b - a for a, b in pairwise(rounds)} == {2 * latency_ms}
    assert set(bursts[bursts > 0]) <= {2, 3, 4, 5}
    assert (channels(found).sent <= channels(found).announced).all()


def rates_and_latencies() -> list[Any]:
    """Return each bandwidth with each latency; the quick form has each with one."""
    rates, latencies_ms = [90, 333.3, 999, 2500], [0, 4]
    return [
        pytest.param(rate, latency_ms, marks=[pytest.mark.long] * ((row + column) % 2))
        for row, rate in enumerate(rates)
        for column, latency_ms in enumerate(latencies_ms)
    ]


@pytest.mark.parametrize(("per_second", "latency_ms"), rates_and_latencies())
def test_a_connection_carries_its_bandwidth(per_second: float, latency_ms: float) -> None:
    bandwidth = round(per_second * (SEGMENT + HEADER), 3)
    stages = [{"name": "source", "emit_rate": 5_000}, {"name": "sink"}]
    wide = {NETMEM + "buffers-per-channel": 60, NETMEM + "max-buffers-per-channel": 90}
    made = cluster(latency_ms, bandwidth)
    found = run(stages, ONE_EDGE, rounds=2000, cluster=made, options=wide)
    taken = found.tables["stages"].to_pandas()
    last = taken[(taken.stage == "sink") & (taken.t_s == 2)].records_in.item()
    on_the_way = per_second * latency_ms / 1000 + 2 * per_second * ROUND_MS / 1000
    assert 2 * per_second - on_the_way - 2 <= last <= 2 * per_second


def test_a_message_that_is_long_on_the_wire(rounds: int = 40) -> None:
    """10 ms for each of two messages emitted together: they arrive after 10 and 20 rounds."""
    bandwidth = 100 * (SEGMENT + HEADER)
    stages = [
        {"name": "source", "emit_rate": [{"at_s": 0, "rate": 2000}, {"at_s": 0.001, "rate": 0}]},
        {"name": "sink"},
    ]
    found = run(stages, ONE_EDGE, rounds=rounds, cluster=cluster(0, bandwidth))
    ages = found.tables["latency"].to_pandas()
    assert ages.mean_ms.tolist() == [10, 20]
    assert ages["count"].tolist() == [1, 1]


def test_a_message_in_which_no_record_ends_is_as_long() -> None:
    """A record of ten segments is ten messages of 10 ms, of which nine count no record."""
    bandwidth = 100 * (SEGMENT + HEADER)
    stages = [{"name": "source", "record_bytes": 10 * SEGMENT, "emit_rate": 50}, {"name": "sink"}]
    found = run(stages, ONE_EDGE, rounds=1000, cluster=cluster(0, bandwidth))
    sent = channels(found).sent
    assert sent.iloc[-1] == pytest.approx(100, abs=1)
    assert max(sent[at + 49] - sent[at] for at in range(950)) <= 6


def test_channels_take_turns_on_a_connection() -> None:
    """Two senders on one task manager, one ten times as quick: a message each in turn."""
    stages = [
        {"name": "quick", "emit_rate": 5000, "placement": [0]},
        {"name": "slow", "emit_rate": 500, "placement": [0]},
        {"name": "sink", "placement": [1]},
    ]
    edges = [("quick", "sink"), ("slow", "sink")]
    made = cluster(0, 400 * (SEGMENT + HEADER))
    found = run(stages, edges, rounds=2000, cluster=made)
    sent = {name: channels(found, edge=f"{name}->sink").sent.iloc[-1] for name in ("quick", "slow")}
    assert sum(sent.values()) == pytest.approx(800, abs=2)
    assert abs(sent["quick"] - sent["slow"]) <= 5


def test_what_the_slower_leaves_goes_to_the_quicker() -> None:
    stages = [
        {"name": "quick", "emit_rate": 5000, "placement": [0]},
        {"name": "slow", "emit_rate": 100, "placement": [0]},
        {"name": "sink", "placement": [1]},
    ]
    edges = [("quick", "sink"), ("slow", "sink")]
    found = run(stages, edges, rounds=2000, cluster=cluster(0, 400 * (SEGMENT + HEADER)))
    sent = {name: channels(found, edge=f"{name}->sink").sent.iloc[-1] for name in ("quick", "slow")}
    assert sent["slow"] == pytest.approx(200, abs=2)
    assert sum(sent.values()) == pytest.approx(800, abs=2)


def test_connections_do_not_share() -> None:
    """One for each ordered pair of task managers; a local exchange uses none."""
    stages = [
        {"name": "source", "emit_rate": 1000, "placement": [0, 1, 2], "parallelism": 3},
        {"name": "sink", "placement": [0, 1, 2], "parallelism": 3},
    ]
    made = cluster(0, 100 * (SEGMENT + HEADER), managers=3)
    options = {NETMEM + "max-buffers-per-channel": 1000, NETMEM + "buffers-per-channel": 200}
    found = run(stages, ONE_EDGE, rounds=1000, cluster=made, options=options)
    last = channels(found).groupby(["sender", "receiver"]).consumed.last()
    for (sender, receiver), consumed in last.items():
        if sender == receiver:
            assert consumed > 300
        else:
            assert consumed == pytest.approx(100, abs=3)
