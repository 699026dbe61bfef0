"""Figures that cannot all be true are named, with their stage; those that can are not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.calibration.bodies import read_dump
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.rates import flink_contradictions


def found(dump: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.place, one.sentence) for one in flink_contradictions(read_job(*read_dump(dump)))]


def subtask(dump: dict[str, Any], synthesise: ModuleType, stage: str, number: int) -> list[Any]:
    """Return a subtask's metrics at each poll."""
    place = f"/vertices/{synthesise.identity(stage)}"
    return [
        body["subtasks"][number]["metrics"]
        for poll in dump["polls"]
        for path, body in poll.items()
        if path.endswith(place)
    ]


def test_a_run_contradicts_nothing(chain: dict[str, Any]) -> None:
    assert found(chain) == []


def test_shares_above_a_second(chain: dict[str, Any], synthesise: ModuleType) -> None:
    rows = subtask(chain, synthesise, "map", 1)
    first = rows[0]["accumulated-busy-time"]
    for row in rows:
        row["accumulated-busy-time"] += row["accumulated-busy-time"] - first
    [(place, sentence)] = found(chain)
    assert place == "map/1"
    assert "its times add up to 16" in sentence
    assert "more than the 1000 that a second has" in sentence


@pytest.mark.parametrize(("times", "count"), [(1.04, 0), (1.08, 1)])
def test_five_per_cent_is_the_limit_of_times(
    times: float, count: int, chain: dict[str, Any], synthesise: ModuleType
) -> None:
    rows = subtask(chain, synthesise, "map", 0)
    for row in rows:
        row["accumulated-busy-time"] = round(times * row["accumulated-busy-time"])
    assert len(found(chain)) == count


def test_a_counter_that_goes_back(chain: dict[str, Any], synthesise: ModuleType) -> None:
    rows = subtask(chain, synthesise, "sink", 2)
    rows[len(rows) // 2]["read-records"] = 5
    assert ("sink/2", "records_in goes back") in [
        (place, sentence[:20]) for place, sentence in found(chain)
    ]


def test_more_taken_than_sent(chain: dict[str, Any], synthesise: ModuleType) -> None:
    for number in range(3):
        for row in subtask(chain, synthesise, "sink", number):
            row["read-records"] *= 2
    [(place, sentence)] = found(chain)
    assert place == "sink"
    assert "records more than map sent it: an edge is missing" in sentence


def test_a_window_that_is_not_settled(chain: dict[str, Any], synthesise: ModuleType) -> None:
    rows = subtask(chain, synthesise, "orders", 0)
    first = rows[0]["write-records"]
    for row in rows:
        row["write-records"] += (row["write-records"] - first) // 4
    [(place, sentence)] = found(chain)
    assert place == "map"
    assert "the window is not settled" in sentence


@pytest.mark.parametrize(("times", "count"), [(1.0, 0), (1.08, 0), (1.2, 1), (0.8, 1)])
def test_littles_law(
    times: float, count: int, chain: dict[str, Any], synthesise: ModuleType
) -> None:
    """About 305 records before the maps at 1,800/s wait for some 169 ms; so do markers."""
    draft = read_job(*read_dump(chain))
    from flowcontrol.calibration.readings import in_flight

    levels = in_flight(draft, "map")
    rate = draft.stage("map").total(lambda one: one.rate("records_in"))
    assert rate is not None
    queueing = 1000 * sum(levels) / len(levels) / rate
    operator = synthesise.identity("map")
    name = f"latency.source_id.{synthesise.identity('orders')}.operator_id.{operator}"
    row = {"id": f"{name}.operator_subtask_index.0.latency_mean", "value": str(times * queueing)}
    chain["polls"][0][f"/jobs/{draft.id}/metrics?get=latency"] = [row]
    said = found(chain)
    assert len(said) == count
    assert all(place == "map" and "Little's law" in sentence for place, sentence in said)
