"""docs/reference/scenario.md has every key of the models; test_reference.py compares it whole."""

from __future__ import annotations

from pathlib import Path

from flowcontrol.scenario.json_schema import scenario_schema
from flowcontrol.scenario.option_table import OPTIONS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "scenario.md").read_text(encoding="utf-8")


def test_every_key_and_option_has_a_row():
    schema = scenario_schema()
    models = [schema, *schema["definitions"].values()]
    names = [*(key for model in models for key in model["properties"]), *OPTIONS]
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for name in names:
        assert any(f"`{name}`" in row.split(" | ", 2)[0] + row.split(" | ", 2)[1] for row in rows)
