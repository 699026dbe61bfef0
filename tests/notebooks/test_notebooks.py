"""Notebooks: in Databricks' source format, and each one runs as plain Python."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

from flowcontrol.scenario.syntax import read_yaml

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
CELL = "\n# COMMAND ----------\n"

on_each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks():
    assert NOTEBOOKS


@on_each
def test_first_line_marks_a_notebook(path):
    assert path.read_text().startswith("# Databricks notebook source\n")


@on_each
def test_cells_hold_either_text_or_code(path):
    text = path.read_text().removeprefix("# Databricks notebook source\n")
    cells = [cell.strip() for cell in text.split(CELL)]
    assert len(cells) > 5
    for cell in cells:
        lines = cell.splitlines()
        magic = [line for line in lines if line.startswith("# MAGIC")]
        assert lines, "an empty cell"
        assert len(magic) in {0, len(lines)}, f"text and code in one cell: {lines[0]}"
        assert not magic or re.fullmatch(r"# MAGIC %(md|sql)", magic[0])


@on_each
def test_every_cell_of_code_compiles_alone(path):
    for number, cell in enumerate(path.read_text().split(CELL)):
        compile(cell, f"{path.name}, cell {number}", "exec")


@on_each
def test_it_needs_no_file_and_its_scenarios_are_those_of_conf(path):
    """On Databricks a notebook may stand alone."""
    text = path.read_text()
    assert not re.search(r"""["']conf["'/]""", text)
    found = re.findall(r'yaml\.safe_load\("""\\\n(.*?)"""\)', text, re.DOTALL)
    # The jobs of these are mappings, or fitted to a query: see their own tests.
    assert found or path.stem in {"tour", "05_slow_pipeline"}
    for inline in found:
        scenario = yaml.safe_load(inline)
        assert scenario == read_yaml(ROOT / "conf" / f"{scenario['name']}.yaml")


@pytest.mark.spark
@pytest.mark.slow
def test_the_experiment_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("FLOWCONTROL_OUT", str(tmp_path / "run"))
    monkeypatch.setenv("FLOWCONTROL_DURATION", "6")
    left = runpy.run_path(str(ROOT / "notebooks" / "01_experiment.py"), {"spark": spark})
    assert left["result"].summary["rounds"] == 60
    assert left["result"].is_finished
    rows = left["rates"].collect()
    assert [row.until_s for row in rows] == [5, 10]
    # 5 s of 50 rounds, 60 records each, but for what waits for its first credit.
    assert rows[0].produced == pytest.approx(600, rel=0.03)
    assert left["rounds"].count() == 60
    assert {path.name for path in (tmp_path / "run").glob("*.html")} == {
        "credit.html",
        "rates.html",
        "report.html",
    }
