"""Event time of small jobs by hand: what records carry, where a watermark is written, who waits."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.event_time import ACTIVE, IDLE, WATERMARK, WATERMARK_BYTES, id_of, time_of
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from flowcontrol.trace.round_state import RoundState
from staged_runs import staged

NEVER = {"execution.buffer-timeout.interval": -1}
END = [{"at_s": 0, "rate": 10}, {"at_s": 0.45, "rate": 0}]


def job(source: dict[str, Any], options: dict[str, Any] | None = None, **sink: Any) -> Job:
    """A source and a sink on two task managers; rounds of 100 ms, buffers of 4 KiB."""
    stages = [
        {"name": "source", "emit_rate": 10, "record_bytes": 300, "event_time": {}, **source},
        {"name": "sink", **sink},
    ]
    scenario = {
        "schema": 1,
        "name": "small",
        "duration_s": 4,
        "round_ms": 100,
        "cluster": {"task_managers": 2},
        "options": {"taskmanager.memory.segment-size": "4kb", **(options or {})},
        "stages": stages,
        "edges": [{"from": "source", "to": "sink"}],
    }
    return build_physical_graph(parse_scenario(scenario))


def states(made: Job, rounds: int = 40) -> list[RoundState]:
    own = staged(made)
    return [own.run() for _ in range(rounds)]


def stamps(made: Job, rounds: int = 40) -> list[int]:
    """Stamps of the records that are never sent, or taken up."""
    state = states(made, rounds)[-1]
    return [value for kind, value in state.task("sink").time.in_flight[0] if kind == 0]


def test_a_record_happens_in_the_round_in_which_it_is_emitted() -> None:
    found = stamps(job({"watermark": None}, NEVER), 5)
    assert [time_of(stamp) for stamp in found] == [0, 100, 200, 300, 400]
    assert len({id_of(stamp) for stamp in found}) == 5


def test_one_of_a_log_happened_when_it_was_written_there() -> None:
    """Record k is written at the first microsecond by which more than k are: 10 records/s."""
    found = stamps(job({"arrival_rate": 10, "emit_rate": 4}, NEVER), 12)
    assert [time_of(stamp) for stamp in found] == [100, 200, 300, 400]


@pytest.mark.parametrize("distribution", ["uniform", "exponential"])
def test_records_lie_behind(distribution: str) -> None:
    times = {"out_of_orderness_s": 0.9, "distribution": distribution, "offset_s": 7}
    source = {"emit_rate": 1000, "record_bytes": 1, "event_time": times}
    found = stamps(job(source, NEVER | {"execution.buffer-timeout.interval": -1}), 40)
    behind = [7000 + 100 * (i // 100) - time_of(stamp) for i, stamp in enumerate(found)]
    mean, most = (450, 900) if distribution == "uniform" else (900, 900 * 12)
    assert len(behind) > 3000
    assert sum(behind) / len(behind) == pytest.approx(mean, rel=0.06)
    assert 0 <= min(behind) < 5
    assert most * 0.4 < max(behind) <= most


def test_a_watermark_takes_its_bytes_of_the_open_buffer_and_closes_nothing() -> None:
    """A probe at 200 ms comes before the record of its round; nobody flushes."""
    found = states(job({"watermark": {"delay_s": 0.05}}, NEVER), 3)[-1]
    [part] = found.task("source").partitions
    [out] = part.subpartitions
    assert (out.state.buffers, out.state.is_open, out.state.sent) == (1, 1, 0)
    assert out.state.filled == 3 * 300 + WATERMARK_BYTES
    assert (out.state.marks, out.state.tail, out.state.written) == (1, 3, 3)
    kinds = [kind for kind, _ in found.task("sink").time.in_flight[0]]
    assert kinds == [0, 0, WATERMARK, 0]
    assert found.task("source").time.watermark == 100 - 50 - 1


def test_one_that_does_not_fit_ends_in_the_next_buffer() -> None:
    source = {"record_bytes": 2045, "watermark": {"delay_s": 0}}
    found = states(job(source, NEVER), 5)
    sent = [
        (under_way.message.records, under_way.message.marks, under_way.message.nbytes)
        for state in found
        for under_way in state.task("source").partitions[0].subpartitions[0].under_way
    ]
    # 6 bytes of the first watermark are in the first buffer, 7 in the second
    assert sent == [(2, 0, 4096), (1, 1, 4096)]
    [out] = found[-1].task("source").partitions[0].subpartitions
    assert (out.state.tail, out.state.marks) == (2, 1)


def test_a_task_that_is_blocked_inside_a_watermark_writes_it_later() -> None:
    """The sink reads nothing, so the source has no buffer left when it is probed."""
    memory = "taskmanager.network.memory."
    few = {memory + "floating-buffers-per-gate": 1, memory + "buffers-per-channel": 1,
           memory + "max-overdraft-buffers-per-gate": 0}  # fmt: skip
    rates = [{"at_s": 0, "rate": 0}, {"at_s": 2, "rate": 100}]
    source = {"record_bytes": 4096, "emit_rate": 100, "watermark": {"delay_s": 0}}
    found = states(job(source, few, service_rate=rates))
    parts = [state.task("source").partitions[0] for state in found]
    blocked = [part for part in parts if part.pending and part.pending[0] < 0]
    assert blocked
    assert {part.left_bytes for part in blocked} == {WATERMARK_BYTES}
    assert parts[-1].pending == () or parts[-1].pending[0] >= 0
    assert found[-1].task("sink").time.watermark > MIN_TIME


def test_a_buffer_is_in_use_until_the_watermark_behind_its_records_is_taken() -> None:
    """A server takes it when it is free again, as it would take a record."""
    found = states(job({"watermark": {"punctuated": True}}, service_rate=2.5))
    held = [state for state in found if state.task("sink").state.marks > 0]
    assert any(state.task("sink").state.left == 0 for state in held)
    for state in held:
        [into] = state.task("sink").gates[0].channels
        assert into.state.arrived - into.state.consumed == len(into.queue) + 1


def test_the_end_of_a_source_is_the_last_watermark() -> None:
    found = states(job({"emit_rate": END, "watermark": {"delay_s": 5, "idle_after_s": 60}}))
    assert [found[-1].task(name).time.watermark for name in ("source", "sink")] == [MAX_TIME] * 2
    assert found[-1].task("sink").state.is_finished == 1
    assert found[-1].task("source").time.state.next_probe == -1


def test_it_comes_from_a_source_without_watermarks_too() -> None:
    found = states(job({"emit_rate": END}))
    assert found[3].task("sink").time.watermark == MIN_TIME
    assert found[-1].task("sink").time.watermark == MAX_TIME


def test_a_quiet_source_is_idle_and_active_with_its_next_watermark() -> None:
    rate = [{"at_s": 0, "rate": 10}, {"at_s": 0.5, "rate": 0}, {"at_s": 2.5, "rate": 10}]
    marks = {"delay_s": 0, "idle_after_s": 0.5}
    made = job({"emit_rate": rate, "watermark": marks}, {"execution.buffer-timeout.interval": 0})
    found, kinds = states(made), []
    for state in found:
        kinds += [kind for kind, _ in state.task("sink").time.in_flight[0] if kind > WATERMARK]
    assert IDLE in kinds
    idle = [state.number for state in found if state.task("sink").time.is_idle]
    assert 14 <= idle[0] <= 17  # (T + P, T + 3 P] after the record at 400 ms
    assert 25 <= idle[-1] <= 30
    assert found[-1].task("sink").time.watermark > 2500
    assert ACTIVE < WATERMARK < IDLE


def test_it_is_no_idleness_to_be_back_pressured() -> None:
    """The clock of idleness stands: only the source of which nothing comes is idle."""
    slow = {"record_bytes": 4096, "emit_rate": 100}
    marks = {"delay_s": 0, "idle_after_s": 0.3}
    found = states(job({**slow, "watermark": marks}, service_rate=0.25))
    blocked = [state.task("source").backpressured_us for state in found]
    assert sum(blocked[10:]) > 2_000_000
    assert not any(state.task("source").time.is_idle for state in found)


def test_a_punctuated_source_has_a_watermark_behind_each_record_that_raises_it() -> None:
    marks = {"punctuated": True}
    times = {"out_of_orderness_s": 0.3}
    made = job({"watermark": marks, "event_time": times}, NEVER)
    latest, order = MIN_TIME, states(made, 13)[-1].task("sink").time.in_flight[0]
    expected: list[tuple[int, int]] = []
    for stamp in [value for kind, value in order if kind == 0]:
        expected.append((0, stamp))
        if time_of(stamp) > latest:
            latest = time_of(stamp)
            expected.append((WATERMARK, latest))
    assert list(order) == expected
    assert len(expected) > 13


def test_what_a_record_causes_has_its_stamp() -> None:
    stages = [
        {"name": "source", "emit_rate": 10, "record_bytes": 300, "event_time": {}},
        {"name": "map", "selectivity": 2},
        {"name": "sink", "service_rate": [{"at_s": 0, "rate": 0}, {"at_s": 3, "rate": 1}]},
    ]
    edges = [{"from": a, "to": b} for a, b in (("source", "map"), ("map", "sink"))]
    options = {"taskmanager.memory.segment-size": "4kb"}
    scenario = {"schema": 1, "name": "two", "duration_s": 4, "round_ms": 100, "options": options}
    made = build_physical_graph(parse_scenario({**scenario, "stages": stages, "edges": edges}))
    waiting = [
        [time_of(value) for _, value in state.task("sink").time.in_flight[0]]
        for state in states(made, 10)
    ]
    assert any(waiting)
    for times in waiting:
        assert times == [time for time in sorted({*times}) for _ in range(2)]


def test_a_job_without_event_time_holds_nothing_of_it() -> None:
    made = job({"event_time": None})
    assert {task.time for state in states(made, 5) for task in state.tasks} == {None}
