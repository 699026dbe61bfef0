"""Who starves, and why: the cause is the producer, the road, or too small a window."""

from __future__ import annotations

import pytest

from flowcontrol.experiments.compare.run import find_starved

SHARED = {
    "schema": 1, "name": "shared", "duration_s": 10, "round_ms": 100,
    "stages": [
        {"name": "a1", "emit_rate": 100, "record_bytes": 100, "placement": [0]},
        {"name": "a2", "emit_rate": 100, "record_bytes": 100, "placement": [0]},
        {"name": "b3", "service_rate": 200, "placement": [1]},
        {"name": "b4", "service_rate": 10, "placement": [1]},
    ],
    "edges": [{"from": "a1", "to": "b3"}, {"from": "a2", "to": "b4"}],
}  # fmt: skip

DEALT = {
    "schema": 1, "name": "dealt", "duration_s": 10, "round_ms": 100,
    "stages": [
        {"name": "a", "emit_rate": 200, "record_bytes": 100, "placement": [0]},
        {"name": "b", "parallelism": 2, "service_rate": [200, 10], "placement": [1, 1]},
    ],
    "edges": [{"from": "a", "to": "b", "partitioner": "rebalance"}],
}  # fmt: skip


@pytest.fixture
def starved(lay, tables_of):
    """A function that takes (records, idle, blocked) of each receiver at the end."""

    def find(mapping, **taken):
        job, limits = lay(mapping)
        rows = []
        for stage, subtasks in taken.items():
            for index, (records, idle, blocked) in enumerate(subtasks):
                rows.append(
                    {"t_s": 10.0, "stage": stage, "subtask": index, "records_in": records,
                     "idle_ms_per_s": idle, "backpressured_ms_per_s": blocked,
                     "busy_ms_per_s": 1000 - idle - blocked}
                )  # fmt: skip
        return find_starved(tables_of({"stages": rows}), job, limits)

    return find


def test_a_connection_that_is_not_read_starves_who_shares_it(starved):
    (found,) = starved(SHARED, b3=[(300, 900, 0)], b4=[(100, 0, 0)])
    assert (found.name, found.share, found.limit_share) == ("b3", 0.3, 1.0)
    assert found.cause == "road"
    assert (found.feeder, found.other) == ("a1", "b4")
    assert found.shared == "the connection from task manager 0 to 1"


@pytest.mark.parametrize(("records", "count"), [(899, 1), (900, 0), (1000, 0), (0, 1)])
def test_nine_tenths_is_enough(starved, records, count):
    assert len(starved(SHARED, b3=[(records, 900, 0)], b4=[(100, 0, 0)])) == count


@pytest.mark.parametrize(("idle", "blocked", "count"), [(500, 499, 1), (500, 500, 0), (0, 900, 0)])
def test_who_is_blocked_does_not_starve(starved, idle, blocked, count):
    assert len(starved(SHARED, b3=[(300, idle, blocked)], b4=[(100, 0, 0)])) == count


def test_a_producer_that_waits_starves_the_others(starved):
    (found,) = starved(DEALT, b=[(100, 950, 0), (100, 0, 0)])
    assert (found.name, found.cause) == ("b [0]", "producer")
    assert (found.feeder, found.other, found.shared) == ("a", "b [1]", "")
    assert found.share == pytest.approx(0.1)
    assert found.limit_share == pytest.approx(0.1)


def test_a_receiver_alone_does_not_starve_but_its_producer_is_held_back(starved, chain):
    assert starved(chain, sink=[(20, 950, 0)]) == []


def test_who_shares_with_somebody_quick_does_not_starve(starved):
    """The other one is not full at the limit, so nobody waits behind it."""
    quick = {
        **SHARED,
        "stages": [*SHARED["stages"][:3], {**SHARED["stages"][3], "service_rate": 101}],
    }
    assert starved(quick, b3=[(300, 900, 0)], b4=[(1000, 0, 0)]) == []
    slow = {
        **SHARED,
        "stages": [*SHARED["stages"][:3], {**SHARED["stages"][3], "service_rate": 99}],
    }
    assert len(starved(slow, b3=[(300, 900, 0)], b4=[(990, 0, 0)])) == 1


def test_a_switch_for_all_sources_starves_whoever_they_feed(lay, tables_of):
    from dataclasses import replace

    job, limits = lay(SHARED)
    system = job.scenario.system.model_copy(update={"throttle": "global_hysteresis"})
    throttled = replace(job, scenario=job.scenario.model_copy(update={"system": system}))
    rows = [
        {"t_s": 10.0, "stage": "b3", "records_in": 300, "idle_ms_per_s": 900.0},
        {"t_s": 10.0, "stage": "b4", "records_in": 100, "busy_ms_per_s": 1000.0},
    ]
    (found,) = find_starved(tables_of({"stages": rows}), throttled, limits)
    assert (found.name, found.cause, found.other, found.shared) == ("b3", "throttle", "b4", "")


def test_without_a_limit_nothing_is_said(lay, tables_of):
    assert find_starved(tables_of({}), lay(SHARED)[0], None) == []
