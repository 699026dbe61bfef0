"""Samples that are worked off together give the rows of samples that are worked off one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowcontrol.memory.cells import dtype
from flowcontrol.memory.fields import KernelTask
from flowcontrol.results import sample_tables as virtual_tables
from flowcontrol.results.figures import Gathered
from flowcontrol.results.run import latency_figures
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.declared import cell, width
from flowcontrol.virtual import simulate


def job(**more: Any) -> dict[str, Any]:
    """Return a job with a log, latency markers, local channels and two sinks."""
    return {
        "schema": 1,
        "name": "together",
        "duration_s": 6,
        "round_ms": 50,
        "sample_interval_s": 0.5,
        "cluster": {"task_managers": 2},
        "options": {"metrics.latency.interval": "500ms"},
        "stages": [
            {"name": "source", "parallelism": 2, "emit_rate": 400, "record_bytes": 300,
             "arrival_rate": [{"at_s": 0, "rate": 600}, {"at_s": 3, "rate": 100}]},
            {"name": "map", "parallelism": 3, "service_rate": 500, "placement": [0, 1, 0]},
            {"name": "sink", "parallelism": 2, "service_rate": 300},
            {"name": "audit", "service_rate": 1000},
        ],
        "edges": [
            {"from": "source", "to": "map", "partitioner": "rebalance"},
            {"from": "map", "to": "sink", "partitioner": "rebalance"},
            {"from": "map", "to": "audit", "partitioner": "broadcast"},
        ],
        **more,
    }  # fmt: skip


OFTENER = {"sample_interval_s": 0.02, "duration_s": 1}
"""Samples within a round, which repeat the rows of the one before."""


@pytest.mark.parametrize("more", [{}, OFTENER], ids=["regular", "repeated"])
def test_samples_do_not_depend_on_how_many_are_worked_off_together(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = parse_scenario(job(**more))
    together = simulate(scenario).tables
    monkeypatch.setattr(virtual_tables, "_MOST_CELLS", 0)
    for name, table in simulate(scenario).tables.items():
        assert table.num_rows > 0
        assert table.equals(together[name]), name


def test_latencies_of_groups_are_those_of_each() -> None:
    random = np.random.default_rng(1)
    groups = [np.unique(random.integers(0, 200, size)) for size in (1, 2, 50, 300)]
    counts = [random.integers(1, 10_000, len(ages)) for ages in groups]
    starts = np.cumsum([0, *(len(ages) for ages in groups[:-1])])
    found = latency_figures(np.concatenate(groups), np.concatenate(counts), starts, 0.1)
    one = np.zeros(1, np.int64)
    for number, pair in enumerate(zip(groups, counts, strict=True)):
        alone = latency_figures(*pair, one, 0.1)
        assert {name: [values[number]] for name, values in found.items()} == alone
        every = np.repeat(*pair)
        assert alone["count"] == [len(every)]
        assert alone["mean_ms"] == [int(every.sum()) / len(every) * 0.1]
        for name, percent in (("p50_ms", 50), ("p90_ms", 90), ("p99_ms", 99), ("max_ms", 100)):
            assert alone[name] == [float(every[-(-len(every) * percent // 100) - 1]) * 0.1]


def test_percentiles_of_counts_that_nearly_fill_64_bits() -> None:
    ages, counts = np.array([1, 2, 3]), np.array([2**60, 2**60 - 1, 1])
    found = latency_figures(ages, counts, np.zeros(1, np.int64), 1.0)
    assert (found["count"], found["p50_ms"], found["p90_ms"]) == ([2**61], [1.0], [2.0])
    assert found["max_ms"] == [3.0]


def test_what_is_gathered_of_a_field_is_its_cells() -> None:
    cells = np.arange(1000)
    states = cells[100 : 100 + 5 * dtype(KernelTask).itemsize // 8].view(dtype(KernelTask))
    places = 100 + cell(KernelTask, "busy") + width(KernelTask) * np.arange(5)
    assert cells[places].tolist() == states["busy"].tolist()
    gathered, before = Gathered(cells, {"busy": places, "none": places[:0]}), places.tolist()
    first = gathered.take()
    cells[places] += 1
    columns = gathered.columns([first, gathered.take()])
    assert columns["busy"].tolist() == [before, [busy + 1 for busy in before]]
    assert columns["none"].shape == (2, 0)
