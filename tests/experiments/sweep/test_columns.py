"""The table: its columns, and the rows that one run gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.analysis import Bottleneck, summarise
from flowcontrol.analysis.figures import SECOND_HALF
from flowcontrol.experiments.sweep import columns
from flowcontrol.experiments.sweep.columns import (
    figure_named,
    fixed,
    results_table,
    swept,
    variant_rows,
)
from flowcontrol.records import Column
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.given import as_scenario
from flowcontrol.virtual import simulate

GIVEN = {"variant": "abc", "rate": 5, "replication": 0, "seed": 7}
VARIED = [Column("rate", "int64", "records/s", "Varied.")]


@pytest.fixture
def summary(chain, fakes):
    scenario = parse_scenario(chain)
    run = fakes.simulate(scenario)
    made = summarise(
        run.tables, scenario, clock="virtual", rounds=100, wall_s=0.25, round_ms=100.0
    )  # fmt: skip
    return made, run, scenario


def test_every_column_is_declared_once_and_said_what_it_means():
    table = results_table(VARIED)
    assert len(set(table.names)) == len(table.names)
    assert all(column.meaning for column in table.columns)
    assert set(fixed()) == set(table.names) - {"rate"}
    assert len(fixed()) == len(set(fixed()))


def test_varied_columns_stand_behind_the_variant():
    assert results_table(VARIED).names[:3] == ("variant", "rate", "replication")


def test_every_figure_stands_twice_but_when_it_caught_up_and_those_of_the_job():
    names = results_table([]).names
    for figure in swept():
        assert figure.column.name in names
        is_twice = not (figure.of_job or figure.column.name.startswith("caught_up"))
        assert (figure.column.name + SECOND_HALF in names) == is_twice
        assert figure.column.unit
    with pytest.raises(KeyError):
        figure_named("caught_up_after_s_second_half")


@pytest.mark.parametrize("name", ["rate_in", "rate_in_second_half"])
def test_a_figure_is_found_by_its_column(name):
    figure = figure_named(name)
    assert (figure.column.name, figure.better) == (name, "higher")


@pytest.mark.parametrize("name", ["", "wall_s", "rate", "rate_in_second"])
def test_other_columns_are_no_figures(name):
    with pytest.raises(KeyError):
        figure_named(name)


def test_a_run_gives_a_row_a_stage_with_every_column(summary):
    import pyarrow as pa

    rows = variant_rows(*summary[1:], GIVEN)
    assert [row["stage"] for row in rows] == ["source", "map", "sink"]
    table = results_table(VARIED)
    for row in rows:
        assert set(row) == set(table.names)
    assert pa.Table.from_pylist(rows, schema=table.arrow_schema()).num_rows == 3


def test_figures_are_those_of_the_summary(summary):
    rows = {row["stage"]: row for row in variant_rows(*summary[1:], GIVEN)}
    stages = summary[0]["stages"]
    assert rows["sink"]["rate_in"] == stages["sink"]["whole"]["rate_in"] == 507
    assert rows["sink"]["rate_in_second_half"] == stages["sink"]["second_half"]["rate_in"]
    assert rows["sink"]["latency_p99_ms"] == stages["sink"]["whole"]["latency"]["p99_ms"]
    assert rows["source"]["backpressured_ms_per_s"] == 800
    assert rows["source"]["latency_p50_ms"] is None
    assert rows["map"]["bottleneck"] == "sink"
    assert (rows["map"]["rounds"], rows["map"]["round_ms"], rows["map"]["wall_s"]) == (
        100, 100.0, 0.25,
    )  # fmt: skip


def test_what_is_in_flight_belongs_to_the_stage_it_waits_for(summary):
    rows = {row["stage"]: row for row in variant_rows(*summary[1:], GIVEN)}
    assert rows["source"]["in_flight_records"] == 0
    assert rows["map"]["in_flight_records"] == rows["sink"]["in_flight_records"] == 300
    assert rows["sink"]["in_flight_buffers"] == 30


@pytest.mark.parametrize("edge", ["source->map", None])
def test_an_edge_that_limits_is_the_bottleneck(summary, monkeypatch, edge):
    found = Bottleneck(None, edge, (), 9.0, 10.0, "because")
    monkeypatch.setattr(columns, "find_bottleneck", lambda *_, **__: found)
    assert variant_rows(*summary[1:], GIVEN)[0]["bottleneck"] == (edge or "")


KAFKA = Path(__file__).resolve().parents[3] / "conf" / "kafka-source.yaml"


@pytest.fixture(scope="module")
def lags():
    """Return the columns of lag of a run that pauses for some seconds, by stage."""

    def run(for_s):
        stalls = {"stages.database.stalls": [{"at_s": 5, "for_s": for_s}] if for_s else []}
        scenario = as_scenario(KAFKA, {"duration_s": 30, "stages.topic.emit_rate": 400, **stalls})
        found = simulate(scenario)
        made = summarise(
            found.tables, scenario, clock="virtual", rounds=1, wall_s=1.0, round_ms=200
        )
        return {row["stage"]: row for row in variant_rows(found, scenario, GIVEN)}, made["lags"][0]

    return run


def test_a_source_s_lag_is_that_of_the_summary(lags):
    rows, lag = lags(5)
    topic = rows["topic"]
    assert topic["max_lag_records"] == lag["max_records"] > 1000
    assert topic["max_lag_s"] == lag["max_s"] > 2
    assert topic["caught_up_after_s"] == lag["caught_up_after_s"] > 5
    assert topic["caught_up_at_s"] == lag["caught_up_at_s"] > 15
    assert 0 < topic["lag_s_second_half"] < topic["max_lag_s_second_half"] < topic["max_lag_s"]
    names = [figure.column.name for figure in swept() if figure.needs == "log"]
    assert len(names) == 6
    assert all(rows["database"][name] is None for name in names)


@pytest.mark.parametrize(("for_s", "after"), [(0, 0.0), (20, None)])
def test_who_kept_up_took_no_time_and_who_did_not_catch_up_none(lags, for_s, after):
    rows, _ = lags(for_s)
    assert rows["topic"]["caught_up_after_s"] == rows["topic"]["caught_up_at_s"] == after
