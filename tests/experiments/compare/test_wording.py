"""What a comparison says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowcontrol.analysis.producer_rates import PiledUp, Response
from flowcontrol.experiments.compare.result import compare_columns
from flowcontrol.experiments.compare.run import Compared, Lines, Outcome, Starved
from flowcontrol.experiments.compare.wording import (
    headline,
    reaction_cell,
    starving_sentences,
    system_sentence,
)

DOWN = Response(20, 40, 600, 300, 3.0)
UP = Response(40, 60, 300, 600, 0.0)
AHEAD = Response(60, 80, 600, 300, None, 590, 600)
BELOW = Response(60, 80, 600, 300, None, 90, 100)
SWINGS = Response(60, 80, 600, 300, None, 0, 600)
VALUES = {
    "produced": 1000, "consumed": 980, "of_limit": 0.98, "latency_p50_ms": 10,
    "latency_p99_ms": 20, "peak_records": 1065, "peak_bytes": 1 << 20, "swing": 0.02,
    "ahead": 0.0, "control_per_mb": 12.5, "is_bounded": True, "heap_exhausted_s": None,
    "lag_records": None, "lag_s": None, "lag_end_records": None, "checkpoint_e2e_p50_ms": None,
    "checkpoints_failed": None,
}  # fmt: skip
GOOD = Compared(VALUES, (DOWN, UP))


def changed(figures, **given):
    """Return figures with others in their place."""
    own = {name: given.pop(name) for name in list(given) if name in VALUES}
    return replace(figures, values={**figures.values, **own}, **given)


BAD = changed(
    GOOD, swing=0.97, is_bounded=False, heap_exhausted_s=70.0, changes=(DOWN, UP, AHEAD),
    piled_up={2: PiledUp("a->b", 6000, 3 << 20, False)},
)  # fmt: skip


LAGGING = changed(GOOD, lag_records=221_176, lag_s=28.1, lag_end_records=300)


def ran(name, figures, *starved):
    return Outcome(name, "ran", figures=figures, starved=starved)


def test_a_system_that_does_what_it_should():
    assert system_sentence(ran("flink", GOOD)) == (
        "Delivered 98 % of what the job can carry, kept its producers even (swing 2 %), "
        "followed the slowdown within 3 s and was up again after the release at once. "
        "At most 1,065 records (1 MiB) were in flight; memory was bounded."
    )


def test_a_system_that_does_not():
    assert system_sentence(ran("storm-1", BAD)) == (
        "Delivered 98 % of what the job can carry, let its producers swing widely (97 %), "
        "did not follow the slowdown at 60 s (6,000 records, 3 MiB, piled up at the receiver of "
        "a->b) and was up again after the release at once. At most 1,065 records (1 MiB) were in "
        "flight, until a heap was full at 70 s."
    )


def test_one_that_is_slow_is_not_said_to_run_ahead():
    text = system_sentence(ran("heron", changed(GOOD, changes=(BELOW,), is_bounded=None)))
    assert "stayed below the limit after the slowdown at 60 s" in text
    assert text.endswith("were in flight.")


def test_what_is_not_known_is_not_said():
    bare = changed(GOOD, of_limit=None, swing=None, changes=(), is_bounded=None)
    assert system_sentence(ran("flink", bare)) == (
        "Delivered 980 records. At most 1,065 records (1 MiB) were in flight."
    )


@pytest.mark.parametrize(("state", "word"), [("refused", "Not run"), ("failed", "Failed")])
def test_one_that_did_not_run(state, word):
    assert system_sentence(Outcome("x", state, "because")) == f"{word}: because."


@pytest.mark.parametrize(
    ("changes", "slowdown", "cell"),
    [
        ((), True, "-"),
        ((DOWN,), True, "3 s"),
        ((DOWN,), False, "-"),
        ((UP,), False, "0 s"),
        ((DOWN, replace(DOWN, after_s=7.5)), True, "7.5 s"),
        ((DOWN, AHEAD), True, "above"),
        ((BELOW, SWINGS, AHEAD), True, "above"),
        ((BELOW, SWINGS), True, "swings"),
        ((DOWN, BELOW), True, "below"),
    ],
)
def test_times_in_a_table(changes, slowdown, cell):
    figures = changed(GOOD, changes=changes)
    assert reaction_cell(figures.slowdown if slowdown else figures.release) == cell


@pytest.mark.parametrize(("is_bounded", "cell"), [(None, "-"), (True, "yes"), (False, "no")])
def test_memory_in_a_table(is_bounded, cell):
    column = next(column for column in compare_columns() if column.title == "Memory bounded")
    assert column.cell(changed(GOOD, is_bounded=is_bounded)) == cell


def test_the_headline_praises_only_who_keeps_to_the_limit():
    """The one that never follows is the steadiest of all, and that is no merit."""
    deaf = changed(BAD, swing=0.0)
    slow = changed(GOOD, of_limit=0.2, changes=(BELOW,))
    outcomes = [ran("flink", GOOD), ran("unbounded", deaf), ran("heron", slow)]
    ahead = changed(GOOD, changes=(), ahead=0.11)
    assert headline([ran("flink", GOOD), ran("x", ahead)]).endswith("Ran ahead: x.")
    outcomes += [Outcome("pulsar", "refused", "why"), Outcome("arroyo", "failed", "why")]
    assert headline(outcomes) == (
        "1 of 3 keep to the limit; of these steadiest flink (2 %), quickest to follow flink (3 s), "
        "least in flight flink (1,065 records). Ran ahead: unbounded. "
        "Less than 90 % of the limit: heron. Not run: pulsar. Failed: arroyo."
    )


def test_where_sources_read_logs_the_words_say_how_far_they_fell_behind():
    assert (
        "after the release at once. Its sources fell 221,176 records, 28 s behind their logs, 300 "
        "at the end. At most 1,065 records" in system_sentence(ran("flink", LAGGING))
    )
    outcomes = [ran("flink", LAGGING), ran("storm-1", changed(LAGGING, lag_records=234_400))]
    assert headline(outcomes).endswith(", least behind the log flink (221,176 records, 28 s).")


def test_one_system_alone_is_not_compared():
    text = headline([ran("flink", GOOD), Outcome("pulsar", "refused", "why")])
    assert text == "Only flink was run. Not run: pulsar."


SHARED = Starved("b3", 0.3, 1.0, 0.7, "road", "a1", "b4", "the connection from task manager 0 to 1")
WAITS = Starved("b [0]", 0.4, 0.38, 0.6, "producer", "a", "b [1]", "")


def test_a_road_that_is_shared():
    outcomes = [ran("flink-1.4", GOOD, SHARED), ran("flink", GOOD)]
    assert starving_sentences(outcomes) == [
        "b3 starved: of what it could take up by itself, it got 30 % under flink-1.4. The job can "
        "carry 100 % of it, but the records came through the connection from task manager 0 to 1 "
        "behind those of b4, which was slow. Under flink it did not starve."
    ]


def test_sources_that_are_all_held_back():
    stopped = replace(SHARED, cause="throttle", shared="")
    (text,) = starving_sentences([ran("storm-1", GOOD, stopped), ran("flink", GOOD)])
    assert "but all sources are held back because of b4, whomever they feed." in text
    assert text.endswith("Under flink it did not starve.")


def test_who_starves_for_another_reason_is_not_said_not_to():
    stopped = replace(SHARED, cause="throttle", shared="")
    outcomes = [ran("flink-1.4", GOOD, SHARED), ran("storm-1", GOOD, stopped), ran("flink", GOOD)]
    assert [text.rpartition(". ")[2] for text in starving_sentences(outcomes)] == [
        "Under flink it did not starve."
    ] * 2


def test_a_producer_that_waits():
    other = replace(WAITS, name="b [2]")
    outcomes = [ran("flink-1.4", GOOD, WAITS, other), ran("flink", GOOD, WAITS, other)]
    outcomes += [ran("storm-1", GOOD, replace(WAITS, share=0.5))]
    assert starving_sentences(outcomes) == [
        "b [0] and b [2] starved: of what each of them could take up by itself, it got 40 % under "
        "flink-1.4, flink; 50 % under storm-1. a feeds each of them as well as b [1], and waits "
        "for b [1] with the next record in its hand: what others could take meanwhile is not "
        "made. Credits keep channels apart on the network, not in the one task that feeds them; "
        "at the limit of this job each of them gets 38 %, whatever moves the records."
    ]


def test_of_many_shares_the_ends_are_named():
    names = ["flink", "storm-1", "heron", "pulsar"]
    shares = [0.4, 0.9, 0.2, 0.5]
    outcomes = [
        ran(name, GOOD, replace(WAITS, share=share))
        for name, share in zip(names, shares, strict=True)
    ]
    (text,) = starving_sentences(outcomes)
    assert "it got from 20 % under heron to 90 % under storm-1, 4 systems in all." in text


def test_who_swings_after_a_slowdown_is_said_to():
    text = system_sentence(ran("storm-1", changed(GOOD, changes=(SWINGS,))))
    assert "went up and down after the slowdown at 60 s" in text


def test_who_runs_ahead_without_a_change_is_said_to():
    text = system_sentence(ran("heron", changed(GOOD, changes=(), ahead=1.0)))
    assert "let its producers run ahead of the limit (by 100 %)" in text


def test_nobody_starves():
    assert starving_sentences([ran("flink", GOOD)]) == []


def test_an_outcome_survives_the_way_to_the_driver():
    lines = Lines([1.0], [2.0], [3.0], [4.0])
    whole = replace(ran("storm-1", BAD, SHARED), lines=lines, rounds=7, round_ms=0.1, wall_s=2.5)
    assert Outcome.from_json(whole.to_json()) == whole
    refused = Outcome("x", "refused", "because")
    assert Outcome.from_json(refused.to_json()) == refused
