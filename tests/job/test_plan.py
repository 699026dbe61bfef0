"""The plan of a scenario's network memory: what is asked for, granted, and what the rule says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.plan import MemoryPlan, plan_memory
from flowcontrol.scenario import load_scenario, parse_scenario

BUFFERS = "taskmanager.network.numberOfBuffers"
CONF = Path(__file__).resolve().parents[2] / "conf"

WIDE: dict[str, Any] = {
    "schema": 1,
    "name": "wide",
    "duration_s": 10,
    "cluster": {"task_managers": 2},
    "options": {BUFFERS: 100},
    "stages": [
        {"name": "source", "parallelism": 4, "emit_rate": 1},
        {"name": "sink", "parallelism": 4},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


def plan(buffers: int, **keys: Any) -> MemoryPlan:
    mapping = copy.deepcopy({**WIDE, **keys})
    mapping["options"][BUFFERS] = buffers
    return plan_memory(parse_scenario(mapping))


# Two subtasks of each stage on a task manager. A partition of 4: 5 to 16. A gate of 4 channels,
# 2 of them remote: 1 to 8, and 2 x 2 exclusive. Required 2 x (5 + 1 + 4), wanted 2 x (16 + 8 + 4).
def test_what_is_asked_for_by_hand() -> None:
    found = plan(100)
    assert (found.required, found.wanted) == (20, 56)
    [moment] = found.moments
    assert (moment.at_s, moment.events, moment.failures) == (0.0, (), {})
    for manager in moment.managers:
        figures = [
            (g.demand.is_gate, g.demand.subtask, g.demand.channels, g.demand.required,
             g.demand.maximum, g.demand.unpooled, g.granted)
            for g in manager.grants
        ]  # fmt: skip
        own = [manager.manager, manager.manager + 2]
        assert figures == [
            *((False, i, 4, 5, 16, 0, 16) for i in own),
            *((True, i, 4, 1, 8, 4, 8) for i in own),
        ]
        assert (manager.required, manager.wanted, manager.granted) == (20, 56, 56)


@pytest.mark.parametrize(
    ("buffers", "fits", "granted"), [(19, False, 16), (20, True, 20), (21, True, 21),
                                     (55, True, 55), (56, True, 56), (57, True, 56)]
)  # fmt: skip
def test_limits_of_what_fits(buffers: int, fits: bool, granted: int) -> None:
    found = plan(buffers)
    assert (not found.failures) == fits
    if fits:
        assert {manager.granted for manager in found.moments[0].managers} == {granted}
    else:
        [text] = found.failures
        assert text.startswith("sink subtask 2, task manager 0: Insufficient number of network")
        assert "required 2, but only 1 available" in text
        assert {g.granted for m in found.moments[0].managers for g in m.grants} == {None}


@pytest.mark.parametrize("name", ["experiment", "fan-in", "skew", "three-stages"])
def test_what_is_granted_is_what_a_run_gets(name: str) -> None:
    scenario = load_scenario(CONF / f"{name}.yaml")
    for buffers in (30, 64, 1024):
        changed = scenario.options.model_copy(update={"network_buffers": buffers})
        fits = scenario.model_copy(update={"options": changed})
        found = plan_memory(fits)
        if found.failures:
            continue
        sizes = build_physical_graph(fits).sizes
        for manager in found.moments[0].managers:
            for grant in manager.grants:
                key = grant.demand.edge, grant.demand.subtask
                if grant.demand.is_gate:
                    assert grant.granted == sizes.gates[key].floating
                    assert grant.demand.exclusive == sizes.gates[key].exclusive
                else:
                    assert grant.granted == sizes.partitions[key].size


@pytest.mark.parametrize(
    ("cluster", "slots", "rule"),
    [
        ({"task_managers": 2}, 2, 2 * 2 * 2 * 4),  # the placement needs two slots
        ({"task_managers": 2, "slots": 3}, 3, 9 * 2 * 4),
        ({"task_managers": 3}, 2, 4 * 3 * 4),
        ({"task_managers": 8}, 1, 8 * 4),
    ],
)
def test_the_classic_rule(cluster: dict[str, int], slots: int, rule: int) -> None:
    found = plan(1000, cluster=cluster)
    assert (found.slots, found.rule) == (slots, rule)


def test_jobs_are_planned_at_every_start_and_stop() -> None:
    job = {"stages": WIDE["stages"], "edges": WIDE["edges"]}
    second = {
        "stages": [{"name": "c", "emit_rate": 1, "placement": [0]}, {"name": "d"}],
        "edges": [{"from": "c", "to": "d"}],
    }
    mapping = {key: value for key, value in WIDE.items() if key not in ("stages", "edges")}
    mapping["options"] = {BUFFERS: 22}
    mapping["jobs"] = [
        {"name": "first", **job, "stop_at_s": 7},
        {"name": "second", **second, "start_at_s": 2, "stop_at_s": 5},
        {"name": "third", "start_at_s": 7,
         "stages": [{"name": "e", "emit_rate": 1}, {"name": "f"}],
         "edges": [{"from": "e", "to": "f"}]},
    ]  # fmt: skip
    found = plan_memory(parse_scenario(mapping))
    assert [(moment.at_s, moment.events) for moment in found.moments] == [
        (0.0, ("first starts",)),
        (2.0, ("second does not start",)),
        (5.0, ("second stops",)),
        (7.0, ("first stops", "third starts")),
    ]
    # Task manager 0: 22 - 20 leave 2 for c's partition; task manager 1: 2 for d's 1 + 2.
    assert found.required == 23
    [text] = found.failures
    assert text.startswith("second: d subtask 0, task manager 1: Insufficient number of network")
    assert "required 2, but only 1 available" in text
    assert found.slots == 2 + 1 + 1
    assert [m.granted for m in found.moments[1].managers] == [22, 22]  # the first job's
    assert [m.granted for m in found.moments[3].managers] == [10, 10]
