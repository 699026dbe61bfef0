"""The scenarios of conf/, in rounds of the live clock: each shows what its first lines say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pandas as pd
import pytest

from conf_list import CONF, NAMES, ROWS, those
from flowcontrol.analysis import summarise
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.plan import window_warnings
from flowcontrol.scenario import check_clock, load_scenario, parse_scenario
from flowcontrol.virtual import simulate
from flowcontrol.virtual.choose import choose_round_us
from flowcontrol.virtual.clock import run_job

MOST_COLUMNS = 100
REFERENCE = [name for name in those("blocks") if name != "flights" and "checkpoint-" not in name]
"""The rows of flights are real: see its own test. Those on checkpoints and event time have tests of
their own, on the virtual clock."""


class Shown(NamedTuple):
    """What a scenario shows: its tables as frames by time, and its summary."""

    job: Job
    stages: pd.DataFrame
    channels: pd.DataFrame
    summary: dict[str, Any]

    def rate(self, stage: str, start: float, end: float, subtask: int = 0) -> float:
        """Records/s that a subtask emitted (a sink: took up) between two samples."""
        own = self.stages[(self.stages.stage == stage) & (self.stages.subtask == subtask)]
        own = own.set_index("t_s")
        records = own.records_in if own.records_out.max() == 0 else own.records_out
        counts = {0: 0, **records.to_dict()}
        return float((counts[end] - counts[start]) / (end - start))

    def share(self, what: str, stage: str, start: float, end: float, subtask: int = 0) -> float:
        """Share of the time between two samples that a subtask was busy, idle or blocked."""
        own = self.stages[(self.stages.stage == stage) & (self.stages.subtask == subtask)]
        own = own[(own.t_s > start) & (own.t_s <= end)]
        return float(own[f"{what}_ms_per_s"].mean()) / 1000

    def channel(self, edge: str, start: float, end: float, receiver: int = 0) -> pd.DataFrame:
        """Samples of a channel after ``start`` up to ``end``."""
        own = self.channels[(self.channels.edge == edge) & (self.channels.receiver == receiver)]
        return own[(own.t_s > start) & (own.t_s <= end)]


@cache
def show(name: str) -> Shown:
    job = build_physical_graph(load_scenario(CONF / f"{name}.yaml"))
    tables = run_job(job).tables
    summary = summarise(
        tables, job.scenario, clock="live", rounds=job.rounds, wall_s=1.0, round_ms=200.0
    )
    return Shown(job, tables["stages"].to_pandas(), tables["channels"].to_pandas(), summary)


@pytest.fixture
def shown() -> Callable[[str], Shown]:
    return show


# ---------------------------------------------------------------------- every one


def test_each_has_a_row_in_the_list() -> None:
    assert sorted(ROWS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_and_its_clocks_run_it(name: str) -> None:
    scenario = load_scenario(CONF / f"{name}.yaml")
    assert scenario.name == name
    assert parse_scenario(scenario.canonical()) == scenario
    assert check_clock(scenario, "virtual") == []
    assert (check_clock(scenario, "live") != []) == (name in those("virtual"))


@pytest.mark.parametrize("name", NAMES)
def test_it_fits_its_windows(name: str) -> None:
    scenario = load_scenario(CONF / f"{name}.yaml")
    suits_live = name not in {*those("virtual"), *those("chosen"), *those("fails")}
    round_us = None if suits_live else choose_round_us(scenario)
    assert window_warnings(build_physical_graph(scenario, round_us=round_us)) == []


@pytest.mark.skipif("FLOWCONTROL_LONG" not in os.environ, reason="72 million records")
def test_payments_wait_for_a_database_and_catch_up() -> None:
    tables = simulate(load_scenario(CONF / "payments.yaml")).tables
    stages = tables["stages"].to_pandas()
    topic = stages[stages.stage == "kafka"].groupby("t_s")[["records_out", "lag_records"]].sum()
    assert topic.lag_records[180.0] < 10_000
    assert 420 <= topic.lag_records.idxmax() <= 500
    assert 9.5e6 < topic.lag_records.max() < 11e6
    catching_up = topic.records_out[1000.0] - topic.records_out[600.0]
    assert catching_up / 400 == pytest.approx(120_000 / 1.57, rel=0.03)
    assert 0 < topic.lag_records[1200.0] < 100_000
    checkpoints = tables["checkpoints"].to_pandas()
    assert (checkpoints.status == "completed").all()
    assert 100_000 < checkpoints.e2e_ms.max() < 180_000


def test_partition_types_show_what_is_said() -> None:
    """400,000 records of 300 bytes are sorted to disk; the first edge spills next to nothing.

    A region is 128 buffers of 32 KiB, 4.19 MB: the 60 MB of a parser are 15 of them, the last
    one part-filled. The counters begin after 20 s and take 400,000 / 30,000 = 13.3 s.
    """
    scenario = load_scenario(CONF / "partition-types.yaml")
    run = simulate(scenario)
    first, second = run.partitions["read->parse"], run.partitions["parse->count"]
    assert first["consumers_may_start_s"] == 0
    assert 0 < first["bytes_spilled"] < 0.01 * 400e6
    assert second["bytes_spilled"] == second["bytes_read"] == 400_000 * 300
    assert second["regions"] == 2 * 15
    assert second["max_buffers"] == 2 * 128
    assert 20 < second["consumers_may_start_s"] < 21
    stages = run.tables["stages"].to_pandas()
    taken = stages[stages.stage == "count"].groupby("t_s").records_in.sum()
    assert taken[20.0] == 0
    assert taken[33.0] < 400_000 == taken[35.0]
    blocked = stages[(stages.stage == "parse") & (stages.t_s <= 20)].backpressured_ms_per_s
    assert 0 < blocked.mean() < 300


@pytest.mark.parametrize("name", NAMES)
def test_its_first_lines_say_what_it_is(name: str) -> None:
    lines = (CONF / f"{name}.yaml").read_text().splitlines()
    header = lines[: lines.index("schema: 1")]
    assert len(header) >= 5
    assert all(re.match(r"#( |$)", line) for line in header)
    assert len(header[0]) > 30
    assert header[0].endswith(".")


@pytest.mark.parametrize("name", REFERENCE)
def test_it_counts(name: str, shown: Callable[[str], Shown]) -> None:
    """All floating buffers of a gate are held, credit is 0, and somebody is blocked."""
    found = shown(name)
    assert found.job.rounds * found.job.round_us == found.job.scenario.duration_us
    limited = found.channels[found.channels.credit == 0]
    assert (limited.backlog > 0).any()
    most = max(size.floating for size in found.job.sizes.gates.values())
    assert found.channels.floating_held.max() == most > 0
    assert found.stages.backpressured_ms_per_s.max() > 400
    assert found.summary["bottleneck"] == found.job.stages[-1].name


# ---------------------------------------------------------------------- one by one


def test_experiment(shown: Callable[[str], Shown]) -> None:
    found = shown("experiment")
    for start, rate in ((0, 600), (25, 300), (45, 1000), (65, 300), (85, 1000)):
        assert found.rate("producer", start, start + 15) == pytest.approx(rate, rel=0.03)
    assert found.share("backpressured", "producer", 65, 80) == pytest.approx(0.7, abs=0.03)
    assert (found.channel("producer->consumer", 25, 40).credit == 0).all()


def test_two_sites(shown: Callable[[str], Shown]) -> None:
    found = shown("two-sites")
    assert found.job.latency == 2
    for start, end, rate in ((0, 8, 1000), (10, 14, 300), (15, 20, 1000)):
        assert found.rate("source", start, end) == pytest.approx(rate, rel=0.03)
    quick = found.channel("source->sink", 0, 8)
    assert set(quick.credit) == {2, 3}
    slow = found.channel("source->sink", 9, 14)
    assert (slow.credit == 0).all()
    assert slow.in_flight_records.max() < 696
    waits = simulate(found.job.scenario).tables["latency"].to_pandas()
    assert waits[waits.t_s <= 8].p50_ms.min() >= 100


def test_three_stages(shown: Callable[[str], Shown]) -> None:
    found = shown("three-stages")
    assert found.rate("source", 5, 20) == pytest.approx(1000, rel=0.01)
    assert found.rate("sink", 5, 20) == pytest.approx(500, rel=0.01)
    for stage, rate in (("source", 300), ("map", 150), ("sink", 150)):
        assert found.rate(stage, 25, 40) == pytest.approx(rate, rel=0.03)
    for stage in ("source", "map"):
        assert found.share("backpressured", stage, 25, 40) > 0.5
    assert found.share("busy", "sink", 25, 40) > 0.99
    assert found.share("busy", "map", 25, 40) < 0.5
    assert found.rate("source", 50, 60) == pytest.approx(1000, rel=0.01)


def test_fan_in(shown: Callable[[str], Shown]) -> None:
    found = shown("fan-in")
    assert found.rate("orders", 0, 60) == pytest.approx(200, rel=0.01)
    assert found.rate("clicks", 5, 20) == pytest.approx(800, rel=0.01)
    assert found.rate("clicks", 25, 40) == pytest.approx(300, rel=0.06)
    assert found.share("backpressured", "clicks", 25, 40) > 0.5
    assert found.share("backpressured", "orders", 0, 60) == 0
    assert (found.channel("clicks->sink", 25, 40).credit == 0).all()
    orders = found.channel("orders->sink", 20, 40)
    assert (orders[orders.t_s <= 26].credit > 0).all()
    assert (orders[orders.t_s >= 28].credit == 0).all()
    assert orders.backlog.max() == 1
    assert found.channel("clicks->sink", 25, 40).backlog.min() == 8


def test_skew(shown: Callable[[str], Shown]) -> None:
    found = shown("skew")
    assert found.rate("source", 5, 20) == pytest.approx(1000, rel=0.01)
    assert found.rate("source", 30, 40) == pytest.approx(160, rel=0.03)
    for worker in range(4):
        assert found.rate("workers", 30, 40, worker) == pytest.approx(40, rel=0.03)
    assert found.share("busy", "workers", 30, 40, 3) > 0.99
    assert found.share("idle", "workers", 30, 40, 0) > 0.85
    assert (found.channel("source->workers", 30, 40, 3).credit == 0).all()
    # The others have all their credit but for what is under way.
    assert (found.channel("source->workers", 30, 40, 0).credit >= 6).all()
    assert "subtask 3 of workers" in found.summary["sentence"]


def test_oscillation(shown: Callable[[str], Shown]) -> None:
    """Credits hold the producer evenly: no sample is off by more than two buffers of records."""
    found = shown("oscillation")
    assert found.rate("producer", 20, 120) == pytest.approx(200, rel=0.005)
    rates = [found.rate("producer", second, second + 1) for second in range(20, 120)]
    assert max(abs(rate - 200) for rate in rates) <= 20.5
    assert found.share("busy", "consumer", 20, 120) > 0.999


def test_burst(shown: Callable[[str], Shown]) -> None:
    found = shown("burst")
    for begin in (10, 30, 50):
        assert found.rate("producer", begin, begin + 1) > 1900
        assert found.rate("producer", begin + 1, begin + 2) < 1000
        assert found.share("backpressured", "producer", begin + 1, begin + 2) > 0.5
        assert found.rate("producer", begin + 3, begin + 8) == pytest.approx(100)
        assert found.rate("consumer", begin + 1, begin + 10) == pytest.approx(300, rel=0.01)
    assert found.rate("consumer", 45, 50) == pytest.approx(100, rel=0.01)
    assert 2200 < found.channels.in_flight_records.max() < 16 * 164


def test_gc_pause(shown: Callable[[str], Shown]) -> None:
    found = shown("gc-pause")
    assert found.rate("source", 0, 30) == pytest.approx(400)
    assert found.share("backpressured", "source", 0, 30) == 0
    assert found.rate("sink", 11, 13, subtask=1) == pytest.approx(300, rel=0.01)
    assert found.rate("source", 33, 40) == found.rate("sink", 33.0, 40, subtask=0) == 0
    assert found.share("idle", "sink", 33, 40, subtask=0) == 1
    assert (found.channel("source->sink", 33, 40, receiver=0).credit >= 4).all()
    assert (found.channel("source->sink", 33, 40, receiver=1).credit == 0).all()
    assert found.rate("source", 42, 60) == pytest.approx(400)


def test_kafka_source(shown: Callable[[str], Shown]) -> None:
    found = shown("kafka-source")
    topic = found.stages[found.stages.stage == "topic"].groupby("t_s")
    lag, age, read = topic.lag_records.sum(), topic.lag_s.max(), topic.records_out.sum()
    assert (read + lag).tolist() == [600 * second for second in range(1, 91)]
    assert lag.loc[:21].max() == 0
    assert lag.loc[25:50].diff().dropna().unique().tolist() == [600]
    assert age.loc[25:50].diff().dropna().tolist() == pytest.approx([1] * 25)
    assert lag.loc[50] == pytest.approx(17_100, rel=0.01)
    assert age.loc[50] == pytest.approx(28.6, abs=0.05)
    assert lag.loc[52:71].diff().dropna().unique().tolist() == [-800]
    assert lag.loc[73:].max() == 0
    [caught_up] = found.summary["lags"]
    assert caught_up["caught_up_after_s"] == pytest.approx(lag.loc[50] / 800, abs=1.8)
    assert "topic limited for another 21 s" in found.summary["details"][0]


def test_flights_is_laid_out_as_it_says() -> None:
    job = build_physical_graph(load_scenario(CONF / "flights.yaml"))
    assert job.rounds == 130
    [link] = job.links
    assert (len(link.channels), link.edge.key) == (5, "origin")
    assert not any(channel.is_local for channel in link.channels)
    output = job.stage("archive").stage.output
    assert output is not None
    assert output.path == "output/archive"


@pytest.mark.parametrize("name", NAMES)
def test_no_line_is_too_long(name: str) -> None:
    lines = (CONF / f"{name}.yaml").read_text().splitlines()
    assert [line for line in lines if len(line) > MOST_COLUMNS] == []
