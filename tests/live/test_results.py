"""Result tables from ledgers: samples, rates, shares, levels and latencies (design section 6)."""

from __future__ import annotations

import json
import tracemalloc
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flowcontrol.job import Job
from flowcontrol.live.results import History, result_tables
from flowcontrol.records import RESULTS

Frames = dict[str, pd.DataFrame]


def frames_of(job: Job, ledgers: dict[str, pa.Table]) -> Frames:
    tables = result_tables(job, History.of_tables(job, ledgers))
    for name, table in tables.items():
        assert table.schema == RESULTS[name].arrow_schema()
    return {name: table.to_pandas() for name, table in tables.items()}


def frames(runs: ModuleType, mapping: dict[str, Any]) -> Frames:
    job = runs.job_of(mapping)
    return frames_of(job, runs.reference_tables(job))


def of(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame.reset_index(drop=True)


# ---------------------------------------------------------------------- samples


@pytest.mark.parametrize(
    ("interval", "times"),
    [
        (0.5, [0.5, 1.0, 1.5, 1.8]),
        (0.6, [0.6, 1.2, 1.8]),
        (0.7, [0.7, 1.4, 1.8]),
        (5, [1.8]),
        (0.45, [0.4, 0.9, 1.3, 1.8]),
    ],
)
def test_samples_stand_at_the_ends_of_rounds_by_multiples_of_the_interval(
    interval: float, times: list[float], runs: ModuleType, cases: ModuleType
) -> None:
    found = frames(runs, {**cases.SINGLE, "sample_interval_s": interval})
    for stage in ("source", "sink"):
        assert of(found["stages"], stage=stage).t_s.tolist() == pytest.approx(times)
    assert found["channels"].t_s.tolist() == pytest.approx(times)


def test_a_sample_shows_the_round_at_whose_end_it_stands(
    runs: ModuleType, cases: ModuleType
) -> None:
    whole = frames(runs, {**cases.SINGLE, "sample_interval_s": 0.1})
    odd = frames(runs, {**cases.SINGLE, "sample_interval_s": 0.45})
    levels = ["written", "sent", "consumed", "credit", "in_flight_records"]
    by_time = whole["channels"].set_index("t_s")[levels]
    for row in odd["channels"].itertuples():
        shown = by_time.loc[row.t_s]
        assert [getattr(row, name) for name in levels] == shown.tolist()


def test_an_interval_below_a_round_is_a_round(runs: ModuleType, cases: ModuleType) -> None:
    """Nothing is known inside a round, and what is known is not counted twice."""
    found = frames(runs, {**cases.SINGLE, "sample_interval_s": 0.04})
    whole = frames(runs, {**cases.SINGLE, "sample_interval_s": 0.1})
    for name in ("stages", "channels", "latency"):
        pd.testing.assert_frame_equal(found[name], whole[name])


def test_an_interrupted_run_ends_with_the_rounds_that_all_have_done(
    runs: ModuleType, cases: ModuleType
) -> None:
    job = runs.job_of(cases.STAGES)
    ledgers = runs.reference_tables(job)
    whole = frames_of(job, ledgers)

    def until(table: pa.Table, side: str, rounds: int) -> pa.Table:
        keep = [row["side"] != side or row["batch_id"] < rounds for row in table.to_pylist()]
        return table.filter(pa.array(keep))

    ledgers["source->map"] = until(ledgers["source->map"], "receiver", 8)
    ledgers["map->sink"] = until(ledgers["map->sink"], "sender", 7)
    part = frames_of(job, ledgers)
    assert part["stages"].t_s.max() == pytest.approx(0.7)
    for name in ("stages", "channels"):
        early = whole[name][whole[name].t_s <= 0.5].reset_index(drop=True)
        pd.testing.assert_frame_equal(part[name][part[name].t_s <= 0.5], early)


def test_nothing_done_gives_empty_tables(runs: ModuleType, cases: ModuleType) -> None:
    job = runs.job_of(cases.SINGLE)
    nothing = {name: table.slice(0, 0) for name, table in runs.reference_tables(job).items()}
    assert all(len(frame) == 0 for frame in frames_of(job, nothing).values())


# ---------------------------------------------------------------------- stages


@pytest.mark.parametrize("name", ["SINGLE", "COMPETE", "LOCAL", "STAGES", "FAN_OUT", "LARGE"])
def test_counters_and_rates_and_shares_agree(
    name: str, runs: ModuleType, cases: ModuleType
) -> None:
    job, found = runs.job_of(getattr(cases, name)), frames(runs, getattr(cases, name))
    ledgers = runs.comparable(runs.reference_tables(job))
    for _, own in found["stages"].groupby(["stage", "subtask"]):
        seconds = own.t_s.diff().fillna(own.t_s.iloc[0])
        for way in ("in", "out"):
            assert own[f"records_{way}"].is_monotonic_increasing
            counted = (own[f"rate_{way}"] * seconds).cumsum()
            assert counted.tolist() == pytest.approx(own[f"records_{way}"].tolist())
        shares = own[["busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s"]]
        assert shares.sum(axis=1).tolist() == pytest.approx([1000] * len(own))
        assert (shares >= 0).all().all()
    last = found["stages"][found["stages"].t_s == found["stages"].t_s.max()]
    for plan in job.stages:
        own = last[last.stage == plan.name]
        # Every edge carries all that the task emits: it counts once.
        routed = {
            sum(runs.link_routed(ledgers[link.name], i) for i in range(plan.stage.parallelism))
            for link in plan.outputs
        } or {0}
        taken = sum(sum(runs.taken(ledgers, link.name).values()) for link in plan.inputs)
        assert ({own.records_out.sum()}, own.records_in.sum()) == (routed, taken)


@pytest.mark.parametrize("name", ["SINGLE", "COMPETE", "LOCAL", "FAN_IN"])
def test_usages_are_shares_of_the_pools(name: str, runs: ModuleType, cases: ModuleType) -> None:
    found = frames(runs, getattr(cases, name))["stages"]
    usages = ["in_pool_usage", "floating_buffers_usage", "exclusive_buffers_usage"]
    assert ((found[usages] >= 0) & (found[usages] <= 1)).all().all()
    senders = found[found.output_pool_size > 0]
    ratio = senders.output_pool_used / senders.output_pool_size
    assert senders.out_pool_usage.tolist() == pytest.approx(ratio.tolist())
    sinks = found[found.stage == "sink"]
    assert (sinks.output_pool_size == 0).all()
    assert (sinks.out_pool_usage == 0).all()
    if name == "LOCAL":  # no exclusive buffers, and its floating ones are never taken
        assert (sinks[usages] == 0).all().all()
        assert sinks.input_queue_buffers.max() > 0
    else:
        assert sinks.floating_buffers_usage.max() == 1


# ---------------------------------------------------------------------- channels


@pytest.mark.parametrize("name", ["SINGLE", "COMPETE", "LOCAL", "STAGES", "LARGE"])
def test_cursors_keep_their_order_in_every_sample(
    name: str, runs: ModuleType, cases: ModuleType
) -> None:
    mapping = {**getattr(cases, name), "sample_interval_s": 0.1}
    job, found = runs.job_of(mapping), frames(runs, mapping)
    channels = found["channels"]
    assert (channels.consumed <= channels.sent).all()
    assert (channels.sent <= channels.released).all()
    assert (channels.released <= channels.written).all()
    unseen = channels.released - channels.sent - channels.backlog
    assert unseen.isin([0, 1]).all()  # 1: a full last buffer
    size = {link.name: link.record_bytes for link in job.links}
    expected = channels.in_flight_records * channels.edge.map(size)
    assert channels.in_flight_bytes.tolist() == expected.tolist()
    if name == "LOCAL":
        assert (channels.announced == channels.released).all()
        assert (channels.credit == 0).all()
    else:
        assert (channels.sent <= channels.announced).all()
        assert (channels.credit <= channels.announced - channels.sent).all()
    for edge, own in channels.groupby("edge"):
        sender, receiver = (
            found["stages"][found["stages"].stage == stage] for stage in str(edge).split("->")
        )
        routed = sender.groupby("t_s").records_out.sum()
        taken = receiver.groupby("t_s").records_in.sum()
        flying = own.groupby("t_s").in_flight_records.sum()
        assert (routed - taken).tolist() == flying.tolist()


# ---------------------------------------------------------------------- latency


def with_latency(table: pa.Table, latency: dict[int, list[list[int]]]) -> pa.Table:
    """A ledger whose sink has noted these [rounds, records] in some rounds."""
    rows = table.to_pylist()
    for row in rows:
        if row["side"] == "receiver" and row["task_state"] is not None:
            state = json.loads(row["task_state"])
            row["task_state"] = json.dumps({**state, "latency": latency.get(row["batch_id"], [])})
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_latency_is_of_the_records_since_the_sample_before(
    runs: ModuleType, cases: ModuleType
) -> None:
    job = runs.job_of(cases.SINGLE)
    noted = {2: [[3, 50], [1, 40]], 3: [[10, 9], [20, 1]], 7: [[2, 1]]}
    [(edge, table)] = runs.reference_tables(job).items()
    found = frames_of(job, {edge: with_latency(table, noted)})["latency"]
    # Nothing was taken up after 1 s: no row. A round is 100 ms.
    assert found.t_s.tolist() == [0.5, 1.0]
    first, second = found.to_dict("records")
    assert (first["stage"], first["subtask"], first["count"]) == ("sink", 0, 100)
    assert first["mean_ms"] == pytest.approx((40 * 1 + 50 * 3 + 9 * 10 + 20) * 100 / 100)
    # Ranks 50, 90, 99 and 100 of 40 ones, 50 threes, 9 tens and a twenty.
    percentiles = [first[name] for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")]
    assert percentiles == [300, 300, 1000, 2000]
    assert second["count"] == 1
    assert {second[name] for name in ("mean_ms", "p50_ms", "p90_ms", "max_ms")} == {200}


# ---------------------------------------------------------------------- memory


def repeated(job: Job, tables: dict[str, pa.Table], times: int) -> dict[str, pa.Table]:
    """Return ledgers that are so many times as long: the same rounds again and again."""
    found = {}
    for name, table in tables.items():
        place = table.schema.get_field_index("batch_id")
        numbers = table["batch_id"].to_numpy()
        parts = [
            table.set_column(place, "batch_id", pa.array(numbers + again * job.rounds))
            for again in range(times)
        ]
        found[name] = pa.concat_tables(parts).combine_chunks()
    return found


def peak_of(job: Job, ledgers: dict[str, pa.Table]) -> int:
    """Return the most bytes of Python objects while result tables are made."""
    tracemalloc.start()
    try:
        result_tables(job, History.of_tables(job, ledgers))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_by_columns_and_not_by_objects_per_row(
    runs: ModuleType, cases: ModuleType
) -> None:
    """A row as a Python dict with its parsed states is some 3,000 bytes."""
    mapping = {**cases.STAGES, "sample_interval_s": 1}
    small = runs.job_of(mapping)
    once = runs.reference_tables(small)
    peaks, rows = [], []
    for times in (40, 160):
        seconds = small.rounds * times * small.round_us / 1e6
        ledgers = repeated(small, once, times)
        rows.append(sum(len(table) for table in ledgers.values()))
        peaks.append(peak_of(runs.job_of({**mapping, "duration_s": seconds}), ledgers))
    assert rows[1] - rows[0] > 5_000
    assert (peaks[1] - peaks[0]) / (rows[1] - rows[0]) < 250
    assert peaks[1] / rows[1] < 600


def test_rounds_in_any_order_give_the_same_tables(runs: ModuleType, cases: ModuleType) -> None:
    job = runs.job_of(cases.STAGES)
    ledgers = runs.reference_tables(job)
    expected = result_tables(job, History.of_tables(job, ledgers))
    sorted_rows = {
        name: table.sort_by([("sender", "ascending"), ("batch_id", "descending")])
        for name, table in ledgers.items()
    }
    found = result_tables(job, History.of_tables(job, sorted_rows))
    assert {name: table.to_pydict() for name, table in found.items()} == {
        name: table.to_pydict() for name, table in expected.items()
    }
