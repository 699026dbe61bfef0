"""Windows on the virtual clock: rounds by hand, laws over tables, bursts as back pressure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import flowcontrol
from flowcontrol import RoundState, RunError
from flowcontrol.job.windowed_task import Result
from flowcontrol.protocol.event_time import MIN_TIME
from flowcontrol.protocol.event_time.output_rules import WATERMARK
from flowcontrol.protocol.event_time.stamps import time_of
from flowcontrol.protocol.windows.firing import EVENT_TIMERS
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.virtual import log_sizes, simulate
from flowcontrol.virtual.header import FLAG_RESULTS, FLAG_WINDOWS
from flowcontrol.virtual.log_sizes import LogSizes

SEGMENT = "taskmanager.memory.segment-size"
INTERVAL = "pipeline.auto-watermark-interval"
FLUSH = "execution.buffer-timeout.interval"
FEW_BUFFERS = {
    SEGMENT: "4kb",
    INTERVAL: "50ms",
    FLUSH: "10ms",
    "taskmanager.network.memory.buffers-per-channel": 1,
    "taskmanager.network.memory.floating-buffers-per-gate": 1,
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": 0,
}
ZIPF = {"kind": "zipf", "keys": 30}


def mapping(window: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A source of 100 records/s for 2 s, windows, a sink; keys are the file's, or a stage's."""
    source = {
        "name": "source",
        "arrival_rate": [{"at_s": 0, "rate": 100}, {"at_s": 2, "rate": 0}],
        "emit_rate": 1000,
        "record_bytes": 400,
        "event_time": {"out_of_orderness_s": 0.3},
        "watermark": {"delay_s": 0.3},
    }
    given = {
        "schema": 1,
        "name": "windows",
        "duration_s": 4,
        "round_ms": 10,
        "sample_interval_s": 1,
        "options": {SEGMENT: "4kb", INTERVAL: "50ms", FLUSH: "10ms"},
        "stages": [
            {**source, **keys.pop("source", {})},
            {"name": "count", "record_bytes": 400, "window": window, **keys.pop("count", {})},
            {"name": "sink", **keys.pop("sink", {})},
        ],
        "edges": [{"from": "source", "to": "count"}, {"from": "count", "to": "sink"}],
    }
    return {**given, **keys}


def scenario(window: dict[str, Any], **keys: Any) -> Scenario:
    return checked(mapping(window, **keys))


def checked(given: dict[str, Any]) -> Scenario:
    found = parse_scenario(given)
    assert check_clock(found, "virtual") == []
    return found


def steps(given: Scenario) -> Iterator[RoundState]:
    return flowcontrol.rounds(given, round_us=given.live_round_us)


# ---------------------------------------------------------------- by hand


BY_HAND = [
    # round, taken, watermark, windows held (start, records), results, records at the sink
    (1, 1, None, [(0, 1)], [], 0),
    (2, 1, 99, [(0, 2)], [], 0),
    (3, 1, 199, [(0, 2), (300, 1)], [], 0),
    (4, 1, 299, [(300, 2)], [(0, 300, 2)], 0),
    (5, 1, 399, [(300, 3)], [], 1),
    (6, 1, 499, [(300, 3), (600, 1)], [], 1),
    (7, 1, 599, [(600, 2)], [(300, 600, 3)], 1),
    (8, 1, 699, [(600, 3)], [], 2),
]
"""Record k is written to the log at (k + 1) x 100 ms. Its watermark, 1 ms less, comes with the next
probe, a round later. At 299 the last millisecond of [0, 300) has passed, which has two records; the
result is at the sink a round later."""


def test_rounds_by_hand() -> None:
    given = scenario(
        {"kind": "tumbling", "size_s": 0.3},
        source={"arrival_rate": 10, "emit_rate": 10, "event_time": {}, "watermark": {"delay_s": 0}},
        options={SEGMENT: "4kb", INTERVAL: "100ms", FLUSH: "0ms"},
        duration_s=0.9,
        round_ms=100,
    )
    states = list(steps(given))
    for number, taken, watermark, held, fired, at_sink in BY_HAND:
        task, sink = (states[number].task(name) for name in ("count", "sink"))
        assert task.taken == taken, number
        assert task.time.watermark == (MIN_TIME if watermark is None else watermark), number
        assert [(entry.start, entry.count) for entry in task.window.entries] == held, number
        assert task.window.results == tuple(Result(0, *found, number) for found in fired), number
        assert sink.state.taken == at_sink, number
    sent = [state.task("sink").time.in_flight[0] for state in states[4:6]]
    # The result bears the last millisecond of its window, and its watermark comes behind it.
    assert [(kind, value if kind else time_of(value)) for kind, value in sent[0]] == [
        (WATERMARK, 199),
        (0, 299),
        (WATERMARK, 299),
    ][-len(sent[0]) :]


# ---------------------------------------------------------------- laws

TUMBLING = {"kind": "tumbling", "size_s": 0.5}
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": TUMBLING,
    "session": {"kind": "session", "gap_s": 0.05},
    "purging": {**TUMBLING, "accumulate": False, "trigger": {"count": 1}},
}
"""Windows of which each record is in one, and is counted once in the results of a whole run."""


@pytest.mark.parametrize("delay_s", [0, 0.1, 0.3, 1e6])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_record_is_in_its_window_or_late(kind: str, delay_s: float) -> None:
    """A window per subtask of two; a source that falls silent ends, and with it all windows."""
    given = keyed(WINDOWS[kind], source={"watermark": {"delay_s": delay_s}})
    tables = simulate(given).tables
    row, n = last_of(tables), tables["output/count"].to_pandas().n.sum()
    assert row.records_in == 200
    assert row.late_records + n == 200
    assert row.open_windows == row.window_state_bytes == 0
    if kind != "session":  # a session takes a late record in if it joins one that is kept
        assert (row.late_records > 0) == (delay_s < 0.3)
    assert row.fired == tables["output/count"].num_rows > 0


def keyed(window: dict[str, Any], **keys: Any) -> Scenario:
    return checked(keyed_mapping(window, **keys))


def keyed_mapping(window: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Two subtasks with windows, which records reach by their key through a stage in between."""
    given = mapping(window, **keys)
    given["stages"][1]["parallelism"] = 2
    given["stages"].insert(1, {"name": "map", "parallelism": 2, "record_bytes": 4000})
    into = {"from": "map", "to": "count", "partitioner": "hash", "key_distribution": ZIPF}
    first = {"from": "source", "to": "map", "partitioner": "rebalance"}
    given["edges"] = [first, into, {"from": "count", "to": "sink", "partitioner": "rebalance"}]
    return given


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
    "window", [TUMBLING, {"kind": "sliding", "size_s": 0.4, "slide_s": 0.1}, WINDOWS["session"]]
)
def test_a_slow_sink_changes_no_window(window: dict[str, Any]) -> None:
    """Nothing is late, so only when results come out depends on backpressure."""
    fast, slow = (
        simulate(keyed(window, source={"record_bytes": 4000}, count={"record_bytes": 4000},
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
    table = simulate(keyed({**TUMBLING, "trigger": {"count": 1}})).tables["output/count"]
    keys = table.to_pandas().groupby("key").n.max().sort_values()
    assert int(keys.index[-1]) == 1, "the first key of a Zipf distribution comes up most"
    assert len(keys) > 15


# ---------------------------------------------------------------- bursts


def test_a_firing_of_many_keys_is_back_pressure() -> None:
    """Ten times as many results as the outputs hold: the task is blocked, and takes up nothing."""
    given = scenario(
        {**TUMBLING, "keys": 2000},
        source={"arrival_rate": 2000, "emit_rate": 4000},
        count={"record_bytes": 4000},
        sink={"service_rate": 500},
        duration_s=1.5,
    )
    states = list(steps(given))
    tasks = [state.task("count") for state in states]
    bursts = [task for task in tasks if task.window.store.phase == EVENT_TIMERS]
    assert len(bursts) > 20
    assert all(task.backpressured_us == 10_000 for task in bursts[1:-1])
    assert all(task.taken == 0 for task in bursts[1:])
    assert all(task.window.held.to_give == WATERMARK for task in bursts)
    inside = [task.time.state.valve.watermark for task in bursts]
    passed_on = [state.task("sink").time.watermark for state in states]
    assert inside[0] == inside[-1] > max(passed_on[: bursts_begin(tasks)]), "it waits behind them"
    assert any(state.task("source").backpressured_us > 0 for state in states)


def bursts_begin(tasks: list[Any]) -> int:
    return next(i for i, task in enumerate(tasks) if task.window.store.phase == EVENT_TIMERS)


def test_windows_of_processing_time_need_no_event_time() -> None:
    """Windows of the clock fire at its round, whatever records say."""
    given = scenario(
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
    given = mapping({"kind": "global", "trigger": {"count": 20}})
    given["stages"][2:] = [{"name": "half", "selectivity": 0.5}, {"name": "sink"}]
    given["edges"][1:] = [
        {"from": "count", "to": "half", "partitioner": "forward", "chain": True},
        {"from": "half", "to": "sink", "partitioner": "forward"},
    ]
    tables = simulate(checked(given)).tables
    counts = {stage: last_of(tables, stage) for stage in ("count", "half", "sink")}
    assert (counts["count"].records_in, counts["count"].records_out) == (200, 10)
    assert (counts["half"].records_in, counts["half"].records_out) == (10, 5)
    assert counts["sink"].records_in == 5
    assert (counts["count"].fired, counts["half"].fired) == (10, 0)


# ---------------------------------------------------------------- tables, room


def test_the_table_of_results() -> None:
    given = scenario({"kind": "global", "trigger": {"count": 50}, "aggregate": {"total": "count"}})
    table = simulate(given).tables["output/count"]
    assert table.column_names == ["window_start", "window_end", "key", "total", "emitted_s"]
    rows = table.to_pandas()
    assert rows.window_start.isna().all()
    assert rows.window_end.isna().all()
    assert list(rows.total) == [50, 100, 150, 200]
    assert set(rows.key) == {"1"}


def test_keys_go_by_the_names_of_the_edge() -> None:
    given = keyed_mapping(TUMBLING)
    del given["edges"][1]["key_distribution"]
    given["edges"][1]["key_weights"] = {"anna": 3, "berta": 1, "carla": 0}
    counts = simulate(checked(given)).tables["output/count"].to_pandas().groupby("key").n
    assert counts.sum().to_dict() == pytest.approx({"anna": 150, "berta": 50}, abs=20)


def test_a_run_that_lacks_room_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more room for windows, and for results: the tables are those of a run that had it."""
    given = keyed({"kind": "sliding", "size_s": 0.4, "slide_s": 0.1})
    expected = simulate(given).tables
    sizes, grown = LogSizes.first, []
    small = staticmethod(lambda job: replace(sizes(job), windows=20, results=8))
    more = LogSizes.grown
    monkeypatch.setattr(LogSizes, "first", small)
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
    small = staticmethod(lambda job: replace(first(job), windows=20))
    monkeypatch.setattr(LogSizes, "first", small)
    with pytest.raises(RunError, match=r"windows of a subtask that are open, at .*fewer keys"):
        simulate(keyed({"kind": "sliding", "size_s": 0.4, "slide_s": 0.1}))
