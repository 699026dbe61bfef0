"""Flink's autoscaler step by step, by figures worked out by hand from the reference."""

from __future__ import annotations

from math import ceil, inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scaling import FlinkAutoscaler
from flowcontrol.scaling.samples import round_metric

KEYS = {
    "metrics.window": "20 s",
    "stabilization.interval": "10 s",
    "catch-up.duration": "100 s",
    "restart.time": "10 s",
    "scale-down.interval": "30 s",
    "utilization.target": 0.5,
    "target.utilization.boundary": 0.2,
    "backlog-processing.lag-threshold": "60 s",
    "vertex.exclude.ids": "source",
}
# With these: wanted = lag/100 + 0.1 x target + target/0.5; the band reaches from
# lag/100 + target/0.7 to lag/100 + 0.1 x target + target/0.3.


def scaler(version="head", **changed):
    keys = KEYS | {key.replace("__", ".").replace("_", "-"): v for key, v in changed.items()}
    return FlinkAutoscaler({f"job.autoscaler.{key}": v for key, v in keys.items()}, version)


class Chain:
    """A source and a map; counts what it was told."""

    def __init__(self, own, parallelism=2):
        self.own, self.parallelism, self.count, self.last_s = own, parallelism, 0.0, 0.0

    def step(self, t_s, rate=100, busy=0.5, lag=0, blocked=0, source=None, **more):
        self.count += rate * (t_s - self.last_s)
        self.last_s = t_s
        figures = {"max_parallelism": 128, "numRecordsInPerSecond": rate, "pendingRecords": None}
        self.own.observe(
            t_s,
            {
                "source": {
                    **figures,
                    "parallelism": 1,
                    "inputs": {},
                    "numRecordsIn": self.count,
                    "numRecordsOut": self.count,
                    "pendingRecords": lag,
                    "busyTimeMsPerSecond": 100,
                    "backPressuredTimeMsPerSecond": blocked,
                    **(source or {}),
                },
                "map": {
                    **figures,
                    "parallelism": self.parallelism,
                    "inputs": {"source": "rebalance"},
                    "numRecordsIn": self.count,
                    "numRecordsOut": self.count,
                    "busyTimeMsPerSecond": 1000 * busy,
                    "backPressuredTimeMsPerSecond": 0,
                    **more,
                },
            },
        )
        found = self.own.decide(t_s)
        if "map" in found:
            self.parallelism = found["map"].new
        return found


# time, busy of the map, records that wait, and what is decided of the map
STEPS = [
    # it stabilises until 10 s, and its window is full 20 s after the first sample from then on
    (0, 0.5, 0, None),
    (10, 0.5, 0, None),
    (20, 0.5, 0, None),
    # full. True rate 100/0.5 = 200; wanted 210: 2 x 1.05 -> 3. But 143 <= 200 <= 343.
    (30, 0.5, 0, None),
    # samples of 20, 30 and 40: busy 0.6, 166.7: 2 x 1.26 -> 3, still in the band
    (40, 0.8, 0, None),
    # 0.7333: 136.364, rounded, is below 143. 2 x 210/136.36 = 3.08 -> 4; 136.364/2 x 4 is expected
    (50, 0.9, 0, (2, 4, True, 272.728)),
    # it runs anew from 60 s: stable at 70, full at 90
    (60, 0.35, 0, None),
    (70, 0.35, 0, None),
    (80, 0.35, 0, None),
    # 285.7: 4 x 0.735 -> 3, which waits until 120
    (90, 0.35, 0, None),
    # 0.3: 333.3: 4 x 0.63 -> 3, in the place of the 3 before
    (100, 0.2, 0, None),
    # 0.21667: 461.5: 4 x 0.455 -> 2
    (110, 0.1, 0, None),
    # 0.13333: 750: 0.28, but not below 0.4: 4 x 0.4 -> 2. Due since 120; the largest is the 3 of
    # 100, when 333.3 was in the band: nothing is outside
    (120, 0.1, 0, None),
    # the 3 of 100 is just not too old
    (130, 0.1, 0, None),
    # now it is: 2, and 1000 is above 343. 1000/4 x 2
    (140, 0.1, 0, (4, 2, True, 500.0)),
    (150, 0.8, 0, None),
    (160, 0.8, 0, None),
    (170, 0.8, 500, None),
    # lag grows by 50/s: target 150, wanted 10 + 15 + 300 = 325; 125 is below 10 + 214.3 = 224.
    # 2 x 325/125 = 5.2 -> 6; 125/2 x 6
    (180, 0.8, 1000, (2, 6, True, 375.0)),
    (190, 0.1, 7000, None),
    (200, 0.1, 7000, None),
    (210, 0.1, 7000, None),
    # 1000, wanted 70 + 10 + 200 = 280: 6 x 0.4 -> 3 from 220 on. 70 s of backlog are more than 60:
    # nothing is above a band without an upper edge
    (220, 0.1, 7000, None),
    (230, 0.1, 7000, None),
    (240, 0.1, 7000, None),
    # due, and in the band: the latest 3 replaced the earlier, with its flag
    (250, 0.1, 7000, None),
    # the backlog is 50 s: the lag fell by 2000 in 20 s, target 100 - 100 = 0. Wanted 50; the band's
    # upper edge is 50: 1000 is outside. 1000/6 x 3
    (260, 0.1, 5000, (6, 3, True, 500.0)),
]


def test_it_follows_the_table():
    own = scaler()
    job = Chain(own)
    for t_s, busy, lag, expected in STEPS:
        found = job.step(t_s, busy=busy, lag=lag)
        if expected is None:
            assert found == {}, t_s
        else:
            assert list(found) == ["map"], t_s
            assert found["map"] == pytest.approx(expected), t_s


def run(own, job, seconds, **figures):
    """Observe until the window is full and return the first decision that is not empty."""
    found = {}
    for t_s in range(0, seconds + 1, 10):
        found = job.step(t_s, **figures)
        if found:
            break
    return found


def test_1_15_expects_the_capped_target_and_counts_records():
    # busy 0.9: 111.1; wanted 210
    assert run(o := scaler(), Chain(o), 30, busy=0.9)["map"] == (
        2,
        4,
        True,
        pytest.approx(1000 / 9 * 2),
    )
    own = scaler("1.15")
    # its numerator is what the counter grew by, whatever the rate says
    found = run(own, Chain(own), 30, busy=0.9, numRecordsInPerSecond=1)["map"]
    assert found == (2, 4, True, pytest.approx(210))


def test_head_takes_the_rate_that_flink_reports():
    own = scaler()
    # 50/0.9 = 55.6: 2 x 210/55.6 = 7.56 -> 8
    found = run(own, Chain(own), 30, busy=0.9, numRecordsInPerSecond=50)["map"]
    assert found.new == 8


def test_keyed_vertices_are_aligned():
    keyed = {"inputs": {"source": "HASH"}, "max_parallelism": 6}
    # 2 x 1.89 -> 4; 6 // 4 = 1, 5 leaves 1, 6 divides
    assert run(o := scaler(), Chain(o), 30, busy=0.9, **keyed)["map"].new == 6
    own = scaler(scaling__parallelism_alignment__mode="off")
    assert run(own, Chain(own), 30, busy=0.9, **keyed)["map"].new == 4


def test_the_old_key_brings_the_old_rules():
    keyed = {"inputs": {"source": "HASH"}, "max_parallelism": 128}
    old = {"scaling.key-group.partitions.adjust.mode": "EVENLY_SPREAD", "vertex.max-parallelism": 7}
    keys = {f"job.autoscaler.{key}": value for key, value in (KEYS | old).items()}
    own = FlinkAutoscaler(keys)
    # 2 x 210/52.6 = 7.98 -> 8, limit 7: 128 // 7 = 18; down: 6 leaves 21 and does not divide: 7
    assert run(own, Chain(own), 30, rate=50, busy=0.95, **keyed)["map"].new == 4
    assert own.settings.alignment == ("evenly_spread", "1.15")


def test_the_limits_of_a_vertex_hold_but_never_turn_a_scaling():
    assert run(o := scaler(vertex__max_parallelism=3), Chain(o), 30, busy=0.9)["map"].new == 3
    # above its limit already: it stays
    own = scaler(vertex__max_parallelism=3)
    assert run(own, Chain(own, 5), 30, busy=0.9) == {}
    # the least: 4 x 0.4 -> 2, but 3
    own = scaler(vertex__min_parallelism=3, scale_down__interval="0 s")
    assert run(own, Chain(own, 4), 30, busy=0.1)["map"].new == 3


def test_a_step_is_limited():
    own = scaler(scale_up__max_factor=0.5)
    assert run(own, Chain(own), 30, busy=0.9)["map"].new == 3
    own = scaler(scale_down__max_factor=0.25, scale_down__interval="0 s")
    assert run(own, Chain(own, 8), 30, busy=0.1)["map"].new == 6


def test_without_records_it_scales_down():
    own = scaler(scale_down__interval="0 s")
    found = run(own, Chain(own, 5), 30, rate=0, busy=0)["map"]
    assert (found.new, found.expected_rate) == (2, inf)


def test_a_source_that_catches_up_is_measured():
    # Lag of 3000 records is 30 s of 100/s. Busy 0.1 says 1000/s; measured 100/(1 - 0.5) = 200/s,
    # and 1000 is more than 15 % above: wanted 30 + 10 + 200 = 240; 1 x 1.2 -> 2. In the band
    # (30 + 142.9 = 173 to 373) the source does not scale alone.
    keys = {"vertex__exclude__ids": ""}
    own = scaler(**keys)
    assert run(own, Chain(own, 3), 30, busy=0.34, lag=3000, blocked=500) == {}
    # at 0.7: 100/0.3 = 333, in the band too: 240/333 -> 1. At 0: 100/s: outside, 2.4 -> 3
    own = scaler(**keys)
    found = run(own, Chain(own, 3), 30, busy=0.4, lag=3000, blocked=0)
    assert found["source"] == (1, 3, True, pytest.approx(300))
    # one record fewer waits: busy time counts, 1000/s, and 1 is its least
    own = scaler(**keys)
    assert "source" not in run(own, Chain(own, 3), 30, busy=0.4, lag=2999, blocked=0)


def test_a_rate_that_was_measured_goes_on():
    own = scaler(vertex__exclude__ids="map", metrics__window="60 s")
    job = Chain(own)
    for t_s in range(0, 80, 10):
        job.step(t_s, rate=100 if t_s < 40 else 50, lag=3000 if t_s < 40 else 0)
    # 100/s was measured in four samples, and counts for those in which nothing waits
    assert own._window.latest["source"].observed == pytest.approx(100)


def test_a_source_without_input_figures_counts_its_output():
    own = scaler(vertex__exclude__ids="map", scale_down__interval="0 s")
    source = {"numRecordsIn": None, "numRecordsInPerSecond": 0, "numRecordsOutPerSecond": 100}
    # 100/0.1 = 1000: 5 x 0.4
    found = run(own, Chain(own), 30, source={**source, "parallelism": 5})
    assert found["source"].new == 2


def test_partitions_of_a_source_are_aligned_to():
    own = scaler(vertex__exclude__ids="map")
    source = {"parallelism": 2, "partitions": 10, "busyTimeMsPerSecond": 900}
    # 2 x 1.89 -> 4; 10 // 4 = 2; 5 divides
    assert run(own, Chain(own), 30, source=source)["source"].new == 5


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        ({}, 15),
        ({"scaling__parallelism_alignment__mode": "EVENLY_SPREAD"}, 15),
        ({"scaling__key_group__partitions__adjust__mode": "EVENLY_SPREAD"}, 15),
        ({"scaling__parallelism_alignment__mode": "OFF"}, 200),
    ],
)
def test_a_source_never_has_more_subtasks_than_partitions(keys, most):
    """FLINK-40389. Without alignment it has what it would need: wanted 210 of 100 records/s."""
    for subtasks in (10, 15, 30):
        own = scaler(vertex__exclude__ids="map", scale_down__interval="0 s", **keys)
        source = {"parallelism": subtasks, "partitions": 15, "busyTimeMsPerSecond": 1000}
        found = run(own, Chain(own), 30, source=source)
        assert (found["source"].new if found else subtasks) == min(ceil(subtasks * 2.1), most)


@pytest.mark.parametrize("version", ["head", "1.15"])
def test_metrics_are_rounded_to_three_decimals(version):
    """80/s at 80 % are 100/s, and 100/s are wanted: v stays. w: 375 %, but not below 40 %."""
    keys = {"target__utilization__boundary": 0.05, "catch_up__duration": "0 s"}
    own = scaler(version, utilization__target=0.8, scale_down__interval="0 s", **keys)
    found = {}
    for t_s in range(0, 40, 10):
        figures = {
            "parallelism": 10,
            "max_parallelism": 128,
            "numRecordsIn": 80 * t_s,
            "numRecordsOut": 80 * t_s,
            "numRecordsInPerSecond": 80,
            "pendingRecords": 0,
            "backPressuredTimeMsPerSecond": 0,
        }
        own.observe(
            t_s,
            {
                "source": {**figures, "inputs": {}, "busyTimeMsPerSecond": 100},
                "v": {**figures, "inputs": {"source": "rebalance"}, "busyTimeMsPerSecond": 800},
                "w": {**figures, "inputs": {"v": "rebalance"}, "busyTimeMsPerSecond": 300},
            },
        )
        found = own.decide(t_s)
    # 80/0.3 = 266.6667 is taken as 266.667, and 266.667/10 x 4 = 106.6668 as 106.667
    expected = 80 / 0.3 * 0.4 if version == "1.15" else 106.667
    assert found == {"w": (10, 4, True, pytest.approx(expected, abs=5e-4))}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (99.99999999999999, 100.0),
        (0.0005, 0.001),
        (2.0005, 2.001),
        (2.0004999, 2.0),
        (-2.0005, -2.001),
        (0.0004999, 0.0004999),
        (0.0, 0.0),
        (inf, inf),
        (1e300, 1e300),
    ],
)
def test_a_metric_is_rounded_half_up_and_never_to_0(value, expected):
    """``Precision.round`` of Commons Math, from the shortest decimal text of the double."""
    assert round_metric(value) == expected


def test_a_metric_that_is_not_known_stays_so():
    assert isnan(round_metric(nan))


def test_an_ineffective_scale_up_blocks_the_next_if_that_is_on():
    def twice(**keys):
        own = scaler(**keys)
        job = Chain(own)
        found = run(own, job, 30, busy=0.9)["map"]
        assert (found.new, found.expected_rate) == (4, pytest.approx(2000 / 9))
        for t_s in range(40, 80, 10):
            found = job.step(t_s, busy=0.85)  # 117.6: 6.5 of the 111.1 that were expected
        return found

    assert twice()["map"].new == 8  # 4 x 210/117.6 = 7.14
    assert twice(scaling__effectiveness__detection__enabled="true") == {}
    on = {"scaling__effectiveness__detection__enabled": True}
    assert twice(**on, scaling__effectiveness__threshold=0.05)["map"].new == 8


def test_the_coefficient_of_past_scalings_divides():
    own = scaler(observed_scalability__enabled=True, observed_scalability__min_observations=1)
    job = Chain(own)
    assert run(own, job, 30, busy=0.9)["map"].new == 4  # nothing is known: 1
    for t_s in range(40, 80, 10):
        found = job.step(t_s, busy=0.85)
    # one scaling from 2 at 111.1: base 55.6, alpha 1. 4 x 210/117.6 -> 8
    assert found["map"].new == 8
    for t_s in range(80, 120, 10):
        found = job.step(t_s, busy=0.8)
    # (2 x 111.1 + 4 x 117.6) / ((4 + 16) x 55.56) = 0.62353 -> 0.63; 8 x 210/125/0.63 = 21.3
    assert found["map"].new == 22


def test_a_tracked_restart_takes_the_place_of_the_expected_one():
    own = scaler(restart__time_tracking__enabled=True, restart__time_tracking__limit="25 s")
    job = Chain(own)
    assert run(own, job, 30, busy=0.9)["map"].new == 4
    for t_s in (80, 90, 100, 110):  # it took 50 s, and counts for 25
        found = job.step(t_s, busy=0.9)
    # wanted 25 + 200 = 225; 4 x 225/111.1 = 8.1
    assert found["map"].new == 9


def test_busy_time_may_be_that_of_all_subtasks():
    own = scaler(metrics__busy_time__aggregator="AVG")
    job = Chain(own)
    for t_s in (0, 10, 20, 30):
        # 1.9 s of busy time a second, of 2 subtasks: 0.95, 105.3: 2 x 1.995 -> 4
        found = job.step(
            t_s, busy=0.1, accumulatedBusyTime=1900 * t_s, source={"accumulatedBusyTime": 0}
        )
    assert found["map"].new == 4


def test_it_only_recommends_where_scaling_is_off():
    own = scaler(scaling__enabled=False)
    assert run(own, Chain(own), 30, busy=0.9) == {}
    assert "scaling is not enabled: map can process 111 records/s, and needs 143" in own.reason


def diamond(own, t_s, scale, **busy):
    """A source to two branches, of which one also gets another source's records, into a join."""

    def vertex(inputs, taken, put_out, name, **more):
        return {
            "parallelism": 2,
            "max_parallelism": 128,
            "inputs": inputs,
            "numRecordsIn": taken * t_s * scale,
            "numRecordsOut": put_out * t_s * scale,
            "numRecordsInPerSecond": taken * scale,
            "pendingRecords": None,
            "busyTimeMsPerSecond": busy.get(name, 500),
            "backPressuredTimeMsPerSecond": 0,
            **more,
        }

    own.observe(
        t_s,
        {
            "join": vertex({"a": "rebalance", "b": "hash"}, 150, 0, "join"),
            "a": vertex({"s": "rebalance"}, 100, 50, "a"),
            "b": vertex({"s": "rebalance", "other": "rebalance"}, 120, 100, "b"),
            "s": vertex({}, 100, 200, "s"),
            "other": vertex({}, 20, 20, "other"),
        },
    )


def test_rates_of_edges_follow_from_those_of_vertices():
    own = scaler(vertex__exclude__ids="")
    for t_s in (0, 10, 20, 30):
        diamond(own, t_s, 1, join=990, b=990)
        found = own.decide(t_s)
    # s sends two copies: a has one input, 100; other sends only to b, so s to b is 120 - 20 = 100,
    # and other to b, as s has another receiver, is what it puts out: 20. Target of b 120, wanted
    # 252 of 121.2: 2 x 2.08 -> 5; keyed join: 50 + 100, wanted 315 of 151.5: 5, aligned 128 // 5 =
    # 25: 6 leaves 21.
    assert (found["b"].new, found["join"].new) == (5, 6)


def test_it_refuses_what_it_cannot_read():
    own = scaler()
    job = Chain(own)
    job.step(10)
    with pytest.raises(ValueError, match="t_s: 10 is not after the sample before, 10"):
        job.step(10)
    with pytest.raises(ValueError, match="before the last sample"):
        own.decide(5)
    with pytest.raises(ValueError, match=r"map\.busyTime: unknown figure"):
        job.step(20, busyTime=3)
    with pytest.raises(ValueError, match=r"map\.numRecordsOut: -1 is out of range"):
        job.step(20, numRecordsOut=-1)
    with pytest.raises(ValueError, match=r"map\.max_parallelism: None is out of range"):
        job.step(20, max_parallelism=None)
    with pytest.raises(ValueError, match=r"map\.inputs: 'nobody' is not a vertex"):
        job.step(20, inputs={"nobody": "hash"})
    with pytest.raises(ValueError, match="vertices: none"):
        own.observe(30, {})
    avg = scaler(metrics__busy_time__aggregator="avg")
    with pytest.raises(ValueError, match="accumulatedBusyTime: missing"):
        Chain(avg).step(0)


@given(
    rate=st.integers(1, 10_000),
    true=st.integers(1, 5_000),
    now=st.integers(1, 50),
    target=st.integers(2, 9),
)
def test_it_comes_to_rest_at_the_target(rate, true, now, target):
    """Of a job that scales linearly: after one scaling up or some down, nothing is left to do."""
    keys = {
        "utilization__target": target / 10,
        "target__utilization__boundary": 0.1,
        "catch_up__duration": "0 s",
        "vertex__max_parallelism": 100_000,
        "scale_down__interval": "0 s",
    }
    own = scaler(**keys)
    job = Chain(own, now)
    scalings = []
    for t_s in range(0, 1000, 10):
        busy = min(1.0, rate / (true * job.parallelism))
        found = job.step(t_s, rate=rate, busy=busy, lag=0, max_parallelism=100_000)
        scalings += found.values()
    if rate > true * now:  # what it cannot process waits, and is not in this job's log
        return
    busy = rate / (true * job.parallelism)
    # at rest it is in the band, or one subtask more or fewer would not be
    low, high = target / 10 - 0.1, target / 10 + 0.1
    is_inside = low - 0.02 <= busy <= high + 0.02
    fewer = max(1, job.parallelism - 1)
    assert is_inside or rate / (true * fewer) > target / 10 or job.parallelism == 1
    # it never goes back and forth
    assert all(one.new < one.old for one in scalings) or all(one.new > one.old for one in scalings)
