"""The public functions: three kinds of a scenario, changes by key, one kind of result."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import flowcontrol
from flowcontrol import Result, RunError, Scenario, ScenarioError, load_scenario
from remembered import simulate

SMALL: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 4,
    "round_ms": 20,
    "sample_interval_s": 0.5,
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 2000},
        {"name": "sink", "service_rate": 50},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with the file of the small scenario."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return tmp_path


def emulate(given: Any, **more: Any) -> Result:
    return flowcontrol.emulate(given, clock="virtual", overwrite=True, **more)


def sweep(given: Any, **more: Any) -> Result:
    vary = {"stages.sink.service_rate": [40, 80]}
    return flowcontrol.sweep(given, vary, processes=1, overwrite=True, **more)


def compare(given: Any, **more: Any) -> Result:
    systems = ["flink", "storm-1"]
    return flowcontrol.compare(given, systems, processes=1, overwrite=True, **more)


def advise(given: Any, **more: Any) -> Result:
    return flowcontrol.advise(given, overwrite=True, simulate=simulate, **more)


def capacity(given: Any, **more: Any) -> Result:
    return flowcontrol.capacity(given, "source", tolerance=0.1, **more)


Call = Callable[..., Result]
CALLS: dict[str, tuple[Call, dict[str, set[str]]]] = {
    "emulate": (
        emulate,
        {
            "stages": {"rate_in"},
            "channels": {"credit"},
            "latency": {"p50_ms"},
            "metrics": {"value"},
        },
    ),
    "sweep": (sweep, {"results": {"sink_service_rate", "rate_in"}}),
    "compare": (compare, {"results": {"system", "of_limit"}, "rates": {"produced"}}),
    "advise": (advise, {"proposals": {"gain", "throughput_after"}}),
    "capacity": (capacity, {"probes": {"rate", "is_sustained"}}),
    "plan": (flowcontrol.plan, {"grants": {"edge", "required", "granted"}}),
}
on_each = pytest.mark.parametrize("name", CALLS)


def figures(result: Result) -> str:
    """Return the summary as text, without the time that it took."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            times = {"wall_s", "simulated_s"}
            return {key: timeless(one) for key, one in value.items() if key not in times}
        return value

    return json.dumps(timeless(result.summary))


@on_each
def test_a_file_a_mapping_and_a_scenario_give_the_same(name: str, here: Path) -> None:
    call, _ = CALLS[name]
    kinds: list[str | Path | dict[str, Any] | Scenario] = ["small.yaml", here / "small.yaml", SMALL]
    first, *others = [figures(call(given)) for given in [*kinds, load_scenario("small.yaml")]]
    assert all(other == first for other in others)


@on_each
def test_changes_are_values_by_key_or_texts(name: str, here: Path) -> None:
    call, _ = CALLS[name]
    option = "options.taskmanager.network.memory.floating-buffers-per-gate"
    changes = {"duration_s": 2, option: 3, "stages.source.emit_rate": 60}
    texts = [f"{key}={value}" for key, value in changes.items()]
    changed = [
        figures(call(given, overrides=overrides))
        for given, overrides in (("small.yaml", texts), (SMALL, changes),
                                 (load_scenario("small.yaml"), texts))
    ]  # fmt: skip
    assert len(set(changed)) == 1
    assert changed[0] != figures(call("small.yaml"))


@on_each
def test_a_result_has_its_parts_and_shows_itself(name: str, here: Path) -> None:
    call, tables = CALLS[name]
    result = call("small.yaml")
    assert isinstance(result, Result)
    assert result.name == "small"
    assert json.loads(json.dumps(result.summary, allow_nan=False))["sentence"] == result.sentence
    assert set(result.tables) == set(tables)
    for table, columns in tables.items():
        frame = result.to_pandas(table)
        assert len(frame) > 0
        assert columns <= set(frame.columns)
    with pytest.raises(RunError, match="'stagse' is not a table of this result: use one of "):
        result.to_pandas("stagse")
    if name in ("capacity", "plan"):
        assert result.report is None
    else:
        assert result.report is not None
        assert result.report.read_text().startswith("<!")
    assert repr(result).count("\n") == 0
    assert len(repr(result)) < 200
    assert result.sentence in str(result)
    assert str(result).count("\n") < 6
    html = result._repr_html_()
    assert html.startswith("<div")
    assert "small" in html
    for table in tables:
        assert f"{table} (" in html


@on_each
def test_what_is_refused_is_refused_alike(name: str, here: Path) -> None:
    call, _ = CALLS[name]
    for given in ("small.yaml", SMALL, load_scenario("small.yaml")):
        with pytest.raises(ScenarioError, match="duration_s: -1"):
            call(given, overrides={"duration_s": -1})
    with pytest.raises(ValueError, match="needs a mapping, or a list of KEY=VALUE"):
        call("small.yaml", overrides="duration_s=2")
    with pytest.raises(ValueError, match="needs a mapping, or a list of KEY=VALUE"):
        call("small.yaml", overrides=[("duration_s", 2)])
    with pytest.raises(ValueError, match=r"overrides has .* for duration_s: needs a value"):
        call("small.yaml", overrides={"duration_s": object()})
    assert [path.name for path in here.iterdir()] == ["small.yaml"]


def test_changes_may_be_numbers_of_numpy(here: Path) -> None:
    changes = {"duration_s": np.int64(2), "stages.source.emit_rate": np.float64(5)}
    scenario = load_scenario("small.yaml", overrides=changes)
    assert scenario == load_scenario("small.yaml", overrides=["duration_s=2", "source.emit_rate=5"])
    with pytest.raises(ValueError, match="needs a mapping, or a list of KEY=VALUE"):
        load_scenario("small.yaml", overrides="duration_s=2")


def test_rounds_take_changes_too(here: Path) -> None:
    states = list(flowcontrol.rounds(SMALL, overrides={"duration_s": 0.1}))
    assert len(states) == 5


def test_a_quick_call_says_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    emulate("small.yaml")  # the kernel may have to be compiled
    capsys.readouterr()
    emulate("small.yaml")
    assert capsys.readouterr() == ("", "")


def test_a_failing_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'emulat'"):
        _ = flowcontrol.emulat  # type: ignore[attr-defined]


def test_all_that_is_public_is_there() -> None:
    assert all(getattr(flowcontrol, name) for name in flowcontrol.__all__)


@pytest.mark.parametrize("package", ["flowcontrol", "flowcontrol.diagnosis"])
def test_dir_lists_the_public_names_for_completion(package: str) -> None:
    module = importlib.import_module(package)
    assert {*module.__all__} <= {*dir(module)}
    assert len(module.__all__) > 3
