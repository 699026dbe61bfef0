"""Every system beside everything else that a scenario may state: what must hold of any run."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.memory import log_sizes
from flowcontrol.results.run import Run
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.system import PRESETS
from flowcontrol.virtual import simulate

FEW: dict[str, Any] = {
    "blocking_queue": {"slots": 3},
    "half_return_credit": {"slots": 3},
    "batched_credit": {"slots": 3, "lot": 3},
    "cumulative_credit": {"credit": 3, "mark": 0},
    "rate_window": {"unit": 1000, "initial_units": 2},
    "bdp_window": {"initial": 300, "most": 1000},
    "hop_hysteresis": {"slots": 3},
    "push_quota": {"writer_bytes": 1, "reader_bytes": 900, "buffer_bytes": 300, "kernel_bytes": 0},
    "global_hysteresis": {"slots": 5},
    "stepwise_sleep": {"slots": 5, "interval_ms": 100},
    "pid_rate": {"min_rate": 1},
    "static_admission": {"max_records": 7},
    "long_batches": {"batch_ms": 700, "overhead_ms": 60},
    "aimd_rate": {"late_ms": 100, "min_rate": 10},
    "frontier_lag": {"lag": 1},
}
"""Parts with limits that this job meets within seconds."""

pytestmark = pytest.mark.usefixtures("whole_kernel")

THROTTLES = ("global_hysteresis", "stepwise_sleep", "pid_rate", "static_admission", "aimd_rate")
SOURCES = (*THROTTLES, "frontier_lag", "long_batches")
TIGHT: dict[str, Any] = {
    name: {"throttle" if name in SOURCES else "transport": {"name": name} | values}
    for name, values in FEW.items()
}
SYSTEMS: dict[str, Any] = {name: name for name in PRESETS} | TIGHT
SYSTEMS |= {f"tcp+{name}": {"transport": "tcp", **TIGHT[name]} for name in THROTTLES}
SYSTEMS |= {f"unbounded+{name}": {"transport": "unbounded", **TIGHT[name]} for name in THROTTLES}


def job(system: Any) -> dict[str, Any]:
    """Two sources, two stages in between, two sinks that are slow for a while."""
    names = [("a", "b"), ("b", "c")]
    slow = [{"at_s": at, "rate": rate} for at, rate in ((0, 250), (2, 60), (3, 1000))]
    stages: list[dict[str, Any]] = [
        {"name": "a", "emit_rate": 400, "record_bytes": 200},
        {"name": "b", "service_rate": 300, "record_bytes": 200},
        {"name": "c", "service_rate": slow},
    ]
    return {
        "schema": 1,
        "name": "together",
        "duration_s": 4,
        "round_ms": 20,
        "system": deepcopy(system),
        "stages": [{**stage, "parallelism": 2} for stage in stages],
        "edges": [{"from": s, "to": r, "partitioner": "rebalance"} for s, r in names],
    }


def columns(run: Run, table: str) -> dict[str, Any]:
    """Return the columns of a table as arrays."""
    found = run.tables[table]
    return {name: np.array(found.column(name).to_pylist()) for name in found.column_names}


def check(run: Run) -> None:
    """What holds of any run, whatever moves records and whatever stops a source."""
    scenario = run.job.scenario
    stages, channels, latency = (columns(run, n) for n in ("stages", "channels", "latency"))
    whole = sum(stages[f"{n}_ms_per_s"] for n in ("busy", "idle", "backpressured"))
    np.testing.assert_allclose(whole, 1000, err_msg="the times do not add up to a second")
    for table in (stages, channels, latency):
        for name, values in table.items():
            if name not in ("stage", "edge", "kind"):
                assert (values >= 0).all(), f"{name} below nothing"
    ends = {name: table["t_s"] == scenario.duration_s for name, table in
            (("stages", stages), ("channels", channels))}  # fmt: skip

    def total(stage: str, column: str) -> int:
        return int(stages[column][ends["stages"] & (stages["stage"] == stage)].sum())

    for receiver in ("b", "c"):
        sent = 0
        for edge in scenario.inputs(receiver):
            own = ends["channels"] & (channels["edge"] == edge.name)
            in_flight = int(channels["in_flight_records"][own].sum())
            is_copied = edge.partitioner == "broadcast"
            copies = scenario.stage(receiver).parallelism if is_copied else 1
            sent += copies * total(edge.sender, "records_out") - in_flight
        assert sent == total(receiver, "records_in"), receiver
    assert latency["count"].sum() == total("c", "records_in")
    assert (latency["max_ms"] <= 1000 * scenario.duration_s).all()
    if scenario.stages[0].service_time == "constant":
        for name, rate in {"b": 300, "c": 1000}.items():
            assert (stages["rate_in"][stages["stage"] == name] <= rate + 2).all(), name


Change = Callable[[dict[str, Any]], Any]


def each_stage(**keys: Any) -> Change:
    """State something of every stage."""
    return lambda given: [stage.update(keys) for stage in given["stages"]]


def whole(**keys: Any) -> Change:
    """State something of the scenario."""
    return lambda given: given.update(keys)


def stage(number: int, **keys: Any) -> Change:
    """State something of a stage."""
    return lambda given: given["stages"][number].update(keys)


def edge(number: int, **keys: Any) -> Change:
    """State something of an edge."""
    return lambda given: given["edges"][number].update(keys)


def second_source(given: dict[str, Any]) -> None:
    given["stages"].append({"name": "other", "emit_rate": 300, "record_bytes": 500})
    given["edges"].append({"from": "other", "to": "c", "partitioner": "rebalance"})


WEIGHTS = {"x": 1, "y": 5, "z": 0.5}
SITUATIONS: dict[str, Change] = {
    "a latency of several rounds": whole(cluster={"network_latency_ms": 130}),
    "a bandwidth": whole(cluster={"bandwidth_bytes_per_s": 50_000}),
    "a round as long as a sample": whole(round_ms=1000),
    "a chain at the sink": edge(1, partitioner="forward", chain=True),
    "a chain at the source": edge(0, partitioner="forward", chain=True),
    "broadcast": edge(1, partitioner="broadcast"),
    "weighted keys": edge(0, partitioner="hash", key_weights=WEIGHTS),
    "nothing passes": stage(1, selectivity=0),
    "half passes": stage(1, selectivity=0.5),
    "three for one": stage(1, selectivity=3),
    "standing still": each_stage(stalls=[{"at_s": 1.5, "for_s": 0.7}]),
    "random times": each_stage(service_time="exponential"),
    "two sources": second_source,
    "seven subtasks": each_stage(parallelism=7),
    "one task manager": whole(cluster={"task_managers": 1}),
    "large records": each_stage(record_bytes=300_000),
    "a source of nothing": stage(0, emit_rate=0),
    "a source that ends": stage(0, emit_rate=[{"at_s": 0, "rate": 400}, {"at_s": 2, "rate": 0}]),
    "a sink that stands still": stage(2, service_rate=0),
    "pipelined without a bound": edge(0, partition_type="pipelined"),
    "debloating": whole(options={"taskmanager.network.memory.buffer-debloat.enabled": True}),
    "buffers for nobody else": whole(options={"taskmanager.network.numberOfBuffers": 40}),
}

REFUSED = ("a bandwidth", "a chain at the source", "pipelined without a bound", "debloating")
"""Situations that some systems are not emulated in."""


LOOSE = ("flink-2", "heron", "unbounded", "arroyo", "pulsar", "rabbitmq", "reactive-streams")
LOOSE += ("risingwave", "storm-2", "half_return_credit")
"""Systems of the same parts as another one, with limits that this job does not meet."""


def pairs() -> list[Any]:
    """Return each system in each situation; the quick form has every other one of both."""
    systems = [name for name in SYSTEMS if name not in LOOSE]
    return [
        pytest.param(system, situation, marks=[pytest.mark.long] * ((row + column) % 2))
        for row, system in enumerate(systems)
        for column, situation in enumerate(SITUATIONS)
    ]


@pytest.mark.parametrize(("system", "situation"), pairs())
def test_a_run_balances_or_is_refused(system: str, situation: str) -> None:
    given = job(SYSTEMS[system])
    SITUATIONS[situation](given)
    try:
        run = simulate(parse_scenario(given))
    except ScenarioError as error:
        assert situation in REFUSED
        assert [p for p in error.problems if not p.place or "not emulated" not in p.message] == []
        return
    check(run)


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_run_does_does_not_depend_on_whether_ages_are_followed(system: str) -> None:
    scenario = parse_scenario(job(SYSTEMS[system]))
    runs = [simulate(scenario, track=track).tables for track in (True, False)]
    for table in ("stages", "channels"):
        assert runs[0][table].equals(runs[1][table]), table


@pytest.mark.parametrize(
    "system",
    [
        "flink",
        pytest.param("storm-1", marks=pytest.mark.long),
        "unbounded+pid_rate",
        pytest.param("aimd_rate", marks=pytest.mark.long),
    ],
)
def test_a_log_of_ages_that_is_often_full_changes_nothing(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel stops to have it emptied, also in the last round of a sample or of a look."""
    scenario = parse_scenario({**job(SYSTEMS[system]), "sample_interval_s": 0.02})
    whole_log = simulate(scenario).tables
    monkeypatch.setattr(log_sizes, "FIRST_AGES", 4)
    monkeypatch.setattr(log_sizes, "GROWTH", 2)
    for table, expected in whole_log.items():
        assert simulate(scenario).tables[table].equals(expected), table
