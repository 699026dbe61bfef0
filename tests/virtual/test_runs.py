"""Runs of records leave what moving them one by one leaves, in every cell after every round."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.kernel import loop, runs
from flowcontrol.kernel import task as worker
from flowcontrol.kernel import views as v
from flowcontrol.kernel.ages import run_at
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory.fields import (
    ROUTE_CYCLE,
    ROUTE_TABLE,
    KernelSubpartition,
    KernelTask,
    Run,
    RunList,
)
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.places import KernelMemory
from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.state.declared import cell, width

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = max(20, settings.default.max_examples // 2)
MOST_RUNS = 12
ROUND_MS, ROUNDS = 10, 15
SYSTEMS = [
    "flink",
    "flink",
    "flink",
    "flink-1.4",
    "storm-2",
    "hazelcast-jet",
    "risingwave",
    "unbounded",
]
KEYS = {"kind": "zipf", "keys": 40, "exponent": 0.8}
PARTITIONERS: list[dict[str, Any]] = [
    {"partitioner": "rebalance"},
    {"partitioner": "shuffle"},
    {"partitioner": "hash", "key_weights": {"a": 3, "b": 2, "c": 1}},
    {"partitioner": "hash", "key_distribution": KEYS},  # a table of their shares would be too long
]


@st.composite
def busy_jobs(draw: st.DrawFn) -> Job:
    """Jobs that move tens of records in a round, into buffers of a few or of many records."""
    record_bytes = draw(st.sampled_from([32, 90, 700]))
    widths = [draw(st.integers(1, 3)) for _ in range(3)]
    rate = draw(st.sampled_from([2_000, 9_000, 20_000]))
    system = draw(st.sampled_from(SYSTEMS))
    has_event_time = system == "flink" and draw(st.booleans())
    has_debloating = system == "flink" and draw(st.booleans())
    source: dict[str, Any] = {"name": "a", "record_bytes": record_bytes}
    if draw(st.booleans()):
        source |= {"arrival_rate": rate, "emit_rate": 2 * rate}
    else:
        source |= {"emit_rate": rate}
    if has_event_time:
        source |= {"event_time": {"out_of_orderness_s": 0.03}, "watermark": {"delay_s": 0.02}}
    middle: dict[str, Any] = {"name": "b", "record_bytes": draw(st.sampled_from([32, 150]))}
    if draw(st.booleans()):
        middle["service_rate"] = draw(st.sampled_from([rate // 3, 3 * rate]))
    if draw(st.integers(0, 4)) == 0:
        middle["selectivity"] = 0.7
    end: dict[str, Any] = {"name": "c", "kind": "sink", "service_rate": rate}
    edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]
    if has_event_time and draw(st.booleans()):
        end |= {"kind": "yielding", "window": {"kind": "tumbling", "size_s": 0.05}}
        edges[1] |= {"partitioner": "hash", "key_distribution": KEYS}
    else:
        edges[1] |= draw(st.sampled_from(PARTITIONERS))
    edges[0] |= draw(st.sampled_from(PARTITIONERS))
    for stage, parallelism in zip((source, middle, end), widths, strict=True):
        stage["parallelism"] = parallelism
    mapping = {
        "schema": 1,
        "name": "busy",
        "duration_s": ROUND_MS * ROUNDS / 1000,
        "round_ms": ROUND_MS,
        "seed": draw(st.integers(0, 99)),
        "system": system,
        "cluster": {"network_latency_ms": draw(st.sampled_from([0, 15]))},
        "options": {
            "taskmanager.memory.segment-size": f"{draw(st.sampled_from([4096, 32768]))}b",
            "taskmanager.network.memory.buffer-debloat.enabled": has_debloating,
            "taskmanager.network.memory.buffer-debloat.period": "30ms",
            "pipeline.auto-watermark-interval": draw(st.sampled_from(["10ms", "30ms"])),
            "execution.buffer-timeout": draw(st.sampled_from(["0ms", "20ms", "100ms"])),
        },
        "operators": [source, middle, end],
        "edges": edges,
    }
    scenario = parse_scenario(mapping)
    assert check_clock(scenario, "virtual") == []
    return build_physical_graph(scenario)


def runs_of(memory: Memory) -> list[list[tuple[int, ...]]]:
    """Return the runs of each channel: round, records, stamp and kind of each, oldest first."""
    head, found = memory.head, []
    for channel in range(head.channels):
        number, own = v.out_row(head, channel).runs.head, list[tuple[int, ...]]()
        while number > 0:
            run = run_at(head, number - 1)
            own.append((run.round, run.count, run.stamp, run.kind))
            number = run.next
        found.append(own)
    return found


def looked_at(memory: Memory) -> Any:
    """Return which cells must be equal: not the flag, nor where in the memory runs stand."""
    head, found = memory.head, np.ones(len(memory.cells), bool)
    tasks = head.tasks_at + width(KernelTask) * np.arange(len(memory.tasks))
    found[tasks + cell(KernelTask, "is_plain")] = False
    outputs = head.outputs_at + width(KernelSubpartition) * np.arange(head.channels)
    for place in range(width(RunList)):
        found[outputs + cell(KernelSubpartition, "runs") + place] = False
    found[[cell(KernelMemory, name) for name in ("runs_free", "runs_used")]] = False
    found[head.runs : head.runs + head.runs_most * width(Run)] = False
    return found


@pytest.mark.holds("credit", "virtual", "a kernel that moves records one by one")
def test_runs_are_records_one_by_one(
    clocks: ModuleType, draw_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = Counter[str]()
    wanted = ("passed", "emitted", "over cycles, cut short", "counted", "cut short", "with stamps")
    wanted = (*wanted, "up to a mark", "up to its rate")

    def count(kind: str, m: Any, task: KernelTask, most: int, moved: int) -> int:
        met[kind] += int(moved > 1)
        met["counted"] += int(moved > 1 and m.counts_records == 1)
        met["cut short"] += int(0 < moved < most)
        met["with stamps"] += int(moved > 0 and task.has_stamps == 1)
        return moved

    def passed(m: Any, task: KernelTask, own: Any, most: int) -> int:
        moved = runs.pass_runs(m, task, own, most)
        is_at_mark = moved > 0 and own.head > 0 and run_at(m, own.head - 1).kind > 0
        in_turn = v.partition_row(m, task.first_partition).route in (ROUTE_CYCLE, ROUTE_TABLE)
        met["up to a mark"] += int(is_at_mark and in_turn)
        met["up to its rate"] += int(0 < moved == most < task.left)
        return count("passed", m, task, most, moved)

    def emitted(m: Any, task: KernelTask, most: int) -> int:
        return count("emitted", m, task, most, runs.write_run(m, task, most))

    def over_cycles(*given: Any) -> int:
        moved = write_cycles(*given)
        met["over cycles, cut short"] += int(0 < moved < given[-1])
        return moved

    write_cycles = runs._write_cycles
    monkeypatch.setattr(worker, "pass_runs", passed)
    monkeypatch.setattr(worker, "write_run", emitted)
    monkeypatch.setattr(runs, "_write_cycles", over_cycles)

    @settings(max_examples=EXAMPLES)
    @given(job=busy_jobs(), is_interpreted=st.booleans())
    def look(job: Job, is_interpreted: bool) -> None:
        step = loop._advance if is_interpreted else loop.advance
        together = clocks.kernel_memories(job, step=step)
        apart = clocks.kernel_memories(job, is_one_by_one=True)
        must_be = None
        for (one, state), (other, _) in zip(together, apart, strict=True):
            must_be = looked_at(one) if must_be is None else must_be
            assert runs_of(one) == runs_of(other), f"runs after round {state.number}"
            differ = np.flatnonzero((one.cells != other.cells) & must_be)
            assert len(differ) == 0, f"cells {differ[:8]} after round {state.number}"

    draw_until(look, lambda: all(met[kind] > 0 for kind in wanted), MOST_RUNS)
    assert all(met[kind] > 0 for kind in wanted), met
