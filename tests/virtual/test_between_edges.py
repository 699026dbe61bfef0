"""A record that is written to one edge and waits for a buffer of the next is in flight on both."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.event_time import WATERMARK, pending_mark
from flowcontrol.results.run import put_out_and_pending
from flowcontrol.scenario import parse_scenario
from flowcontrol.stepview.shown import shown_state
from flowcontrol.virtual import simulate


def scenario(partitioner: str = "rebalance", parallelism: int = 1, **keys: Any) -> dict[str, Any]:
    """Records of 200,000 bytes in segments of 4 KB, from a source to two stages."""
    return {
        "schema": 1, "name": "between", "duration_s": 3, "round_ms": 1, "sample_interval_s": 0.003,
        "cluster": {"network_latency_ms": 5},
        "options": {"taskmanager.memory.segment-size": "4kb"},
        "stages": [
            {"name": "s", "emit_rate": 5, "record_bytes": 200_000, **keys},
            {"name": "a", "service_rate": 50, "parallelism": parallelism},
            {"name": "b", "service_rate": 50, "parallelism": parallelism},
        ],
        "edges": [
            {"from": "s", "to": "a"},
            {"from": "s", "to": "b", "partitioner": partitioner},
        ],
    }  # fmt: skip


def in_flight(channels: pd.DataFrame, edge: str) -> Any:
    return channels[channels.edge == edge].groupby("t_s").in_flight_records.sum()


@pytest.mark.parametrize(
    ("partitioner", "parallelism", "selectivity"),
    [("rebalance", 1, 1), ("broadcast", 2, 1), ("rebalance", 2, 3)],
)
def test_emitted_is_taken_and_in_flight(
    partitioner: str, parallelism: int, selectivity: int
) -> None:
    given = scenario(partitioner, parallelism)
    if selectivity > 1:
        given["stages"][0] = {"name": "s", "selectivity": selectivity, "record_bytes": 200_000}
        given["stages"].insert(0, {"name": "t", "emit_rate": 2})
        given["edges"].insert(0, {"from": "t", "to": "s"})
    tables = simulate(parse_scenario(given)).tables
    stages, channels = (tables[name].to_pandas() for name in ("stages", "channels"))
    counted = stages.groupby(["stage", "t_s"])[["records_in", "records_out"]].sum()
    emitted = counted.records_out["s"]
    for name in "ab":
        copies = parallelism if partitioner == "broadcast" and name == "b" else 1
        left = in_flight(channels, f"s->{name}")
        assert (copies * emitted == counted.records_in[name] + left).all()
    differ = in_flight(channels, "s->a") != in_flight(channels, "s->b")
    assert differ.any()


def test_the_page_shows_the_same(clocks: ModuleType) -> None:
    given = scenario() | {"duration_s": 0.3}
    job = build_physical_graph(parse_scenario(given), round_us=1000)
    channels = simulate(parse_scenario(given)).tables["channels"].to_pandas()
    met = 0
    for state in clocks.kernel_states(job, every=3):
        shown = shown_state(job, state)["channels"]
        own = channels[channels.t_s.round(3) == round((state.number + 1) / 1000, 3)]
        expected = own.set_index("edge").in_flight_records
        for name, figures in shown.items():
            assert figures["in_flight_records"] == expected[name.split(":")[0]]
        [source] = [task for task in state.tasks if task.stage == "s"]
        met += bool(source.partitions[1].pending) and not source.partitions[0].pending
    assert met > 0


def test_marks_and_records_of_the_first_edge_do_not_count() -> None:
    mark = pending_mark(WATERMARK, 0)
    assert put_out_and_pending([], [0, mark, 2]) == [0, 2]
    assert put_out_and_pending([1, mark], [0, mark, 2]) == [0]
    assert put_out_and_pending([1, 1, 1], [0, 2]) == []
