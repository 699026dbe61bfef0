"""How much a change gains, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowcontrol.analysis.figures import Figures
from flowcontrol.experiments.advise.result import (
    Change,
    Goal,
    Proposal,
    Seen,
    conclusion,
    goal_of,
    saves,
    savings,
    weighed,
)
from flowcontrol.scenario import parse_scenario

BEFORE = Figures(
    {
        "throughput": 100.0,
        "latency_p99_ms": 200.0,
        "in_flight_bytes": 1000.0,
        "checkpoint_ms": 50.0,
        "memory_bytes": 1024,
        "slots": 4,
        "held_back": 0.5,
        "lagging": 0.0,
    }
)


def other_than(found: Figures, **given: float | None) -> Figures:
    """Return figures with others in their place."""
    return Figures({**found.values, **given})


CHANGE = Change("parallelism", "more of it", ((("stages", "sink", "parallelism"), 2),), "busy")
SEEN = Seen("sink", {"sink": 1.0}, 0.5)

TABLE: list[tuple[Goal, dict[str, float | None], float, float]] = [
    # what is improved, what is otherwise than before, the gain, the gain for its cost
    ("throughput", {}, 0.0, 0.0),
    ("throughput", {"throughput": 150.0}, 0.5, 0.5),
    ("throughput", {"throughput": 150.0, "slots": 8}, 0.5, 0.25),
    ("throughput", {"throughput": 150.0, "slots": 8, "memory_bytes": 2048}, 0.5, 0.5 / 3),
    ("throughput", {"throughput": 150.0, "slots": 2, "memory_bytes": 512}, 0.5, 0.5),
    ("throughput", {"throughput": 50.0}, -0.5, -0.5),
    ("throughput", {"throughput": 50.0, "slots": 8}, -0.5, -0.5),
    ("latency", {"latency_p99_ms": 100.0}, 1.0, 1.0),
    ("latency", {"latency_p99_ms": 400.0}, -0.5, -0.5),
    ("latency", {"latency_p99_ms": None}, -1.0, -1.0),
    ("latency", {"latency_p99_ms": 100.0, "throughput": 99.5}, 1.0, 1.0),
    ("latency", {"latency_p99_ms": 100.0, "throughput": 80.0}, -0.2, -0.2),
    ("checkpoints", {"checkpoint_ms": 25.0}, 1.0, 1.0),
    ("checkpoints", {"checkpoint_ms": None}, -1.0, -1.0),
    ("memory", {"memory_bytes": 512}, 1.0, 1.0),
    ("memory", {"memory_bytes": 512, "throughput": 10.0}, -0.9, -0.9),
]


def proposal(goal: Goal, changed: dict[str, float | None]) -> Proposal:
    return weighed(CHANGE, BEFORE, other_than(BEFORE, **changed), goal, SEEN)  # type: ignore[arg-type]


@pytest.mark.parametrize(("goal", "changed", "gain", "score"), TABLE)
def test_the_gain_and_its_cost(
    goal: Goal, changed: dict[str, float | None], gain: float, score: float
) -> None:
    found = proposal(goal, changed)
    assert found.gain == pytest.approx(gain)
    assert found.score == pytest.approx(score)
    assert found.helps == (gain > 0.01)


def test_that_something_comes_at_all_is_all_the_gain() -> None:
    nothing = other_than(BEFORE, checkpoint_ms=None)
    found = weighed(CHANGE, nothing, BEFORE, "checkpoints", SEEN)
    assert found.gain == 1.0
    stood = other_than(BEFORE, throughput=0.0)
    assert weighed(CHANGE, stood, BEFORE, "throughput", SEEN).gain == float("inf")


def test_where_nothing_comes_before_or_after_nothing_is_gained_or_lost() -> None:
    nothing = other_than(BEFORE, latency_p99_ms=None, throughput=0.0)
    assert weighed(CHANGE, nothing, nothing, "latency", SEEN).gain == 0.0


def test_a_stage_keeps_its_letters_at_the_start_of_a_sentence() -> None:
    saving = other_than(BEFORE, slots=3)
    starts = {
        "sink on the task managers of map": "sink on",
        "map->sink by rescale instead of rebalance": "map->sink by",
        "segments of 16 KiB instead of 32": "Segments of",
    }
    for name, start in starts.items():
        change = replace(CHANGE, name=name)
        [sentence] = savings(BEFORE, [weighed(change, BEFORE, saving, "throughput", SEEN)])
        assert sentence.startswith(start)


SAVING: list[tuple[dict[str, float | None], bool]] = [
    ({"memory_bytes": 512}, True),
    ({"slots": 3}, True),
    ({"slots": 3, "memory_bytes": 512}, True),
    ({}, False),
    ({"memory_bytes": 2048, "slots": 3}, False),
    ({"memory_bytes": 512, "throughput": 98.0}, False),
    ({"memory_bytes": 512, "latency_p99_ms": 210.0}, False),
    ({"memory_bytes": 512, "latency_p99_ms": None}, False),
]


@pytest.mark.parametrize(("changed", "expected"), SAVING)
def test_what_saves_and_loses_nothing(changed: dict[str, float | None], expected: bool) -> None:
    assert saves(proposal("throughput", changed), BEFORE) is expected


def checkpointing(**options: object) -> object:
    return parse_scenario(
        {
            "schema": 1,
            "name": "one",
            "duration_s": 1,
            "options": {"execution.checkpointing.interval": "1s", **options},
            "stages": [{"name": "a", "total_rate": 1}, {"name": "b", "service_rate": 2}],
            "edges": [{"from": "a", "to": "b", "partitioner": "rebalance"}],
        }
    )


GOALS: list[tuple[dict[str, float | None], Goal]] = [
    ({"held_back": 0.5}, "throughput"),
    ({"held_back": 0.0, "lagging": 0.5}, "throughput"),
    ({"held_back": 0.01, "lagging": 0.01}, "latency"),
    ({"held_back": 0.0, "checkpoint_ms": 501.0}, "checkpoints"),
    ({"held_back": 0.0, "checkpoint_ms": 499.0}, "latency"),
    ({"held_back": 0.0, "checkpoint_ms": None}, "latency"),
]


@pytest.mark.parametrize(("changed", "goal"), GOALS)
def test_what_a_job_lacks(changed: dict[str, float | None], goal: Goal) -> None:
    figures = other_than(BEFORE, **changed)  # type: ignore[arg-type]
    assert goal_of(checkpointing(), figures) == goal  # type: ignore[arg-type]


def test_the_sentence_names_cost_and_what_becomes_worse() -> None:
    changed: dict[str, float | None] = {"throughput": 150.0, "slots": 5, "latency_p99_ms": 900.0}
    text = conclusion("throughput", BEFORE, [proposal("throughput", changed)])
    assert text == (
        "What helps most for its cost is more of it: throughput from 100 records/s to "
        "150 records/s, for 1 more slot. But the p99 of latency rises from 200 ms to 900 ms. "
        "Then sink limits."
    )


def test_the_sentence_where_nothing_helps() -> None:
    found = [proposal("throughput", {"memory_bytes": 512})]
    text = conclusion("throughput", BEFORE, found)
    assert text == "The only change that was run does not improve throughput by more than 1 %."
    assert conclusion("throughput", BEFORE, [*found, *found]) == (
        "None of 2 changes that were run improves throughput by more than 1 %."
    )
    assert savings(BEFORE, found) == [
        "More of it would save 512 B of network memory and lose nothing."
    ]
    assert conclusion("latency", BEFORE, []) == "No change of this scenario could be run."
