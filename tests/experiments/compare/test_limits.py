"""What a job can carry: by hand for small jobs, and by rules for any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.experiments.compare.limits import _fill
from flowcontrol.scenario import load_scenario

TWO = [{"from": "source", "to": "sink", "partitioner": "rebalance"}]


def job(stages, edges, **more):
    return {"schema": 1, "name": "job", "duration_s": 30, "round_ms": 100,
            "stages": stages, "edges": edges, **more}  # fmt: skip


def source(rate=1000, **more):
    return {"name": "source", "emit_rate": rate, "record_bytes": 100, **more}


def sink(rate=None, **more):
    return {"name": "sink", **({} if rate is None else {"service_rate": rate}), **more}


@pytest.fixture
def limits(lay):
    """A function that returns (start, produced, consumed) of each phase."""

    def find(mapping):
        _, phases = lay(mapping)
        return [(p.start_s, round(p.produced, 6), round(p.consumed, 6)) for p in phases]

    return find


@pytest.mark.parametrize(
    ("offered", "able", "limit"),
    [(1000, 400, 400), (1000, None, 1000), (300, 400, 300), (0, 400, 0), (1000, 0, 0)],
)
def test_the_slower_of_two(limits, offered, able, limit):
    assert limits(job([source(offered), sink(able)], TWO)) == [(0, limit, limit)]


def test_it_changes_when_a_schedule_does(limits):
    rates = [{"at_s": 0, "rate": 400}, {"at_s": 10, "rate": 50}, {"at_s": 20, "rate": 5000}]
    found = limits(job([source(), sink(rates)], TWO))
    assert found == [(0, 400, 400), (10, 50, 50), (20, 1000, 1000)]


@pytest.mark.parametrize("rate", [{}, {"service_rate": 600}])
def test_a_stall_carries_nothing(limits, rate):
    stalled = {"name": "sink", **rate, "stalls": [{"at_s": 5, "for_s": 2.5}]}
    able = rate.get("service_rate", 1000)
    found = limits(job([source(), stalled], TWO))
    assert found == [(0, able, able), (5, 0, 0), (7.5, able, able)]


def test_selectivity_counts_for_what_comes_after(limits):
    stages = [source(), {"name": "map", "service_rate": 900, "selectivity": 0.5}, sink(300)]
    edges = [{"from": "source", "to": "map"}, {"from": "map", "to": "sink"}]
    assert limits(job(stages, edges)) == [(0, 600, 300)]


def test_a_subtask_that_is_slow_holds_up_its_share(limits):
    """Dealt out in turn, a quarter each: the one that can do 40 makes it 160."""
    stages = [source(), sink([400, 400, 400, 40], parallelism=4)]
    assert limits(job(stages, TWO)) == [(0, 160, 160)]


@pytest.mark.parametrize(
    ("edge", "produced", "consumed"),
    [
        ({"partitioner": "global"}, 300, 300),
        ({"partitioner": "broadcast"}, 100, 200),
        ({"partitioner": "shuffle"}, 200, 200),
        ({"partitioner": "custom", "channel_weights": [3, 1]}, 400, 400),
        ({"partitioner": "custom", "channel_weights": [1, 3]}, 400 / 3, 400 / 3),
    ],
)
def test_the_partitioner_says_who_gets_how_much(limits, edge, produced, consumed):
    stages = [source(), sink([300, 100], parallelism=2)]
    found = limits(job(stages, [{"from": "source", "to": "sink", **edge}]))
    assert found == [(0, pytest.approx(produced), pytest.approx(consumed))]


def test_forward_keeps_subtasks_apart(limits):
    stages = [source(parallelism=2), sink([300, 100], parallelism=2)]
    found = limits(job(stages, [{"from": "source", "to": "sink", "partitioner": "forward"}]))
    assert found == [(0, 400, 400)]


def test_two_sources_share_a_sink_fairly(lay):
    """As fan-in.yaml says: orders keep their 200, clicks have what is left."""
    phases = lay(load_scenario("conf/fan-in.yaml").canonical())[1]
    assert [p.produced for p in phases] == [1000, 500, 1000]
    assert [p.into["clicks"][0] for p in phases] == [800, 300, 800]
    assert [p.into["orders"][0] for p in phases] == [200, 200, 200]


def test_a_connection_carries_its_bandwidth(limits):
    cluster = {"bandwidth_bytes_per_s": 25_000}
    assert limits(job([source(), sink(800)], TWO, cluster=cluster)) == [(0, 250, 250)]
    here = [source(placement=[0]), sink(800, placement=[0])]
    assert limits(job(here, TWO, cluster=cluster)) == [(0, 800, 800)]


def test_tasks_share_the_processors_of_a_task_manager(limits):
    """4 of 100 records/s on one core do 100; a fifth of the time of those elsewhere needs one."""
    four = {"parallelism": 4, "placement": [1] * 4}
    cluster = {"cores": 1}
    stages = [source(placement=[0]), sink(100, **four)]
    assert limits(job(stages, TWO, cluster=cluster)) == [(0, 100, 100)]
    assert limits(job(stages, TWO, cluster={"cores": 3.5})) == [(0, 350, 350)]
    assert limits(job(stages, TWO, cluster={"cores": 4.5})) == [(0, 400, 400)]
    waits = [source(placement=[0]), sink(100, cpu=0.5, **four)]
    assert limits(job(waits, TWO, cluster=cluster)) == [(0, 200, 200)]
    computes = [source(placement=[0], cpu=1), sink(100, **four)]
    assert limits(job(computes, TWO, cluster={"cores": 0.25})) == [(0, 25, 25)]
    apart = [source(placement=[0]), sink(100, parallelism=4, placement=[1, 1, 1, 0])]
    assert limits(job(apart, TWO, cluster=cluster)) == [(0, 133.333333, 133.333333)]


def test_stages_of_a_chain_share_their_time(limits):
    """1/600 s and, for half of the records, 1/300 s: together 1/300 s a record."""
    stages = [source(), {"name": "map", "service_rate": 600, "selectivity": 0.5}, sink(300)]
    edges = [{"from": "source", "to": "map"}, {"from": "map", "to": "sink", "chain": True}]
    assert limits(job(stages, edges)) == [(0, 300, 150)]


def test_what_a_receiver_could_take_by_itself(lay):
    stages = [source(), sink([400, 400, 40], parallelism=3)]
    (phase,) = lay(job(stages, TWO))[1]
    assert phase.into["sink"].tolist() == pytest.approx([40, 40, 40])
    assert phase.alone["sink"].tolist() == pytest.approx([1000 / 3, 1000 / 3, 40])


def test_of_replayed_rows_nothing_is_known(lay, tmp_path):
    (tmp_path / "rows.csv").write_text("a\n1\n")
    rows = {"format": "csv", "path": str(tmp_path / "rows.csv")}
    assert lay(job([source(input=rows), sink(10)], TWO))[1] is None


# ---------------------------------------------------------------------- any network


OFFERED = st.just(0.0) | st.floats(0.001, 1000)
LOAD = st.just(0.0) | st.floats(1e-6, 0.01)


@given(
    st.lists(OFFERED, min_size=1, max_size=4),
    st.lists(st.lists(LOAD, min_size=4, max_size=4), max_size=5),
)
def test_nothing_is_overloaded_and_nothing_could_rise(offered, rows):
    """Feasible; and each source has all that it offers, or feeds something that is full."""
    most = np.array(offered)
    loads = np.array(rows).reshape(len(rows), 4)[:, : len(offered)]
    rates = _fill(most, loads)
    assert (rates >= 0).all()
    assert (rates <= most + 1e-6).all()
    used = loads @ rates
    assert (used <= 1 + 1e-6).all()
    for index in range(len(offered)):
        is_whole = rates[index] >= most[index] * (1 - 1e-6)
        assert is_whole or (used[loads[:, index] > 0] >= 1 - 1e-6).any()
