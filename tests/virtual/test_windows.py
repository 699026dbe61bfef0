"""Windows on the virtual clock: laws over tables, and room for windows and results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from flowcontrol import RunError
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory import log_sizes
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.places import FLAG_RESULTS, FLAG_WINDOWS
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job, simulate
from modules import load

clocks = load("tests/virtual/clocks.py")

# ---------------------------------------------------------------- laws

small = load("tests/job/small_windows.py")

WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": small.TUMBLING,
    "session": {"kind": "session", "gap_s": 0.05},
    "purging": {**small.TUMBLING, "accumulate": False, "trigger": {"count": 1}},
}
"""Windows of which each record is in one, and is counted once in the results of a whole run."""
COUNTED = {**small.TUMBLING, "trigger": {"count": 1}}
ZIPF = {"kind": "zipf", "keys": 3, "exponent": 1.1}
SLIDING = {"kind": "sliding", "size_s": 0.4, "slide_s": 0.1}


@pytest.mark.parametrize("delay_s", [0, 0.1, 0.3, 1e6])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_record_is_in_its_window_or_late(kind: str, delay_s: float) -> None:
    """A window per subtask of two; a source that falls silent ends, and with it all windows."""
    given = small.keyed(WINDOWS[kind], source={"watermark": {"delay_s": delay_s}})
    tables = simulate(given).tables
    row, n = last_of(tables), tables["output/count"].to_pandas().n.sum()
    assert row.records_in == 200
    assert row.late_records + n == 200
    assert row.open_windows == row.window_state_bytes == 0
    if kind != "session":  # a session takes a late record in if it joins one that is kept
        assert (row.late_records > 0) == (delay_s < 0.3)
    assert row.fired == tables["output/count"].num_rows > 0


def last_of(tables: Any, stage: str = "count") -> Any:
    """The figures of a stage in the last sample, all subtasks together."""
    rows = []
    for table in (tables[name].to_pandas() for name in ("stages", "time")):
        own = table[(table.stage == stage) & (table.t_s == table.t_s.max())]
        rows.append(own.select_dtypes("number").drop(columns="t_s").sum())
    return pd.concat(rows).drop("subtask")


def contents(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """What was in windows, without when it came out."""
    names = ["window_start", "window_end", "key", "n"]
    return sorted(table[names].itertuples(index=False, name=None))


@pytest.mark.parametrize(
    "window",
    [small.TUMBLING, {"kind": "sliding", "size_s": 0.4, "slide_s": 0.1}, WINDOWS["session"]],
)
def test_a_slow_sink_changes_no_window(window: dict[str, Any]) -> None:
    """Nothing is late, so only when results come out depends on backpressure."""
    fast, slow = (
        simulate(small.keyed(window, source={"record_bytes": 4000}, count={"record_bytes": 4000},
                       sink={"service_rate": rate}, duration_s=30)).tables
        for rate in (100_000, 12)
    )  # fmt: skip
    found = [tables["output/count"].to_pandas() for tables in (fast, slow)]
    assert contents(found[0]) == contents(found[1])
    assert len(found[0]) > 60
    assert found[1].emitted_s.max() > found[0].emitted_s.max() + 0.5, "it did hold them up"
    blocked = slow["stages"].to_pandas().query("stage == 'source'").backpressured_ms_per_s
    assert blocked.max() > 100, "up to the source"


def test_a_key_is_at_one_subtask() -> None:
    table = simulate(small.keyed(COUNTED)).tables["output/count"]
    keys = table.to_pandas().groupby("key").n.max().sort_values()
    assert int(keys.index[-1]) == 1, "the first key of a Zipf distribution comes up most"
    assert len(keys) > 15


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ({"key_weights": {"b": 1, "a": 1}}, {"key_weights": {"a": 3, "c": 1, "b": 0.5}}, "abc"),
        ({"key_weights": {"a": 1, "2": 1}}, {"key_distribution": ZIPF}, ["1", "2", "3", "a"]),
        ({"key_distribution": {**ZIPF, "kind": "uniform", "exponent": None}},
         {"key_distribution": {**ZIPF, "keys": 5}}, "12345"),
    ],
)  # fmt: skip
def test_a_key_is_that_of_its_name_on_every_edge(
    one: dict[str, Any], other: dict[str, Any], names: Any
) -> None:
    """Also where edges name them in another order, or some of them alone."""
    given = small.mapping(small.TUMBLING, source={}, count={"parallelism": 3})
    given["stages"].insert(0, {**given["stages"][0], "name": "also"})
    given["edges"][:1] = [
        {"from": name, "to": "count", "partitioner": "hash", **keys}
        for name, keys in (("source", one), ("also", other))
    ]
    given["edges"][-1]["partitioner"] = "rebalance"
    job = build_physical_graph(parse_scenario(given))
    clocks.compare(job, 100, every=(1, 7))
    table = run_job(job).tables["output/count"].to_pandas()
    assert sorted(table.key.unique()) == list(names)
    assert table.n.sum() == 400
    assert not table.duplicated(["window_start", "key"]).any(), "records of one key meet"


# ---------------------------------------------------------------- bursts


@pytest.mark.parametrize("is_on", [False, True])
def test_both_clocks_take_a_snapshot_in_a_burst_if_timers_are_interruptible(is_on: bool) -> None:
    """400 results of one watermark need 8 s; checkpoints are asked for once a second."""
    given = small.bursting(is_on=is_on, duration_s=8)
    bursts: dict[int, set[int]] = {}

    def look(state: Any) -> None:
        count = state.task("count")
        if count.window.held.to_give > 0:
            seen = bursts.setdefault(count.window.store.watermark, set())
            seen.add(count.checkpoints.state.handled)

    clocks.compare(build_physical_graph(given), every=(1, 1000), look=look)
    assert bursts
    assert any(len(seen) > 1 for seen in bursts.values()) == is_on


def test_windows_of_a_snapshot_in_a_burst_fire_once_more_only_if_they_had_not_fired() -> None:
    """A task that fails in the burst puts out again what it had behind the barrier."""
    failures = [{"at_s": 5, "stage": "count", "subtask": 0}]
    whole, found = (
        simulate(small.bursting(is_on=True, duration_s=40, failures=each)).tables
        for each in ([], failures)
    )
    [restart] = found["restarts"].to_pylist()
    assert restart["checkpoint_id"] > 2, "one of the burst"
    first = [table["output/count"].to_pandas().query("window_end <= 4") for table in (whole, found)]
    names = ["window_start", "window_end", "key", "n"]
    every, again = (rows[names].drop_duplicates() for rows in first)
    assert contents(every) == contents(again)
    assert len(first[0]) < len(first[1]) < 2 * len(first[0])


def test_windows_of_processing_time_need_no_event_time() -> None:
    """Windows of the clock fire at its round, whatever records say."""
    given = small.scenario(
        {"kind": "tumbling", "size_s": 0.5, "trigger": "processing_time"},
        source={"event_time": None, "watermark": None},
    )
    tables = simulate(given).tables
    table = tables["output/count"].to_pandas()
    assert contents(table)[:2] == [(0.0, 0.5, "1", table.n[0]), (0.5, 1.0, "1", table.n[1])]
    assert list(table.emitted_s[:3]) == pytest.approx([0.51, 1.01, 1.51])
    row = last_of(tables)
    assert table.n.sum() == 199, "the last one's window had not ended when the job did"
    assert (row.records_in, row.open_windows, row.late_records) == (200, 1, 0)


def test_what_is_chained_behind_takes_the_results() -> None:
    """Half of ten results leave; the sink in the same task counts five."""
    given = small.mapping({"kind": "global", "trigger": {"count": 20}})
    given["stages"][2:] = [{"name": "half", "selectivity": 0.5}, {"name": "sink"}]
    given["edges"][1:] = [
        {"from": "count", "to": "half", "partitioner": "forward", "chain": True},
        {"from": "half", "to": "sink", "partitioner": "forward"},
    ]
    tables = simulate(small.checked(given)).tables
    counts = {stage: last_of(tables, stage) for stage in ("count", "half", "sink")}
    assert (counts["count"].records_in, counts["count"].records_out) == (200, 10)
    assert (counts["half"].records_in, counts["half"].records_out) == (10, 5)
    assert counts["sink"].records_in == 5
    assert (counts["count"].fired, counts["half"].fired) == (10, 0)


# ---------------------------------------------------------------- tables, room


def test_the_table_of_results() -> None:
    given = small.scenario(
        {"kind": "global", "trigger": {"count": 50}, "aggregate": {"total": "count"}}
    )
    table = simulate(given).tables["output/count"]
    assert table.column_names == ["window_start", "window_end", "key", "total", "emitted_s"]
    rows = table.to_pandas()
    assert rows.window_start.isna().all()
    assert rows.window_end.isna().all()
    assert list(rows.total) == [50, 100, 150, 200]
    assert set(rows.key) == {"1"}


def test_keys_go_by_the_names_of_the_edge() -> None:
    given = small.keyed_mapping(small.TUMBLING)
    del given["edges"][1]["key_distribution"]
    given["edges"][1]["key_weights"] = {"anna": 3, "berta": 1, "carla": 0}
    counts = simulate(small.checked(given)).tables["output/count"].to_pandas().groupby("key").n
    assert counts.sum().to_dict() == pytest.approx({"anna": 150, "berta": 50}, abs=20)


def test_a_run_that_lacks_room_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more room for windows, and for results: the tables are those of a run that had it."""
    given = small.keyed(SLIDING)
    expected = simulate(given).tables
    sizes, grown = LogSizes.first, []
    tight = staticmethod(lambda *x: replace(sizes(*x), windows=20, results=8))
    more = LogSizes.grown
    monkeypatch.setattr(LogSizes, "first", tight)
    monkeypatch.setattr(
        LogSizes, "grown", lambda self, flags, *x: grown.append(flags) or more(self, flags, *x)
    )
    found = simulate(given).tables
    assert {flag for flags in grown for flag in (FLAG_WINDOWS, FLAG_RESULTS) if flags & flag} == {
        FLAG_WINDOWS,
        FLAG_RESULTS,
    }
    assert all(found[name].equals(expected[name]) for name in expected)


def test_too_many_windows_end_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sizes, "MOST_BYTES", 8 * 1000)
    first = LogSizes.first
    tight = staticmethod(lambda *x: replace(first(*x), windows=20))
    monkeypatch.setattr(LogSizes, "first", tight)
    with pytest.raises(RunError, match=r"windows of a subtask that are open, at .*fewer keys"):
        simulate(small.keyed(SLIDING))
