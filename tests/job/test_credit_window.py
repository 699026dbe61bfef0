"""Scenarios beyond their channels' windows are told so, with the figures."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.plan import window_warnings
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.models import SystemSpec
from flowcontrol.scenario.system import TRANSPORT_PARTS
from modules import load
from staged_runs import run_staged

jobs = load("tests/job/small_jobs.py")

FORWARD = ("source", "sink", "forward")


def warnings(jobs: ModuleType, rate: Any, stages: Any = None, edges: Any = None, **options: Any):
    """Records of 4,096 bytes are one buffer; a round is 100 ms."""
    stages = stages or [jobs.source(rate, record_bytes=4096), jobs.sink(None)]
    chosen = {getattr(jobs, key): value for key, value in options.items()}
    return window_warnings(jobs.job(stages, edges or [("source", "sink", "forward")], chosen))


# 2 exclusive and 8 floating buffers in 2 rounds of 100 ms: 50 records of one buffer a second.
@pytest.mark.parametrize(("rate", "count"), [(1, 0), (50, 0), (50.5, 1), (500, 1)])
def test_the_limit_is_the_window_in_two_rounds(rate: float, count: int) -> None:
    assert len(warnings(jobs, rate)) == count


def test_the_warning_has_the_figures() -> None:
    [text] = warnings(jobs, 1200)
    assert text == (
        "source->sink, receiver 0: 1,200 records/s need 240.0 buffers in flight per round trip of "
        "2 rounds, its channels have 10 (exclusive and floating): at most 50 records/s. Shorten "
        "round_ms or raise the buffers."
    )


@pytest.mark.parametrize(
    ("latency_ms", "rate", "count"), [(100, 50, 0), (300, 16.6, 0), (300, 17, 1)]
)
def test_a_round_trip_is_two_latencies(latency_ms: float, rate: float, count: int) -> None:
    job = jobs.job([jobs.source(rate, record_bytes=4096), jobs.sink(None)], [FORWARD], {})
    cluster = job.scenario.cluster.model_copy(update={"network_latency_ms": latency_ms})
    late = job.scenario.model_copy(update={"cluster": cluster})
    found = window_warnings(build_physical_graph(late))
    assert len(found) == count
    for text in found:
        assert "round trip of 6 rounds" in text
        assert "Shorten cluster.network_latency_ms or raise" in text


@pytest.mark.parametrize(
    ("options", "count"),
    [({"EXCLUSIVE": 12}, 0), ({"EXCLUSIVE": 11}, 1), ({"FLOATING": 18}, 0), ({"FLOATING": 17}, 1)],
)
def test_more_buffers_are_a_larger_window(options: dict[str, int], count: int) -> None:
    assert len(warnings(jobs, 100, **options)) == count


def test_the_highest_rate_of_a_schedule_counts() -> None:
    phases = [{"at_s": 0, "rate": 1}, {"at_s": 1, "rate": 51}, {"at_s": 2, "rate": 1}]
    assert len(warnings(jobs, phases)) == 1


@pytest.mark.parametrize(("quota", "nbytes", "waits"), [(1, 100, 1), (2, 100, 0), (1, 4096, 0)])
def test_a_quota_of_the_open_buffer_is_warned_of(quota: int, nbytes: int, waits: int) -> None:
    """A record that leaves its buffer open is the last one of its task: the warning is right."""
    stages = [jobs.source(10, record_bytes=nbytes), jobs.sink(None)]
    found = warnings(jobs, 10, stages, QUOTA=quota)
    assert ["max-buffers-per-channel: 1 counts" in text for text in found] == [True] * waits
    job = jobs.job(stages, [("source", "sink", "forward")], {jobs.QUOTA: quota})
    *_, last = run_staged(job)
    assert (last.state.task("source").state.taken == 1) == bool(waits)


# Source, map with a rate and a selectivity, sink; every edge carries at most 50 records/s.
MAPS = [
    (50, None, 1, []),
    (51, None, 1, ["source->map", "map->sink"]),
    (51, 50, 1, ["source->map"]),
    (51, 51, 1, ["source->map", "map->sink"]),
    (120, 60, 0.5, ["source->map"]),
    (120, 102, 0.5, ["source->map", "map->sink"]),
    (25, 30, 2, []),
    (26, 30, 2, ["map->sink"]),
]


@pytest.mark.parametrize(("emit", "serve", "selectivity", "warned"), MAPS)
def test_a_warning_an_edge_and_none_where_the_rate_has_fallen(
    emit: int, serve: int | None, selectivity: float, warned: list[str]
) -> None:
    stages = [
        jobs.source(emit, record_bytes=4096),
        {"name": "map", "selectivity": selectivity, "record_bytes": 4096, "service_rate": serve},
        jobs.sink(None),
    ]
    edges = [("source", "map", "forward"), ("map", "sink", "forward")]
    found = warnings(jobs, None, stages, edges)
    assert [text.split(",")[0] for text in found] == warned


def test_receivers_share_the_rate_and_senders_the_floating_buffers() -> None:
    """Two senders of 60 to two receivers: 60 each, through 2 x 2 + 8 buffers: at most 60."""

    def found(rate: float) -> list[str]:
        stages = [
            jobs.source(rate, parallelism=2, placement=[0, 0], record_bytes=4096),
            jobs.sink(None, parallelism=2, placement=[1, 1]),
        ]
        return warnings(jobs, None, stages, [("source", "sink", "rebalance")])

    assert found(60) == []
    assert len(found(61)) == 1


def test_local_channels_have_no_window() -> None:
    stages = [jobs.source(1000, record_bytes=4096, placement=[0]), jobs.sink(None, placement=[0])]
    assert warnings(jobs, None, stages) == []


def test_the_local_part_is_left_out() -> None:
    """Of two senders to one receiver one is local: half of the rate needs the window."""

    def found(rate: float) -> list[str]:
        stages = [
            jobs.source(rate, parallelism=2, placement=[0, 1], record_bytes=4096),
            jobs.sink(None, placement=[1]),
        ]
        return warnings(jobs, None, stages, [("source", "sink", "rebalance")])

    assert found(50) == []
    [text] = found(51)
    assert "receiver 0: 51 records/s need 10.2 buffers" in text


def taken_a_second(jobs: ModuleType, rate: int, exclusive: int, floating: int) -> float:
    """Records (of one buffer) a second over the last two of four seconds, to an unlimited sink."""
    options = {jobs.EXCLUSIVE: exclusive, jobs.FLOATING: floating}
    stages = [jobs.source(rate, record_bytes=4096), jobs.sink(None)]
    made = jobs.job(stages, [("source", "sink", "forward")], options)
    assert bool(window_warnings(made)) == (rate > 5 * (exclusive + floating))
    rounds = jobs.run(made)[20:]
    return sum(batch.rows["source->sink"]["receiver"][0]["rows"] for batch in rounds) / 2


@pytest.mark.parametrize("rate", [10, 45, 50])
def test_a_rate_within_the_exclusive_buffers_arrives(rate: int) -> None:
    assert taken_a_second(jobs, rate, 10, 1) == rate


@pytest.mark.parametrize(("exclusive", "floating"), [(10, 1), (2, 8), (5, 5), (1, 1)])
def test_a_rate_beyond_the_window_is_honestly_slow(exclusive: int, floating: int) -> None:
    """At most the window in two rounds; at least what the exclusive buffers carry."""
    found = taken_a_second(jobs, 500, exclusive, floating)
    assert 5 * exclusive <= found <= 5 * (exclusive + floating)


def test_floating_buffers_carry_less_than_the_warning_allows() -> None:
    """They are lent for a backlog and returned without one: bursts of a round cost some of them.

    A warning is sure, the lack of one is not: 2 exclusive and 8 floating buffers could carry 50
    records/s, and do carry 30.
    """
    assert taken_a_second(jobs, 30, 2, 8) == 30
    assert taken_a_second(jobs, 50, 2, 8) == 30


# 10 records granted at first, in 2 rounds of 100 ms: 50 records/s.
@pytest.mark.parametrize(("rate", "count"), [(1, 0), (50, 0), (50.5, 1), (500, 1)])
@pytest.mark.parametrize(
    ("transport", "values"),
    [
        ("blocking_queue", {"slots": 10}),
        ("half_return_credit", {"slots": 10, "share": 0.5}),
        ("cumulative_credit", {"credit": 10, "mark": 5}),
    ],
)
def test_a_grant_of_records_is_a_window_too(
    transport: str, values: dict[str, float], rate: float, count: int
) -> None:
    system = SystemSpec(transport=transport, transport_values=values)
    job = jobs.job([jobs.source(rate), jobs.sink(None)], [("source", "sink", "forward")], {})
    job = build_physical_graph(job.scenario.model_copy(update={"system": system}))
    found = window_warnings(job)
    assert len(found) == count
    if rate == 500:
        assert "need 100 records in flight per round trip of 2 rounds" in found[0]
        assert "its receiver grants 10: at most 50 records/s" in found[0]


@pytest.mark.parametrize("transport", ["unbounded", "rate_window", "tcp"])
def test_a_window_that_grows_or_is_none_is_no_limit(transport: str) -> None:
    parameters = TRANSPORT_PARTS[transport].parameters
    values = {name: float(p.default) for name, p in parameters.items()}
    system = SystemSpec(transport=transport, transport_values=values)
    job = jobs.job([jobs.source(1e6), jobs.sink(None)], [("source", "sink", "forward")], {})
    assert (
        window_warnings(build_physical_graph(job.scenario.model_copy(update={"system": system})))
        == []
    )


def test_what_leaves_a_chain_is_known_by_its_last_stage() -> None:
    """100 records/s come, 40 get through the head, and the stage behind it makes two of each."""
    stages = [
        jobs.source(100, record_bytes=40),
        {"name": "head", "service_rate": 40, "placement": [1]},
        {"name": "tail", "selectivity": 2, "record_bytes": 4096, "placement": [1]},
        jobs.sink(None, placement=[0]),
    ]
    edges = [("source", "head"), ("head", "tail"), ("tail", "sink")]
    mapping = {
        "schema": 1,
        "name": "chained",
        "duration_s": 10,
        "round_ms": 100,
        "cluster": {"task_managers": 2},
        "options": {jobs.SEGMENT: "4kb"},
        "stages": stages,
        "edges": [{"from": a, "to": b, "chain": b == "tail"} for a, b in edges],
    }
    [text] = window_warnings(build_physical_graph(parse_scenario(mapping)))
    assert text.startswith("tail->sink, receiver 0: 80 records/s need 16.0 buffers in flight")
