"""Windows of Spark's in small jobs: when batches end, what waits for whom, how a task ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.task_settings import next_batch_end
from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.trace.round_state import TaskState
from modules import load

small: Any = load("tests/job/small_windows.py")
follow_batches: Any = load("tests/job/follow_batches.py")

TUMBLING = {"kind": "tumbling", "size_s": 0.5, "keys": 3}
ROUNDS = 25
"""In a batch."""


def laid_out(window: dict[str, Any], **keys: Any) -> Job:
    given = small.mapping({**TUMBLING, **window}, time_model="spark", batch_s=0.25)
    scenario = small.checked({**given, **keys})
    return build_physical_graph(scenario, round_us=10_000)


def states(job: Job, stage: str = "count") -> list[TaskState]:
    """The task of a stage after each round."""
    return [state.task(stage) for state in follow_batches.watched_runs.WatchedRun(job).run()]


@pytest.mark.parametrize(
    ("batch_s", "round_ms", "ends"),
    [
        (1, 250, [4, 8, 12]),
        (0.5, 500, [1, 2, 3]),
        (0.25, 100, [3, 5, 8]),  # in the first round that begins then or later
        (0.05, 100, [1, 2, 3]),
    ],
)
def test_a_batch_ends_at_a_multiple_of_its_length(
    batch_s: float, round_ms: int, ends: list[int]
) -> None:
    job = build_physical_graph(small.scenario(TUMBLING, time_model="spark", batch_s=batch_s,
                                              round_ms=None), round_us=1000 * round_ms)  # fmt: skip
    found, number = list[int](), 0
    for _ in ends:
        number = next_batch_end(job, number)
        found.append(number)
        assert next_batch_end(job, number) == number
        number += 1
    assert found == ends


def test_results_come_at_the_end_of_a_batch_and_no_watermark_travels() -> None:
    """One window ends at 0.5 s; its rows are 0.3 s late at most, and so is the watermark."""
    job = laid_out({})
    tasks = states(job)
    rounds = [result.round for task in tasks for result in task.window.results]
    assert set(rounds) == {5 * ROUNDS, 7 * ROUNDS, 9 * ROUNDS}
    watermarks = [task.time.watermark for task in tasks[::ROUNDS]]
    assert watermarks[1] <= 500 < watermarks[4] <= 1000, "moves at the end of a batch"
    for task in tasks:
        assert task.state.marks == 0


def test_a_window_that_is_not_over_stays_when_the_job_ends() -> None:
    """Spark has no last watermark: what it holds at the end is not put out."""
    last = states(laid_out({}))[-1]
    assert last.state.is_finished
    assert last.window.open_windows == 3
    assert last.window.store.fired == 9


def test_a_task_ends_only_behind_its_last_batch() -> None:
    """Its input ends at 2 s, in the midst of a batch, and a batch without data follows."""
    tasks = states(laid_out({"output": "update"}))
    inputs_end = next(at for at, task in enumerate(tasks) if task.state.open_inputs == 0)
    ends = next(at for at, task in enumerate(tasks) if task.state.is_finished)
    results = [at for at, task in enumerate(tasks) if task.window.results]
    assert inputs_end < max(results) < ends
    assert ends % ROUNDS == 0


def slow_sink(output: str) -> Job:
    window = {**TUMBLING, "output": output, "keys": 50}
    given = small.mapping(window, time_model="spark", batch_s=0.25, duration_s=8,
                          sink={"service_rate": 20}, count={"record_bytes": 4000})  # fmt: skip
    given["options"].update(small.FEW_BUFFERS)
    return build_physical_graph(small.checked(given), round_us=10_000)


def test_while_an_answer_goes_out_nothing_is_taken_up() -> None:
    """A sink of 20 records a second takes the 50 groups of a batch in complete mode slowly."""
    job = slow_sink("complete")
    tasks = states(job)
    answering = [task for before, task in pairwise(tasks)
                 if before.window.store.phase and task.window.store.phase]  # fmt: skip
    assert len(answering) > 3 * ROUNDS, "longer than a batch"
    assert sum(task.taken for task in answering) == 0
    assert sum(task.backpressured_us for task in answering) > 0


@pytest.mark.parametrize("output", ["append", "complete"])
def test_a_batch_waits_for_the_answer_before_it(output: str) -> None:
    """So it is several times as long, also one that would have no data."""
    job = slow_sink(output)
    *_, (_, followers) = follow_batches.follow(job)
    assert 1 < len(followers["count"].done) < job.rounds // ROUNDS / 2


def test_the_slowest_of_two_inputs_holds_the_watermark_back() -> None:
    """Each edge is a stream with its own delay; one is 0.4 s behind."""
    given = small.mapping(TUMBLING, time_model="spark", batch_s=0.25)
    behind = {**given["stages"][0], "name": "behind", "event_time": {"offset_s": -0.4},
              "watermark": {"delay_s": 0.1}}  # fmt: skip
    given["stages"].append(behind)
    given["edges"].append({"from": "behind", "to": "count"})
    job = build_physical_graph(small.checked(given), round_us=10_000)
    tasks = states(job)
    for before, task in pairwise(tasks):
        if task.time.watermark != before.time.watermark:
            seen = [one.watermark for one in before.window.operators]
            assert [one.delay for one in before.window.operators] == [300, 100]
            assert task.time.watermark == min(seen) < max(seen)


def test_stages_apart_answer_alike() -> None:
    """What a task has seen of its inputs reaches whoever works out the watermark."""
    job, run = laid_out({}), follow_batches.watched_runs.WatchedRun
    assert run(job, is_staged=True).run() == run(job).run()


# ---------------------------------------------------------------- batches of a throttle


def streaming(**keys: Any) -> Job:
    """Rows for a second, half of them in either half of it, and none behind that."""
    given = small.mapping(TUMBLING, system="structured-streaming", **keys)
    del given["stages"][0]["arrival_rate"]
    given["stages"][0]["emit_rate"] = [{"at_s": 0, "rate": 100}, {"at_s": 1, "rate": 0}]
    return build_physical_graph(small.checked(given), round_us=10_000)


def test_structured_streaming_answers_its_own_batches() -> None:
    """A batch takes what waits, is answered, and the next begins; the last one has no data."""
    job = streaming(sink={"service_rate": 100})
    assert job.scenario.time_model == "spark"
    *_, (last, followers) = follow_batches.follow(job)
    follower = followers["count"]
    assert len(follower.done) > 5
    assert not any(follower.rows[-1])
    assert follower.done[-2].watermark < follower.done[-1].watermark
    [task] = [task for task in last.tasks if task.stage == "count"]
    assert task.state.is_finished
    taken = sum(len(rows) for batch in follower.rows for rows in batch)
    assert taken == task.state.taken == 100


def test_a_batch_begins_when_the_one_before_is_answered() -> None:
    """A source emits nothing while results of the batch before are on their way to the sink."""
    job = streaming(sink={"service_rate": 40})
    emitted, at_sink = list[int](), list[int]()
    answered = list[bool]()
    for state in follow_batches.watched_runs.WatchedRun(job).rounds():
        tasks = {task.stage: task for task in state.tasks}
        emitted.append(tasks["source"].taken)
        answered.append(bool(tasks["count"].window.results))
        at_sink.append(tasks["sink"].state.taken)
    answers = [at for at, found in enumerate(answered) if found]
    assert answers
    for at in answers:
        done = next(n for n, count in enumerate(at_sink) if count >= at_sink[at] + 1)
        assert sum(emitted[at : done + 1]) == 0


def test_rows_of_a_batch_are_as_old_as_when_they_came() -> None:
    """What waits in the log for its batch keeps its time: the round in which it fell due."""
    throttle = {"name": "static_admission", "interval_ms": 300}
    given = small.mapping(TUMBLING, time_model="spark", source={"event_time": {}, "watermark": {}},
                          system={"transport": "unbounded", "throttle": throttle})  # fmt: skip
    del given["stages"][0]["arrival_rate"]
    given["stages"][0]["emit_rate"] = 100
    job = build_physical_graph(small.checked(given), round_us=10_000)
    *_, (_, followers) = follow_batches.follow(job)
    times = [[time for time, _ in rows[0]] for rows in followers["count"].rows]
    assert times[0] == list(range(0, 300, 10))
    assert times[1] == list(range(300, 600, 10))


def test_batches_are_stated_once() -> None:
    given = small.mapping(TUMBLING, system="structured-streaming", batch_s=1)
    [problem] = check_clock(parse_scenario(given), "virtual")
    assert problem.place == "batch_s"
    assert "throttle 'static_admission' sets the batches: remove batch_s" in problem.message
