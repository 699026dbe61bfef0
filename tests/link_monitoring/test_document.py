"""docs/monitoring.md names what is there, and all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowcontrol.cli.main import main
from flowcontrol.link.monitoring.prometheus import METRICS
from flowcontrol.link.monitoring.table import _CHANNELS, _MEMBERS
from flowcontrol.link.monitoring.view import COLUMNS
from flowcontrol.records import LEDGER, QUERY_PROGRESS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text()
VIEW = set(COLUMNS)


def section(title):
    return re.split(r"^## ", TEXT.split(f"\n## {title}\n")[1], flags=re.M)[0]


def first_cells(text):
    """Return the names in the first column of the tables of a text."""
    rows = re.findall(r"^\| ([^|]+) \|", text, re.M)
    names = [name.strip("`, ") for row in rows for name in re.split(r",\s*", row)]
    return [name for name in names if re.fullmatch(r"[a-z][a-z_]*", name)]


def test_every_metric_is_described():
    names = re.findall(r"`(flowcontrol_link_\w+)`", section("Prometheus"))
    assert sorted(names) == sorted(METRICS)


def test_metrics_of_the_examples_are_there():
    (examples,) = re.findall(r"```promql\n(.*?)```", TEXT, re.S)
    used = re.findall(r"flowcontrol_link_\w+", examples)
    assert len(used) > 5
    assert set(used) <= set(METRICS)


def test_every_column_of_the_view_is_described():
    assert set(first_cells(section("SQL"))) - {"column"} == VIEW


def test_every_column_of_the_progress_is_described_in_order():
    found = first_cells(section("What the queries report"))
    assert tuple(found[1:]) == QUERY_PROGRESS.names


def test_every_column_of_the_terminal_is_described():
    text = section("What each figure means")
    described = {
        cell for row in re.findall(r"^\| ([^|]+) \|", text, re.M) for cell in row.split(", ")
    }
    assert set(_MEMBERS) | set(_CHANNELS) <= described


def test_columns_of_the_sql_are_there():
    queries = [
        query for block in re.findall(r"```sql\n(.*?)```", TEXT, re.S) for query in block.split(";")
    ]
    checked = 0
    for query in filter(str.strip, queries):
        names = VIEW if "orders_link" in query else set(LEDGER.names) | set(QUERY_PROGRESS.names)
        bare = re.sub(r"--.*|`[^`]*`|'[^']*'|AS \w+", "", query)
        words = set(re.findall(r"\b[a-z]\w*\b", bare))
        assert words - {"orders_link", "delta", "round", "sum", "max", "date_trunc"} <= names, query
        checked += 1
    assert checked == 4


def test_options_and_limits_are_those_of_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["watch", "--help"])
    helped = set(re.findall(r"--\w+", capsys.readouterr().out)) - {"--help"}
    assert set(re.findall(r"^\| `(--\w+)", TEXT, re.M)) == helped


def test_the_table_shown_fits_a_terminal():
    shown = re.findall(r"```text\n(.*?)```", TEXT, re.S)
    assert len(shown) == 2
    assert max(len(line) for one in shown for line in one.splitlines()) <= 80
