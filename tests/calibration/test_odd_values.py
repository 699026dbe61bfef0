"""Any value in the place of any other: a scenario, or a refusal that names the place."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

from flowcontrol.calibration.bodies import plain, read_dump
from flowcontrol.calibration.calibrate import check
from flowcontrol.calibration.fit_flink import fit_flink
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.spark_progress import fit_progress
from flowcontrol.calibration.writing import scenario_text
from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.syntax import read_yaml_value
from modules import ROOT

ODD: tuple[Any, ...] = (
    *(None, True, "", "x", "NaN", [], {}, [1], {"a": 1}, [None], -1, 0, 7, 1e308, 10**400),
    *(float("nan"), float("inf"), "a\nb: c", "\ud800\x1b[31m", "-Infinity", [{}], [["a"]]),
)
"""What a damaged, hand-made or foreign file may have somewhere."""

Place = tuple[Any, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where each value in some JSON is."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    for key, inner in pairs:
        yield (*at, key)
        yield from places(inner, (*at, key))


def kind_of(place: Place) -> str:
    """Return a place without numbers and ids: one of each kind is enough."""
    return "/".join(re.sub(r"[0-9a-f]{32}|\d+", "N", str(key)) for key in place)


def put(document: Any, place: Place, value: Any) -> Any:
    """Return a copy with another value at a place."""
    found = copy.deepcopy(document)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return found


def with_checkpoints(dump: dict[str, Any]) -> dict[str, Any]:
    """Return three polls of a dump, with all that is read of checkpoints."""
    polls = [dump["polls"][at] for at in (0, len(dump["polls"]) // 2, -1)]
    [job] = [path for path in polls[0] if path.count("/") == 2 and path.startswith("/jobs/")]
    vertex = polls[0][job]["vertices"][1]["id"]
    polls[0][f"{job}/checkpoints/config"] = {
        "mode": "exactly_once", "interval": 5000, "timeout": 600000, "unaligned_checkpoints": False,
    }  # fmt: skip
    part = {"status": "completed", "state_size": 5000, "checkpoint": {"sync": 3, "async": 9}}
    polls[-1][f"{job}/checkpoints/details/3/subtasks/{vertex}"] = {"subtasks": [part]}
    latency = f"latency.operator_id.{vertex}.operator_subtask_index.0.latency_mean"
    polls[-1][f"{job}/metrics?get=x"] = [{"id": latency, "value": "3.5"}]
    return {"polls": polls}


def test_any_value_in_a_dump(chain: dict[str, Any]) -> None:
    dump = with_checkpoints(chain)
    check(fit_flink(read_job(*read_dump(dump))))
    kinds = {kind_of(place): place for place in places(dump)}
    assert len(kinds) > 60
    refused = 0
    for number, place in enumerate(kinds.values()):
        for value in ODD[number % 7 :: 7]:
            try:
                draft = fit_flink(read_job(*read_dump(put(dump, place, value))))
                text = scenario_text(draft)
                scenario = check(draft)
            except ScenarioError as error:
                refused += 1
                assert all(one.place for one in error.problems)
                plain(str(error)).encode()
            else:
                assert parse_scenario(read_yaml_value(text)) == scenario
    assert refused > 25


def test_any_value_in_progress() -> None:
    lines = (ROOT / "bench" / "spark_progress" / "files.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    kinds = {kind_of(place): place for place in places(rows[-1:])}
    for number, place in enumerate(kinds.values()):
        for value in ODD[number % 3 :: 3]:
            [last] = put(rows[-1:], place, value)
            try:
                draft = fit_progress([*rows[:-1], last])
                assert parse_scenario(read_yaml_value(scenario_text(draft))) == check(draft)
            except ScenarioError as error:
                assert all(one.place for one in error.problems)
