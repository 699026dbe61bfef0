from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario import load_scenario
from flowcontrol.scenario.given import apply_overrides, split_key, split_path

MEMORY = "taskmanager.network.memory."

FILE = """
schema: 1
name: small
duration_s: 10
stages:
  - {name: source, emit_rate: 100}
  - {name: sink, service_rate: [{at_s: 0, rate: 50}, {at_s: 5, rate: 60}]}
edges:
  - {from: source, to: sink}
"""


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("seed", ("seed",)),
        ("cluster.slots", ("cluster", "slots")),
        ("stages[1].service_rate[0].rate", ("stages", "1", "service_rate", "0", "rate")),
        ("stages.sink.parallelism", ("stages", "sink", "parallelism")),
        ('options."a.b-c"', ("options", "a.b-c")),
        ("options.'a.b'", ("options", "a.b")),
        ("stages.my-sink.name", ("stages", "my-sink", "name")),
    ],
)
def test_paths(path: str, parts: tuple[str, ...]) -> None:
    assert split_path(path) == parts


@pytest.mark.parametrize("path", ["", ".", "a.", "a..b", ".a", "a[x]", 'a."b', "a=b"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        split_path(path)


@pytest.mark.parametrize(
    "key", ["options.a.b-c.d", 'options."a.b-c.d"', "options.'a.b-c.d'", 'options."a.b-c".d']
)
def test_an_option_may_be_named_without_quotes(key: str) -> None:
    """A shell takes them away; a sweep's keys may be written so too."""
    assert split_key(key) == ("options", "a.b-c.d")
    found, problems = changed({"options": {"a.b-c.d": 1}}, f"{key}=2")
    assert (found, problems) == ({"options": {"a.b-c.d": 2}}, [])


@pytest.mark.parametrize("key", ["options", "stages.sink.service_rate", "cluster.slots", "a.b.c"])
def test_other_keys_are_parted_at_their_dots(key: str) -> None:
    assert split_key(key) == split_path(key)


FLOATING = "taskmanager.network.memory.floating-buffers-per-gate"
JOB = {"stages": [{"name": "sink"}, {"name": "seed"}, 5], "seed": 1}


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("sink.total_rate", ("stages", "sink", "total_rate")),
        ("floating-buffers-per-gate", ("options", FLOATING)),
        ("memory.floating-buffers-per-gate", ("options", FLOATING)),
        ("options.floating-buffers-per-gate", ("options", FLOATING)),
        (FLOATING, ("options", FLOATING)),
        ("sink", ("sink",)),  # a stage has no value of its own
        ("seed.total_rate", ("seed", "total_rate")),  # the top of the file goes before a stage
        ("floating-buffers", ("floating-buffers",)),  # no whole part of a key
        ("enabled", ("enabled",)),  # the end of several
        ("options.enabled", ("options", "enabled")),
        ("siink.total_rate", ("siink", "total_rate")),
    ],
)
def test_a_key_may_be_as_short_as_results_have_it(key: str, parts: tuple[str, ...]) -> None:
    assert split_key(key, JOB) == parts


def changed(mapping: dict[str, Any], *overrides: str) -> tuple[dict[str, Any], list[Problem]]:
    problems: list[Problem] = []
    return apply_overrides(mapping, overrides, problems), problems


def test_values_are_yaml() -> None:
    mapping: dict[str, Any] = {"a": 1}
    found, problems = changed(mapping, "a=2", "b=[1, {c: 0.5}]", "d.e.f=on", "g=", 'h."i.j"=1=2')
    assert problems == []
    assert found == {
        "a": 2, "b": [1, {"c": 0.5}], "d": {"e": {"f": "on"}}, "g": None, "h": {"i.j": "1=2"},
    }  # fmt: skip
    assert mapping == {"a": 1}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("seed=2", "seed=3"),
        ("stages.b.x=2", "stages[1].x=3"),
        ("stages.1.x=2", "b.x=3"),
        ("buffers-per-channel=2", f'options."{MEMORY}buffers-per-channel"=3'),
    ],
)
def test_a_key_is_set_once_however_it_is_written(first: str, second: str) -> None:
    """Which of two values is meant, nobody knows."""
    mapping = {"seed": 1, "stages": [{"name": "a"}, {"name": "b"}]}
    _, problems = changed(mapping, first, "stages.a.x=2", second)
    place = second.partition("=")[0]
    assert problems == [Problem(place, "cannot be set: it is set twice: set it once")]


def test_items_are_found_by_position_and_by_name() -> None:
    mapping = {"stages": [{"name": "a", "x": 1}, {"name": "b", "x": 1}]}
    before = copy.deepcopy(mapping)
    found, _ = changed(mapping, "stages.b.x=2", "stages[0].x=3", "stages.1.y=4")
    assert found == {"stages": [{"name": "a", "x": 3}, {"name": "b", "x": 2, "y": 4}]}
    assert changed(mapping, "stages[1]=5")[0]["stages"][1] == 5
    assert mapping == before


@pytest.mark.parametrize(
    ("override", "place", "text"),
    [
        ("a", "a", "PATH=VALUE"),
        ("stages.c.x=1", "stages.c.x", "'c' is not one of the 2 items (a, b)"),
        ("stages[2].x=1", "stages[2].x", "'2' is not one of the 2 items"),
        ("seed.x=1", "seed.x", "there is no 'x' in 1: write a mapping in its place, {x: ...}"),
        ("seed=[1", "seed", "cannot be set"),
        ("seed..x=1", "seed..x", "is not a path"),
        ("=3", "=3", "is not a path"),
    ],
)
def test_changes_that_cannot_be_made(override: str, place: str, text: str) -> None:
    _, [problem] = changed({"seed": 1, "stages": [{"name": "a"}, {"name": "b"}]}, override)
    assert problem.place == place
    assert text in problem.message


def test_a_file_is_loaded_with_changes(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(FILE)
    plain = load_scenario(path)
    other = load_scenario(
        str(path),
        overrides=[
            "stages.sink.service_rate[1].rate=70",
            'options."taskmanager.memory.segment-size"=4kb',
        ],
    )
    unquoted = load_scenario(path, overrides=["options.taskmanager.memory.segment-size=4 KiB"])
    assert unquoted.options.segment_bytes == 4096
    assert plain.stage("sink").service_rate != other.stage("sink").service_rate
    assert other.options.segment_bytes == 4096
    assert plain == load_scenario(path)


def test_changes_are_refused_like_the_file(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(FILE)
    with pytest.raises(ScenarioError, match=r"stages\[1\].parallelism: 0 is out of range"):
        load_scenario(path, overrides=["stages.sink.parallelism=0"])
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path, overrides=["nothing", "stages.x.y=1"])
    assert [problem.place for problem in caught.value.problems] == ["nothing", "stages.x.y"]
    assert caught.value.source == str(path)
