"""Small scenarios with event time, and what both clocks must agree on about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from flowcontrol.trace.round_state import RoundState

CHECKPOINTS = "execution.checkpointing."
INTERVAL = "pipeline.auto-watermark-interval"


def timed(mapping: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Give sources of a scenario what belongs to their time: by name, keys of their stages."""
    stages = [{**stage, **sources.get(stage["name"], {})} for stage in mapping["stages"]]
    return {**mapping, "stages": stages, "options": {**mapping["options"], INTERVAL: "200ms"}}


def every_case(cases: ModuleType) -> dict[str, dict[str, Any]]:
    """Return the cases by name."""
    behind = {"out_of_orderness_s": 0.3}
    late = {"event_time": behind, "watermark": {"delay_s": 0.3}}
    idle = {"event_time": {"offset_s": -2}, "watermark": {"delay_s": 0.1, "idle_after_s": 0.2}}
    marks = {"event_time": behind, "watermark": {"punctuated": True}}
    ahead, behind_all = ({"event_time": {"offset_s": by}} for by in (3, [0, -0.4]))
    group = {"watermark": {"alignment": {"group": "g", "max_drift_s": 0.5, "interval_s": 0.2}}}
    return {
        "aligned": timed(
            cases.scenario(
                "aligned",
                [
                    cases.source("one", 300),
                    cases.source("two", 200, parallelism=2),
                    cases.source("three", 100),
                    cases.sink(rate=450),
                ],
                [cases.edge(name, "sink") for name in ("one", "two", "three")],
                rounds=20,
            ),
            {"one": {**ahead, **group}, "two": {**behind_all, **group}, "three": late},
        ),
        "joined": timed(
            {
                **cases.KILLED,
                "sample_interval_s": 0.1,
                "stages": [
                    cases.source("one", 500),
                    cases.source("two", [{"at_s": 0, "rate": 300}, {"at_s": 0.6, "rate": 0},
                                         {"at_s": 1.3, "rate": 300}]),
                    *cases.KILLED["stages"][2:],
                ],
            },
            {"one": late, "two": idle},
        ),
        "each": timed(cases.FAN_OUT, {"source": marks}),
        "large": timed(cases.LARGE, {"source": {**marks, "event_time": {}}}),
    }  # fmt: skip


def marks_in(states: Iterable[RoundState]) -> Counter[int]:
    """Count the marks in the channels of tasks after each of some rounds, by kind."""
    times = (task.time for state in states for task in state.tasks if task.time is not None)
    return Counter(kind for time in times for own in time.in_flight for kind, _ in own if kind)


def windowed(mapping: Mapping[str, Any], stage: str, window: Mapping[str, Any], **more: Any) -> Any:
    """Give a stage of a scenario a window, and other keys."""
    stages = [
        {**own, "window": dict(window), **more} if own["name"] == stage else own
        for own in mapping["stages"]
    ]
    return {**mapping, "stages": stages}


def every_window(cases: ModuleType) -> dict[str, dict[str, Any]]:
    """Return cases with windows by name."""
    late = {"event_time": {"out_of_orderness_s": 0.4}, "watermark": {"delay_s": 0.1}}
    keys = {"partitioner": "hash", "key_weights": {"a": 5, "b": 2, "c": 1}}
    tumbling = {"kind": "tumbling", "size_s": 0.3, "aggregate": {"n": "count", "m": "count"}}
    plain = {key: value for key, value in cases.sink().items() if key != "output"}
    sinks = cases.scenario(
        "counts",
        [cases.source(rate=300), cases.sink(rate=250, parallelism=2)],
        [cases.edge("source", "sink", **keys)],
        rounds=18,
    )
    middle = cases.scenario(
        "bursts",
        [
            cases.source("one", 200),
            cases.source("two", 100),
            {"name": "count", "record_bytes": 3000},
            cases.sink(rate=60),
        ],
        [cases.edge("one", "count"), cases.edge("two", "count"), cases.edge("count", "sink")],
        exclusive=1,
        floating=1,
        rounds=25,
    )
    session = {"kind": "session", "gap_s": 0.02, "keys": 12, "allowed_lateness_s": 0.1}
    clock = {
        "kind": "sliding",
        "size_s": 0.4,
        "slide_s": 0.2,
        "trigger": "processing_time",
        "keys": 30,
    }
    again = cases.scenario(
        "again",
        [
            cases.source(rate=200),
            {"name": "first", "record_bytes": 200},
            {**plain, "name": "second", "service_rate": 900},
        ],
        [cases.edge("source", "first"), cases.edge("first", "second")],
        rounds=18,
    )
    counted = windowed(timed(sinks, {"source": late}), "sink", tumbling)
    unaligned = {f"{CHECKPOINTS}interval": "400ms", f"{CHECKPOINTS}unaligned.enabled": True}
    spark = {"time_model": "spark", "batch_s": 0.1}
    return {
        "append": {**counted, **spark},
        "update": {
            **windowed(
                timed(middle, {"one": late, "two": late}),
                "count",
                {"kind": "sliding", "size_s": 0.4, "slide_s": 0.2, "keys": 9, "output": "update"},
            ),
            **spark,
        },
        "sinks": counted,
        "barriers": {**counted, "options": {**counted["options"], **unaligned}},
        "sessions": windowed(timed(middle, {"one": late, "two": late}), "count", session),
        "clock": windowed(timed(middle, {}), "count", clock),
        "again": windowed(
            windowed(timed(again, {"source": late}), "first", {**tumbling, "keys": 9}),
            "second",
            {"kind": "global", "trigger": {"count": 4}, "accumulate": False, "keys": 3},
        ),
    }


def every_failure(cases: ModuleType, failing: ModuleType) -> dict[str, dict[str, Any]]:
    """Return by name cases with event time or windows that fail and restart.

    ``marks`` has records and marks in flight at each restart, ``again`` two windows in a row.
    """
    given, windows = every_case(cases), every_window(cases)
    late = {"event_time": {"out_of_orderness_s": 0.4}, "watermark": {"delay_s": 0.1}}
    log = {"arrival_rate": 200, "emit_rate": 500}
    slow = failing.sinks_at(cases.STAGES, 90)
    slow["stages"][1] = {**slow["stages"][1], "service_rate": 400}
    kept = failing.sinks_at(cases.SINGLE, 150)
    bursts, clock, short = (
        failing.sinks_at(windows[name], rate)
        for name, rate in (("sessions", 170), ("clock", 400), ("sessions", 400))
    )
    for case, size in ((bursts, 700), (clock, 100), (short, 100)):  # barriers come between bursts
        case["stages"][2] = {**case["stages"][2], "record_bytes": size}
    ends = [{"at_s": 0, "rate": 200}, {"at_s": 0.7, "rate": 0}]
    short["stages"][0] = {**short["stages"][0], "emit_rate": ends}
    first = {"at_s": 1.3, "stage": "sink", "subtask": 0}
    found = {
        "marks": failing.failing(
            timed(slow, {"source": {**late, **log}}),
            [first, {"at_s": 1.75, "stage": "map", "subtask": 0}, {"at_s": 2.4, "task_manager": 0}],
            34,
            {**failing.UNALIGNED, **failing.DEATHS},
        ),
        "aligned": failing.failing(
            given["aligned"], [{"at_s": 1.1, "stage": "two", "subtask": 1}], 24
        ),
        "joined": failing.failing(
            given["joined"], [{"at_s": 1.0, "stage": "map", "subtask": 0}], 26, failing.UNALIGNED
        ),
        "kept": failing.failing(
            timed(kept, {"source": {**late, "replayable": False}}), [first], 26, failing.UNALIGNED
        ),
        "at least once": failing.failing(
            windows["sinks"], [{"at_s": 1.25, "stage": "sink", "subtask": 1}], 24,
            failing.AT_LEAST_ONCE,
        ),
        "bursts": failing.failing(
            bursts,
            [
                {"at_s": 1.25, "stage": "count", "subtask": 0},
                {"at_s": 1.65, "stage": "one", "subtask": 0},
                {"at_s": 2.5, "stage": "sink", "subtask": 0},
            ],
            36,
            failing.UNALIGNED,
        ),
        "clock": failing.failing(
            clock,
            [{"at_s": 1.1, "stage": "two", "subtask": 0}], 26,
        ),
        "again": failing.failing(
            windows["again"], [{"at_s": 1.3, "stage": "first", "subtask": 0}], 26, failing.UNALIGNED
        ),
        "finished": failing.failing(
            short, [{"at_s": 1.85, "stage": "two", "subtask": 0}], 30
        ),
        "from the beginning": failing.failing(
            windows["sinks"], [{"at_s": 0.7, "stage": "sink", "subtask": 0}], 18,
            {f"{CHECKPOINTS}interval": "3s"},
        ),
    }  # fmt: skip
    return {name: {**case, "sample_interval_s": 0.1} for name, case in found.items()}
