"""Result tables from ledgers: samples, rates, shares, levels and latencies (design section 6)."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flowcontrol.layout.job import Job
from flowcontrol.records import RESULTS
from modules import load

cases = load("tests/live/cases.py")
runs = load("tests/live/runs.py")

Frames = dict[str, pd.DataFrame]
Tables = dict[str, pa.Table]


@pytest.fixture(scope="module")
def ledgers_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tables]:
    """Return a function that runs a case of ``cases.py`` once; it returns the ledgers."""

    @cache
    def ledgers(name: str) -> Tables:
        job, root = runs.job_of(getattr(cases, name)), tmp_path_factory.mktemp(name)
        load("tests/live/driver.py").Driver(job, root).run()
        found: Tables = runs.live_tables(job, root)
        return found

    return ledgers


def frames_of(runs: ModuleType, job: Job, ledgers: Tables) -> Frames:
    tables = runs.results_of(job, ledgers)
    for name, table in tables.items():
        assert table.schema == RESULTS[name].arrow_schema()
    return {name: table.to_pandas() for name, table in tables.items()}


@pytest.fixture
def frames(ledgers_of: Callable[[str], Tables]) -> Callable[..., Frames]:
    """Return a function that samples a case of ``cases.py`` as often as it is told."""

    def sampled(name: str, interval: float = 0.5) -> Frames:
        job = runs.job_of({**getattr(cases, name), "sample_interval_s": interval})
        return frames_of(runs, job, ledgers_of(name))

    return sampled


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
    interval: float, times: list[float], frames: Callable[..., Frames]
) -> None:
    found = frames("SINGLE", interval)
    for stage in ("source", "sink"):
        assert of(found["stages"], stage=stage).t_s.tolist() == pytest.approx(times)
    assert found["channels"].t_s.tolist() == pytest.approx(times)


def test_a_sample_shows_the_round_at_whose_end_it_stands(frames: Callable[..., Frames]) -> None:
    whole, odd = frames("SINGLE", 0.1), frames("SINGLE", 0.45)
    levels = ["written", "sent", "consumed", "credit", "in_flight_records"]
    by_time = whole["channels"].set_index("t_s")[levels]
    for row in odd["channels"].itertuples():
        shown = by_time.loc[row.t_s]
        assert [getattr(row, name) for name in levels] == shown.tolist()


def test_an_interval_below_a_round_is_a_round(frames: Callable[..., Frames]) -> None:
    """Nothing is known inside a round, and what is known is not counted twice."""
    found, whole = frames("SINGLE", 0.04), frames("SINGLE", 0.1)
    for name in ("stages", "channels", "latency"):
        pd.testing.assert_frame_equal(found[name], whole[name])


def test_an_interrupted_run_ends_with_the_rounds_that_all_have_done(
    ledgers_of: Callable[[str], Tables],
) -> None:
    job, ledgers = runs.job_of(cases.STAGES), dict(ledgers_of("STAGES"))
    whole = frames_of(runs, job, ledgers)

    def until(table: pa.Table, side: str, rounds: int) -> pa.Table:
        keep = [row["side"] != side or row["batch_id"] < rounds for row in table.to_pylist()]
        return table.filter(pa.array(keep))

    ledgers["source->map"] = until(ledgers["source->map"], "receiver", 8)
    ledgers["map->sink"] = until(ledgers["map->sink"], "sender", 7)
    part = frames_of(runs, job, ledgers)
    assert part["stages"].t_s.max() == pytest.approx(0.7)
    for name in ("stages", "channels"):
        early = whole[name][whole[name].t_s <= 0.5].reset_index(drop=True)
        pd.testing.assert_frame_equal(part[name][part[name].t_s <= 0.5], early)


def test_nothing_done_gives_empty_tables(ledgers_of: Callable[[str], Tables]) -> None:
    nothing = {name: table.slice(0, 0) for name, table in ledgers_of("SINGLE").items()}
    found = frames_of(runs, runs.job_of(cases.SINGLE), nothing)
    assert all(len(frame) == 0 for frame in found.values())


# ---------------------------------------------------------------------- stages


@pytest.mark.parametrize("name", ["SINGLE", "COMPETE", "LOCAL", "STAGES", "FAN_OUT", "LARGE"])
def test_counters_and_rates_and_shares_agree(
    name: str, ledgers_of: Callable[[str], Tables], frames: Callable[..., Frames]
) -> None:
    job, found = runs.job_of(getattr(cases, name)), frames(name)
    ledgers = runs.comparable(ledgers_of(name))
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
def test_usages_are_shares_of_the_pools(name: str, frames: Callable[..., Frames]) -> None:
    found = frames(name)["stages"]
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
def test_cursors_keep_their_order_in_every_sample(name: str, frames: Callable[..., Frames]) -> None:
    job, found = runs.job_of(getattr(cases, name)), frames(name, 0.1)
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


def with_ages(job: Job, table: pa.Table, ages: dict[int, list[list[int]]]) -> pa.Table:
    """A ledger whose sink has noted these [rounds, records] in some rounds."""
    rows, sink = table.to_pylist(), [plan.name for plan in job.stages].index("sink")
    for row in rows:
        if row["side"] == "receiver" and row["task_state"] is not None:
            state = json.loads(row["task_state"])
            state["stage"]["ages"] = [[sink, *one] for one in ages.get(row["batch_id"], [])]
            row["task_state"] = json.dumps(state)
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_latency_is_of_the_records_since_the_sample_before(
    ledgers_of: Callable[[str], Tables],
) -> None:
    job = runs.job_of(cases.SINGLE)
    noted = {2: [[3, 50], [1, 40]], 3: [[10, 9], [20, 1]], 7: [[2, 1]]}
    [(edge, table)] = ledgers_of("SINGLE").items()
    found = frames_of(runs, job, {edge: with_ages(job, table, noted)})["latency"]
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


def peak_of(runs: ModuleType, job: Job, ledgers: Tables) -> int:
    """Return the most bytes of Python objects while result tables are made."""
    tracemalloc.start()
    try:
        runs.results_of(job, ledgers)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_by_columns_and_not_by_objects_per_row(
    ledgers_of: Callable[[str], Tables],
) -> None:
    """A row as a Python dict with its parsed states is some 3,000 bytes."""
    mapping = {**cases.STAGES, "sample_interval_s": 1}
    small = runs.job_of(mapping)
    once = ledgers_of("STAGES")
    peaks, rows = [], []
    for times in (20, 80):
        seconds = small.rounds * times * small.round_us / 1e6
        ledgers = repeated(small, once, times)
        rows.append(sum(len(table) for table in ledgers.values()))
        peaks.append(peak_of(runs, runs.job_of({**mapping, "duration_s": seconds}), ledgers))
    assert rows[1] - rows[0] > 4_000
    assert (peaks[1] - peaks[0]) / (rows[1] - rows[0]) < 250


def test_rounds_in_any_order_give_the_same_tables(ledgers_of: Callable[[str], Tables]) -> None:
    job, ledgers = runs.job_of(cases.STAGES), ledgers_of("STAGES")
    sorted_rows = {
        name: table.sort_by([("sender", "ascending"), ("batch_id", "descending")])
        for name, table in ledgers.items()
    }
    runs.assert_same_tables(runs.results_of(job, sorted_rows), runs.results_of(job, ledgers))
