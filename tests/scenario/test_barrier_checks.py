"""Which systems take checkpoints by barriers: the others are refused by name, with what they do."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.system import ALIASES, PRESETS, TRANSPORT_PARTS

PREFIX = "execution.checkpointing."
INTERVAL = {f"{PREFIX}interval": "1s"}
AT_LEAST_ONCE = {f"{PREFIX}mode": "AT_LEAST_ONCE"}
UNALIGNED = {f"{PREFIX}unaligned.enabled": True}
EXACT = ["arroyo", "flink", "flink-1.4", "flink-2", "hazelcast-jet", "risingwave", "unbounded"]
LOOSE = ["flink", "flink-1.4", "flink-2", "hazelcast-jet", "unbounded"]
RECORDS = [name for name, part in TRANSPORT_PARTS.items() if part.counts_records]


def problems(changed: Any, system: Any, options: Any = None, **more: Any) -> list[Problem]:
    """What is wrong with a scenario of a system."""
    try:
        parse_scenario({**changed(), "system": system, "options": options or {}, **more})
    except ScenarioError as error:
        return list(error.problems)
    return []


def test_the_systems_with_barriers() -> None:
    """By their sources (docs/decisions/027)."""
    exact = [name for name, preset in PRESETS.items() if "exactly_once" in preset.barriers]
    loose = [name for name, preset in PRESETS.items() if "at_least_once" in preset.barriers]
    assert (sorted(exact), sorted(loose)) == (EXACT, LOOSE)


@pytest.mark.parametrize("name", [*PRESETS, *ALIASES])
def test_a_system_takes_the_checkpoints_that_it_has_barriers_for(changed: Any, name: str) -> None:
    preset = PRESETS[ALIASES.get(name, name)]
    for mode, options in (("exactly_once", INTERVAL), ("at_least_once", INTERVAL | AT_LEAST_ONCE)):
        found = problems(changed, name, options)
        if mode in preset.barriers:
            assert found == []
            continue
        [problem] = found
        assert problem.place == ("system" if not preset.barriers else f'options."{PREFIX}mode"')
        for text in (f"{name!r}", preset.checkpoints, *(EXACT if mode[0] == "e" else LOOSE)):
            assert text in problem.message
    assert problems(changed, name) == []


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"savepoints": [{"at_s": 2}]}, "checkpoints"),
        ({"failures": [{"at_s": 2, "task_manager": 1}]}, "failures"),
    ],
)
def test_savepoints_and_failures_are_refused_alike(changed: Any, more: Any, word: str) -> None:
    [problem] = problems(changed, "kafka-streams", **more)
    assert problem.place == "system"
    assert f"has no barriers, and {word} need them" in problem.message
    assert "in a transaction every commit.interval.ms" in problem.message
    assert problem.message.endswith(f"or remove the {word}")
    assert problems(changed, "risingwave", **more) == []


@pytest.mark.parametrize("transport", RECORDS)
def test_parts_of_ones_own_carry_aligned_barriers(changed: Any, transport: str) -> None:
    """Of a composed system only what cannot work is refused."""
    system = {"transport": transport}
    assert problems(changed, system, INTERVAL | AT_LEAST_ONCE) == []
    found = problems(changed, system, INTERVAL)
    if transport != "hop_hysteresis":
        assert found == []
    else:
        [problem] = found
        assert problem.place == "system.transport"
        assert "one switch stops all senders" in problem.message
        assert "blocking_queue" in problem.message


@pytest.mark.parametrize("transport", RECORDS)
def test_nothing_overtakes_in_a_queue_of_records(changed: Any, transport: str) -> None:
    places = [
        one.place for one in problems(changed, {"transport": transport}, INTERVAL | UNALIGNED)
    ]
    assert places[0] == f'options."{PREFIX}unaligned.enabled"'
    both = INTERVAL | UNALIGNED | AT_LEAST_ONCE  # which overrides it, as in Flink
    assert problems(changed, {"transport": transport}, both) == []
    assert problems(changed, {"transport": transport}, UNALIGNED) == []


@pytest.mark.parametrize("throttle", ["pid_rate", "aimd_rate", "global_hysteresis"])
def test_a_throttle_takes_no_barrier_away(changed: Any, throttle: str) -> None:
    assert problems(changed, {"throttle": throttle}, INTERVAL | UNALIGNED) == []
