"""Checkpoints and failures over pipelined partitions whose memory has no bound."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate

CHECKPOINT = "execution.checkpointing."
pytestmark = pytest.mark.usefixtures("whole_kernel")
ENDS = [{"at_s": 0, "rate": 2000}, {"at_s": 5, "rate": 0}]


def job_of(options: dict[str, Any] | None = None, **keys: Any) -> Scenario:
    """A source to two subtasks, of which the second is slow."""
    return parse_scenario(
        {
            "schema": 1,
            "name": "pipelined",
            "duration_s": 30,
            "round_ms": 10,
            "stages": [
                {"name": "source", "emit_rate": ENDS, "record_bytes": 1024, "placement": [0]},
                {"name": "sink", "parallelism": 2, "service_rate": [1000, 300],
                 "placement": [1, 1]},
            ],
            "edges": [
                {"from": "source", "to": "sink", "partitioner": "rebalance",
                 "partition_type": "pipelined"}
            ],
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                "execution.buffer-timeout.interval": "100ms",
                "taskmanager.network.memory.max-buffers-per-channel": 300,
                CHECKPOINT + "interval": "2s",
                **(options or {}),
            },
            **keys,
        }
    )  # fmt: skip


def test_a_barrier_waits_behind_all_that_is_in_flight() -> None:
    """Without a bound on the pool the slow channel has its quota ahead of the barrier.

    300 buffers of four records at the sender and ten at the receiver, at 300 records/s.
    """
    run = simulate(job_of())
    frame = run.tables["checkpoints"].to_pandas()
    flying = run.tables["channels"].to_pandas().query("t_s == 2 and receiver == 1")
    waits = float(flying.in_flight_records.iloc[0]) / 300
    assert frame.status.iloc[0] == "completed"
    assert frame.e2e_ms.iloc[0] / 1000 == pytest.approx(waits, rel=0.03)
    bounded = job_of().canonical()
    bounded["edges"][0]["partition_type"] = "pipelined_bounded"
    other = simulate(parse_scenario(bounded)).tables["checkpoints"].to_pandas()
    assert other.e2e_ms.iloc[0] < frame.e2e_ms.iloc[0] / 5


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_checkpoint_is_a_consistent_cut(wire_accounts: ModuleType, unaligned: bool) -> None:
    """Per channel: written before the barrier = processed, and in between what is persisted."""
    job = build_physical_graph(job_of({CHECKPOINT + "unaligned": unaligned}), round_us=10_000)
    wires = wire_accounts.Wires(job)
    wires.finish(900)
    found = wires.cuts()
    assert len(found) >= 2
    lost = [written - processed for written, processed in found.values()]
    if unaligned:
        run = simulate(job_of({CHECKPOINT + "unaligned": True}))
        [first, *_] = run.tables["checkpoints"].to_pandas().persisted_bytes
        of_first = [w - p for (_, number), (w, p) in found.items() if number == 1]
        assert sum(of_first) * 1024 == first > 0
    else:
        assert set(lost) == {0}


def test_it_begins_again_from_its_checkpoint() -> None:
    """All that was emitted after the checkpoint is there in the end."""
    options = {"restart-strategy.type": "fixed-delay", CHECKPOINT + "unaligned": True}
    run = simulate(job_of(options, failures=[{"at_s": 4.5, "stage": "sink", "subtask": 1}]))
    [restart] = run.tables["restarts"].to_pylist()
    assert restart["checkpoint_id"] == 2
    last = run.tables["channels"].to_pandas().query("t_s == 30")
    assert last.in_flight_records.tolist() == [0, 0]
    plain = simulate(job_of(options)).tables["stages"].to_pandas().query("t_s == 30")
    stages = run.tables["stages"].to_pandas().query("t_s == 30")
    reprocessed = int(stages[stages.stage == "sink"].records_in.sum())
    once = int(plain[plain.stage == "sink"].records_in.sum())
    assert once - 2000 < reprocessed <= once + restart["records_reprocessed"]
    assert run.partitions["source->sink"]["producers_waited_s"] <= 30
