"""Sources that read a log: a pause worked out by hand, what is conserved, and latencies."""

from __future__ import annotations

import math
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.kernel.loop import advance
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.replay import Replayed
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.results.state_reader import StateReader
from flowcontrol.scenario import parse_scenario
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual import simulate
from staged_runs import run_staged

PAUSE = [{"at_s": 2, "for_s": 3}]


def mapping(source: dict[str, Any], sink: Any = None, **keys: Any) -> dict[str, Any]:
    """A source that reads 150 of 100 records/s; rounds of 100 ms."""
    first = {"name": "source", "record_bytes": 1000, "emit_rate": 150, "arrival_rate": 100}
    last = {"name": "sink"} | ({} if sink is None else {"service_rate": sink})
    return {
        "schema": 1, "name": "log", "duration_s": 20, "round_ms": 100,
        "stages": [first | source, last], "edges": [{"from": "source", "to": "sink"}], **keys,
    }  # fmt: skip


def samples(source: dict[str, Any], sink: Any = None, **keys: Any) -> pd.DataFrame:
    tables = simulate(parse_scenario(mapping(source, sink, **keys))).tables
    frame = tables["stages"].to_pandas()
    return frame[frame.stage == "source"].set_index("t_s")


BY_HAND = """
 t written read lag   age
 1     100  100   0  0.00
 2     200  200   0  0.00
 3     300  200 100  0.99
 4     400  200 200  1.99
 5     500  200 300  2.99
 6     600  350 250  2.49
 7     700  500 200  1.99
 8     800  650 150  1.49
 9     900  800 100  0.99
10    1000  950  50  0.49
11    1100 1100   0  0.00
12    1200 1200   0  0.00
"""
"""100 records/s are written; the source stands still from 2 to 5 s and can read 150 records/s.
At 5 s 300 wait, which it reads at 150 - 100 records/s more than come: 6 s. Record k is written at
(k + 1) / 100 s: at 6 s the oldest that waits is record 350, written at 3.51 s."""


def test_a_pause_by_hand() -> None:
    found = samples({"stalls": PAUSE}).loc[1:12]
    expected = [line.split() for line in BY_HAND.split("\n")[2:-1]]
    rows = zip(found.index, found.records_out, found.lag_records, found.lag_s, strict=True)
    assert [(t, read, lag, round(age, 6)) for t, read, lag, age in rows] == [
        (int(t), int(read), int(lag), float(age)) for t, _, read, lag, age in expected
    ]
    # Reading a record takes 1/150 s: two thirds of the time at 100 a second, else all of it.
    busy = found.busy_ms_per_s.round(0)
    assert busy.loc[[1, 2, 12]].tolist() == [667] * 3
    assert busy.loc[3:11].tolist() == [1000] * 9


def test_a_pause_without_a_log_is_lost() -> None:
    found = samples({"stalls": PAUSE, "arrival_rate": None, "emit_rate": 100})
    assert found.records_out.loc[20] == 1700
    assert (found.lag_records == 0).all()
    assert (found.lag_s == 0).all()


@pytest.mark.parametrize(("pause_s", "speed"), [(3, 150), (3, 400), (10, 300)])
def test_catching_up_takes_the_lag_over_the_spare_speed(pause_s: int, speed: int) -> None:
    stalls = [{"at_s": 2, "for_s": pause_s}]
    keys = {"duration_s": 40, "sample_interval_s": 0.1}
    found = samples({"stalls": stalls, "emit_rate": speed}, **keys)
    lag = found.lag_records.loc[2 + pause_s]
    assert lag == 100 * pause_s
    caught_up = found.index[(found.index > 2 + pause_s) & (found.lag_records == 0)].min()
    assert caught_up == pytest.approx(2 + pause_s + lag / (speed - 100), abs=0.1)


def test_being_blocked_loses_nothing() -> None:
    """The sink does 50 of 100 records/s for 10 s: what waits in front of it and in the log."""
    sink = [{"at_s": 0, "rate": 50}, {"at_s": 10, "rate": 1000}]
    found = samples({"record_bytes": 10_000}, sink, duration_s=60)
    assert (found.records_out + found.lag_records).tolist() == [100 * t for t in range(1, 61)]
    assert found.lag_records.loc[10] > 0
    assert found.backpressured_ms_per_s.loc[10] > 600
    assert found.lag_records.loc[60] == 0


def test_a_source_that_can_read_faster_than_records_come_is_idle_meanwhile() -> None:
    found = samples({"emit_rate": 1000})
    assert found.busy_ms_per_s.loc[20] == pytest.approx(100, abs=1)
    assert found.idle_ms_per_s.loc[20] == pytest.approx(900, abs=1)


def test_a_log_that_is_read_out_and_not_written_any_more_ends_the_source() -> None:
    arrivals = [{"at_s": 0, "rate": 100}, {"at_s": 4, "rate": 0}]
    job = build_physical_graph(
        parse_scenario(mapping({"arrival_rate": arrivals, "stalls": PAUSE}, 10_000))
    )
    ends = [
        batch.number
        for batch in run_staged(job)
        if batch.state.task("source").state.is_finished == 1
    ]
    assert ends[0] == 63  # 400 records, of which 200 are read from 5 s on, 150 a second


@pytest.mark.parametrize("key", ["arrival_rate", "emit_rate"])
@pytest.mark.parametrize("nothing", [0, [{"at_s": 0, "rate": 0}, {"at_s": 1, "rate": 0}]])
@pytest.mark.parametrize("idle_after_s", [None, 1])
def test_a_partition_that_nobody_writes_to_has_not_ended(
    key: str, nothing: Any, idle_after_s: float | None, clocks: ModuleType
) -> None:
    """Its watermark stands, and no window fires; with an idle time nobody waits for it."""
    source = {
        "parallelism": 2, "emit_rate": 200, "arrival_rate": [100, nothing],
        "event_time": {}, "watermark": {"delay_s": 0, "idle_after_s": idle_after_s},
    }  # fmt: skip
    if key == "emit_rate":
        source |= {"arrival_rate": None, "emit_rate": [100, nothing]}
    given = mapping(source, duration_s=8)
    given["stages"][1]["window"] = {"kind": "tumbling", "size_s": 1}
    given["edges"][0] |= {"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 2}}
    made = build_physical_graph(parse_scenario(given))
    clocks.compare(made)
    times = simulate(parse_scenario(given)).tables["time"].to_pandas()
    last = times[times.t_s == 8].set_index(["stage", "subtask"])
    assert (last.fired["sink"].sum() > 0) == (idle_after_s is not None)
    assert last.is_idle["source", 1] == (idle_after_s is not None)
    assert last.watermark_s.isna()["source", 1]


# ---------------------------------------------------------------- latency


def latencies(source: dict[str, Any], **keys: Any) -> pd.DataFrame:
    tables = simulate(parse_scenario(mapping(source, **keys))).tables
    return tables["latency"].to_pandas().set_index("t_s")


def test_latency_counts_from_emission_unless_it_is_to_count_from_arrival() -> None:
    read, arrived = (
        latencies({"stalls": PAUSE, "latency_from": start}) for start in ("emission", "arrival")
    )
    assert read["count"].tolist() == arrived["count"].tolist()
    assert read.max_ms.max() == 200
    # The record that is written when the pause begins is read 3 s later.
    assert 3000 <= arrived.max_ms.loc[6] <= 3200
    assert arrived.mean_ms.loc[13:].tolist() == read.mean_ms.loc[13:].tolist()
    waited = (arrived.mean_ms - read.mean_ms).loc[8]
    assert waited == pytest.approx(1850, abs=100)  # between 1.99 and 1.49 s, and a little more


@settings(max_examples=settings.default.max_examples * 2 // 5)
@given(
    arrivals=st.lists(st.integers(0, 300), min_size=3, max_size=3),
    speed=st.integers(1, 400),
    service=st.integers(1, 400),
)
def test_ages_from_arrival_are_those_of_the_offsets(
    arrivals: list[int], speed: int, service: int
) -> None:
    """Every record, one by one: when it was written, and when the sink takes it up."""
    rates = [{"at_s": 2 * i, "rate": rate} for i, rate in enumerate(arrivals)]
    source = {"arrival_rate": rates, "emit_rate": speed, "latency_from": "arrival"}
    keys = {"duration_s": 6, "sample_interval_s": 0.1}
    scenario = parse_scenario(mapping(source, service, **keys))
    taken = 0
    [schedule] = scenario.stage("source").arrival_rate or ()
    ages = simulate(scenario).tables["latency"].to_pandas().set_index("t_s")
    written = [schedule.records_until(n * 100_000) for n in range(61)]
    for number, batch in enumerate(run_staged(build_physical_graph(scenario))):
        count = batch.state.task("sink").taken
        if count > 0:
            row = ages.loc[round((number + 1) / 10, 6)]
            rounds = np.searchsorted(written, range(taken, taken + count), side="right") - 1
            assert row["count"] == count
            assert row.mean_ms == pytest.approx(100 * (number - rounds).mean())
            assert row.max_ms == 100 * (number - rounds.min())
        taken += count


# Records/s that it reads, that are written for 1 s, and the length of a round, ms.
READERS = [
    (25, 1000, 10),  # four rounds a record
    (150, 1000, 10),  # one and a half a round
    (150, 100, 10),  # each is read before the next is written
    (3428.571, 3428.571, 7),  # a little less than 24 a round: the last is always begun
    (1000, 1000, 10),  # no record is begun in one round and done in another
]


@pytest.mark.parametrize("service_time", ["constant", "exponential"])
@pytest.mark.parametrize(("speed", "rate", "round_ms"), READERS)
def test_a_record_that_is_being_read_is_not_in_flight(
    speed: float, rate: float, round_ms: float, service_time: str
) -> None:
    """Little's law from the first record to the last: in flight over the rounds is the ages."""
    arrivals = [{"at_s": 0, "rate": rate}, {"at_s": 0.7, "rate": 0}]
    source = {"emit_rate": speed, "arrival_rate": arrivals, "record_bytes": 10}
    duration_s = min(35, math.ceil(2 + 1.2 * 0.7 * rate / speed))  # until all is read
    keys = {"duration_s": duration_s, "round_ms": round_ms, "sample_interval_s": round_ms / 1000}
    options = {"execution.buffer-timeout.interval": 0}
    made = mapping(source | {"service_time": service_time}, 5000, options=options, **keys)
    tables = {name: t.to_pandas() for name, t in simulate(parse_scenario(made)).tables.items()}
    stages, ages = tables["stages"], tables["latency"]
    emitted, taken = (
        stages[stages.stage == stage][column].to_numpy()
        for stage, column in (("source", "records_out"), ("sink", "records_in"))
    )
    assert emitted[-1] == taken[-1] > 50
    in_rounds = (ages["count"] * ages.mean_ms / round_ms).sum()
    assert (emitted - taken).sum() == round(in_rounds, 6)
    # Flushed at once to a sink that is fast enough: a round on the way, and seldom another.
    assert ages.max_ms.max() <= 2 * round_ms


# ---------------------------------------------------------------- other systems


SPARK = {"throttle": {"name": "static_admission", "interval_ms": 500, "max_records": 0}}
STORM = {"throttle": {"name": "stepwise_sleep"}}


@pytest.mark.parametrize("system", ["flink", "flink-1.4", "unbounded", SPARK, STORM])
def test_whatever_slows_a_source_its_log_keeps_the_rest(system: Any) -> None:
    found = samples({"stalls": PAUSE}, 120, system=system)
    assert (
        (found.records_out + found.lag_records)
        .between(100 * found.index - 1, 100 * found.index)
        .all()
    )  # a record may be in the source's hand
    assert found.lag_records.loc[5] >= 299


def test_batches_are_read_at_the_speed_of_the_source() -> None:
    """A batch every 2 s has 200 records, which take 1.33 s to be read."""
    system = {"throttle": {"name": "static_admission", "interval_ms": 2000, "max_records": 0}}
    found = samples({}, system=system, sample_interval_s=0.5)
    read = found.records_out.loc[10:12].tolist()
    assert [later - now for now, later in pairwise(read)] == [75, 75, 50, 0]


def test_a_replayed_log_arrives_at_its_rate() -> None:
    """Rows of an input are written to the log at the arrival rate, and no more than there are."""
    job = build_physical_graph(parse_scenario(mapping({"emit_rate": 1000})))
    rounds = list(run_staged(job, Replayed(limits={("source", 0): 130})))
    ends = [batch.state.task("source").log.end for batch in rounds]
    assert ends == [min(130, 10 * (number + 1)) for number in range(len(rounds))]
    assert rounds[-1].state.task("source").state.is_finished == 1


def test_the_kernel_stops_a_replayed_log_where_the_reference_does() -> None:
    job = build_physical_graph(parse_scenario(mapping({"stalls": PAUSE})))
    limits = {("source", 0): 333}
    memory = fill(job, LogSizes(1 << 12, 1 << 12), track=False, replayed=Replayed(limits=limits))
    reader = StateReader(job, memory)
    for batch in run_staged(job, Replayed(limits=limits)):
        assert advance(memory.cells, batch.number + 1) == 0
        assert reader.read() == batch.state, batch.number


def test_the_log_of_a_job_that_starts_later_is_there_already() -> None:
    """A topic is written whether or not a job reads it: 500 records wait at 5 s."""
    plain = mapping({})
    stages, edges = plain.pop("stages"), plain.pop("edges")
    jobs = [{"name": "late", "start_at_s": 5, "stages": stages, "edges": edges}]
    frame = simulate(parse_scenario({**plain, "jobs": jobs})).tables["stages"].to_pandas()
    found = frame[frame.stage == "source"].set_index("t_s")
    assert found.lag_records.loc[[4, 6, 10, 15]].tolist() == [0, 450, 250, 0]


def test_a_reader_that_a_savepoint_has_stopped_waits_for_it_idly(clocks: ModuleType) -> None:
    """Also where its rate becomes nothing; what its log still holds is no work of its own."""
    stages = [
        {
            "name": "source",
            "arrival_rate": 9000,
            "emit_rate": [{"at_s": 0, "rate": 9000}, {"at_s": 0.07, "rate": 0}],
        },
        {"name": "sink", "service_rate": 500},
    ]
    job = build_physical_graph(
        parse_scenario(
            {
                "schema": 1,
                "name": "stopped",
                "duration_s": 0.3,
                "round_ms": 10,
                "stages": stages,
                "edges": [{"from": "source", "to": "sink"}],
                "options": {"execution.checkpointing.interval": "1s"},
                "savepoints": [{"at_s": 0.02, "stop": True}],
            }
        )
    )
    idle = []

    def look(state: RoundState) -> None:
        task = state.tasks[0]
        if task.state.open_inputs == 0 and task.state.is_finished == 0:
            assert task.log.end > task.state.taken
            idle.append(task.idle_us)

    clocks.compare(job, every=(1, 3), look=look)
    assert len(idle) > 10
    assert set(idle[1:]) == {10_000}
