"""The JSON schema of scenarios: it accepts all that is read, and catches what it can see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from flowcontrol.errors import Problem
from flowcontrol.scenario import Scenario, load_scenario, parse_scenario
from flowcontrol.scenario.json_schema import PARTS, read_examples, scenario_schema
from flowcontrol.scenario.option_table import ALIASES, OPTIONS
from flowcontrol.scenario.syntax import read_yaml
from flowcontrol.scenario.system import ALIASES as SYSTEM_ALIASES
from flowcontrol.scenario.system import PRESETS, preset_system, read_system
from flowcontrol.scenario.translate import read_part
from modules import load

CONF = Path(__file__).resolve().parents[2] / "conf"
SCHEMA = scenario_schema()
VALIDATOR = Draft7Validator(SCHEMA)
RANDOM = load("tests/job/random_jobs.py")
REFUSED = [
    *load("tests/scenario/test_refusals.py").TABLE,
    *load("tests/scenario/test_short_refusals.py").TABLE,
    *load("tests/scenario/test_fault_refusals.py").TABLE,
    *load("tests/scenario/test_event_time_refusals.py").TABLE,
]
RICH = load("tests/scenario/test_canonical.py").RICH

ELSEWHERE = (
    "nan", "1e-07", "lot", "slots=1", "selectivity=2", "selectivity=0.5", "emit_rate=<remove",
    "stages/0/service_rate=5", "stages/1/emit_rate=5", "placement=[0", "'subtasks': [3]",
    "service_rate=[1, 2]", "[{'at_s': 5", "'at_s': 0, 'rate': 2}", "edges/0/to=snk", "from=x",
    "partitioner=forward", "chain=True", "edges[0].chain: true", "partitioner=hash",
    "segment-size=1000", "segment-size=2kb", "1500micros", "999micros",
    "interval=1,options", "network.min=", "flink.size=", "process.size=",
    "min-segment-size=32769", "min-segment-size=8kb", "'path': ", "stages/1/total_rate=[",
    "stages/0/output", "input=", "custom,edges/0/channel_weights=[",
    "interval=9ms", "10500micros", "unaligned.enabled=True,", "unaligned=True,options",
    "strategy.type=none,", "initial-backoff=2min", "timeout=9s", "failure-threshold=0",
    "state={'bytes_per_key': 8}", "stages/0/guarantee=", "stages/1/replayable=False",
    "savepoints=[{'at_s': 10}", "savepoints=[{'at_s': 2}", "savepoints=[{'at_s': 2,",
    "'task_manager': 2}", "'snk'", "'subtask': 3}", "failures=[{'at_s': 10", "failures=[{'at_s': 3",
    "system=flink-1.4,options", "max-size=0",
    "0.0005 is out of range", "1.0001", "0.0001", "for 2 subtasks", "offset_s: [] is empty",
    "replays no rows", "is not a time", "unknown column", "with column", "edges lead to 'sink'",
    "structured-streaming has Spark's", "has no batches", "not a multiple of round_ms",
    "a delay and nothing else", "the window of 'sink'", "size_s: 0.0005",
    "1.0005", "each record would be in",
    "parameters", "has no fixed starts", "nothing is late", "no event time", "sends no watermark",
    "only Spark has output modes", "name 9 keys", "this many keys", "keys of their own",
    "no replayed rows enter", "a column of every result", "the name of 'n'",
    "is not a column", "holds no numbers",
    "Spark's windows", "slide_duration", "Invalid streaming", "Spark's",
    "Global aggregation", "use hash with the column as key", "meet in",
    "no edge leads to 'source'", "interval\": whole milliseconds",
)  # fmt: skip
"""Parts of the names of slips that show only beside another key, or in the value of a text."""


def wrong(mapping: Any) -> list[str]:
    return [
        f"{list(error.path)}: {error.message[:200]}" for error in VALIDATOR.iter_errors(mapping)
    ]


def test_it_is_a_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_scenario_of_conf_satisfies_it(path: Path) -> None:
    assert wrong(read_yaml(path)) == []
    assert wrong(load_scenario(path).canonical()) == []


def test_a_scenario_with_everything_satisfies_it(changed: Any) -> None:
    assert wrong(RICH) == []
    assert wrong(parse_scenario(RICH).canonical()) == []
    assert wrong(changed(("stages/1/selectivity", None))) == []


@given(RANDOM.scenarios(RANDOM.Shape(is_virtual=True)))
def test_any_scenario_that_is_read_satisfies_it(scenario: Scenario) -> None:
    assert wrong(scenario.canonical()) == []


@pytest.mark.parametrize(("changes", "place", "texts"), REFUSED)
def test_it_catches_what_it_can_see(
    changed: Any, request: Any, changes: list[Any], place: str, texts: list[str]
) -> None:
    name = request.node.callspec.id
    if wrong(changed(*changes)) == []:
        assert any(part in name for part in ELSEWHERE), name


def test_most_slips_are_caught(changed: Any) -> None:
    caught = [param.id for param in REFUSED if wrong(changed(*param.values[0]))]
    assert len(caught) > 0.6 * len(REFUSED)


@pytest.mark.parametrize(
    "changes",
    [
        [("stages/1/total_rate", 5)],
        [("edges/0/key_distribution", {"kind": "zipf", "keys": 3})],
        [("edges/0/partitioner", "custom")],
        [("edges/0/partitioner", "hash"), ("edges/0/key_weights", {"a": 1}), ("edges/0/key", "b")],
        [("stages/1/service_time_cv", 2)],
        [("stages/0/latency_from", "arrival")],
        [("stages/0/arrival_rate", 5), ("stages/0/emit_rate", "<remove it>")],
        [("failures", [{"at_s": 1}])],
        [("failures", [{"at_s": 1, "task_manager": 0, "job_manager": True}])],
        [("failures", [{"at_s": 1, "stage": "sink"}])],
        [("failures", [{"at_s": 1, "job_manager": True, "subtask": 0}])],
        [("jobs", [])],
        [("stages", "<remove it>")],
        [("system", {"transport": {"name": "credit", "slots": 3}})],
        [("options/taskmanager.memory.segment-size", "32xb")],
        [("stages/1/record_bytes", "1 parsec")],
    ],
    ids=str,
)
def test_it_catches_keys_that_exclude_each_other(changed: Any, changes: list[Any]) -> None:
    assert wrong(changed(*changes)) != []


# ---------------------------------------------------------------- systems and options


@pytest.mark.parametrize("name", [*PRESETS, *SYSTEM_ALIASES])
def test_systems_by_name_and_spelled_out(changed: Any, name: str) -> None:
    spelled = parse_scenario(changed(("system", name))).canonical()["system"]
    assert wrong(changed(("system", name))) == []
    assert wrong(changed(("system", spelled))) == []
    problems: list[Problem] = []
    assert read_system(spelled, problems) == preset_system(name)
    assert problems == []


VALUES = (
    st.booleans()
    | st.integers(-2, 2**40)
    | st.floats(0, 2)
    | st.sampled_from(["true", "False", "-1", "-1 ms", "0.5", ".25", "5", " 7 ", "4096", "1 GiB"])
    | st.from_regex(r"[0-9]{1,6} ?(kb|MB|mebibytes|ms|Min|d|µs|micros|seconds|xx)?", fullmatch=True)
    | st.sampled_from(["exactly_once", "AT_LEAST_ONCE", "full", "none", ""])
)


@given(st.sampled_from(sorted(OPTIONS)), VALUES)
def test_whatever_an_option_takes_satisfies_it(key: str, value: Any) -> None:
    option = OPTIONS[key]
    validator = Draft7Validator(SCHEMA["properties"]["options"]["properties"][key])
    try:
        option.read(value)
    except ValueError:
        return
    assert validator.is_valid(value)


def test_off_is_what_yaml_reads_of_it() -> None:
    properties = SCHEMA["properties"]["options"]["properties"]
    takers = [key for key, schema in properties.items() if Draft7Validator(schema).is_valid("off")]
    assert "restart-strategy.type" in takers
    for key in takers:
        assert Draft7Validator(properties[key]).is_valid(False)


def test_every_option_and_its_old_name_is_there() -> None:
    assert set(SCHEMA["properties"]["options"]["properties"]) == {*OPTIONS, *ALIASES}


# ---------------------------------------------------------------- examples


def models() -> dict[str, Any]:
    """Every mapping of a file, by the name of its model."""
    owners = {"top": SCHEMA, **SCHEMA["definitions"]}
    return {name: owner["properties"] for name, owner in owners.items()}


def test_every_key_has_an_example_and_says_what_it_means() -> None:
    examples, owners = read_examples(), models()
    parts = ("stages", "edges", "jobs")
    for owner, properties in owners.items():
        keys = {key for key in properties if not (owner in {"top", "JobPart"} and key in parts)}
        assert keys <= set(examples[owner]), owner
        assert set(examples[owner]) <= set(properties), owner
        for key, schema in properties.items():
            assert schema.get("description"), f"{owner}.{key}"


@pytest.mark.parametrize(
    ("owner", "key", "example"),
    [
        pytest.param(owner, key, row["example"], id=f"{owner}.{key}")
        for owner, keys in read_examples().items()
        for key, row in keys.items()
        if "example" in row
    ],
)
def test_an_example_is_read(owner: str, key: str, example: Any) -> None:
    assert key in example
    validator = Draft7Validator({**models()[owner][key], "definitions": SCHEMA["definitions"]})
    assert list(validator.iter_errors(example[key])) == []
    found = {model.__name__: model for model in PARTS.values()}
    if owner in {"Cluster", "Stage", "Edge"}:
        problems: list[Problem] = []
        assert read_part(found[owner], example, (), problems) is not None, problems
