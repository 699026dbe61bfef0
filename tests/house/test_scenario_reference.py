"""docs/reference/scenario.md is what the models make, whole, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowcontrol.scenario.json_schema import scenario_schema
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS
from flowcontrol.scenario.presets import PRESETS
from modules import load

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "scenario.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script():
    return load("scripts/scenario_reference.py")


def test_the_page_is_what_the_models_make(script):
    assert script.page() == PAGE, "run python scripts/scenario_reference.py --write"


def test_it_can_be_printed_and_written(script, tmp_path, monkeypatch, capsys):
    assert script.main([]) == 0
    assert capsys.readouterr().out == PAGE
    monkeypatch.setattr(script, "PAGE", tmp_path / "reference" / "scenario.md")
    assert script.main(["--write"]) == 0
    assert script.PAGE.read_text(encoding="utf-8") == PAGE


def test_every_key_option_and_system_has_a_row():
    schema = scenario_schema()
    models = [schema, *schema["definitions"].values()]
    names = [key for model in models for key in model["properties"]]
    parts = [*TRANSPORT_PARTS.values(), *THROTTLE_PARTS.values()]
    names += [*OPTIONS, *PRESETS, *TRANSPORT_PARTS, *THROTTLE_PARTS]
    names += [key for part in parts for key in part.parameters]
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for name in names:
        assert any(f"`{name}`" in row.split(" | ", 2)[0] + row.split(" | ", 2)[1] for row in rows)


def test_its_links_lead_to_its_sections():
    titles = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
    links = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert links
    assert links <= titles


def test_every_table_is_even():
    for block in re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block[:200]
