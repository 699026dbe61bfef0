"""How far a change reaches: the files that name an event, a key, a column, a topic, a command.

What a change of a kind would touch, read off what there is of it. A new transport and a new
throttle are in tests/systems/test_one_place.py.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from flowcontrol.cli.main import COMMANDS
from flowcontrol.records import STAGES
from modules import ROOT

PACKAGE = ROOT / "flowcontrol"
MOST_OF_AN_EVENT, MOST_OF_A_KEY, MOST_OF_A_COLUMN, MOST_OF_A_COMMAND = 8, 8, 3, 4
READS_RESULTS = {
    "analysis",
    "calibration",
    "cli",
    "experiments",
    "metrics",
    "report",
    "scaling",
    "topics",
}
"""Rooms that work with what runs have left: a figure may be read there or not."""
SHARED = {"t_s", "stage", "subtask", "records_in", "records_out"}
"""Columns whose names are also those of other tables or of the state."""


@cache
def code() -> dict[str, str]:
    """Return each source without comments and docstrings, by its path in the package."""
    found = {}
    for path in (path for kind in ("*.py", "*.pyi", "*.yaml") for path in PACKAGE.rglob(kind)):
        text = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
        found[path.relative_to(PACKAGE).as_posix()] = re.sub(r"#.*", "", text)
    return found


def files_with(*words: str) -> set[str]:
    """Return the files that name one of some words, but for those that read results."""
    pattern = re.compile(rf"\b(?:{'|'.join(words)})\b")
    found = {file for file, text in code().items() if pattern.search(text)}
    return {file for file in found if file.split("/")[0] not in READS_RESULTS}


@pytest.mark.parametrize(
    "words", [("END_OF_DATA",), ("CHECKPOINT_SUBSUMED", "SUBSUMED", "subsumed")]
)
def test_a_kind_of_event(words: tuple[str, ...]) -> None:
    assert 3 <= len(files_with(*words)) <= MOST_OF_AN_EVENT


@pytest.mark.parametrize("words", [("service_time_cv", "cv"), ("latency_from", "from_arrival")])
def test_a_key_of_a_stage(words: tuple[str, ...]) -> None:
    """From the model, by the layout and the memory, to the rule; its text and example are data."""
    files = files_with(*words) - {"scenario/keys.yaml", "records.yaml"}
    assert {"scenario/stage_models.py", "scenario/checks.yaml", "layout/work.py"} <= files
    assert {"memory/fields.py", "memory/fill.py"} <= files
    assert len(files) <= MOST_OF_A_KEY
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^\| a key of a stage \|.*", text, re.MULTILINE)
    listed = set(re.findall(r"`flowcontrol/([^`]+)`", row))
    assert {file for file in files if file.split("/")[0] not in {"kernel", "protocol"}} <= listed


@pytest.mark.parametrize("name", [name for name in STAGES.names if name not in SHARED])
def test_a_column_of_stages(name: str) -> None:
    """Its row in the table of columns, and where it is worked out."""
    files = files_with(name)
    assert "records.yaml" in files
    results = {file for file in files if file.split("/")[0] in {"results", "kernel", "state"}}
    assert 1 <= len(results) <= MOST_OF_A_COLUMN - 1


TOPICS = {path.stem for path in (PACKAGE / "topics").glob("*.py")} - {"__init__", "shown", "topic"}


@pytest.mark.parametrize("name", sorted(TOPICS))
def test_a_topic(name: str) -> None:
    """Its file, and its place in the order in which all are shown; others may use its figures."""
    pattern = re.compile(rf"flowcontrol\.topics\.{name}\b")
    found = {file for file, text in code().items() if pattern.search(text)}
    assert {file for file in found if not file.startswith("run/")} == {"topics/shown.py"}
    assert "run/emulate.py" not in found


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_a_command(name: str) -> None:
    """Its module, its row in the list; of a public function also the stub, and where it is."""
    home = re.search(rf"^from flowcontrol\.(\S+) import {name} as ", code()["__init__.pyi"], re.M)
    public = {"__init__.pyi", home[1].replace(".", "/")} if home else set()
    own = {"cli/main.py", f"cli/{name}.py", *public}
    assert f"cli/{name}.py" in code()
    assert len(own) <= MOST_OF_A_COMMAND
    row = f'Command("{name}"'
    assert {file for file, text in code().items() if row in text} == {"cli/main.py"}
