"""An aggregation of Spark's: what it refuses, which batches run, what holds for any rows."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowcontrol.spec import SparkAggregation
from flowcontrol.spec.spark_aggregation import LONGEST, Group, MicroBatch, MicroBatches
from modules import load

cases: Any = load("tests/spec/spark_time/cases.py")
plain: Any = load("tests/spec/spark_time/plain.py")

TUMBLING = ("tumbling", 10)

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "append without a watermark": ({"delay": None}, "mode is 'append' without a watermark"),
    "a mode that there is not": ({"mode": "retract"}, "mode is 'retract'"),
    "a policy that there is not": ({"policy": "mean"}, "policy is 'mean'"),
    "sessions in update mode": ({"window": ("session", 5), "mode": "update"}, "'update'"),
    "a negative delay": ({"delay": -1}, "delay is -1 ms: needs 0 to"),
    "a negative delay of one input": ({"delay": (0, -1)}, "delay of input 1 is -1 ms"),
    "half a millisecond": ({"delay": 0.5}, "delay is 0.5: needs whole milliseconds"),
    "a truth value": ({"delay": True}, "delay is True: needs whole milliseconds"),
    "a text": ({"delay": "5"}, "delay is '5'"),
    "a delay beyond 64 bits": ({"delay": LONGEST + 1}, f"needs 0 to {LONGEST}"),
    "no delays": ({"delay": ()}, "delay is empty"),
    "no delay of one input": ({"delay": (0, None)}, "delay of input 1 is None"),
    "no window": ({"window": ()}, r"window is \(\)"),
    "a name alone": ({"window": "tumbling"}, "window is 'tumbling'"),
    "a kind that there is not": ({"window": ("global",)}, "window is 'global'"),
    "a window without a size": ({"window": ("tumbling",)}, "tumbling has 0 numbers"),
    "too many numbers": ({"window": ("session", 5, 5)}, "session has 2 numbers"),
    "sliding without a slide": ({"window": ("sliding", 10)}, "sliding has 1 numbers"),
    "a size of 0": ({"window": ("tumbling", 0)}, "size of the window is 0 ms: needs 1"),
    "a slide of 0": ({"window": ("sliding", 10, 0)}, "slide of the window is 0 ms: needs 1"),
    "a slide above the size": ({"window": ("sliding", 10, 11)}, "needs at most its size, 10"),
    "an offset of a slide": ({"window": ("sliding", 10, 5, 5)}, "offset .* is 5 ms: needs -4 to 4"),
    "a negative one": ({"window": ("tumbling", 10, -10)}, "offset .* is -10 ms: needs -9 to 9"),
    "a gap that is not a number": ({"window": ("session", "5 s")}, "gap of the session is '5 s'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    changes, message = REFUSED[name]
    arguments: dict[str, Any] = {"delay": 0, "window": TUMBLING} | changes
    with pytest.raises(ValueError, match=message):
        SparkAggregation(**arguments)


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "a time that is not a number": (([1], ["late"]), "time of row 0 of input 1 is 'late'"),
    "a truth value": (([1], [True]), "time of row 0 of input 1 is True"),
    "a time beyond 64 bits": (([1], [2, LONGEST + 1]), "time of row 1 of input 1"),
    "a row of three": (([1], [(1, "a", 2)]), r"row 0 of input 1 is \(1, 'a', 2\): needs a time"),
    "a key that is none": (([1], [(1, [])]), r"key of row 0 of input 1 is \[\]"),
    "an input too many": (([1], [], []), "rows of 3 inputs: the query has 2"),
    "an input too few": (([1],), "rows of 1 inputs: the query has 2"),
}


@pytest.mark.parametrize("delay", [0, (0, 0)])
@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_change_nothing(name: str, delay: Any) -> None:
    rows, message = BAD_ROWS[name]
    query = SparkAggregation(delay, TUMBLING)
    query.batch([1, 15], [15])
    with pytest.raises(ValueError, match=message):
        query.batch(*rows)
    assert (query.watermark, query.dropped, query.state_rows) == (15, 0, 2)
    assert query.batch([2], []) == [(0, 10, None, 2)]  # late from now on


def test_a_gap_that_is_no_number_changes_nothing() -> None:
    query = SparkAggregation(0, ("session", {"a": 10, "b": "long"}.__getitem__))
    query.batch([(1, "a")])
    with pytest.raises(ValueError, match="gap of key 'b' is 'long'"):
        query.batch([(2, "a"), (2, "b")])
    assert (query.watermark, query.state_rows) == (1, 1)


def test_inputs_are_known_from_the_first_rows_on() -> None:
    query = SparkAggregation(0, TUMBLING)
    assert query.batch() == []
    query.batch([5], [7])
    assert query.watermark == 5
    with pytest.raises(ValueError, match="rows of 1 inputs: the query has 2"):
        query.batch([9])


def test_numbers_of_other_kinds_are_numbers() -> None:
    import numpy as np

    query = SparkAggregation(np.int64(3), ("tumbling", np.int32(10)), "update")
    (group,) = query.batch(np.array([13, 14]))
    assert group == (10, 20, None, 2)
    assert query.watermark == 11


def test_a_row_may_be_a_list() -> None:
    query = SparkAggregation(None, TUMBLING, "update")
    assert query.batch([[1, "a"], (2, "a")]) == [(0, 10, "a", 2)]


def test_the_longest_times_stay_in_64_bits() -> None:
    query = SparkAggregation(LONGEST, ("sliding", LONGEST, LONGEST - 1), "complete")
    groups = query.batch([-LONGEST, LONGEST])
    assert query.watermark == 0
    assert all(abs(number) < 1 << 63 for group in groups for number in group[:2])


def test_a_trigger_without_data_runs_only_what_is_needed() -> None:
    batches = MicroBatches(SparkAggregation(0, TUMBLING))
    assert batches.trigger() is None
    assert batches.trigger([1, 12]) == MicroBatch(0, 0, [], 0, 2)
    assert batches.trigger() == MicroBatch(1, 12, [Group(0, 10, None, 1)], 0, 1)
    assert batches.trigger() is None
    # Data came, without rows: a batch all the same.
    assert batches.trigger([]) == MicroBatch(2, 12, [], 0, 1)
    assert batches.trigger([2]) == MicroBatch(3, 12, [], 1, 1)


def test_batches_without_data_come_after_all_data() -> None:
    done = MicroBatches(SparkAggregation(0, TUMBLING)).run_available([[[1]], [[12]], [[25]]])
    assert [batch.watermark for batch in done] == [0, 1, 12, 25]
    assert [batch.answer for batch in done] == [*([], []), [(0, 10, None, 1)], [(10, 20, None, 1)]]


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_which_modes_have_batches_without_data(mode: str) -> None:
    query = SparkAggregation(0, TUMBLING, mode)
    query.batch([1, 12])
    assert query.needs_no_data_batch == (mode == "update")


TIMES = st.integers(-50, 120)
ROWS = st.lists(st.tuples(TIMES, st.sampled_from(["a", "b", None])), max_size=8)


@st.composite
def panes(draw: Any) -> tuple[int, int, int]:
    """Size, slide and offset of windows."""
    slide = draw(st.integers(1, 20))
    return slide + draw(st.integers(0, 20)), slide, draw(st.integers(1 - slide, slide - 1))


@st.composite
def inputs_of_batches(draw: Any) -> list[list[list[tuple[int, Any]]]]:
    """Batches of one to three inputs."""
    number = draw(st.integers(1, 3))
    return draw(st.lists(st.lists(ROWS, min_size=number, max_size=number), max_size=8))


@given(inputs_of_batches(), panes(), st.integers(0, 30), st.booleans())
@example([[[(5, "a")]], [[(99, "a")]], [[(5, "a")]], [[(5, "a")]]], (10, 5, 0), 0, True)
def test_each_row_is_in_its_windows_or_dropped(
    batches: Any, pane: tuple[int, int, int], delay: int, is_multiple: bool
) -> None:
    """Worked out from the watermarks of the batches alone."""
    size, slide, offset = pane
    query = SparkAggregation(delay, ("sliding", *pane), policy="max", multiple=is_multiple)
    done = MicroBatches(query).run_available(batches)
    used = [batch.watermark for batch in done]
    assert all(before <= after for before, after in pairwise(used))
    wanted = [Counter[tuple[Any, ...]]() for _ in done]
    held, dropped = Counter[tuple[Any, ...]](), 0
    for number, batch in enumerate(batches):
        late = used[max(0, number - is_multiple)]
        missed = set()
        for time, key in (row for rows in batch for row in rows):
            for start in range(time - size + 1, time + 1):
                if (start - offset) % slide == 0:
                    end = start + size
                    over = [at for at in range(number, len(used)) if used[at] >= end]
                    if end <= late:
                        missed.add((start, key))
                    elif over:
                        wanted[over[0]][start, end, key] += 1
                    else:
                        held[start, end, key] += 1
        dropped += len(missed)
    assert [Counter({group[:3]: group.rows for group in batch.answer}) for batch in done] == wanted
    assert (query.dropped, query.state_rows) == (dropped, len(held))


@given(inputs_of_batches(), st.integers(1, 30))
def test_sessions_are_the_rows_a_gap_apart(batches: Any, gap: int) -> None:
    query = SparkAggregation(None, ("session", gap), "complete")
    answer = query.batch(*([] for _ in range(len(batches[0]) if batches else 1)))
    for batch in batches:
        answer = query.batch(*batch)
    times = dict[Any, list[int]]()
    for time, key in sorted(
        (row for batch in batches for rows in batch for row in rows), key=lambda row: row[0]
    ):
        times.setdefault(key, []).append(time)
    wanted = set[tuple[Any, ...]]()
    for key, found in times.items():
        first = [0, *(at for at in range(1, len(found)) if found[at] - found[at - 1] > gap)]
        for begin, stop in pairwise([*first, len(found)]):
            wanted.add((found[begin], found[stop - 1] + gap, key, stop - begin))
    assert set(answer) == wanted
    assert len(answer) == len(wanted) == query.state_rows


@given(inputs_of_batches(), st.sampled_from([TUMBLING, ("sliding", 9, 4), ("session", 7)]))
def test_on_an_unbounded_delay_nothing_is_late(batches: Any, window: Any) -> None:
    query = SparkAggregation(LONGEST, window)
    other = SparkAggregation(None, window, "complete")
    answer = list[Group]()
    for batch in batches:
        assert query.batch(*([(time + 100, key) for time, key in rows] for rows in batch)) == []
        answer = other.batch(*([(time + 100, key) for time, key in rows] for rows in batch))
    assert (query.dropped, query.watermark) == (0, 0)
    assert query.state_rows == other.state_rows == len(answer)


@given(inputs_of_batches())
def test_the_last_update_of_a_group_is_the_complete_answer(batches: Any) -> None:
    update, complete = (SparkAggregation(None, TUMBLING, mode) for mode in ("update", "complete"))
    last, answer = dict[Any, Group](), list[Group]()
    for batch in batches:
        last |= {group[:3]: group for group in update.batch(*batch)}
        answer = complete.batch(*batch)
    assert sorted(last.values(), key=str) == sorted(answer, key=str)


@given(st.integers(0, 1 << 32))
def test_batches_are_those_of_dictionaries_and_sorted_lists(seed: int) -> None:
    """Each form of a query, with one input and with two; the plain ones are in ``plain.py``."""
    for case in islice(cases.draw(seed), 2 * len(cases.FORMS)):
        found, wanted = case.answers(), case.answers(query=plain.Plain(case))
        assert [one._replace(answer=[]) for one in found] == [
            one._replace(answer=[]) for one in wanted
        ]
        for one, other in zip(found, wanted, strict=True):
            assert Counter(one.answer) == Counter(other.answer), case.name()


@given(st.integers(-(10**15), 10**15), panes())
def test_windows_hold_their_time(time: int, pane: tuple[int, int, int]) -> None:
    size, slide, offset = pane
    groups = SparkAggregation(None, ("sliding", *pane), "complete").batch([time])
    assert len(groups) in {size // slide, -(-size // slide)}
    assert all(one.start <= time < one.end == one.start + size for one in groups)
    assert all((one.start - offset) % slide == 0 for one in groups)
    assert groups[0].start - slide + size <= time < groups[-1].start + slide
