"""Latency markers of small jobs, round by round: sizes, channels, order, and what they leave."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.event_time import MARKER, MARKER_BYTES, WATERMARK
from flowcontrol.scenario import parse_scenario
from flowcontrol.trace.round_state import RoundState
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")

OPTION = "metrics.latency.interval"
NEVER = {"execution.buffer-timeout.interval": -1}


def job(
    source: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    *,
    interval_ms: int = 300,
    partitioner: str = "rebalance",
    **sink: Any,
) -> Job:
    """A source and a sink on two task managers; rounds of 100 ms, buffers of 4 KiB."""
    stages = [
        {"name": "source", "emit_rate": 10, "record_bytes": 300, **(source or {})},
        {"name": "sink", **sink},
    ]
    memory = {"taskmanager.memory.segment-size": "4kb", OPTION: f"{interval_ms}ms"}
    scenario = {
        "schema": 1,
        "name": "markers",
        "duration_s": 6,
        "round_ms": 100,
        "cluster": {"task_managers": 2},
        "options": memory | (options or {}),
        "stages": stages,
        "edges": [{"from": "source", "to": "sink", "partitioner": partitioner}],
    }
    return build_physical_graph(parse_scenario(scenario))


def run(made: Job) -> tuple[list[RoundState], list[dict[tuple[str, int], list[int]]]]:
    """States of a run, and when the markers were marked that each task saw in a round."""
    tasks = [(plan.name, i) for plan in made.stages for i in range(plan.stage.parallelism)]
    heard: list[dict[tuple[str, int], list[int]]] = []
    own = watched_runs.WatchedRun(made)
    own.watch("report_latency", lambda worker, us: heard[-1][tasks[worker.number]].append(us))
    heard.append({task: [] for task in tasks})
    for _ in own.rounds():
        heard.append({task: [] for task in tasks})
    return own.states, heard


def seen_by(heard: list[dict[tuple[str, int], list[int]]], task: tuple[str, int]) -> list[Any]:
    """What a task saw, as (round, marked at ms)."""
    return [
        (number, marked // 1000) for number, found in enumerate(heard) for marked in found[task]
    ]


def test_one_is_marked_at_the_start_and_in_each_interval() -> None:
    states, _ = run(job(None, NEVER))
    order = states[12].task("sink").time.in_flight[0]
    assert [value // 1000 for kind, value in order if kind == MARKER] == [0, 300, 600, 900, 1200]
    assert [kind for kind, _ in order][:5] == [MARKER, 0, 0, 0, MARKER]


def test_it_takes_its_bytes_of_the_open_buffer_and_closes_nothing() -> None:
    states, _ = run(job(None, NEVER))
    [out] = states[3].task("source").partitions[0].subpartitions
    assert (MARKER_BYTES, out.state.marks) == (33, 2)
    assert out.state.filled == out.state.written * 300 + 2 * 33
    assert (out.state.buffers, out.state.is_open, out.state.sent) == (1, 1, 0)


def test_it_waits_behind_the_records_before_it_and_takes_no_service() -> None:
    """The sink is done with a record each second; of the 10 emitted meanwhile it is behind 3."""
    states, heard = run(job(None, {"execution.buffer-timeout.interval": 0}, service_rate=1))
    found = seen_by(heard, ("sink", 0))
    assert found[0][1] == 0
    marked = [at for _, at in found]
    assert marked == sorted(marked)
    for (before, at), (after, later) in pairwise(found):
        assert after - before == pytest.approx((later - at) / 100 * 10, abs=10)
    assert states[-1].task("sink").state.taken == 6


def test_each_goes_to_one_channel_by_chance() -> None:
    _, heard = run(job({"emit_rate": 100}, parallelism=4, interval_ms=100))
    each = [len(seen_by(heard, ("sink", index))) for index in range(4)]
    assert 50 <= sum(each) <= 60
    assert min(each) >= 5
    channels = dict(sorted((at, i) for i in range(4) for _, at in seen_by(heard, ("sink", i))))
    assert any(one == other for one, other in pairwise(channels.values())), "no rotation"
    again = run(job({"emit_rate": 100}, parallelism=4, interval_ms=100))[1]
    assert again == heard


def test_one_of_a_broadcast_goes_to_all_channels() -> None:
    _, heard = run(job({"emit_rate": 100}, partitioner="broadcast", parallelism=2, interval_ms=500))
    for index in range(2):
        marked = [at for _, at in seen_by(heard, ("sink", index))]
        assert marked == list(range(0, 6000, 500))


def test_each_stage_hands_it_on_once() -> None:
    stages = [
        {"name": "source", "emit_rate": 100, "record_bytes": 300, "parallelism": 2},
        {"name": "map", "parallelism": 3, "selectivity": 0.1},
        {"name": "sink", "parallelism": 2},
    ]
    edges = [{"from": a, "to": b} for a, b in (("source", "map"), ("map", "sink"))]
    options = {OPTION: "500ms", "execution.buffer-timeout.interval": 0}
    scenario = {"schema": 1, "name": "three", "duration_s": 6, "round_ms": 100,
                "options": options, "stages": stages, "edges": edges}  # fmt: skip
    _, heard = run(build_physical_graph(parse_scenario(scenario)))

    def all_of(stage: str, tasks: int) -> Counter[int]:
        return Counter(at for i in range(tasks) for _, at in seen_by(heard, (stage, i)))

    at_sources = all_of("source", 2)
    assert at_sources == Counter(dict.fromkeys(range(0, 6000, 500), 2))
    for stage, tasks in (("map", 3), ("sink", 2)):
        seen = all_of(stage, tasks)
        assert {at: seen[at] for at in at_sources if at < 5500} == dict.fromkeys(
            range(0, 5500, 500), 2
        )


def test_a_source_that_is_blocked_marks_while_its_open_buffer_has_room() -> None:
    """What is missed is left out; one that finds no buffer is pending, and written in the end.

    A marker and four records leave room for three markers in the fourth and last buffer.
    """
    memory = "taskmanager.network.memory."
    few = {memory + "floating-buffers-per-gate": 1, memory + "buffers-per-channel": 1,
           memory + "max-overdraft-buffers-per-gate": 0}  # fmt: skip
    rates = [{"at_s": 0, "rate": 0}, {"at_s": 3, "rate": 100}]
    source = {"record_bytes": 4096 - MARKER_BYTES}
    states, heard = run(job(source, few, interval_ms=400, service_rate=rates))
    parts = [state.task("source").partitions[0] for state in states]
    blocked = [number for number, part in enumerate(parts) if part.pending and part.pending[0] < 0]
    assert blocked[0] == 16
    assert {parts[number].left_bytes for number in blocked} == {MARKER_BYTES}
    assert states[blocked[0]].task("source").state.taken == 4
    marked = [at for _, at in seen_by(heard, ("sink", 0))]
    assert marked[:5] == [0, 400, 800, 1200, 1600]
    assert not set(marked) & {2000, 2400, 2800}
    assert marked[5] >= 3000


def test_it_ends_with_its_source() -> None:
    rate = [{"at_s": 0, "rate": 10}, {"at_s": 2.05, "rate": 0}]
    states, heard = run(job({"emit_rate": rate}))
    assert max(at for _, at in seen_by(heard, ("source", 0))) == 1800
    assert states[-1].task("source").time.state.next_marker == -1
    assert states[-1].task("sink").state.is_finished == 1
    kinds = {kind for state in states for kind, _ in state.task("sink").time.in_flight[0]}
    assert kinds == {0, MARKER}, "no watermark, as there is no event time"


def test_it_rides_among_watermarks_and_moves_none() -> None:
    source = {"event_time": {}, "watermark": {"delay_s": 0}}
    with_markers, _ = run(job(source))
    without, _ = run(job(source, interval_ms=0))
    for one, other in zip(with_markers, without, strict=True):
        assert one.task("sink").time.watermark == other.task("sink").time.watermark
    kinds = {kind for state in with_markers for kind, _ in state.task("sink").time.in_flight[0]}
    assert {MARKER, WATERMARK, 0} <= kinds


def test_records_are_taken_up_when_they_are_without_them() -> None:
    """No buffer fills up, and all is flushed each round: the 33 bytes cost no record any time."""
    flushed = {"execution.buffer-timeout.interval": 0}
    small = {"emit_rate": 37, "record_bytes": 10}
    states, _ = run(job(small, flushed, service_rate=40))
    without, _ = run(job(small, flushed, interval_ms=0, service_rate=40))
    for one, other in zip(states, without, strict=True):
        assert one.task("sink").state.taken == other.task("sink").state.taken
        assert one.task("source").busy_us == other.task("source").busy_us


def test_a_job_without_them_holds_nothing_of_it() -> None:
    assert {task.time for task in run(job(interval_ms=0))[0][-1].tasks} == {None}
