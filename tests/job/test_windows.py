"""Windows in small runs: rounds by hand, and bursts as backpressure."""

from __future__ import annotations

from typing import Any

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.event_time import WATERMARK, time_of
from flowcontrol.protocol.windows.firing import EVENT_TIMERS
from flowcontrol.scenario import Scenario
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from flowcontrol.trace.round_state import Result, RoundState
from modules import load

small = load("tests/job/small_windows.py")
watched_runs = load("tests/job/watched_runs.py")


def steps(given: Scenario) -> list[RoundState]:
    found: list[RoundState] = watched_runs.WatchedRun(build_physical_graph(given)).run()
    return found


# ---------------------------------------------------------------- by hand


BY_HAND = [
    # round, taken, watermark, windows held (start, records), results, records at the sink
    (1, 1, None, [(0, 1)], [], 0),
    (2, 1, 99, [(0, 2)], [], 0),
    (3, 1, 199, [(0, 2), (300, 1)], [], 0),
    (4, 1, 299, [(300, 2)], [(0, 300, 2)], 0),
    (5, 1, 399, [(300, 3)], [], 1),
    (6, 1, 499, [(300, 3), (600, 1)], [], 1),
    (7, 1, 599, [(600, 2)], [(300, 600, 3)], 1),
    (8, 1, 699, [(600, 3)], [], 2),
]
"""Record k is written to the log at (k + 1) x 100 ms. Its watermark, 1 ms less, comes with the next
probe, a round later. At 299 the last millisecond of [0, 300) has passed, which has two records; the
result is at the sink a round later."""


def test_rounds_by_hand() -> None:
    given = small.scenario(
        {"kind": "tumbling", "size_s": 0.3},
        source={"arrival_rate": 10, "emit_rate": 10, "event_time": {}, "watermark": {"delay_s": 0}},
        options={small.SEGMENT: "4kb", small.INTERVAL: "100ms", small.FLUSH: "0ms"},
        duration_s=0.9,
        round_ms=100,
    )
    states = steps(given)
    for number, taken, watermark, held, fired, at_sink in BY_HAND:
        task, sink = (states[number].task(name) for name in ("count", "sink"))
        assert task.taken == taken, number
        assert task.time.watermark == (MIN_TIME if watermark is None else watermark), number
        assert [(entry.start, entry.count) for entry in task.window.entries] == held, number
        results = [Result(0, *found, number, *found[-1:] * 2, 1, 1, 0) for found in fired]
        assert task.window.results == tuple(results), number
        assert sink.state.taken == at_sink, number
    sent = [state.task("sink").time.in_flight[0] for state in states[4:6]]
    # The result bears the last millisecond of its window, and its watermark comes behind it.
    assert [(kind, value if kind else time_of(value)) for kind, value in sent[0]] == [
        (WATERMARK, 199),
        (0, 299),
        (WATERMARK, 299),
    ][-len(sent[0]) :]


# ---------------------------------------------------------------- bursts


def test_a_firing_of_many_keys_is_back_pressure() -> None:
    """Ten times as many results as the outputs hold: the task is blocked, and takes up nothing."""
    given = small.scenario(
        {**small.TUMBLING, "keys": 2000},
        source={"arrival_rate": 2000, "emit_rate": 4000},
        count={"record_bytes": 4000},
        sink={"service_rate": 500},
        duration_s=1.5,
    )
    states = steps(given)
    tasks = [state.task("count") for state in states]
    bursts = [task for task in tasks if task.window.store.phase == EVENT_TIMERS]
    assert len(bursts) > 20
    assert all(task.backpressured_us == 10_000 for task in bursts[1:-1])
    assert all(task.taken == 0 for task in bursts[1:])
    assert all(task.window.held.to_give == WATERMARK for task in bursts)
    inside = [task.time.state.valve.watermark for task in bursts]
    passed_on = [state.task("sink").time.watermark for state in states]
    assert inside[0] == inside[-1] > max(passed_on[: bursts_begin(tasks)]), "it waits behind them"
    assert any(state.task("source").backpressured_us > 0 for state in states)


def bursts_begin(tasks: list[Any]) -> int:
    return next(i for i, task in enumerate(tasks) if task.window.store.phase == EVENT_TIMERS)


def test_a_burst_with_nothing_behind_it_is_back_pressure_too() -> None:
    """The source has ended, so its last watermark fires everything, and no record waits."""
    given = small.scenario(
        {"kind": "tumbling", "size_s": 10, "keys": 2000},
        source={"arrival_rate": [{"at_s": 0, "rate": 2000}, {"at_s": 0.1, "rate": 0}]},
        count={"record_bytes": 4000},
        sink={"service_rate": 300},
        duration_s=1.2,
    )
    tasks = [state.task("count") for state in steps(given)]
    bursts = [task for task in tasks if task.window.store.phase == EVENT_TIMERS]
    assert len(bursts) > 20
    assert all(task.state.queued == 0 for task in bursts), "nothing waits"
    assert all(task.backpressured_us == 10_000 for task in bursts[1:])
    end = tasks[-1]
    assert (end.window.open_windows, end.time.watermark) == (0, MAX_TIME)


# ---------------------------------------------------------------- the clock


def test_the_clock_fires_at_the_first_round_that_begins_then() -> None:
    """A record is in the window of the round that takes it up; 299 ms are over at round 3."""
    given = small.scenario(
        {"kind": "tumbling", "size_s": 0.3, "trigger": "processing_time"},
        source={"event_time": None, "watermark": None},
        duration_s=0.8,
        round_ms=100,
    )
    states = steps(given)
    fired = {s.number: s.task("count").window.results for s in states}
    found = {number: [(r.start, r.end) for r in own] for number, own in fired.items() if own}
    assert found == {3: [(0, 300)], 6: [(300, 600)]}
    taken = [s.task("count").taken for s in states]
    assert [own[0].records for own in fired.values() if own] == [sum(taken[:3]), sum(taken[3:6])]
    assert min(sum(taken[:3]), sum(taken[3:6])) > 0


def test_the_clock_waits_for_a_task_that_is_in_a_record() -> None:
    """A record takes 250 ms: what is due in the middle of one fires when it is done."""
    given = small.scenario(
        {"kind": "tumbling", "size_s": 0.2, "trigger": "processing_time"},
        source={"event_time": None, "watermark": None, "arrival_rate": 10, "emit_rate": 10},
        count={"service_rate": 4},
        duration_s=0.8,
        round_ms=100,
    )
    rounds = [s.number for s in steps(given) if s.task("count").window.results]
    assert rounds == [3, 6], "due at rounds 2, 4 and 6"
