"""Jobs whose sources replay rows with event times into windows, for tests of several folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario


def write(folder: Path, name: str = "rows", **columns: Any) -> Path:
    """Write a Parquet file of these columns; whole numbers under ``at`` are moments, ms."""
    if "at" in columns:
        columns["at"] = pa.array(columns["at"], pa.timestamp("ms"))
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def source(path: Path, **more: Any) -> dict[str, Any]:
    """Return a source that replays a file by city, its times in ``at``."""
    found = {
        "emit_rate": 100,
        "record_bytes": 1000,
        "input": {"format": "parquet", "path": str(path), "key": "city"},
        "event_time": {"column": "at"},
        "watermark": {"delay_s": 0},
    }
    return {**found, **more}


def window(**more: Any) -> dict[str, Any]:
    """Return a window stage."""
    return {"window": {"kind": "tumbling", "size_s": 1, **more}, "record_bytes": 100}


def scenario(
    stages: Mapping[str, Mapping[str, Any]], edges: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """Return a scenario of stages by name and edges, ``from->to``, with what else they say."""
    found = {
        "schema": 1,
        "name": "rows",
        "duration_s": 2,
        "round_ms": 10,
        "sample_interval_s": 0.5,
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "pipeline.auto-watermark-interval": "50ms",
        },
        "stages": [{"name": name, **stage} for name, stage in stages.items()],
        "edges": [
            dict(zip(("from", "to"), edge.split("->"), strict=True)) | (own or {})
            for edge, own in edges.items()
        ],
    }
    return {**found, **more}


def job(stages: Mapping[str, Mapping[str, Any]], edges: Mapping[str, Any], **more: Any) -> Job:
    """Return the same laid out."""
    return build_physical_graph(parse_scenario(scenario(stages, edges, **more)))


def laid_out(mapping: Mapping[str, Any]) -> Job:
    """Return a scenario laid out."""
    return build_physical_graph(parse_scenario(mapping))
