"""Checkpoints in figures and sentences, on tables whose every duration is stated."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import summarise
from flowcontrol.analysis.checkpoints import PARTS, checkpoint_summary, task_frame
from modules import load

made = load("tests/analysis/checkpoint_tables.py")
QUICK = ((1, 0, 0, 0), (2, 0, 0, 0), (2, 0, 0, 0), (3, 0, 0, 0))


def summary(taken: Any, scenario: Any = None, **in_flight: Any) -> dict[str, Any]:
    tables = made.samples(**in_flight) | taken.tables()
    return checkpoint_summary(tables, scenario or made.scenario())


def test_counts_durations_and_sizes_are_those_of_the_completed_ones() -> None:
    taken = made.Taken()
    for number, e2e in enumerate((10.0, 20.0, 40.0)):
        sizes = {"state_bytes": 1000 * number, "processed_bytes": 30, "persisted_bytes": 6 * number}
        taken.checkpoint(10.0 * number + 10, "completed", e2e, **sizes)
    taken.checkpoint(40, "expired", 9000.0, state_bytes=10**9).checkpoint(50, "declined", 7.0)
    taken.checkpoint(60, "aborted", 1.0, kind="savepoint").checkpoint(99.5, "aborted", None)
    found = summary(taken)
    assert found["counts"] == {
        "completed": 3, "expired": 1, "declined": 1, "aborted": 1, "in_progress": 1,
    }  # fmt: skip
    assert found["savepoints"] == 1
    assert found["e2e"] == pytest.approx(
        {"min_ms": 10, "mean_ms": 70 / 3, "p50_ms": 20, "p99_ms": 40, "max_ms": 40}
    )
    assert (found["state_bytes"], found["max_state_bytes"]) == (1000, 2000)
    assert (found["persisted_bytes"], found["max_persisted_bytes"]) == (6, 12)
    assert found["sentences"] == [
        "3 of 7 checkpoints completed, in 20 ms (median), 40 ms at most, with 6 bytes of data in "
        "flight persisted on average; 1 expired, 1 declined, 1 aborted, 1 still in progress at the "
        "end."
    ]


def test_quantiles_are_at_flinks_places() -> None:
    """Place p (n + 1) of the sorted values, from 1: of 1 to 199 ms the median is the 100th."""
    taken = made.Taken()
    for number in range(199):
        taken.checkpoint(float(number), "completed", float(199 - number))
    e2e = summary(taken)["e2e"]
    assert (e2e["p50_ms"], e2e["p99_ms"]) == pytest.approx((100, 198))


def test_without_any_checkpoint_there_are_no_figures() -> None:
    found = summary(made.Taken())
    assert (found["e2e"], found["slowest"], found["cause"], found["late"]) == (None,) * 4
    assert found["sentences"] == ["No checkpoint was triggered."]


def test_the_slowest_is_who_most_often_acknowledged_last_with_its_longest_part() -> None:
    taken = made.Taken()
    taken.checkpoint(10, "completed", 30.0).all(*QUICK[:2], (2, 0, 8, 20), QUICK[3])
    taken.checkpoint(20, "completed", 36.0).all(*QUICK[:2], (4, 0, 12, 20), QUICK[3])
    taken.checkpoint(30, "completed", 90.0).all(*QUICK[:3], (90, 0, 0, 0))
    assert summary(taken)["slowest"] == {
        "stage": "map", "subtask": 1, "part": "async", "checkpoints": 2, "e2e_ms": 33.0,
        "start_delay_ms": 3.0, "alignment_ms": 0.0, "sync_ms": 10.0, "async_ms": 20.0,
    }  # fmt: skip


def test_the_wait_for_the_last_barrier_counts_once_where_barriers_overtake() -> None:
    """Unaligned, 10 ms after the trigger: 300 ms async, of which 200 wait for the last barrier."""
    taken = made.Taken().checkpoint(10, "completed", 310.0, persisted_bytes=1)
    taken.task("sink", 0, 10, 200, 0, 300, e2e_ms=310)
    taken.task("map", 0, 10, 20, 30, 40, e2e_ms=105)  # 5 ms until the coordinator knew
    taken.task("map", 1, None, None, None, None, e2e_ms=105)
    rows = task_frame(taken.tables())[list(PARTS)].to_numpy().tolist()
    assert rows == [[10, 200, 0, 100], [10, 20, 30, 40]]


def test_data_in_flight_is_named_with_the_edge_on_which_the_barriers_stood() -> None:
    taken = made.Taken()
    for at_s in (10, 20):
        taken.checkpoint(at_s, "completed", 6000.0)
        taken.all((0, 0, 0, 0), (4000, 0, 0, 0), (4000, 0, 0, 0), (6000, 0, 0, 0))
    found = summary(taken, source_map=(200, 200), map_sink=(100, 100))
    cause = found["cause"]
    assert (cause["kind"], cause["edge"], cause["hop_ms"]) == ("in_flight", "source->map", 4000)
    assert (cause["in_flight_bytes"], cause["blocked"]) == (40_000, 0.8)
    assert found["sentences"][1] == (
        "Data in flight ahead of the barriers makes checkpoints slow: the barriers were on their "
        "way for 6.00 s of the 6.00 s until subtask 0 of sink acknowledged, on average, the last "
        "one in 2 of 2; 4.00 s passed on source->map, which had 39 KiB in flight at the trigger, "
        "while source was blocked 80 % "
        "of the run."
    )


def test_the_level_is_that_of_the_last_sample_before_the_trigger() -> None:
    taken = made.Taken().checkpoint(10.4, "completed", 6000.0)
    taken.all((0, 0, 0, 0), (6000, 0, 0, 0), (0, 0, 0, 0), (6000, 0, 0, 0))
    levels = [0] * 9 + [70] + [900] * 90  # at 1, 2, ... s
    found = summary(taken, source_map=(levels, 0))
    assert found["cause"]["in_flight_bytes"] == 7000


LATE_SENDER = ((0, 0, 0, 0), (5000, 0, 0, 0), (10, 0, 0, 0), (11, 4990, 0, 0))
EVEN = ((0, 0, 0, 0), (10, 0, 0, 0), (10, 0, 0, 0), (11, 4990, 0, 0))


@pytest.mark.parametrize(
    ("parts", "map_sink", "expected"),
    [
        (LATE_SENDER, (0, 0), {"sender": "map", "sender_subtask": 0, "sent_ms": 5000}),
        (EVEN, (10, 500), {"sender": "map", "sender_subtask": 1, "held_bytes": 50_000}),
        (EVEN, (10, 20), None),  # twice the other is no more than what chance gives
        (EVEN, (0, 0), None),
    ],
    ids=["late sender", "full channel", "hardly fuller", "nothing seen"],
)
def test_a_channel_is_named_only_where_its_sender_or_its_data_stands_out(
    parts: Any, map_sink: Any, expected: Any
) -> None:
    taken = made.Taken().checkpoint(10, "completed", 5001.0).all(*parts)
    cause = summary(taken, map_sink=map_sink)["cause"]
    assert cause["kind"] == ("in_flight" if expected is None else "channel")
    assert (expected or {}).items() <= cause.items()
    assert ("sender" in cause) == (expected is not None)


def test_the_sentences_on_a_channel_say_what_shows_it() -> None:
    taken = made.Taken().checkpoint(10, "completed", 5001.0).all(*LATE_SENDER)
    assert (
        "waited 4.99 s for the barrier from subtask 0 of map, which sent it 5.00 s after the "
        "trigger, all others after 10 ms at most"
    ) in summary(taken)["sentences"][1]
    taken = made.Taken().checkpoint(10, "completed", 5001.0).all(*EVEN)
    assert (
        "subtask 1 of map, which stood behind 49 KiB in flight, the others behind 1,000 bytes on "
        "average"
    ) in summary(taken, map_sink=(10, 500))["sentences"][1]


@pytest.mark.parametrize(
    ("parts", "kind", "text"),
    [
        (
            (10, 0, 20, 4000),
            "upload",
            "The upload makes checkpoints slow: writing 3.8 MiB took 4.00 s of",
        ),
        (
            (10, 0, 4000, 20),
            "sync",
            "The synchronous part makes checkpoints slow: it blocked its task",
        ),
        ((1300, 0, 1300, 1400), None, ""),  # no part is more than half
    ],
    ids=["upload", "sync", "nothing dominates"],
)
def test_the_part_that_dominates_is_the_cause(parts: Any, kind: str | None, text: str) -> None:
    taken = made.Taken().checkpoint(10, "completed", sum(parts))
    for stage, subtask in made.SUBTASKS[:3]:
        taken.task(stage, subtask, 1, 0, 0, 0)
    found = summary(taken.task("sink", 0, *parts, state_bytes=4_000_000))
    assert (found["cause"] or {"kind": None})["kind"] == kind
    assert len(found["sentences"]) == 1 + (kind is not None)
    assert found["sentences"][-1].startswith(text)


@pytest.mark.parametrize(
    ("interval", "e2e", "is_named"),
    [("10s", 999.0, False), ("10s", 1001.0, True), ("50ms", 99.0, False), ("50ms", 101.0, True)],
)
def test_a_quick_checkpoint_has_no_cause(interval: str, e2e: float, is_named: bool) -> None:
    """From a tenth of the interval on a checkpoint is slow, but not below 100 ms."""
    taken = made.Taken().checkpoint(10, "completed", e2e).all(*QUICK[:3], (e2e, 0, 0, 0))
    assert (summary(taken, made.scenario(interval))["cause"] is not None) == is_named


def test_who_let_a_checkpoint_expire_is_named_with_the_time_that_the_data_ahead_takes() -> None:
    taken = made.Taken().checkpoint(10, "expired", 9000.0, acknowledged=3)
    for stage, subtask in made.SUBTASKS[:3]:
        taken.task(stage, subtask, 1, 0, 0, 0)
    found = summary(taken, source_map=(300, 300), map_sink=(250, 350))
    assert found["late"] == {
        "stage": "sink", "checkpoints": 1, "in_flight_records": 1200.0, "rate_in": 100.0,
    }  # fmt: skip
    assert found["sentences"] == [
        "0 of 1 checkpoints completed; 1 expired.",
        "The one that expired waited for sink, which had not acknowledged. At the trigger 1,200 "
        "records were in flight on the way to it, and it took up 100 records/s: 12 s, with a "
        "timeout of 9 s.",
    ]


def test_the_time_that_the_data_ahead_takes_is_left_out_where_records_multiply() -> None:
    taken = made.Taken().checkpoint(10, "expired", 9000.0, acknowledged=3)
    for stage, subtask in made.SUBTASKS[:3]:
        taken.task(stage, subtask, 1, 0, 0, 0)
    stages = [{"name": "source", "emit_rate": 100},
              {"name": "map", "parallelism": 2, "selectivity": 3}, {"name": "sink"}]  # fmt: skip
    found = summary(taken, made.scenario(stages=stages), map_sink=(250, 350))
    assert found["sentences"][-1].endswith("on the way to it, and it took up 100 records/s.")


def test_what_barriers_have_overtaken_is_not_what_they_waited_for() -> None:
    taken = made.Taken().checkpoint(10, "completed", 6000.0, persisted_bytes=9)
    taken.all((0, 0, 0, 0), (6000, 0, 0, 0), (0, 0, 0, 0), (6000, 0, 0, 0))
    [_, sentence] = summary(taken, source_map=(200, 200))["sentences"]
    assert sentence == (
        "Although they overtake data, barriers make checkpoints slow: they were on their way for "
        "6.00 s of the 6.00 s until subtask 0 of sink acknowledged; 6.00 s passed on source->map, "
        "while source was blocked 80 % of the run."
    )


@pytest.mark.parametrize(
    ("timeout", "is_named"), [("5999ms", True), ("6s", True), ("6001ms", False)]
)
def test_the_timeout_is_named_if_barriers_overtook_only_after_it(
    timeout: str, is_named: bool
) -> None:
    taken = made.Taken().checkpoint(10, "completed", 6000.0, persisted_bytes=9)
    taken.all((0, 0, 0, 0), (6000, 0, 0, 0), (0, 0, 0, 0), (6000, 0, 0, 0))
    option = "execution.checkpointing."
    options = {f"{option}interval": "10s", f"{option}unaligned.enabled": True,
               f"{option}aligned-checkpoint-timeout": timeout}  # fmt: skip
    [_, sentence] = summary(taken, made.scenario(options=options))["sentences"]
    start = "The aligned-checkpoint-timeout of 6.00 s makes checkpoints slow, as barriers overtake "
    assert sentence.startswith(start) == is_named


def test_only_the_slow_ones_are_looked_at() -> None:
    """Of 10, 20 and 5,000 ms, whose last are different subtasks, the third has a cause."""
    taken = made.Taken()
    taken.checkpoint(10, "completed", 10.0).all(*QUICK[:2], (10, 0, 0, 0), QUICK[3])
    taken.checkpoint(20, "completed", 20.0).all(*QUICK[:2], (20, 0, 0, 0), QUICK[3])
    taken.checkpoint(30, "completed", 5000.0).all(*QUICK[:3], (10, 0, 0, 4990))
    found = summary(taken)
    assert found["slowest"]["stage"] == "map"
    cause = found["cause"]
    assert (cause["kind"], cause["stage"], cause["slow"], cause["last"]) == ("upload", "sink", 1, 1)
    assert (cause["e2e_ms"], cause["part_ms"]) == (5000, 4990)
    assert found["sentences"][1] == (
        "The upload makes 1 of 3 checkpoints slow: writing 0 bytes took 4.99 s of the 5.00 s until "
        "subtask 0 of sink acknowledged."
    )


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((600, 0, 0, 400), "; the upload took another 400 ms."),
        ((600, 0, 400, 0), "; the synchronous part took another 400 ms."),
        ((0, 400, 0, 600), "; the barriers were on their way for another 400 ms."),
        ((799, 0, 0, 201), "; the upload took another 201 ms."),
        ((800, 0, 0, 200), None),
    ],
)
def test_a_second_part_that_took_long_is_named_too(parts: Any, text: str | None) -> None:
    taken = made.Taken().checkpoint(10, "completed", 1000.0).all(*QUICK[:3], parts)
    sentence = summary(taken, made.scenario("1s"))["sentences"][1]
    assert sentence.endswith(text) if text else "another" not in sentence


@pytest.mark.parametrize(("other", "is_named"), [(500, True), (501, False)])
def test_the_other_subtasks_are_named_if_they_were_done_long_before(
    other: int, is_named: bool
) -> None:
    taken = made.Taken().checkpoint(10, "completed", 1000.0)
    taken.all(QUICK[0], (0, 0, 0, 1000), (other, 0, 0, 0), QUICK[3])
    sentence = summary(taken, made.scenario("1s"))["sentences"][1]
    assert (f"(the others of map after {other} ms)" in sentence) == is_named


@pytest.mark.parametrize(("round_ms", "is_named"), [(100, True), (125, True), (126, False)])
def test_what_messages_take_is_not_slow(round_ms: float, is_named: bool) -> None:
    """Trigger, two hops and the acknowledgement, two rounds each: 8 x 125 ms is 1,000 ms."""
    taken = made.Taken().checkpoint(10, "completed", 1001.0).all(*QUICK[:3], (1001, 0, 0, 0))
    found = checkpoint_summary(made.samples() | taken.tables(), made.scenario("1s"), round_ms)
    assert (found["cause"] is not None) == is_named


@pytest.mark.parametrize(
    ("late", "text"),
    [((True,), "The one that"), ((True, True), "All 2 that"), ((True, False), "1 of the 2 that")],
)
def test_how_many_expired_for_one_stage_is_in_words(late: tuple[bool, ...], text: str) -> None:
    taken = made.Taken()
    for number, is_sink in enumerate(late):
        taken.checkpoint(10.0 + 10 * number, "expired", 9000.0, acknowledged=3)
        for stage, subtask in made.SUBTASKS[:3] if is_sink else made.SUBTASKS[1:]:
            taken.task(stage, subtask, 1, 0, 0, 0)
    assert summary(taken)["sentences"][1].startswith(f"{text} expired waited for")


def test_who_reported_after_the_timeout_was_late() -> None:
    taken = made.Taken().checkpoint(10, "expired", 9000.0, acknowledged=3)
    taken.all((1, 0, 0, 0), (1, 0, 0, 0), (9000, 0, 0, 0), (9001, 0, 0, 0))
    assert summary(taken)["sentences"][1].startswith("The one that expired waited for sink, which")


def test_who_was_late_is_not_guessed_where_some_had_finished_before() -> None:
    taken = made.Taken().checkpoint(10, "expired", 9000.0, acknowledged=3)
    taken.task("map", 0, 1, 0, 0, 0)  # of the others two had finished, and one was late
    assert summary(taken)["late"] is None


def test_the_summary_of_a_run_has_them_if_the_run_has() -> None:
    taken = made.Taken().checkpoint(10, "completed", 3.0).all(*QUICK)
    words = {"clock": "virtual", "rounds": 1, "wall_s": 1.0, "round_ms": 1.0}
    with_them = summarise(made.samples() | taken.tables(), made.scenario(), **words)
    assert with_them["checkpoints"]["counts"]["completed"] == 1
    assert "checkpoints" not in summarise(made.samples(), made.scenario(), **words)
