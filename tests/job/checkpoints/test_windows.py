"""Windows in checkpoints: what they weigh, what a burst does to a barrier, how a job ends."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.protocol.event_time import WATERMARK
from flowcontrol.state.queues import DATA, END_OF_DATA, SPANNING_DATA
from flowcontrol.state.tasks import MAX_TIME
from flowcontrol.virtual import simulate
from modules import load

small = load("tests/job/small_windows.py")
checkpoints = load("tests/job/checkpoints/small.py")

INTERVAL = f"{checkpoints.PREFIX}interval"
KEYS = 20
BYTES = 50
WINDOW = {"kind": "tumbling", "size_s": 0.5, "keys": KEYS, "bytes_per_key": BYTES}
STEADY = {"arrival_rate": 400}


def scenario(window: dict[str, Any], options: dict[str, Any], **keys: Any) -> Any:
    """A job with windows that checkpoints, of 400 records/s that do not end."""
    made = small.mapping(window, **{"round_ms": 50, **keys})
    made["options"] |= options
    return small.checked(made)


def run_of(cuts: ModuleType, given: Any) -> Any:
    run = cuts.CheckpointRun(build_physical_graph(given))
    run.run()
    run.control.before_round(run.job.rounds)
    return run


def sizes(run: Any, task: int) -> dict[int, tuple[int, int]]:
    """Size of a task's state and what was written of it, by checkpoint."""
    own = run.control.coordinator
    rows = {id: own.task_statistics(id)[task] for id in run.completed}
    return {id: (one.full_size, one.checkpointed_size) for id, one in rows.items()}


# ---------------------------------------------------------------- what they weigh


def test_the_windows_that_are_open_are_state(cuts: ModuleType) -> None:
    """Besides the state of the stage; incremental as that is, but for a savepoint."""
    state = {"bytes": 700, "incremental_share": 0.5}
    run = run_of(
        cuts,
        scenario(
            WINDOW,
            {INTERVAL: "700ms"},
            source=STEADY,
            count={"state": state},
            savepoints=[{"at_s": 3.1}],
        ),
    )
    held = {}
    for report in run.reports:
        if report.kind == TAKEN and report.task == 1:
            task = run.states[report.round].task("count")
            entries = len(task.window.entries)
            assert abs(report.contents - entries * BYTES) <= 2 * KEYS * BYTES, "of that round"
            held[report.checkpoint] = report.contents
    found, last = sizes(run, 1), (0, 0)
    kinds = {id: run.control.coordinator.statistics(id).kind for id in found}
    assert sorted(kinds.values()).count("savepoint") == 1
    for checkpoint, (full, written) in found.items():
        assert full == 700 + held[checkpoint] > 700
        if kinds[checkpoint] == "savepoint" or last == (0, 0):
            assert written == full
        else:
            kept = min(held[checkpoint], last[1])
            assert written == 350 + held[checkpoint] - kept + -(-kept // 2)
        if kinds[checkpoint] != "savepoint":
            last = 700, held[checkpoint]
    assert len(found) >= 4


def test_a_watermark_that_lags_makes_checkpoints_larger() -> None:
    """Of each key the windows that have begun and not ended by the watermark.

    Windows begin up to now and are kept for their length and the delay.
    """
    found = {}
    for delay_s in (0.3, 2.0, 4.0):
        given = scenario(
            WINDOW,
            {INTERVAL: "1s"},
            source={**STEADY, "watermark": {"delay_s": delay_s}},
            duration_s=12,
        )
        rows = simulate(given).tables["checkpoints"].to_pylist()
        found[delay_s] = [row["state_bytes"] for row in rows if row["triggered_s"] > 6]
    for delay_s, each in found.items():
        windows = (0.5 + delay_s) / 0.5
        assert len(each) >= 5
        for nbytes in each:
            assert nbytes / (KEYS * BYTES) == pytest.approx(windows, abs=1.2)
    assert min(found[2.0]) > max(found[0.3])
    assert min(found[4.0]) > max(found[2.0])


# ---------------------------------------------------------------- bursts


def test_no_barrier_passes_in_the_middle_of_a_burst(cuts: ModuleType) -> None:
    """The results of a window take the sink a second; the next checkpoint's barrier waits for it.

    Also one that overtakes: the task looks at it between two records only.
    """
    delays = {}
    for share in (False, True):
        run = run_of(
            cuts,
            scenario(
                {**WINDOW, "size_s": 2, "keys": 200},
                {INTERVAL: "500ms", f"{checkpoints.PREFIX}unaligned.enabled": share},
                source={"arrival_rate": 400, "emit_rate": 4000},
                count={"record_bytes": 4000},
                sink={"service_rate": 100},
                duration_s=5,
            ),
        )
        busy = [
            state.number
            for state in run.states
            if state.task("count").window.store.phase != 0
            and state.task("count").backpressured_us > 0
        ]
        took = [one.round for one in run.reports if one.kind == TAKEN and one.task == 1]
        assert len(busy) > 20
        assert took
        for number in took:
            state = run.states[number - 1].task("count")
            assert state.window.store.phase == 0 or number not in busy[1:], number
        delays[share] = [one.start_delay for one in run.reports if one.task == 1 and one.kind == 1]
    for each in delays.values():
        assert min(each) <= 150_000, "microseconds, without a burst"
        assert max(each) > 600_000


# ---------------------------------------------------------------- the end


def test_a_last_checkpoint_finds_the_windows_fired(cuts: ModuleType) -> None:
    """The last watermark is in front of the end of data, behind which that checkpoint comes."""
    run = run_of(cuts, scenario(WINDOW, {INTERVAL: "700ms"}, duration_s=5))
    order = []
    for state in run.states:
        for out in state.task("source").partitions[0].subpartitions:
            for sent in out.under_way:
                if (
                    sent.message.kind in {DATA, SPANNING_DATA, END_OF_DATA}
                    and sent.arrives == state.number + 1
                ):
                    order.append((state.number, sent.message.kind, sent.message.marks))
    [end] = [place for place, (_, kind, _) in enumerate(order) if kind == END_OF_DATA]
    assert all(kind > SPANNING_DATA for _, kind, _ in order[end:])
    last = run.states[-1].task("count")
    assert last.time.watermark == MAX_TIME
    assert last.window.entries == ()
    assert last.state.is_finished == 1
    taken = [one for one in run.reports if one.kind == TAKEN and one.task == 1]
    assert taken[-1].contents == 0 < taken[0].contents
    assert sum(n for *_, n in results(run)) == 200


def results(run: Any) -> list[tuple[int, int, int, int]]:
    """Results of a run: key, start, end, records."""
    return [
        (one.key, one.start, one.end, one.records)
        for state in run.states
        for one in state.task("count").window.results
    ]


def test_a_savepoint_that_stops_the_job_fires_nothing(cuts: ModuleType) -> None:
    """Event time does not end with it: its windows are in the savepoint, and no result is out."""
    run = run_of(
        cuts,
        scenario(
            {**WINDOW, "size_s": 3},
            {INTERVAL: "9s"},
            source={**STEADY, "event_time": {"out_of_orderness_s": 0}},
            savepoints=[{"at_s": 2.0, "stop": True}],
        ),
    )
    assert run.control.coordinator.statistics(1).status == "completed"
    last = run.states[-1].task("count")
    assert last.state.is_finished == 1
    assert last.time.watermark < MAX_TIME
    assert results(run) == []
    taken = [one for one in run.reports if one.kind == TAKEN and one.task == 1]
    assert [one.contents for one in taken] == [len(last.window.entries) * BYTES]
    assert len(last.window.entries) == KEYS
    marks = [
        value
        for state in run.states
        for kind, value in state.task("count").time.in_flight[0]
        if kind == WATERMARK
    ]
    assert marks
    assert MAX_TIME not in marks
