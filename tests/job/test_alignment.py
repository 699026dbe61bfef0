"""Coordinators of aligned sources, and what a source makes of their answers, round by round."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowcontrol.control.sources import AlignmentControl
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.event_time import IDLE, WATERMARK
from flowcontrol.protocol.tasks.event_time import (
    check_watermark_alignment,
    note_idle,
    reported,
    update_max_desired_watermark,
)
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME, TaskTime
from flowcontrol.trace.round_state import RoundState
from staged_runs import run_staged


def job(
    *sources: dict[str, Any], latency_ms: float = 0, round_ms: float = 100, **beside: Any
) -> Job:
    """Sources before a sink; what each states of its group besides its rate."""
    stages = []
    for number, own in enumerate(sources):
        group = {"group": "g", "max_drift_s": 1, "interval_s": 0.3, **own.pop("alignment", {})}
        stages.append(
            {"name": f"s{number}", "emit_rate": 10, "record_bytes": 100, "event_time": {},
             "watermark": {"delay_s": 0, "alignment": group}, **own}
        )  # fmt: skip
    scenario = {
        "schema": 1,
        "name": "groups",
        "duration_s": 6,
        "round_ms": round_ms,
        "cluster": {"task_managers": 1, "network_latency_ms": latency_ms},
        "options": {"taskmanager.memory.segment-size": "4kb"},
        "stages": [*stages, {"name": "sink"}],
        "edges": [{"from": stage["name"], "to": "sink"} for stage in stages],
        **beside,
    }
    return build_physical_graph(parse_scenario(scenario))


def told(
    control: AlignmentControl, reports: dict[int, list[int]], last: int
) -> list[tuple[int, int, int]]:
    """What subtasks hear, as (round, task, watermark); a report each turn, the last repeated."""
    found = []
    for number in range(last):

        def report(task: int) -> int:
            values = reports[task]
            return values.pop(0) if len(values) > 1 else values[0]

        found += [(number, *one) for one in control.before_round(number, report)]
    return found


def test_an_answer_is_what_was_reported_half_an_interval_before() -> None:
    """Reports of 0.15 s are sent in the round of 0.2 s, answered at 0.3 s, and heard later."""
    control = AlignmentControl(job({}, {}))
    found = told(control, {0: [10, 20, 30], 1: [500, 600, 700]}, 11)
    assert found == [
        (4, 0, 1010), (4, 1, 1010),
        (7, 0, 1020), (7, 1, 1020),
        (10, 0, 1030), (10, 1, 1030),
    ]  # fmt: skip


def test_a_latency_is_added_to_either_way() -> None:
    """4 rounds are more than an interval: what was reported at 0.2 s is answered at 0.6 s."""
    control = AlignmentControl(job({}, {}, latency_ms=400))
    found = told(control, {0: [10, 20, 30, 40], 1: [MAX_TIME]}, 17)
    assert [(number, mark) for number, task, mark in found if task == 0] == [
        (7, MAX_TIME), (10, 1010), (13, 1020), (16, 1030),
    ]  # fmt: skip


def test_each_source_has_its_own_drift_and_interval() -> None:
    slow = {"alignment": {"max_drift_s": 2, "interval_s": 1}}
    found = told(AlignmentControl(job({}, slow)), {0: [10], 1: [0]}, 25)
    assert {(number, mark) for number, task, mark in found if task == 1} == {
        (11, 2000), (21, 2000)
    }  # fmt: skip
    assert (4, 0, 1010) in found
    assert (7, 0, 1000) in found


def test_groups_are_by_name() -> None:
    other = {"alignment": {"group": "h"}}
    found = told(AlignmentControl(job({}, other, {})), {0: [10], 1: [0], 2: [20]}, 8)
    assert found[-3:] == [(7, 0, 1010), (7, 1, 1000), (7, 2, 1010)]


def test_who_reports_nothing_holds_nobody_back() -> None:
    found = told(AlignmentControl(job({}, {})), {0: [MIN_TIME], 1: [MIN_TIME, 70]}, 11)
    assert [mark for _, task, mark in found if task == 0] == [MAX_TIME, 1070, 1070]


def test_an_interval_shorter_than_a_round_is_a_round() -> None:
    short = {"alignment": {"interval_s": 0.01}}
    found = told(AlignmentControl(job(dict(short), dict(short))), {0: [1, 2, 3], 1: [9]}, 5)
    assert [(number, mark) for number, task, mark in found if task == 0] == [
        (2, MAX_TIME), (3, 1001), (4, 1002),
    ]  # fmt: skip


def test_it_need_not_be_asked_before_a_round_in_which_nothing_is_due() -> None:
    made = job({}, {"alignment": {"interval_s": 0.7}}, latency_ms=200)
    asked, seldom = AlignmentControl(made), AlignmentControl(made)
    clock = {"now": 0}

    def report(task: int) -> int:
        return 100 * clock["now"] + task

    for number in range(60):
        clock["now"] = number
        expected = asked.before_round(number, report)
        if seldom.next_round() <= number:
            assert seldom.before_round(number, report) == expected
        else:
            assert expected == []


def test_a_control_goes_on_from_its_state() -> None:
    made = job({}, {}, latency_ms=200)
    whole, first = AlignmentControl(made), AlignmentControl(made)

    def report(task: int) -> int:
        return 50 * task + 7

    for number in range(30):
        expected = whole.before_round(number, report)
        assert first.before_round(number, report) == expected
        after = AlignmentControl(made)
        after.restore(json.loads(json.dumps(first.state())))
        assert after.state() == first.state()
        first = after


def test_a_job_without_groups_has_no_control() -> None:
    given = job({"watermark": {"delay_s": 0}})
    assert not given.scenario.alignment_groups


# ---- what a source does


def times(watermark: int) -> TaskTime:
    found = TaskTime()
    found.generator.watermark = watermark
    return found


def test_it_pauses_beyond_what_is_allowed_and_not_at_it() -> None:
    time = times(1_000)
    assert (update_max_desired_watermark(time, 1_000), time.aligned.is_paused) == (0, 0)
    assert (update_max_desired_watermark(time, 999), time.aligned.is_paused) == (1, 1)
    assert (update_max_desired_watermark(time, 999), time.aligned.is_paused) == (0, 1)
    assert (update_max_desired_watermark(time, 1_000), time.aligned.is_paused) == (1, 0)


def test_it_looks_at_its_own_watermarks() -> None:
    time = times(1_001)
    time.aligned.allowed = 1_000
    check_watermark_alignment(time, IDLE)
    assert time.aligned.is_paused == 0
    check_watermark_alignment(time, WATERMARK)
    assert time.aligned.is_paused == 1


def test_one_that_has_ended_waits_for_nobody() -> None:
    time = times(MAX_TIME)
    time.has_ended = 1
    assert (update_max_desired_watermark(time, 5), time.aligned.is_paused) == (0, 0)
    assert reported(time) == MAX_TIME


def test_only_the_idle_time_of_a_paused_one_counts() -> None:
    time = times(5)
    note_idle(time, 70)
    time.aligned.is_paused = 1
    note_idle(time, 30)
    assert time.paused_us == 30


# ---- in a run


def states(made: Job) -> list[RoundState]:
    return [batch.state for batch in run_staged(made)]


def test_a_paused_source_is_probed_and_emits_nothing() -> None:
    """Of two that are 3 s apart one waits until the other has come within a second of it."""
    ahead = {"event_time": {"offset_s": 3}, "emit_rate": 100}
    found = states(job({}, ahead))
    source = [state.task("s1") for state in found]
    paused = [one.time.state.aligned.is_paused for one in source]
    first, last = paused.index(1), len(paused) - 1 - paused[::-1].index(1)
    assert first == 7  # the first answer to a report
    assert last >= 20
    taken = [one.state.taken for one in source]
    for before, after, now in zip(taken, taken[1:], paused[1:], strict=False):
        assert (after == before) == (now == 1)
    assert source[first + 5].time.state.next_probe > source[first].time.state.next_probe
    assert source[first + 5].idle_us == 100_000
    assert source[-1].time.state.paused_us == 100_000 * sum(paused)


def test_a_savepoint_that_stops_the_job_ends_the_pause() -> None:
    ahead = {"event_time": {"offset_s": 3}, "emit_rate": 100}
    stops = [{"at_s": 2, "stop": True}]
    source = [state.task("s1").time.state for state in states(job({}, ahead, savepoints=stops))]
    ended = [one.has_ended for one in source].index(1)
    assert source[ended - 1].aligned.is_paused == 1
    assert {one.aligned.is_paused for one in source[ended:]} == {0}
    assert {one.paused_us for one in source[ended:]} == {source[ended - 1].paused_us}


def test_what_fell_due_meanwhile_is_lost_and_no_back_pressure() -> None:
    ahead = {"event_time": {"offset_s": 3}, "emit_rate": 100}
    found = states(job({}, ahead))
    [last] = [state.task("s1") for state in found[-1:]]
    ran = 60 - last.time.state.paused_us // 100_000
    assert last.state.taken == pytest.approx(10 * ran, abs=10)
    assert sum(state.task("s1").backpressured_us for state in found) == 0


def test_a_record_that_is_being_read_is_read_to_its_end() -> None:
    """It takes 0.5 s: the answer comes while it is being read, and the next one waits."""
    ahead = {"event_time": {"offset_s": 3}, "arrival_rate": 10, "emit_rate": 2}
    found = [state.task("s1") for state in states(job({}, ahead))]
    first = next(i for i, one in enumerate(found) if one.time.state.aligned.is_paused == 1)
    paused = [one for one in found[first:] if one.time.state.aligned.is_paused == 1]
    assert paused[0].log.reading == 1
    assert {one.state.taken - paused[0].state.taken for one in paused} == {0, 1}
    assert paused[-1].log.reading == 0
    assert paused[-1].log.end - paused[-1].log.position > 10
    assert paused[0].idle_us == 0
    assert paused[-1].idle_us == 100_000
