"""The stage that limits, in jobs whose answer is known."""

from __future__ import annotations

import itertools
from textwrap import wrap
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.analysis import Bottleneck, find_bottleneck
from flowcontrol.analysis.causes import find_causes
from flowcontrol.analysis.limits import find_limits
from modules import load

builder = load("tests/analysis/builder.py")

CHAIN = {"source": {"emit_rate": 10000}, "middle": {}, "sink": {}}
CHAIN_EDGES = ["source->middle", "middle->sink"]
TIMES = [5.0 * n for n in range(1, 21)]


def busy(ms_per_s: object, blocked: object = 0) -> dict[str, object]:
    """Return the time shares of a stage; what is left is idle."""
    return {"busy_ms_per_s": ms_per_s, "backpressured_ms_per_s": blocked}


def test_nothing_blocked_means_the_source_sets_the_pace() -> None:
    job = builder.scenario("free", CHAIN, CHAIN_EDGES)
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(30), rate_out=6000)
        .stage("middle", **busy(250))
        .stage("sink", **busy(500))
    )
    found = find_bottleneck(results.tables(), job)
    assert (found.stage, found.edge, found.limited_s) == (None, None, 0.0)
    assert found.sentence == (
        "No bottleneck: source set the pace at its own rate, 6,000 records/s on average; sink, the "
        "busiest stage after it, was busy 50 % of the time."
    )
    assert found.details == ()


def test_the_sink_limits_and_everything_before_it_is_blocked() -> None:
    job = builder.scenario("sink", CHAIN, CHAIN_EDGES)
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(100, 700))
        .stage("middle", **busy(300, 690))
        .stage("sink", **busy(995))
    )
    found = find_bottleneck(results.tables(), job)
    assert (found.stage, found.subtasks, found.limited_s) == ("sink", (), 100.0)
    assert found.sentence == (
        "Bottleneck: sink — it was busy 100 % of the time in all 100 s, while source and middle "
        "were blocked 70 % and 69 %; give sink more parallelism or speed."
    )


def test_the_middle_limits_although_the_sink_is_busy_too() -> None:
    job = builder.scenario("middle", CHAIN, CHAIN_EDGES)
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(100, 600))
        .stage("middle", **busy(1000))
        .stage("sink", **busy(950))
    )
    found = find_bottleneck(results.tables(), job)
    assert found.stage == "middle"
    assert "source was blocked 60 %" in found.sentence


def test_a_stage_that_is_blocked_itself_only_passes_the_pressure_on() -> None:
    job = builder.scenario("passes", CHAIN, CHAIN_EDGES)
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(100, 600))
        .stage("middle", **busy(880, 120))
        .stage("sink", **busy(870))
    )
    assert find_bottleneck(results.tables(), job).stage == "sink"


def test_a_bottleneck_of_some_phases_is_named_with_its_time() -> None:
    job = builder.scenario("phases", {"source": {}, "sink": {}}, ["source->sink"])
    slow = [20 < t <= 40 or 60 < t <= 80 for t in TIMES]
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(30, [470 if s else 0 for s in slow]))
        .stage("sink", **busy([980 if s else 400 for s in slow]))
    )
    found = find_bottleneck(results.tables(), job)
    assert (found.stage, found.limited_s, found.total_s) == ("sink", 40.0, 100.0)
    assert found.detail()["share_of_run"] == 0.4
    assert found.sentence == (
        "Bottleneck: sink — it was busy 98 % of the time in 40 of 100 s, while source was "
        "blocked 47 %; give sink more parallelism or speed."
    )


def test_of_two_that_limit_in_turn_the_longer_is_named_and_the_other_mentioned() -> None:
    job = builder.scenario("turns", CHAIN, CHAIN_EDGES)
    first = [t <= 60 for t in TIMES]
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(10, 500))
        .stage(
            "middle", **busy([1000 if f else 200 for f in first], [0 if f else 600 for f in first])
        )
        .stage("sink", **busy([200 if f else 1000 for f in first]))
    )
    found = find_bottleneck(results.tables(), job)
    assert (found.stage, found.limited_s) == ("middle", 60.0)
    assert found.details == ("Also, sink limited for another 40 s.",)


LOWERED = [{"at_s": 0, "rate": 9}, {"at_s": 20, "rate": 3}, {"at_s": 45, "rate": 9}]
RAISED = [{"at_s": 0, "rate": 3}, {"at_s": 45, "rate": 9}]
HARDLY = [{"at_s": 0, "rate": 9}, {"at_s": 43, "rate": 3}, {"at_s": 45, "rate": 9}]


@pytest.mark.parametrize(
    ("slowed", "begins_s", "stage"),
    [
        ({}, 45, "middle"),
        ({"service_rate": LOWERED}, 45, "sink"),
        ({"service_rate": LOWERED}, 0, "middle"),  # limits before the sink is slowed, too
        ({"service_rate": RAISED}, 45, "middle"),
        ({"service_rate": HARDLY}, 45, "middle"),  # for less than 5 % of the run
        ({"stalls": [{"at_s": 20, "for_s": 25}]}, 45, "sink"),
        ({"stalls": [{"at_s": 50, "for_s": 25}]}, 45, "middle"),
    ],
    ids=str,
)
def test_a_slowed_stage_comes_before_what_works_its_backlog_off(
    slowed: dict[str, Any], begins_s: float, stage: str
) -> None:
    job = builder.scenario("turns", {**CHAIN, "sink": slowed}, CHAIN_EDGES)
    of_sink = [20 < t <= 45 for t in TIMES]
    of_middle = [t > 45 or begins_s < t <= 20 for t in TIMES]
    blocked = [500 * (t > 20 or begins_s < t) for t in TIMES]
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(10, blocked))
        .stage("middle", **busy([1000 * now for now in of_middle], [900 * now for now in of_sink]))
        .stage("sink", **busy([1000 if now else 200 for now in of_sink]))
    )
    assert find_bottleneck(results.tables(), job).stage == stage


def skewed(
    builder: ModuleType, figures: list[tuple[float, float]], *, rate_in: float = 250
) -> Bottleneck:
    """Judge a sink whose subtasks are so busy (ms/s) with so many records in flight to each."""
    keys = {"source": {}, "sink": {"parallelism": len(figures)}}
    job = builder.scenario("skew", keys, ["source->sink"])
    results = builder.Results(TIMES).stage("source", **busy(10, 800))
    for subtask, (share, waiting) in enumerate(figures):
        results.stage("sink", subtask, **busy(share), rate_in=rate_in)
        results.channel("source->sink", 0, subtask, in_flight_records=waiting)
    found: Bottleneck = find_bottleneck(results.tables(), job)
    assert found.stage == "sink"
    return found


def test_one_slow_subtask_is_named() -> None:
    found = skewed(builder, [(100, 10), (100, 10), (1000, 970), (100, 10)])
    assert found.subtasks == (2,)
    assert found.sentence == (
        "Bottleneck: subtask 2 of sink — it was busy 100 % of the time in all 100 s, while source "
        "was blocked 80 %."
    )
    assert found.details == (
        "It got no more records than the others: speed it up or send it less.",
        "The other 3 subtasks were busy 10 %; 97 % of the records in flight to sink waited for "
        "subtask 2.",
    )


def test_one_overloaded_subtask_is_told_from_a_slow_one() -> None:
    job = builder.scenario("keys", {"source": {}, "sink": {"parallelism": 2}}, ["source->sink"])
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(10, 800))
        .stage("sink", 0, **busy(1000), rate_in=900)
        .stage("sink", 1, **busy(110), rate_in=100)
        .channel("source->sink", 0, 0, in_flight_records=500)
        .channel("source->sink", 0, 1)
    )
    found = find_bottleneck(results.tables(), job)
    assert found.subtasks == (0,)
    assert found.details[0] == "It got 90 % of the records: spread the keys more evenly."
    assert found.details[1].startswith("The other subtask was busy 11 %; 100 % of the records")


def test_two_hot_subtasks_of_five() -> None:
    slow, quick = (990, 400), (300, 20)
    found = skewed(builder, [quick, slow, quick, quick, slow])
    assert found.subtasks == (1, 4)
    assert "subtasks 1 and 4 of sink — they were busy 99 %" in found.sentence
    assert "93 % of the records in flight to sink waited for subtasks 1 and 4" in found.details[1]
    assert "They got no more records than the others: speed them up" in found.details[0]


def test_a_busy_subtask_for_which_nothing_waits_is_innocent() -> None:
    """81 % busy with a pool of 12 %, beside one that is always busy with a full one."""
    quick = (330, 28)
    found = skewed(builder, [(667, 35), (811, 90), quick, (190, 25), (1000, 742), quick])
    assert found.subtasks == (4,)
    assert found.sentence.startswith("Bottleneck: subtask 4 of sink — it was busy 100 %")


@pytest.mark.parametrize(
    ("share", "waiting", "named"),
    [
        (899, 800, False),  # not near the top, whatever waits
        (900, 400, True),  # near the top, with half of what the other has
        (900, 399, False),
        (994, 399, False),
        (995, 399, True),  # never idle: it can do no more either
        (995, 0, False),  # nothing waits, so it keeps up
        (1000, 1, True),
    ],
)
def test_what_makes_a_second_subtask_limit(share: int, waiting: int, named: bool) -> None:
    found = skewed(builder, [(1000, 800), (share, waiting), *[(200, 5)] * 4])
    assert found.subtasks == ((0, 1) if named else (0,))


@pytest.mark.parametrize(("others", "named"), [(850, True), (851, False), (899, False)])
def test_others_without_time_to_spare_are_the_stage(others: int, named: bool) -> None:
    found = skewed(builder, [(1000, 500), (others, 10), (others, 10)])
    assert found.subtasks == ((0,) if named else ())


def test_when_most_of_them_limit_it_is_the_stage() -> None:
    assert skewed(builder, [(1000, 500), (1000, 500), (100, 1)]).subtasks == ()
    assert skewed(builder, [(1000, 500), (1000, 500), (100, 1), (100, 1)]).subtasks == (0, 1)


@pytest.mark.parametrize("others", [760, 900, 1000])
def test_subtasks_are_not_told_apart_by_their_busy_time_alone(others: int) -> None:
    assert skewed(builder, [(1000, 0), (others, 0), (others, 0)]).subtasks == ()
    if others > 760:
        assert skewed(builder, [(1000, 9), (others, 9), (others, 9)]).subtasks == ()


def test_what_waits_is_added_up_over_all_edges_into_the_stage() -> None:
    keys = {"left": {}, "right": {}, "sink": {"parallelism": 3}}
    job = builder.scenario("join", keys, ["left->sink", "right->sink"])
    results = builder.Results(TIMES).stage("left", **busy(10, 800)).stage("right", **busy(10, 0))
    for subtask, waiting in enumerate((300, 260, 20)):
        results.stage("sink", subtask, **busy(1000 if subtask == 0 else 930 - 600 * (subtask == 2)))
        results.channel("left->sink", 0, subtask, in_flight_records=waiting)
        results.channel("right->sink", 0, subtask, in_flight_records=300 if subtask == 0 else 0)
    found = find_bottleneck(results.tables(), job)
    assert found.subtasks == (0,)  # 260 are less than half of 600
    assert "68 % of the records in flight to sink waited for subtask 0" in found.details[1]


def test_fan_in_names_the_stage_where_the_sources_meet() -> None:
    job = builder.scenario(
        "fan-in", {"left": {}, "right": {}, "join": {}, "sink": {}},
        ["left->join", "right->join", "join->sink"],
    )  # fmt: skip
    results = (
        builder.Results(TIMES)
        .stage("left", **busy(10, 600))
        .stage("right", **busy(10, 0))
        .stage("join", **busy(1000))
        .stage("sink", **busy(300))
    )
    found = find_bottleneck(results.tables(), job)
    assert found.stage == "join"
    assert "while left was blocked 60 %" in found.sentence


def test_fan_out_blames_the_branch_that_blocks() -> None:
    job = builder.scenario(
        "fan-out", {"source": {}, "slow": {}, "quick": {}}, ["source->slow", "source->quick"]
    )
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(10, 900))
        .stage("slow", **busy(1000))
        .stage("quick", **busy(50))
    )
    assert find_bottleneck(results.tables(), job).stage == "slow"


def test_an_exchange_with_too_few_buffers_is_told_from_a_slow_stage() -> None:
    job = builder.scenario("window", {"source": {}, "sink": {}}, ["source->sink"])
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(10, 300))
        .stage("sink", **busy(580))
        .channel("source->sink", backlog=9, credit=0, queued=0)
    )
    found = find_bottleneck(results.tables(), job)
    assert (found.stage, found.edge) == (None, "source->sink")
    assert found.sentence.startswith(
        "Bottleneck: the exchange source->sink — source was blocked 30 % of the time in all 100 s, "
        "although sink was busy only 58 %."
    )
    assert found.details[0] == "Its buffers are too few for one round trip."


def test_the_same_with_full_queues_is_the_stage() -> None:
    job = builder.scenario("window", {"source": {}, "sink": {}}, ["source->sink"])
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(10, 300))
        .stage("sink", **busy(580))
        .channel("source->sink", backlog=9, credit=0, queued=10)
    )
    assert find_bottleneck(results.tables(), job).stage == "sink"


def test_blocked_for_longer_than_anybody_was_busy_is_the_exchange() -> None:
    job = builder.scenario("idle", {"source": {}, "sink": {}}, ["source->sink"])
    results = builder.Results(TIMES).stage("source", **busy(10, 700)).stage("sink", **busy(200))
    assert find_bottleneck(results.tables(), job).edge == "source->sink"


@pytest.mark.parametrize(("samples", "named"), [(0, False), (4, False), (5, True), (6, True)])
def test_a_limit_of_less_than_a_twentieth_of_the_run_is_no_bottleneck(
    samples: int, named: bool
) -> None:
    job = builder.scenario("start", {"source": {}, "sink": {}}, ["source->sink"])
    limited = [n < samples for n in range(100)]
    results = (
        builder.Results([n + 1.0 for n in range(100)])
        .stage("source", **busy(10, [500 if now else 0 for now in limited]))
        .stage("sink", **busy([1000 if now else 100 for now in limited]))
    )
    found = find_bottleneck(results.tables(), job)
    assert (found.stage == "sink") is named
    if samples == 4:
        assert found.details == ("sink limited for 4 of 100 s.",)


@pytest.mark.parametrize(
    ("blocked", "stage"), [(19, None), (20, None), (21, "sink"), (100, "sink"), (101, "sink")]
)
def test_little_pressure_counts_when_a_stage_is_saturated(blocked: int, stage: str | None) -> None:
    job = builder.scenario("edge", {"source": {}, "sink": {}}, ["source->sink"])
    results = (
        builder.Results(TIMES).stage("source", **busy(980, blocked)).stage("sink", **busy(900))
    )
    assert find_bottleneck(results.tables(), job).stage == stage


@pytest.mark.parametrize(("blocked", "stage"), [(100, None), (101, "sink")])
def test_little_pressure_does_not_count_when_none_is(blocked: int, stage: str | None) -> None:
    job = builder.scenario("edge", {"source": {}, "sink": {}}, ["source->sink"])
    results = (
        builder.Results(TIMES).stage("source", **busy(980, blocked)).stage("sink", **busy(899))
    )
    assert find_bottleneck(results.tables(), job).stage == stage


def test_no_sample_at_all() -> None:
    job = builder.scenario("none", {"source": {}, "sink": {}}, ["source->sink"])
    found = find_bottleneck(builder.Results([]).tables(), job)
    assert found.stage is None
    assert found.sentence == ("No bottleneck can be named: the run ended before its first sample.")
    assert found.detail()["share_of_run"] == 0.0


def test_more_than_three_blocked_stages_are_counted() -> None:
    names = ["a", "b", "c", "d", "sink"]
    edges = ["a->b", "b->c", "c->d", "d->sink"]
    job = builder.scenario("long", {name: {} for name in names}, edges)
    results = builder.Results(TIMES).stage("sink", **busy(1000))
    for index, name in enumerate(names[:-1]):
        results.stage(name, **busy(10, 900 - 100 * index))
    assert "while 4 stages before it were blocked, a the most, 90 %;" in (
        find_bottleneck(results.tables(), job).sentence
    )


@given(limiting=st.integers(1, 5), length=st.integers(2, 6), blocked=st.integers(101, 990))
def test_in_any_chain_the_first_busy_stage_below_the_blocked_ones(
    limiting: int, length: int, blocked: int
) -> None:
    limiting = min(limiting, length - 1)
    names = [f"s{n}" for n in range(length)]
    job = builder.scenario(
        "chain", {name: {} for name in names},
        [f"{a}->{b}" for a, b in itertools.pairwise(names)],
    )  # fmt: skip
    results = builder.Results([1.0, 2.0])
    for index, name in enumerate(names):
        upstream = index < limiting
        share = (
            busy(1000 - blocked, blocked) if upstream else busy(1000 if index == limiting else 950)
        )
        results.stage(name, **share)
    assert find_bottleneck(results.tables(), job).stage == names[limiting]


@pytest.mark.parametrize("kind", ["blocking", "sort_merge", "hybrid_full", "hybrid_selective"])
@pytest.mark.parametrize("reader", [0, 500, 995])
def test_the_disk_limits_whoever_reads(kind: str, reader: int) -> None:
    job = builder.scenario("disk", CHAIN, CHAIN_EDGES)
    first, last = job.edges
    job = job.model_copy(
        update={"edges": (first, last.model_copy(update={"partition_type": kind}))}
    )
    results = (
        builder.Results(TIMES)
        .stage("source", **busy(100, 700))
        .stage("middle", **busy(300, 690))
        .stage("sink", **busy(reader))
    )
    found = find_bottleneck(results.tables(), job)
    assert (found.stage, found.edge, found.limited_s) == (None, "middle->sink", 100.0)
    for text in ("the disk behind middle->sink", "69 % of the time"):
        assert text in found.sentence
    assert found.details[0].startswith(f"Its result partition ({kind}) is written to disk")
    assert found.details[1].startswith("Raise cluster.disk_bytes_per_s,")


@pytest.mark.parametrize("blocked", [90, 101, 110, 200, 300, 450])
@pytest.mark.parametrize("after", [300, 1000])
def test_a_stage_at_work_behind_full_inputs_limits_however_long_it_is_blocked(
    blocked: int, after: int
) -> None:
    made = builder.Results([1, 2, 3, 4]).stage("source", backpressured_ms_per_s=930)
    made.stage("map", backpressured_ms_per_s=850, busy_ms_per_s=150, out_pool_usage=1)
    own = {"in_pool_usage": 1, "out_pool_usage": 0.3}
    made.stage("third", backpressured_ms_per_s=blocked, busy_ms_per_s=1000 - blocked, **own)
    tables = made.stage("sink", busy_ms_per_s=after, in_pool_usage=0.3).tables()
    stages: dict[str, object] = {"source": {}, "map": {}, "third": {}, "sink": {}}
    scenario = builder.scenario("s", stages, ["source->map", "map->third", "third->sink"])
    assert find_bottleneck(tables, scenario).stage == ("third" if after == 300 else "sink")


@pytest.mark.parametrize("round_us", [None, 100_000])
def test_subtasks_that_wait_for_a_barrier_of_the_busy_one_are_no_exchange_that_limits(
    round_us: int | None,
) -> None:
    """A hot subtask is behind, and with it its barrier; the others stand before full channels."""
    keys = {"source": {}, "map": {"parallelism": 3}, "count": {"parallelism": 3}}
    job = builder.scenario("aligned", keys, ["source->map", "map->count"])
    made = builder.Results(TIMES).stage("source", **busy(100, 850))
    made.stage("map", 0, **busy(1000), in_pool_usage=1, out_pool_usage=0.2, rate_in=800)
    for subtask in (1, 2):
        made.stage("map", subtask, **busy(450, 450), in_pool_usage=0.1, rate_in=500)
    for receiver in range(3):
        made.stage("count", receiver, **busy(350), idle_ms_per_s=650, input_queue_buffers=8)
        made.channel("source->map", 0, receiver, in_flight_records=900 * (receiver == 0))
        for sender in (1, 2):
            made.channel("map->count", sender, receiver, backlog=9, in_flight_records=20)
    tables = made.tables()
    found = find_bottleneck(tables, job, round_us=round_us)
    assert (found.stage, found.subtasks) == ("map", (0,))
    limits = find_limits(tables, job, round_us)
    assert all(names == ["map"] for _, names in limits)
    assert [(one.stage, one.subtask) for one in find_causes(tables, job, limits)] == [("map", 0)]


@given(
    names=st.lists(
        st.text("abcdefgh", min_size=1, max_size=14), min_size=3, max_size=6, unique=True
    ),
    limiting=st.integers(1, 5),
    external=st.booleans(),
)
def test_the_sentence_takes_two_lines_and_nothing_is_left_out(
    names: list[str], limiting: int, external: bool
) -> None:
    limiting = min(limiting, len(names) - 1)
    own = {names[limiting]: {"external": True, "total_rate": 100}} if external else {}
    edges = [f"{a}->{b}" for a, b in itertools.pairwise(names)]
    job = builder.scenario("chain", {name: own.get(name, {}) for name in names}, edges)
    results = builder.Results([1.0, 2.0])
    for index, name in enumerate(names):
        share = busy(1000 if index == limiting else 100, 900 if index < limiting else 0)
        results.stage(name, **share)
    found = find_bottleneck(results.tables(), job)
    assert found.stage == names[limiting]
    assert len(wrap(found.sentence, 80)) <= 2
    whole = " ".join((found.sentence, *found.details))
    assert "blocked" in whole
    assert ("sets the pace" if external else "more parallelism or speed") in whole
