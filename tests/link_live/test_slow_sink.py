"""The program of the tutorial in docs/link.md runs in both forms and prints what the page shows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from modules import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(["--plain"], marks=pytest.mark.long),
        pytest.param(["--limit", "20kb", "--fail"], marks=pytest.mark.long),
        pytest.param(["--defaults"], marks=pytest.mark.long),
        ["--fail"],
    ],
    ids=["plain", "limit", "defaults", "link"],
)
def test_the_tutorial_runs(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: list[str],
) -> None:
    out = tmp_path / "out"
    arguments = [*form, "--seconds", "9", "--rate", "20", "--out", str(out)]
    # The session is that of all tests: its log stays as it is.
    monkeypatch.setattr(type(spark.sparkContext), "setLogLevel", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["slow_sink.py", *arguments])
    assert load("examples/slow_sink.py").main() == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"^ +\d+ s +(fast|slow) +[\d,]+ rows +[\d.]+ MB +[\d.]+ s +[\d.]+ s$", printed, re.M
    )
    assert "batches that began while the sink was slow" in printed
    rows = re.search(r"^largest batch: ([\d,]+) rows$", printed, re.MULTILINE)
    assert rows is not None
    assert int(rows[1].replace(",", "")) > 0
    assert json.loads((out / "summary.json").read_text())["largest_batch_rows"] > 0
    has_link = not {"--plain", "--limit"} & set(form)
    assert (out / "between/link.json").exists() is has_link
    assert not spark.streams.active
