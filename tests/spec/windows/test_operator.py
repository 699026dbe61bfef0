"""A window operator as an object: aggregates, arguments, room, keys, snapshots."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from flowcontrol.spec import WindowOperator, window_start
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME

TUMBLING = ("tumbling", 10, 0)


def of(aggregate: str, *values: Any) -> Any:
    """Return the aggregate of values that come in this order."""
    operator = WindowOperator(TUMBLING, aggregate=aggregate)
    for value in values:
        operator.element(0, "a", value, 5)
    ((_, found, *_),) = operator.watermark(9)
    return found


@pytest.mark.parametrize(
    ("aggregate", "values", "answer"),
    [
        ("count", ("x", None, 3), 3),
        ("sum", (3, -5, 4), 2),
        ("min", (3, -5, 4), -5),
        ("min", (3, 5), 3),
        ("max", (-3, -5, -4), -3),
        ("avg", (1, 2), 1.5),
        ("avg", (2, 4), 3.0),
        ("sum", (0.1, 0.2, 0.3), 0.6),
        ("sum", (0.3, 0.2, 0.1), 0.6),
        ("sum", (1, 0.5), 1.5),
        ("max", (1, 0.5), 1),
        ("min", (1, 0.5), 0.5),
        ("avg", (1e300 * 0, 1), 0.5),
        ("sum", (Fraction(1, 3), Fraction(2, 3)), 1.0),
        ("sum", (MAX_TIME, 5), MAX_TIME),
        ("sum", (MIN_TIME, -5), MIN_TIME),
        ("sum", (MAX_TIME, 5, -7), MAX_TIME - 2),
        ("avg", (17 * 10**17,) * 8, 1.7e18),
        ("avg", (-17 * 10**17,) * 8, -1.7e18),
        ("sum", (True, True), 2),
    ],
)
def test_aggregates(aggregate: str, values: tuple[Any, ...], answer: Any) -> None:
    found = of(aggregate, *values)
    assert found == pytest.approx(answer, rel=1e-15)
    assert type(found) is type(answer)


def test_a_sum_of_floats_does_not_depend_on_their_order() -> None:
    assert of("sum", 0.1, 0.2, 0.3) == of("sum", 0.3, 0.2, 0.1)
    assert of("sum", 1e16, 1.0, -1e16) == 1.0


def test_aggregates_of_merged_and_purged_windows() -> None:
    arguments = {"lateness": 20, "purging": True}
    for aggregate, answer in (("min", 5), ("max", 7), ("sum", 12), ("count", 2), ("avg", 6.0)):
        operator = WindowOperator(("session", 10), aggregate=aggregate, **arguments)
        operator.element(0, "a", 100, 0)
        assert operator.watermark(9)[0][1] in (100, 1)
        operator.element(0, "a", 5, 25)
        operator.element(0, "a", 7, 17)  # [17, 27) joins [25, 35); [0, 10) is apart
        assert [row[:4] for row in operator.watermark(34)] == [("a", answer, 17, 35)]
    operator = WindowOperator(("session", 10), aggregate="min", **arguments)
    operator.element(0, "a", 5, 20)
    operator.element(0, "a", 100, 0)
    operator.watermark(9)
    operator.element(0, "a", 7, 10)  # the younger one was emptied
    assert operator.watermark(29) == [("a", 5, 0, 30, 29)]
    operator = WindowOperator(("session", 10), aggregate="max", **arguments)
    operator.element(0, "a", 100, 0)
    operator.watermark(9)
    operator.element(0, "a", -5, 20)
    assert operator.element(0, "a", -7, 10) == []  # what was emptied brings nothing
    assert operator.watermark(29) == [("a", -5, 0, 30, 29)]


@pytest.mark.parametrize(
    ("timestamp", "offset", "size", "start"),
    [
        (0, 0, 10, 0), (9, 0, 10, 0), (10, 0, 10, 10), (11, 0, 10, 10),
        (-1, 0, 10, -10), (-10, 0, 10, -10), (-11, 0, 10, -20),
        (2, 3, 10, -7), (3, 3, 10, 3), (0, -3, 10, -3), (7, -3, 10, 7), (6, 13, 10, 3),
        (5, 0, 1, 5), (MAX_TIME, 0, 10, MAX_TIME - 7), (MIN_TIME, 0, 10, MIN_TIME),
        (MAX_TIME, MIN_TIME, MAX_TIME, MAX_TIME - 1),
    ],
)  # fmt: skip
def test_window_start(timestamp: int, offset: int, size: int, start: int) -> None:
    assert window_start(timestamp, offset, size) == start
    assert timestamp - (timestamp - offset) % size == start or start == MIN_TIME


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"assigner": ("hopping", 5)}, r"assigner \('hopping', 5\): choose one of"),
        ({"assigner": "tumbling"}, "assigner 'tumbling': choose one of"),
        ({"assigner": ()}, r"assigner \(\): choose one of"),
        ({"assigner": ("tumbling",)}, r"needs the form \(\"tumbling\", size, offset\)"),
        ({"assigner": ("tumbling", 5, 1, 1)}, "needs the form"),
        ({"assigner": ("tumbling", 0, 0)}, "size of a window is 0: needs at least 1"),
        ({"assigner": ("tumbling", 1.5, 0)}, "size of a window is 1.5: needs a whole number"),
        ({"assigner": ("tumbling", 10, 10)}, "offset is 10: needs less than the size of 10"),
        ({"assigner": ("tumbling", 10, -10)}, "offset is -10: needs less than the size of 10"),
        ({"assigner": ("sliding", 10, 5, 5)}, "offset is 5: needs less than the slide of 5"),
        ({"assigner": ("sliding", 10, 0, 0)}, "slide is 0: needs at least 1"),
        ({"assigner": ("sliding", 0, 5, 0)}, "size of a window is 0: needs at least 1"),
        ({"assigner": ("session", 0)}, "gap of a session is 0: needs at least 1"),
        ({"assigner": ("session", -5)}, "gap of a session is -5: needs at least 1"),
        ({"assigner": ("session",)}, "needs the form"),
        ({"assigner": ("global", 1)}, "needs the form"),
        ({"assigner": TUMBLING, "lateness": -1}, "lateness is -1: needs at least 0"),
        ({"assigner": TUMBLING, "lateness": True}, "lateness is True: needs a whole number"),
        ({"assigner": TUMBLING, "aggregate": "median"}, "aggregate 'median': choose one of count"),
        ({"assigner": TUMBLING, "time": "ingestion"}, "time 'ingestion': choose one of event"),
        ({"assigner": TUMBLING, "trigger": ("often",)}, r"trigger \('often',\): choose one of"),
        ({"assigner": TUMBLING, "trigger": ("count",)}, "needs the form"),
        ({"assigner": TUMBLING, "trigger": ("count", 0)}, "count of a trigger is 0"),
        ({"assigner": TUMBLING, "trigger": ("continuous", 0)}, "interval of a trigger is 0"),
        ({"assigner": TUMBLING, "trigger": ("event", 1)}, "needs the form"),
        ({"assigner": TUMBLING, "trigger": ("end_of_stream",)}, "only a global window ends"),
        ({"assigner": TUMBLING, "trigger": ("timeout", ("count", 1))}, "needs the form"),
        ({"assigner": TUMBLING, "trigger": ("timeout", ("event",), -1)}, "timeout of a trigger"),
        (
            {"assigner": TUMBLING, "trigger": ("timeout", ("timeout", ("event",), 1), 1)},
            'trigger of a "timeout"',
        ),
        (
            {"assigner": ("session", 5), "trigger": ("timeout", ("event",), 1)},
            "it cannot merge them",
        ),
    ],
)
def test_an_operator_that_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WindowOperator(**arguments)


def test_what_cannot_come_is_refused_and_changes_nothing() -> None:
    operator = WindowOperator(("session", lambda key, value: value - 1))
    for asked, message in (
        ((0, "a", 1, 1 << 63), f"timestamp is {1 << 63}: needs at most {MAX_TIME}"),
        ((0, "a", 1, 1.5), "timestamp is 1.5: needs a whole number"),
        ((None, "a", 1, 1), "now is None: needs a whole number"),
        ((0, "a", "x", 1), "value is 'x': needs a finite number"),
        ((0, "a", float("nan"), 1), "value is nan: needs a finite number"),
        ((0, "a", 1e30, 1), r"value is 1e\+30: needs at most"),
        ((0, "a", 1 << 63, 1), "value is 9223372036854775808: needs at most"),
        ((0, "a", 0, 1), "gap of key 'a' is -1: needs at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            operator.element(*asked)  # type: ignore[arg-type]
    for call in (operator.watermark, operator.tick):
        with pytest.raises(ValueError, match="needs at least"):
            call(MIN_TIME - 1)
    assert operator.snapshot()["windows"]["entries"] == []
    with pytest.raises(ValueError, match="size of a window is 0"):
        window_start(1, 0, 0)


def test_windows_find_room_and_leave_it() -> None:
    operator = WindowOperator(("sliding", 100, 10, 0), aggregate="count")
    for key in range(50):
        assert operator.element(0, key, None, 1000) == []
    assert operator.state_bytes == 500 * 32
    assert len(operator.watermark(1049)) == 250
    found = operator.watermark(MAX_TIME)
    assert [(key, start) for key, _, start, *_ in found[:50]] == [(key, 960) for key in range(50)]
    assert len(found) == 250
    assert operator.state_bytes == 0


def test_state_bytes_are_those_of_open_windows() -> None:
    operator = WindowOperator(("sliding", 10, 5, 0), aggregate="avg")
    assert operator.state_bytes == 0
    operator.element(0, "a", 1, 7)
    operator.element(0, "a", 1, 8)
    assert operator.state_bytes == 2 * 40
    operator.watermark(9)
    assert operator.state_bytes == 40


def test_keys_without_windows_are_forgotten() -> None:
    operator = WindowOperator(TUMBLING)
    for number in range(1000):
        operator.element(0, ("key", number), 1, 10 * number)
        assert operator.watermark(10 * number + 9) == [
            (("key", number), 1, 10 * number, 10 * number + 10, 10 * number + 9)
        ]
    assert len(operator._codes) == len(operator._keys) <= 66
    assert len(operator.snapshot()["keys"]) == 0


def test_a_snapshot_is_plain_and_a_copy() -> None:
    operator = WindowOperator(("session", 10), lateness=5, aggregate="max", purging=True)
    for at, key in enumerate("abcab" * 3):
        operator.element(0, key, at, 13 * at)
    state = json.loads(json.dumps(operator.snapshot()))
    first, second = WindowOperator.restore(state), WindowOperator.restore(state)
    asked = [(0, "b", 7, 100), (0, "d", 8, 180), (0, "a", 9, 1)]
    answers = []
    for one in (first, operator, second):
        found = [one.element(*element) for element in asked] + [one.watermark(150)]
        answers.append([*found, one.watermark(1000), one.late, one.dropped, one.state_bytes])
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][-4]


def test_a_late_element_that_comes_first_leaves_nothing() -> None:
    operator = WindowOperator(TUMBLING, aggregate="count")
    operator.watermark(100)
    assert operator.element(0, "a", {"any": "thing"}, 5) == []
    assert (operator.late, operator.dropped) == ([("a", {"any": "thing"}, 5)], 1)
    assert operator.state_bytes == 0


def test_under_processing_time_the_timestamp_does_not_count() -> None:
    operator = WindowOperator(TUMBLING, ("processing",), time="processing")
    operator.element(3, "a", 1, None)  # type: ignore[arg-type]
    assert operator.tick(9) == [("a", 1, 0, 10, 9)]
