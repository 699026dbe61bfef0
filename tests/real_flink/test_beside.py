"""Figures of two runs are taken in the same way and put side by side."""

from __future__ import annotations

from typing import Any

import beside
import pyarrow as pa
import pytest

from flowcontrol.records import FAULT_TOLERANCE, RESULTS
from flowcontrol.scenario import Scenario, parse_scenario

SCHEMAS = {**RESULTS, **FAULT_TOLERANCE}


def scenario(sink: Any = 50, **changes: Any) -> Scenario:
    stated: dict[str, Any] = {
        "schema": 1,
        "name": "pair",
        "duration_s": 60,
        "stages": [
            {"name": "source", "emit_rate": 100, "record_bytes": 100},
            {"name": "sink", "parallelism": 2, "service_rate": sink},
        ],
        "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
    }
    return parse_scenario({**stated, **changes})


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    fields = [field.with_nullable(True) for field in SCHEMAS[name].arrow_schema()]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def tables(rate: int, held: int, **more: Any) -> dict[str, pa.Table]:
    """Samples every 10 s of a source and two sinks that take ``rate`` records/s each."""
    rows = []
    for at in range(10, 70, 10):
        taken = rate * at
        figures = {"busy_ms_per_s": 900.0, "idle_ms_per_s": 0.0, "backpressured_ms_per_s": 100.0}
        figures |= {"in_pool_usage": 0.5, "out_pool_usage": 0.25}
        own = {"records_in": 0, "records_out": 2 * taken + held, **figures}
        rows.append({"t_s": float(at), "stage": "source", "subtask": 0, **own})
        for subtask in range(2):
            own = {"records_in": taken, "records_out": 0, **figures}
            rows.append({"t_s": float(at), "stage": "sink", "subtask": subtask, **own})
    return {"stages": table("stages", rows), "latency": table("latency", []), **more}


def figures(found: list[beside.Row]) -> dict[tuple[str, str], tuple[float, float]]:
    return {(row.place, row.figure): (row.measured, row.emulated) for row in found}


def test_rates_are_summed_shares_are_means_and_in_flight_is_what_was_not_taken_up() -> None:
    found = figures(list(beside.rows(scenario(), tables(20, 30), tables(21, 33))))
    assert found["source", "records"] == (40, 42)
    assert found["sink", "records"] == (40, 42)
    assert found["sink", "busy"] == (900, 900)
    assert found["source", "blocked"] == (100, 100)
    assert found["to sink", "in flight"] == (30, 33)


def test_a_source_has_no_input_and_a_sink_no_output() -> None:
    found = figures(list(beside.rows(scenario(), tables(20, 0), tables(20, 0))))
    assert ("source", "in pool") not in found
    assert ("sink", "out pool") not in found
    assert found["sink", "in pool"] == (0.5, 0.5)
    assert found["source", "out pool"] == (0.25, 0.25)


def test_a_broadcast_sends_every_record_to_all() -> None:
    given = scenario(edges=[{"from": "source", "to": "sink", "partitioner": "broadcast"}])
    both = tables(20, 0)
    stages = both["stages"].to_pandas()
    stages.loc[stages["stage"] == "source", "records_out"] //= 2
    both["stages"] = pa.Table.from_pandas(stages, both["stages"].schema, preserve_index=False)
    assert figures(list(beside.rows(given, both, both)))["to sink", "in flight"] == (0, 0)


def test_latencies_are_weighed_by_what_they_are_of() -> None:
    rows = [
        {"t_s": 20.0, "stage": "sink", "subtask": n, "kind": "record", "count": count}
        | {f"{figure}_ms": value for figure in ("mean", "p50", "p90", "p99", "max")}
        for n, count, value in ((0, 3, 10.0), (1, 1, 50.0))
    ]
    markers = [{**rows[0], "kind": "marker", "p50_ms": 999.0}]
    own = tables(20, 0, latency=table("latency", rows + markers))
    found = figures(list(beside.rows(scenario(), own, own)))
    assert found["sink", "latency p50"] == (20, 20)


def test_checkpoints_are_the_completed_ones_of_the_window() -> None:
    rows = [
        {"checkpoint_id": n, "status": status, "triggered_s": at, "e2e_ms": e2e}
        | {"persisted_bytes": 5}
        for n, (status, at, e2e) in enumerate(
            [("completed", 1.0, 9e9), ("completed", 20.0, 300.0), ("expired", 30.0, 9e9)]
        )
    ]
    own = tables(20, 0, checkpoints=table("checkpoints", rows))
    assert figures(list(beside.rows(scenario(), own, own)))["checkpoints", "end to end"][0] == 300


def test_a_phase_is_left_out_for_as_long_as_buffers_fill() -> None:
    assert beside.windows(scenario()) == [(5, 60)]
    rates = [{"at_s": 0, "rate": 50}, {"at_s": 20, "rate": 9}, {"at_s": 28, "rate": 50}]
    assert beside.windows(scenario(rates)) == [(5, 20), (24, 28), (33, 60)]


def test_phases_that_are_too_short_are_compared_as_a_whole() -> None:
    rates = [{"at_s": 0, "rate": 50}, {"at_s": 20, "rate": 9}, {"at_s": 22, "rate": 50}]
    assert beside.windows(scenario(rates)) == [(5, 60)]


def test_a_stall_is_a_phase_of_its_own() -> None:
    stated = scenario().canonical()
    stated["stages"][1]["stalls"] = [{"at_s": 20, "for_s": 10}]
    assert beside.windows(parse_scenario(stated)) == [(5, 20), (25, 30), (35, 60)]


@pytest.mark.parametrize(
    ("unit", "measured", "emulated", "text"),
    [
        ("1/s", 200, 201, "+0.5 %"),
        ("records", 0, 3, "+3"),
        ("ms/s", 500, 470, "-30"),
        ("of 1", 0.5, 0.75, "+0.25"),
    ],
)
def test_differences_are_in_per_cent_but_for_shares(
    unit: str, measured: float, emulated: float, text: str
) -> None:
    row = beside.Row((0, 1), "sink", "figure", unit, measured, emulated)
    assert row.difference == text


def test_the_text_has_a_block_for_each_phase() -> None:
    row = beside.Row((5, 20), "to sink", "in flight", "records", 588.2, 590)
    lines = beside.show([row, beside.Row((24, 28), "sink", "busy", "ms/s", 0.5, 1)]).splitlines()
    assert lines[1] == "5 to 20 s"
    assert lines[3].split() == ["to", "sink", "in", "flight", "588", "590", "records", "+0.3", "%"]
    assert lines[5] == "24 to 28 s"
