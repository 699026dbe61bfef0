"""Kernels that have the parts that a job needs: which ones, and that they do the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowcontrol.control.between import Coordination, Recovery
from flowcontrol.errors import RunError
from flowcontrol.kernel import compiled, loop
from flowcontrol.kernel.cache import KERNEL
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory import parts as k
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.parts import parts_of
from flowcontrol.memory.places import FLAG_REPORTS
from flowcontrol.memory.task_memory import first_entries
from flowcontrol.results import running
from flowcontrol.scenario import load_scenario
from flowcontrol.systems.transports.rules import kind_of, names
from flowcontrol.virtual import choose_round_us, run_job

CONF = Path(__file__).resolve().parents[2] / "conf"
DEBLOATING = "options.taskmanager.network.memory.buffer-debloat.enabled=true"
CHECKPOINTS = "options.execution.checkpointing.interval=1s"
TIMES = "stages.producer.event_time={out_of_orderness_s: 1}"
MARKS = "stages.producer.watermark={delay_s: 1}"
ALIGNED = "stages.producer.watermark.alignment={group: all, max_drift_s: 1}"
BANDWIDTH = "cluster.bandwidth_bytes_per_s=1000000"


def records(transport: str) -> int:
    """The parts of a transport that counts records."""
    return k.RECORDS | k.transport_part(kind_of(transport))


CASES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "credits": ("experiment", (), k.BUFFERS),
    "debloating": ("experiment", (DEBLOATING,), k.BUFFERS | k.DEBLOATING),
    "bandwidth": ("experiment", (BANDWIDTH,), k.BUFFERS | k.WIRES),
    "tcp": ("experiment", ("system=flink-1.4",), k.BUFFERS | k.TCP | k.WIRES),
    "throttled": ("experiment", ("system=storm-1",), records("unbounded") | k.THROTTLES),
    "partitions": ("partition-types", (), k.BUFFERS | k.SPILLS),
    "jobs": ("two-jobs", (), k.BUFFERS | k.JOBS),
    "logs": ("experiment", ("stages.producer.arrival_rate=5000",), k.BUFFERS | k.LOGS),
    # Too many failed checkpoints are a failure of the job.
    "checkpoints": ("experiment", (CHECKPOINTS,), k.BUFFERS | k.CHECKPOINTS | k.FAILURES),
    "event time": ("experiment", (TIMES, MARKS), k.BUFFERS | k.EVENT_TIME),
    "alignment": ("experiment", (TIMES, MARKS, ALIGNED), k.BUFFERS | k.EVENT_TIME | k.ALIGNMENT),
    "latency markers": (
        "experiment",
        ("options.metrics.latency.interval=1s",),
        k.BUFFERS | k.EVENT_TIME | k.MARKERS,
    ),
    "windows": (
        "experiment",
        ("stages.consumer.window={kind: global, trigger: {count: 7}, keys: 5}",),
        k.BUFFERS | k.EVENT_TIME | k.WINDOWS,
    ),
    "batches": (
        "experiment",
        (
            "time_model=spark",
            "batch_s=1",
            TIMES,
            MARKS,
            "stages.consumer.window={kind: tumbling, size_s: 2, keys: 5}",
        ),
        k.BUFFERS | k.EVENT_TIME | k.WINDOWS | k.BATCHES,
    ),
    "broadcasts": ("experiment", ("edges.0.partitioner=broadcast",), k.BUFFERS | k.BROADCASTS),
    "requests": (
        "experiment",
        ("stages.consumer.requests={like: sqs, latency_ms: 20}",),
        k.BUFFERS | k.REQUESTS,
    ),
    "requests that block": (
        "experiment",
        ("stages.consumer.requests={like: jdbc-sql, latency_ms: 20}",),
        k.BUFFERS | k.REQUESTS,
    ),
    "a producer": (
        "experiment",
        ("stages.consumer.requests={like: kafka, latency_ms: 20, buffered_bytes: 1mb}",),
        k.BUFFERS | k.REQUESTS,
    ),
    "calls": (
        "three-stages",
        ("stages.map.requests={style: await, latency_ms: 20}",),
        k.BUFFERS | k.REQUESTS,
    ),
    "processors": ("experiment", ("cluster.cores=1",), k.BUFFERS | k.CORES),
    "failures": (
        "recovery",
        ("failures=[{at_s: 14, stage: map, subtask: 0}]",),
        k.BUFFERS | k.CHECKPOINTS | k.LOGS | k.FAILURES,
    ),
    "throttled logs": (
        "experiment",
        ("stages.producer.arrival_rate=5000", "system=storm-1"),
        records("unbounded") | k.THROTTLES | k.LOGS,
    ),
    **{name: ("experiment", (f"system={{transport: {name}}}",), records(name)) for name in names()},
}

needs_numba = pytest.mark.skipif(not compiled.is_compiled(), reason="no compiler")


def laid_out(name: str, *overrides: str) -> Job:
    scenario = load_scenario(CONF / f"{name}.yaml", overrides=overrides)
    return build_physical_graph(scenario, round_us=choose_round_us(scenario))


@pytest.mark.parametrize("case", CASES)
def test_a_job_needs(case: str) -> None:
    name, overrides, parts = CASES[case]
    assert parts_of(laid_out(name, *overrides)) == parts


@pytest.mark.parametrize("parts", [1 << bit for bit in range(k.EVERYTHING.bit_length())])
def test_every_part_is_met(parts: int) -> None:
    assert any(parts & needed for _, _, needed in CASES.values())


def pairs(case: str) -> tuple[Any, Any]:
    """The memory of a run after half a minute, by the kernel that it needs and by the whole one."""
    name, overrides, parts = CASES[case]
    job = laid_out(name, *overrides)
    found = []
    for has in (parts, k.EVERYTHING):
        sizes = LogSizes(1 << 14, 1 << 21, spills=1 << 16, reports=1 << 10)
        memory = fill(job, replace(sizes, windows=first_entries(job), results=1 << 16))
        end = min(job.rounds, 30_000_000 // job.round_us)
        if job.checkpoints is None:
            assert loop._kernel(has)(memory.cells, end) == 0
        else:
            coordination = Coordination(job, memory)
            recovery = Recovery(job, memory, coordination.control)
            while memory.head.round < end:
                stop = min(end, coordination.begin(recovery))
                flags = loop._kernel(has)(memory.cells, stop)
                assert flags in {0, FLAG_REPORTS}
                memory.head.flags = 0
                if flags == FLAG_REPORTS:
                    coordination.hear()
            coordination.finish(end)
            assert coordination.control.coordinator.counts.completed > 1
            assert len(recovery.control.restarts) == len(job.scenario.failures)
        assert memory.head.transfers > 0
        found.append(memory.cells)
    return found[0], found[1]


@needs_numba
@pytest.mark.parametrize(
    "case", [c if c == "credits" else pytest.param(c, marks=pytest.mark.long) for c in CASES]
)
def test_a_kernel_without_other_parts_does_the_same(case: str) -> None:
    lean, whole = pairs(case)
    assert np.array_equal(lean, whole)


@needs_numba
def test_a_part_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "advance", loop._kernel(k.BUFFERS))
    assert run_job(laid_out("experiment", "duration_s=2")).transfers > 0
    with pytest.raises(RunError, match="lacks a part that this job needs"):
        run_job(laid_out("experiment", "duration_s=2", DEBLOATING))


@needs_numba
def test_a_kernel_that_has_more_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOWCONTROL_CACHE", str(tmp_path))

    def keep(parts: int) -> None:
        folder = compiled.cache_folder(parts)
        folder.mkdir()
        (folder / KERNEL).touch()

    assert compiled.best_parts(k.TCP) == k.TCP
    assert not compiled.is_kept(k.TCP)
    keep(k.RECORDS)
    assert not compiled.is_kept(k.TCP)
    keep(k.EVERYTHING)
    assert compiled.best_parts(k.TCP) == k.EVERYTHING
    keep(k.TCP | k.WIRES)
    assert compiled.best_parts(k.TCP) == k.TCP | k.WIRES
    assert compiled.best_parts(k.TCP | k.JOBS) == k.EVERYTHING
    assert compiled.best_parts(k.RECORDS) == k.RECORDS
    assert compiled.best_parts(0) == k.RECORDS
    assert compiled.is_kept(k.TCP)
