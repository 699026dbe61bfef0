"""``flowcontrol schema`` prints the schema, and only that."""

from __future__ import annotations

import json

import pytest

from flowcontrol.cli.main import main
from flowcontrol.scenario.json_schema import scenario_schema


def test_it_prints_the_schema_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == scenario_schema()
    assert '\n  "title": "flowcontrol scenario"' in out
