"""Single jobs in which the kernel and stages apart once went apart, or might."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.shares import weights_of
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.queues import BACKLOG_ANNOUNCEMENT
from modules import load

clocks = load("tests/virtual/clocks.py")

NETMEM = "taskmanager.network.memory."


def job(
    stages: list[dict[str, Any]], edges: list[tuple[Any, ...]], *, round_us: int, **keys: Any
) -> Job:
    """Lay out a job of some rounds; an edge is (from, to, partitioner) and its other keys."""
    rounds = keys.pop("rounds", 60)
    mapping = {
        "schema": 1,
        "name": "by-hand",
        "duration_s": rounds * round_us / 1e6,
        "round_ms": round_us / 1000,
        "stages": stages,
        "edges": [
            {"from": edge[0], "to": edge[1], "partitioner": edge[2], **dict(*edge[3:])}
            for edge in edges
        ],
        **keys,
        "options": {"taskmanager.memory.segment-size": "4kb", **keys.get("options", {})},
    }
    return build_physical_graph(parse_scenario(mapping))


def chain(between: dict[str, Any], sink: dict[str, Any], rate: Any = 1000) -> list[dict[str, Any]]:
    return [
        {"name": "source", "emit_rate": rate, "record_bytes": 1000},
        {"name": "map", **between},
        {"name": "sink", **sink},
    ]


EDGES = [("source", "map", "forward"), ("map", "sink", "forward")]


def every_other(*values: Sequence[Any]) -> list[Any]:
    """Return all values of some parameters with each other; the quick form has half of them.

    Any two values of two parameters still stand together in one of these.
    """
    places = itertools.product(*(range(len(own)) for own in values))
    return [
        pytest.param(
            *(own[place] for own, place in zip(values, at, strict=True)),
            marks=[pytest.mark.long] * (sum(at) % 2),
        )
        for at in places
    ]


def test_a_variation_has_six_decimals() -> None:
    stages = chain(
        {"service_rate": 700, "service_time": "lognormal", "service_time_cv": 0.1234567}, {}
    )
    clocks.compare(job(stages, EDGES, round_us=7000))


@pytest.mark.parametrize(
    ("at_us", "for_us", "sink"),
    every_other(
        [24_001, 24_590, 24_999, 25_000, 25_001], [400, 1000, 3500], [{}, {"service_rate": 20}]
    ),
)
def test_a_stage_without_a_rate_stands_still_from_the_next_round_on(
    at_us: int, for_us: int, sink: dict[str, Any]
) -> None:
    """Also one that sleeps, because it waits for its outputs or for something to do."""
    stages = chain({"stalls": [{"at_s": at_us / 1e6, "for_s": for_us / 1e6}]}, sink)
    clocks.compare(job(stages, EDGES, round_us=1000), every=(1, 3, 60))


@pytest.mark.parametrize("rate", [10, 5, 20, 2.5, 33.3])
@pytest.mark.parametrize("emits", [4, 10, 1000])
def test_services_that_end_with_a_round(rate: float, emits: float) -> None:
    """What is done by the last microsecond of a round is written in it."""
    stages = chain({"service_rate": rate}, {"service_rate": 1000}, emits)
    clocks.compare(job(stages, EDGES, round_us=100_000), every=(1, 7, 60))


def wide() -> list[Any]:
    """Return each partitioner with each kind of channel; the quick form crosses them once."""
    kinds = [("50ms", 1), (0, 1), ("50ms", 0), (-1, 0)]
    names = ["rebalance", "shuffle", "hash", "broadcast"]
    return [
        pytest.param(name, *kind, marks=[pytest.mark.long] * (0 not in (row, column)))
        for row, name in enumerate(names)
        for column, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(("partitioner", "flush", "exclusive"), wide())
def test_more_channels_than_a_word_has_bits(partitioner: str, flush: Any, exclusive: int) -> None:
    """Which channels have news is a set of bits, 32 in each integer."""
    shares = {"channel_weights": [i % 5 for i in range(70)]} if partitioner == "hash" else {}
    stages = [
        {"name": "source", "parallelism": 2, "emit_rate": 4000, "record_bytes": 1500,
         "placement": [0, 1]},
        {"name": "sink", "parallelism": 70, "service_rate": 60,
         "placement": [i % 3 for i in range(70)]},
    ]  # fmt: skip
    options = {
        NETMEM + "buffers-per-channel": exclusive,
        NETMEM + "floating-buffers-per-gate": 2,
        "execution.buffer-timeout.interval": flush,
    }
    cluster = {"task_managers": 3}
    edges = [("source", "sink", partitioner, shares)]
    made = job(stages, edges, round_us=50_000, rounds=12, options=options, cluster=cluster)
    clocks.compare(made, every=(1, 5))


@pytest.mark.parametrize(
    ("flush", "floating", "rates"),
    every_other(["30ms", 0, -1], [1, 3], [(40, 20), (40, 200), (400, 90)]),
)
def test_channels_without_exclusive_buffers(
    flush: Any, floating: int, rates: tuple[int, int]
) -> None:
    """Each sender announces its backlog, three compete, and the first one's channel is local."""
    stages = [
        {"name": "source", "parallelism": 3, "emit_rate": rates[0], "record_bytes": 1500},
        {"name": "sink", "service_rate": rates[1], "placement": [0]},
    ]
    options = {
        NETMEM + "buffers-per-channel": 0,
        NETMEM + "floating-buffers-per-gate": floating,
        "execution.buffer-timeout.interval": flush,
    }
    edges, cluster = [("source", "sink", "rebalance")], {"task_managers": 3}
    made = job(stages, edges, round_us=10_000, rounds=150, options=options, cluster=cluster)
    announced: list[int] = []

    def count(state: Any) -> None:
        for row in state["source->sink"]["sender"]:
            kinds = [message["kind"] for message in row["channel_state"]["messages"]]
            announced.extend([row["sender"]] * kinds.count(BACKLOG_ANNOUNCEMENT))

    clocks.compare(made, every=(1, 4), watch=count)
    assert set(announced) == {1, 2}


def test_fan_in_of_more_channels_than_a_word_has_bits() -> None:
    stages = [
        {"name": "source", "parallelism": 70, "emit_rate": 30, "record_bytes": 1500,
         "placement": [i % 3 for i in range(70)]},
        {"name": "sink", "parallelism": 2, "service_rate": 700, "placement": [0, 1]},
    ]  # fmt: skip
    options = {NETMEM + "buffers-per-channel": 1, NETMEM + "floating-buffers-per-gate": 20}
    edges = [("source", "sink", "rebalance")]
    cluster = {"task_managers": 3}
    made = job(stages, edges, round_us=50_000, rounds=15, options=options, cluster=cluster)
    clocks.compare(made)


@pytest.mark.parametrize("flush", ["100ms", pytest.param(-1, marks=pytest.mark.long)])
def test_a_sleep_longer_than_the_wheel(flush: Any) -> None:
    """The wheel of wake-ups has 4096 rounds; here a record falls due every 5,128."""
    stages = chain({"service_rate": 17}, {}, rate=15)
    options = {"execution.buffer-timeout.interval": flush}
    made = job(stages, EDGES, round_us=13, rounds=12_000, options=options)
    clocks.compare(made, every=(12_000, 3_501))


CHAINED = [
    ("source", "parse", "forward", {"chain": True}),
    ("parse", "count", "rebalance"),
    ("count", "check", "forward", {"chain": True}),
    ("count", "log", "rebalance"),
    ("check", "store", "forward", {"chain": True}),
    ("check", "sink", "hash", {"channel_weights": [3, 1]}),
]
"""Two chains; the second one's head and its next stage both have an output, its tail has none."""


@pytest.mark.parametrize(
    ("rate", "stalls", "selectivity"),
    every_other(
        [{}, {"service_rate": 300}],
        [[], [{"at_s": 0.1, "for_s": 0.05}]],
        [(1, 1), (0.5, 1.5), (2, 0.3), (1, 0)],
    ),
)
def test_chains(selectivity: tuple[float, float], stalls: list[Any], rate: dict[str, Any]) -> None:
    stages = [
        {"name": "source", "parallelism": 2, "emit_rate": 500, "record_bytes": 700},
        {"name": "parse", "parallelism": 2, "service_rate": 450, "selectivity": selectivity[0]},
        {"name": "count", "parallelism": 2, "selectivity": selectivity[1], **rate},
        {"name": "check", "parallelism": 2, "selectivity": 0.5, "stalls": stalls},
        {"name": "store", "parallelism": 2},
        {"name": "log", "service_rate": 2000},
        {"name": "sink", "parallelism": 2, "service_rate": 40},
    ]
    made = job(stages, CHAINED, round_us=5_000, rounds=100, cluster={"task_managers": 4})
    assert [plan.name for plan in made.stages] == ["source", "count", "log", "sink"]
    clocks.compare(made, every=(1, 9))


def test_a_chain_of_rates_with_many_digits() -> None:
    """Its own rate, 1 / (1/2857.143 + 1.5/114.286 + 0.45/38.7), takes 17 digits or so."""
    stages = [
        {"name": "source", "emit_rate": 1000, "record_bytes": 100},
        {"name": "parse", "service_rate": 2857.143, "selectivity": 1.5},
        {"name": "check", "service_rate": 114.286, "selectivity": 0.3},
        {"name": "store", "service_rate": 38.7},
    ]
    edges = [
        ("source", "parse", "rebalance"),
        ("parse", "check", "forward", {"chain": True}),
        ("check", "store", "forward", {"chain": True}),
    ]
    made = job(stages, edges, round_us=100_000, rounds=1000)
    rate = made.stage("store").rates(0)
    assert rate is not None
    seconds = 1 / Fraction("2857.143") + Fraction("1.5") / Fraction("114.286")
    assert rate.rate_at(0) == 1 / (seconds + Fraction("0.45") / Fraction("38.7"))
    clocks.compare(made, rounds=100, every=100)


@pytest.mark.parametrize("selectivity", [1 / 3, 0.7071067811865476, 3.3333333333333335])
def test_a_selectivity_of_many_digits(selectivity: float) -> None:
    """Its 16 digits times some thousand records are more than 64 bits hold."""
    stages = chain({"selectivity": selectivity}, {}, rate=3000)
    stages[0]["record_bytes"] = 100
    seen: list[Any] = []
    clocks.compare(job(stages, EDGES, round_us=10_000, rounds=400), every=50, watch=seen.append)
    taken = seen[-1]["source->map"]["receiver"][0]["task_state"]["task"]["taken"]
    routed = seen[-1]["map->sink"]["sender"][0]["channel_state"]["routed"]
    assert taken > 10_000
    assert routed == int(taken * Fraction(repr(selectivity)) + Fraction(1, 10**6))


@pytest.mark.parametrize("rate", [1183.673469, 1183.67])
def test_a_service_rate_of_many_digits_in_long_rounds(rate: float) -> None:
    """A server that is busy for most of a round: a round's time times its work wraps in 64 bits."""
    stages = chain({"service_rate": rate}, {}, rate=800)
    stages[0]["record_bytes"] = 100
    seen: list[Any] = []
    clocks.compare(job(stages, EDGES, round_us=200_000, rounds=30), watch=seen.append)
    states = [state["map->sink"]["sender"][0]["task_state"] for state in seen]
    times = [state["times_us"] for state in states]
    worked_us = states[-1]["task"]["taken"] * 1e6 / rate
    assert worked_us > 2e6
    assert sum(busy for busy, _, _ in times) == pytest.approx(worked_us, abs=1000)
    assert all(sum(each) == 200_000 for each in times)


def shares(*weights: float) -> Job:
    stages = [
        {"name": "source", "emit_rate": 1000, "record_bytes": 100},
        {"name": "sink", "parallelism": len(weights), "service_rate": 1000},
    ]
    edges = [("source", "sink", "custom", {"channel_weights": weights})]
    return job(stages, edges, round_us=100_000, rounds=10)


@pytest.mark.parametrize("weights", [(1e12, 0.000001), (123456789012.25, 1), (0.1234567890123, 1)])
def test_shares_of_many_digits(weights: tuple[float, ...]) -> None:
    """Their whole numbers times the records are more than 64 bits hold."""
    clocks.compare(shares(*weights))


def test_shares_of_too_many_digits_are_rounded() -> None:
    """The shares of Zipf's law: in whole numbers their sum is 10 to the power of 27 or so."""
    clocks.compare(shares(*(1 / (rank + 1) for rank in range(16))))
    clocks.compare(shares(1e12, 7e11, 0.0000001))


def test_a_rounded_share_stays_in_proportion() -> None:
    [link] = shares(1e12, 25e10, 0.0000001).links
    weights = weights_of(link.edge, 3)
    assert sum(weights) == pytest.approx(2**56, abs=3)
    assert weights == pytest.approx([0.8 * 2**56, 0.2 * 2**56, 1], rel=1e-15)
    assert weights[2] == 1
