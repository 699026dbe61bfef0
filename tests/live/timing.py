"""Small scenarios with event time, and what both clocks must agree on about them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

INTERVAL = "pipeline.auto-watermark-interval"


def timed(mapping: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Give sources of a scenario what belongs to their time: by name, keys of their stages."""
    stages = [{**stage, **sources.get(stage["name"], {})} for stage in mapping["stages"]]
    return {**mapping, "stages": stages, "options": {**mapping["options"], INTERVAL: "200ms"}}


def every_case(cases: ModuleType) -> dict[str, dict[str, Any]]:
    """Return the cases by name."""
    behind = {"out_of_orderness_s": 0.3}
    late = {"event_time": behind, "watermark": {"delay_s": 0.3}}
    idle = {"event_time": {"offset_s": -2}, "watermark": {"delay_s": 0.1, "idle_after_s": 0.2}}
    marks = {"event_time": behind, "watermark": {"punctuated": True}}
    return {
        "joined": timed(
            {
                **cases.KILLED,
                "sample_interval_s": 0.1,
                "stages": [
                    cases.source("one", 500),
                    cases.source("two", [{"at_s": 0, "rate": 300}, {"at_s": 0.6, "rate": 0},
                                         {"at_s": 1.3, "rate": 300}]),
                    *cases.KILLED["stages"][2:],
                ],
            },
            {"one": late, "two": idle},
        ),
        "each": timed(cases.FAN_OUT, {"source": marks}),
        "large": timed(cases.LARGE, {"source": {**marks, "event_time": {}}}),
    }  # fmt: skip


def marks_of(ledgers: Mapping[str, list[dict[str, Any]]], side: str) -> list[list[int]]:
    """Return all marks that the rows of a side have: place, kind, watermark."""
    return [
        mark
        for rows in ledgers.values()
        for row in rows
        if row["side"] == side
        for mark in row["channel_state"]["marks"]
    ]
