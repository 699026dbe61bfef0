"""Spark's event time by hand: each table is a query, its batches, and what holds after each."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.spec import SparkAggregation

TUMBLING = ("tumbling", 10)
SLIDING = ("sliding", 10, 5)
SESSION = ("session", 10)
RESTART = "restart"

# Each table: arguments, and steps (rows of each input, answer, watermark of the next batch,
# groups dropped so far, groups held, whether a batch without data follows).
Step = tuple[Any, list[tuple[Any, ...]], int, int, int, bool]
TABLES: dict[str, tuple[dict[str, Any], list[Step]]] = {
    "append puts out in the batch after the one that moved the watermark": ({"delay": 0,
      "window": TUMBLING},
     [(([1, 5],), [], 5, 0, 1, True), (([12],), [], 12, 0, 2, True),
      ((), [(0, 10, None, 2)], 12, 0, 1, False)]),
    "a window is over when the watermark is at its end": ({"delay": 0, "window": TUMBLING},
     [(([1, 10],), [], 10, 0, 2, True), ((), [(0, 10, None, 1)], 10, 0, 1, False)]),
    "a window is not over a millisecond before": ({"delay": 0, "window": TUMBLING},
     [(([1, 9],), [], 9, 0, 1, True), ((), [], 9, 0, 1, False)]),
    "the watermark stays a delay behind": ({"delay": 3, "window": TUMBLING},
     [(([1, 12],), [], 9, 0, 2, True), (([13],), [], 10, 0, 2, True),
      ((), [(0, 10, None, 1)], 10, 0, 1, False)]),
    "the watermark is not below 0": ({"delay": 100, "window": TUMBLING},
     [(([5],), [], 0, 0, 1, False), (([101],), [], 1, 0, 2, True)]),
    "the watermark never falls": ({"delay": 0, "window": TUMBLING},
     [(([25],), [], 25, 0, 1, True), (([24],), [], 25, 0, 1, False)]),
    "rows are late by the watermark of the batch before": (
        {"delay": 0, "window": TUMBLING},
        [
            (([1, 15],), [], 15, 0, 2, True),
            (([2],), [(0, 10, None, 2)], 15, 0, 1, False),  # over, but not yet late
            (([3],), [], 15, 1, 1, False),
        ],
    ),
    "rows are late by the batch's own watermark in a query of one stateful operator": ({"delay": 0,
      "window": TUMBLING, "multiple": False},
     [(([1, 15],), [], 15, 0, 2, True), (([2],), [(0, 10, None, 1)], 15, 1, 1, False)]),
    "a group that is over when it begins goes out at once": ({"delay": 0, "window": TUMBLING},
     [(([25],), [], 25, 0, 1, True), (([2],), [(0, 10, None, 1)], 25, 0, 1, False)]),
    "rows before 1970 are late from the first batch on": ({"delay": 0, "window": TUMBLING},
     [(([-5, -1],), [], 0, 1, 0, False), (([-11, 0],), [], 0, 2, 1, False)]),
    "update puts out what changed and evicts in silence": ({"delay": 0, "window": TUMBLING,
      "mode": "update"},
     [(([1, 5],), [(0, 10, None, 2)], 5, 0, 1, True),
      (([7, 12],), [(0, 10, None, 3), (10, 20, None, 1)], 12, 0, 2, True),
      ((), [], 12, 0, 1, False)]),
    "update puts out a group that the same batch evicts": ({"delay": 0, "window": TUMBLING,
      "mode": "update"},
     [(([1, 15],), [(0, 10, None, 1), (10, 20, None, 1)], 15, 0, 2, True),
      (([2],), [(0, 10, None, 2)], 15, 0, 1, False), (([3],), [], 15, 1, 1, False)]),
    "update without a watermark keeps everything": ({"delay": None, "window": TUMBLING,
      "mode": "update"},
     [(([100, 1],), [(0, 10, None, 1), (100, 110, None, 1)], 0, 0, 2, False),
      (([2, -3],), [(-10, 0, None, 1), (0, 10, None, 2)], 0, 0, 3, False)]),
    "complete puts out all and drops nothing": ({"delay": 0, "window": TUMBLING,
      "mode": "complete"},
     [(([1, 15],), [(0, 10, None, 1), (10, 20, None, 1)], 15, 0, 2, False),
      (([2],), [(0, 10, None, 2), (10, 20, None, 1)], 15, 0, 2, False),
      (([3],), [(0, 10, None, 3), (10, 20, None, 1)], 15, 0, 2, False)]),
    "complete puts out all of a batch without rows": ({"delay": None, "window": TUMBLING,
      "mode": "complete"},
     [(([1],), [(0, 10, None, 1)], 0, 0, 1, False), (([],), [(0, 10, None, 1)], 0, 0, 1, False)]),
    "dropped counts groups, not rows": ({"delay": 0, "window": TUMBLING},
     [(([(1, "a"), (50, "a")],), [], 50, 0, 2, True), ((), [(0, 10, "a", 1)], 50, 0, 1, False),
      (([(2, "a"), (3, "a"), (2, "b")],), [], 50, 2, 1, False)]),
    "no key is a key": ({"delay": 0, "window": TUMBLING, "mode": "update"},
     [(([(1, "a"), (2, None), 3],), [(0, 10, "a", 1), (0, 10, None, 2)], 3, 0, 2, True),
      (([(4, "a")],), [(0, 10, "a", 2)], 4, 0, 2, True)]),
    "the slowest input has the watermark, from 0 on": ({"delay": (0, 0), "window": TUMBLING},
     [(([15], []), [], 0, 0, 1, False), (([], [12]), [], 12, 0, 1, True),
      (([], [21]), [], 15, 0, 2, True)]),
    "the fastest input has the watermark": ({"delay": (0, 0), "window": TUMBLING, "policy": "max"},
     [(([15], []), [], 15, 0, 1, True), (([], [2]), [(0, 10, None, 1)], 15, 0, 1, False),
      (([], [31]), [], 31, 0, 2, True), ((), [(10, 20, None, 1)], 31, 0, 1, False)]),
    "each input has its delay": ({"delay": (5, 0), "window": TUMBLING},
     [(([15], [12]), [], 10, 0, 1, True), (([30], [13]), [], 13, 0, 2, True)]),
    "one delay is that of all inputs": ({"delay": 5, "window": TUMBLING},
     [(([15], [20]), [], 10, 0, 2, True), (([], [40]), [], 10, 0, 3, False)]),
    "groups of two inputs that come too late are one": ({"delay": 0, "window": TUMBLING,
      "no_data_batches": False},
     [(([40], [40]), [], 40, 0, 1, False), (([], []), [], 40, 0, 1, False),
      (([1, 2], [1]), [], 40, 1, 1, False)]),
    "a row is in every window that slides over it": ({"delay": 0, "window": SLIDING},
     [(([7],), [], 7, 0, 2, True), (([17],), [], 17, 0, 4, True),
      ((), [(0, 10, None, 1), (5, 15, None, 1)], 17, 0, 2, False)]),
    "a slide need not divide the size": ({"delay": None, "window": ("sliding", 10, 4),
      "mode": "update"},
     [(([3],), [(-4, 6, None, 1), (0, 10, None, 1)], 0, 0, 2, False),
      (([8],), [(0, 10, None, 2), (4, 14, None, 1), (8, 18, None, 1)], 0, 0, 4, False)]),
    "a row is late in one window and in time in another": ({"delay": 0, "window": SLIDING},
     [(([12],), [], 12, 0, 2, True), ((), [], 12, 0, 2, False), (([7],), [], 12, 1, 2, False),
      (([17],), [], 17, 1, 3, True), ((), [(5, 15, None, 2)], 17, 1, 2, False)]),
    "windows begin at an offset": ({"delay": 0, "window": ("tumbling", 10, 3), "mode": "update"},
     [(([2, 3],), [(-7, 3, None, 1), (3, 13, None, 1)], 3, 0, 2, True), ((), [], 3, 0, 1, False)]),
    "an offset may be negative": ({"delay": None, "window": ("sliding", 10, 5, -3),
      "mode": "complete"},
     [(([2],), [(-3, 7, None, 1), (2, 12, None, 1)], 0, 0, 2, False),
      (([1],), [(-8, 2, None, 1), (-3, 7, None, 2), (2, 12, None, 1)], 0, 0, 3, False)]),
    "without batches without data an answer waits for rows": (
        {"delay": 0, "window": TUMBLING, "no_data_batches": False},
        [(([1, 12],), [], 12, 0, 2, False), (([13],), [(0, 10, None, 1)], 13, 0, 1, False)],
    ),
    "sessions that touch are one": ({"delay": 0, "window": SESSION},
     [(([(1, "a"), (8, "a")],), [], 8, 0, 1, True), (([(18, "a")],), [], 18, 0, 1, True),
      (([(40, "a"), (29, "b")],), [], 40, 0, 3, True),
      ((), [(1, 28, "a", 3), (29, 39, "b", 1)], 40, 0, 1, False)]),
    "sessions a millisecond apart are two": ({"delay": 0, "window": SESSION},
     [(([(1, "a"), (12, "a")],), [], 12, 0, 2, True), ((), [(1, 11, "a", 1)], 12, 0, 1, False)]),
    "a row between two sessions makes them one": ({"delay": 0, "window": SESSION},
     [(([(1, "a"), (21, "a")],), [], 21, 0, 2, True), (([(11, "a")],), [], 21, 0, 1, False),
      (([(31, "a")],), [], 31, 0, 1, True), (([(42, "a")],), [], 42, 0, 2, True),
      ((), [(1, 41, "a", 4)], 42, 0, 1, False)]),
    "a row is late by its own session, not by the one it would join": (
        {"delay": 0, "window": SESSION},
        [
            (([(10, "a"), (15, "a")],), [], 15, 0, 1, True),
            ((), [], 15, 0, 1, False),
            (([(5, "a")],), [], 15, 1, 1, False),  # ends at 15
            (([(6, "a")],), [], 15, 1, 1, False),
            (([(26, "a")],), [], 26, 1, 2, True),
            ((), [(6, 25, "a", 3)], 26, 1, 1, False),
        ],
    ),
    "sessions drop late rows in complete mode too": (
        {"delay": 0, "window": SESSION, "mode": "complete"},
        [
            (([(1, "a"), (30, "a")],), [(1, 11, "a", 1), (30, 40, "a", 1)], 30, 0, 2, False),
            (
                ([(2, "b")],),
                [(1, 11, "a", 1), (2, 12, "b", 1), (30, 40, "a", 1)],
                *(30, 0, 3, False),
            ),
            (
                ([(3, "b"), (21, "a")],),
                [(1, 11, "a", 1), (2, 12, "b", 1), (21, 40, "a", 2)],
                *(30, 1, 3, False),
            ),
        ],
    ),
    "rows of a key without a gap are left out, but are seen by the watermark": ({"delay": 0,
      "window": ("session", {"a": 10, "b": 0, "c": -5}.__getitem__)},
     [(([(1, "a"), (50, "b"), (60, "c")],), [], 60, 0, 1, True),
      ((), [(1, 11, "a", 1)], 60, 0, 0, False), (([(2, "b"), (2, "a")],), [], 60, 1, 0, False)]),
    "sessions of two inputs that come too late are two": ({"delay": 0, "window": SESSION},
     [(([(40, "a")], [(40, "a")]), [], 40, 0, 1, True), ((), [], 40, 0, 1, False),
      (([(1, "b"), (1, "b")], [(1, "b")]), [], 40, 2, 1, False),
      (([(1, "b"), (2, "b")], []), [], 40, 4, 1, False)]),
    "a restart forgets what each input had seen": ({"delay": 0, "window": TUMBLING},
     [(([1, 15], [15]), [], 15, 0, 2, True), (RESTART, [], 15, 0, 2, False),
      (([25], []), [(0, 10, None, 1)], 15, 0, 2, False), (([], [26]), [], 25, 0, 2, True)]),
    "a restart keeps both watermarks": ({"delay": 0, "window": TUMBLING},
     [(([15],), [], 15, 0, 1, True), (RESTART, [], 15, 0, 1, False),
      (([2],), [(0, 10, None, 1)], 15, 0, 1, False), (RESTART, [], 15, 0, 1, False),
      (([3],), [], 15, 1, 1, False)]),
    "after a restart no batch without data follows before one with data": ({"delay": 0,
      "window": TUMBLING, "mode": "update"},
     [(([1, 15],), [(0, 10, None, 1), (10, 20, None, 1)], 15, 0, 2, True),
      (RESTART, [], 15, 0, 2, False), (([16],), [(10, 20, None, 2)], 16, 0, 1, True)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_by_hand(name: str) -> None:
    arguments, steps = TABLES[name]
    query = SparkAggregation(**arguments)
    found = list[Step]()
    for rows, *_ in steps:
        answer = list[tuple[Any, ...]]()
        if rows == RESTART:
            query.restart()
        else:
            answer = [tuple(group) for group in query.batch(*rows)]
        figures = (query.watermark, query.dropped, query.state_rows, query.needs_no_data_batch)
        found.append((rows, answer, *figures))
    assert found == steps
