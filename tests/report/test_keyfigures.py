"""The figures of a run that come first: what consumers take up beside what producers emit."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.report.stage_table import key_figures
from flowcontrol.scenario import parse_scenario

WINDOW = {"window": {"kind": "tumbling", "size_s": 1}}
TIMED: dict[str, Any] = {"event_time": {}, "watermark": {}}


@pytest.mark.parametrize(
    ("middle", "edge", "text"),
    [
        ({}, {}, None),
        (
            WINDOW,
            {"partitioner": "hash", "key_weights": {"x": 1, "y": 1}},
            "; b puts out results of windows, not each record<",
        ),
        ({"selectivity": 0.1}, {}, "; b emits 0.1 records for each<"),
        ({}, {"partitioner": "broadcast"}, "; a-&gt;b copies each record to all subtasks<"),
    ],
)
def test_what_makes_consumers_differ_from_producers_is_named(
    middle: dict[str, Any], edge: dict[str, Any], text: str | None
) -> None:
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "small",
            "duration_s": 2,
            "stages": [
                {"name": "a", "emit_rate": 10, **TIMED},
                {"name": "b", "parallelism": 2, **middle},
                {"name": "c"},
            ],
            "edges": [
                {"from": "a", "to": "b", "partitioner": "rebalance", **edge},
                {"from": "b", "to": "c"},
            ],
        }
    )
    whole = {
        "rate_in": 1.0, "rate_out": 1.0, "records_in": 2, "records_out": 2, "latency": None,
        "worst_backpressured_ms_per_s": 0.0,
    }  # fmt: skip
    held = {"in_flight_records": 0, "in_flight_bytes": 0}
    found = key_figures(
        {"stages": {name: {"whole": whole} for name in "abc"}, "edges": {"a->b": {"whole": held}}},
        scenario,
    )
    assert ";" not in found[0].replace("&gt;", "")
    if text is None:
        assert "; " not in found[1]
    else:
        assert text in found[1]
