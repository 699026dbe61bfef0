"""What no clock, or one, runs yet of checkpoints, failures and event time: refused by key."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from modules import load

set_value = load("tests/scenario/conftest.py").set_value

INTERVAL = ("options/execution.checkpointing.interval", "1s")
TIMES = ("stages/0/event_time", {"out_of_orderness_s": 1})
ONE = ("stages/1/parallelism", 1)
EVERY = ("options/metrics.latency.interval", "2s")
FAILED = ("failures", [{"at_s": 2, "task_manager": 1}])
READ = [
    {"name": "a", "emit_rate": 1},
    {"name": "b", "window": {"kind": "global", "trigger": {"count": 5}}},
    {"name": "c", "guarantee": "at-most-once"},
]
WINDOW = {"kind": "tumbling", "size_s": 5}
SPARKS = [TIMES, ("stages/0/watermark", {}), ONE, ("stages/1/window", WINDOW),
          ("time_model", "spark"), ("batch_s", 0.5)]  # fmt: skip
IN_A_ROW = [("stages/2", {"name": "more", "window": WINDOW}),
            ("edges/1", {"from": "sink", "to": "more"})]  # fmt: skip
OTHER = {"name": "other", "emit_rate": 1, "event_time": {}}
SEVERAL = [
    {"name": name, "stages": [{"name": f"a{name}", "emit_rate": 1}, {"name": f"b{name}"}],
     "edges": [{"from": f"a{name}", "to": f"b{name}"}]}
    for name in ("one", "two")
]  # fmt: skip

OPERATORS: dict[str, list[tuple[str, Any]]] = {
    "sources drawn in": [
        ("operators/2", {"name": "second", "emit_rate": 5}),
        ("operators/1/chaining", "head-with-sources"),
        ("edges/1", {"from": "second", "to": "sink", "input": 1}),
    ],
    "key groups": [
        ("operators/1/max_parallelism", 16),
        ("edges/0/partitioner", "hash"),
        ("edges/0/key_weights", {"a": 1}),
    ],
}
"""Changes of a small scenario with operators, for the lines that are about these."""

ASKED: dict[str, tuple[list[tuple[str, Any]], str, list[str]]] = {
    "scaling": ([("scaling", {"policy": "ds2"}), FAILED], "failures",
     ["1: failures together with scaling are", "remove them"]),
    "scaling on the live clock": ([("scaling", {"policy": "ds2"})], "scaling",
     ["'ds2': scaling is", "remove it, or use --clock virtual"]),
    "sources drawn in": ([], "operators[1].chaining",
     ["'head-with-sources': chaining a source to an operator with 2 inputs is", "use always"]),
    "batch jobs": ([("options/execution.runtime-mode", "BATCH")],
     'options."execution.runtime-mode"',
     ["'batch': batch mode is", "state the partition_type of each edge"]),
    "key groups": ([], "operators[1].max_parallelism",
     ["16: hash with a stated number of key groups is", "leave it out"]),
    "control latency": ([("cluster/control_latency_ms", 5), ("system", "storm")],
     "cluster.control_latency_ms",
     ["5 ms: the control plane of a system with", "use flink, or leave it out"]),
    "throttles": ([FAILED, ("system", {"throttle": "pid_rate"})], "system.throttle",
     ["'pid_rate'", "use none"]),
    "partition types": ([FAILED, ("edges/0/partition_type", "hybrid_full")],
     "edges[0].partition_type", ["'hybrid_full'", "use pipelined_bounded"]),
    "exclusive buffers": ([INTERVAL,
      ("options/taskmanager.network.memory.buffers-per-channel", 0)],
     'options."taskmanager.network.memory.buffers-per-channel"',
     ["0: checkpoints", "state 1 or more"]),
    "jobs": ([FAILED], "jobs", ["one, two", "several jobs"]),
    "spark's event time": ([TIMES, ("time_model", "spark"),
      ("system", {"throttle": "static_admission"})], "system.throttle",
     ["'static_admission': Spark's event time together with a throttle is", "use none"]),
    "spark's windows in a row": ([*SPARKS, *IN_A_ROW], "stages[2].window",
     ["'more', behind the window of 'sink': several", "in a row are", "keep one of them"]),
    "spark's watermarks": ([*SPARKS, ("stages/1/window/output", "update"), ("stages/2", OTHER),
      ("edges/1", {"from": "other", "to": "sink"})], "stages[2].watermark",
     ["is missing, but 'source' has one: sources with and without", "or for neither"]),
    "spark's event time and checkpoints": ([*SPARKS, INTERVAL], "time_model",
     ["'spark': Spark's event time together with checkpoints is", "remove the checkpoints"]),
    "latency markers and others": ([EVERY, ("system", {"throttle": "pid_rate"})],
     'options."metrics.latency.interval"',
     ["2000 ms: latency markers under the throttle 'pid_rate' are", "none, or write 0"]),
    "readers of windows": ([FAILED, ("stages", READ),
      ("edges", [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}])], "stages[2].guarantee",
     ["'at-most-once': this guarantee for results of windows", "or remove the failures"]),
    "transactions of windows": ([TIMES, INTERVAL, ONE,
      ("stages/1/window", {"kind": "tumbling", "size_s": 5, "trigger": "processing_time"}),
      ("stages/1/guarantee", "exactly-once")], "stages[1].guarantee",
     ["'exactly-once': results of the window of", "in transactions are", "remove it"]),
    "event time and jobs": ([TIMES], "jobs",
     ["one, two: event time and windows of several jobs are", "state stages and edges"]),
    "event time and transports": ([TIMES, ("system", "flink-1.4")], "system.transport",
     ["'tcp': event time under this transport is", "use credit"]),
    "event time and throttles": ([TIMES, ("system", {"throttle": "pid_rate"})], "system.throttle",
     ["'pid_rate': event time together with a throttle is", "use none"]),
    "event time and disks": ([TIMES, ("edges/0/partition_type", "hybrid_full")],
     "edges[0].partition_type",
     ["'hybrid_full': event time together with partitions on disk is", "use pipelined_bounded"]),
}  # fmt: skip
OWN = {
    "partition types": "failures together",
    "jobs": "failures of",
    "latency markers and others": "under the throttle",
    "spark's event time": "together with a throttle",
    "spark's event time and checkpoints": "'spark': Spark's event time together",
    "spark's windows in a row": "in a row",
    "spark's watermarks": "with and without a watermark",
    "readers of windows": "this guarantee for results",
    "event time and jobs": "event time and windows",
    "event time and transports": "under this transport",
    "event time and throttles": "together with a throttle",
    "event time and disks": "together with partitions on disk",
}
"""What only that refusal says, where its scenario asks for other things too."""


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("system", "flink-1.4"), "under the transport 'tcp' are"),
        (("system", {"transport": "bdp_window"}), "under the transport 'bdp_window' are"),
        (("edges/0/partition_type", "hybrid_full"), "together with partitions on disk are"),
        (INTERVAL, "together with checkpoints are"),
        (FAILED, "together with failures are"),
    ],
)
def test_markers_wait_for_what_watermarks_wait_for(changed: Any, more: Any, text: str) -> None:
    problems = check_clock(parse_scenario(changed(EVERY, more)), "virtual")
    assert [one.place for one in problems if text in one.message] == [
        'options."metrics.latency.interval"'
    ]


def test_spark_s_event_time_beside_failures_is_refused(changed: Any) -> None:
    problems = check_clock(parse_scenario(changed(*SPARKS, FAILED)), "virtual")
    [problem] = [one for one in problems if one.place == "time_model"]
    text = "'spark': Spark's event time together with failures is not emulated"
    assert text in problem.message


def test_sources_that_meet_before_a_window_of_sparks_have_one_delay(changed: Any) -> None:
    """Those that meet in it may have others; a record does not say where it comes from."""
    second = {**OTHER, "watermark": {"delay_s": 3}}
    given = changed(*SPARKS, ("stages/2", second))
    given["edges"] = [{"from": one, "to": "sink"} for one in ("source", "other")]
    assert check_clock(parse_scenario(given), "virtual") == []
    given["stages"].append({"name": "map", "record_bytes": 200})
    given["edges"] = [
        *({"from": one, "to": "map"} for one in ("source", "other")),
        {"from": "map", "to": "sink"},
    ]
    [problem] = check_clock(parse_scenario(given), "virtual")
    assert problem.place == "stages[2].watermark.delay_s"
    for text in ("3, but 'source' has 0: different", "meet before", "state the same delay"):
        assert text in problem.message
    del given["stages"][2]["watermark"]
    given["stages"][1]["window"] = {**WINDOW, "output": "update"}
    [problem] = check_clock(parse_scenario(given), "virtual")
    assert problem.place == "stages[2].watermark"
    assert "none, but 'source' has 0" in problem.message


def asked(changed: Any, key: str) -> Scenario:
    """The scenario that asks for something refused."""
    given = changed(*ASKED[key][0])
    if key in OPERATORS:
        given["operators"] = given.pop("stages")
        for path, value in OPERATORS[key]:
            set_value(given, path, value)
    if key in {"jobs", "event time and jobs"}:
        given = {k: value for k, value in given.items() if k not in {"stages", "edges"}}
        given["jobs"] = copy.deepcopy(SEVERAL)
    if key == "event time and jobs":
        given["jobs"][0]["stages"][0]["event_time"] = {}
    return parse_scenario(given)


LIVE_ONLY = {"scaling on the live clock", "spark's event time", "transactions of windows"}


@pytest.mark.parametrize("clock", ["live", "virtual"])
@pytest.mark.parametrize("key", ASKED)
def test_what_is_asked_for_is_refused(changed: Any, key: str, clock: Any) -> None:
    _, place, texts = ASKED[key]
    problems = check_clock(asked(changed, key), clock)
    if key in LIVE_ONLY and clock == "virtual":
        assert problems == []
        return
    [problem] = [one for one in problems if OWN.get(key, "") in one.message]
    assert problem.place == place
    name = "the live clock" if key in LIVE_ONLY else "any clock"
    for text in [f"not emulated on {name} yet", *texts]:
        assert text in problem.message


@pytest.mark.parametrize("clock", ["live", "virtual"])
def test_a_scenario_without_them_asks_for_nothing(changed: Any, clock: Any) -> None:
    options = {"execution.checkpointing.timeout": "1s", "restart-strategy": "fixed-delay"}
    scenario = parse_scenario({**changed(), "options": options, "system": "storm"})
    assert check_clock(scenario, clock) == []
