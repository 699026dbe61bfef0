"""Rows that do not fit: the command says which one and what to do, and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from flowcontrol.cli.main import main

MEGABYTES = 40_000
"""Rows that are more than a megabyte, from which types are inferred."""


def scenario(folder: Path, bad: str, **source: Any) -> Path:
    """A scenario that replays many good rows and a bad one behind them."""
    rows = [f"2013-01-01 05:{i % 60:02}:00Z,EWR,{i}\n" for i in range(MEGABYTES)]
    (folder / "rows.csv").write_text("at,origin,size\n" + "".join(rows) + f"{bad}\n" + rows[0])
    window = {"kind": "tumbling", "size_s": 60, "aggregate": {"n": "sum(size)"}}
    count = {"window": window} if source else {"service_rate": 10}
    given = {
        "schema": 1,
        "name": "bad-rows",
        "duration_s": 1,
        "stages": [
            {
                "name": "source",
                "emit_rate": 100,
                "record_bytes": 100,
                "input": {"format": "csv", "path": "rows.csv", "key": "origin"},
                **source,
            },
            {"name": "count", **count},
        ],
        "edges": [{"from": "source", "to": "count"}],
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(given))
    return folder / "job.yaml"


TIMED = {"event_time": {"column": "at"}, "watermark": {"delay_s": 1}}


@pytest.mark.parametrize(
    ("bad", "place", "texts"),
    [
        (
            "yesterday,EWR,1",
            "stages[0].event_time.column",
            ["'at' of rows.csv is 'yesterday' in row 40,001, which is not a timestamp", "mend the"],
        ),
        (",EWR,1", "stages[0].event_time.column", ["has no value in row 40,001", "leave these"]),
        (
            "1066-10-14 09:00:00Z,EWR,1",
            "stages[0].event_time.column",
            ["is 1066-10-14 09:00:00Z in row 40,001", "between the years 1830 and 2109"],
        ),
        (
            "2013-01-01 05:00:00Z,EWR,few",
            "stages[0].input",
            ["'size' of rows.csv is 'few' in row 40,001, which is not a number", "another column"],
        ),
    ],
)
def test_a_row_that_does_not_fit_is_refused(
    bad: str, place: str, texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = str(scenario(tmp_path, bad, **TIMED))
    assert main(["emulate", given, "--clock", "virtual", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    for text in ["is refused (1 problem)", f"{place}: ", *texts]:
        assert text in said
    assert not out.exists()


@pytest.mark.parametrize("clock", ["live", "virtual"])
def test_a_line_with_too_many_values_is_named(
    clock: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On either clock before anything is written; the live one starts no Spark for it."""
    out, given = tmp_path / "out", str(scenario(tmp_path, "2013-01-01 05:00:00Z,EWR,1,2"))
    assert main(["emulate", given, "--clock", clock, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "stage source: its input" in said
    assert "Row #40002: Expected 3 columns, got 4: 2013-01-01 05:00:00Z,EWR,1,2" in said
    assert not out.exists()
