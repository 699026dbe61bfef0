"""Hand tables of the scalar rules, and of row rules at their limits."""

from __future__ import annotations

import ast
import inspect
import itertools

import pytest

from flowcontrol.protocol.network import credit_rules, partitioners, pool_rules
from flowcontrol.protocol.network import partition_kinds as sizing_rules
from flowcontrol.state import network, rows
from flowcontrol.state.declared import columns
from flowcontrol.state.network import GlobalPool, InputChannel, LocalPool
from flowcontrol.state.rows import UNLIMITED, Gate

STATES = [cls for cls in vars(network).values() if isinstance(cls, type)]


def channel(exclusive=2, floating=0, required=2, waiting=0, unannounced=0, initial=2):
    return InputChannel(exclusive, floating, required, waiting, unannounced, initial)


def pool(size=4, in_use=0, free=1, required=1, maximum=8, overdraft=0):
    return LocalPool(size, in_use, free, required, maximum, overdraft)


# -- sender ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "flush", "finished", "last_is_event", "blocked", "expected"),
    [
        (0, 0, 0, 0, 0, 0),
        (0, 1, 1, 1, 0, 0),
        (1, 0, 0, 0, 0, 0),  # only the open tail
        (2, 0, 0, 0, 0, 1),
        (2, 1, 0, 0, 0, 2),
        (2, 0, 1, 0, 0, 2),
        (2, 0, 0, 1, 0, 2),
        (2, 1, 1, 1, 1, 0),  # blocked
    ],
)
def test_reported_backlog(data, flush, finished, last_is_event, blocked, expected):
    assert credit_rules.reported_backlog(data, flush, finished, last_is_event, blocked) == expected


@pytest.mark.parametrize(
    ("size", "seen", "expected"),
    [(0, 0, 0), (1, 0, 0), (1, 1, 1), (2, 0, 1), (2, 1, 1), (3, 0, 2), (3, 1, 2)],
)
def test_finished_count(size, seen, expected):
    assert credit_rules.finished_count(size, seen) == expected


@pytest.mark.parametrize(
    ("blocked", "flush", "finished", "expected"),
    [(0, 0, 0, 0), (0, 0, 1, 1), (0, 0, 2, 1), (0, 1, 0, 1), (1, 1, 2, 0)],
)
def test_is_data_available(blocked, flush, finished, expected):
    assert credit_rules.is_data_available(blocked, flush, finished) == expected


def test_is_event_available_over_all_inputs():
    assert [credit_rules.is_event_available(b, e) for b in (0, 1) for e in (0, 1)] == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("size", "pending", "unread", "blocked", "notifies", "pending_after"),
    [
        (0, 0, 0, 0, 0, 0),
        (0, 1, 0, 0, 0, 1),
        (1, 0, 0, 0, 0, 0),  # nothing unread
        (1, 0, 1, 0, 1, 1),
        (1, 0, 1, 1, 0, 1),  # blocked: pending, but silent
        (1, 1, 1, 0, 0, 1),
        (2, 0, 0, 0, 0, 1),  # the reader knows already
        (3, 1, 0, 0, 0, 1),
    ],
)
def test_flush(size, pending, unread, blocked, notifies, pending_after):
    assert credit_rules.should_notify_on_flush(size, pending, unread, blocked) == notifies
    assert credit_rules.flush_pending_after(size, pending, unread) == pending_after


@pytest.mark.parametrize(
    ("nbytes", "finished", "initial", "expected"),
    [(0, 0, 0, 0), (0, 0, 2, 0), (0, 1, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1), (1, 1, 2, 1)],
)
def test_is_slice_sent(nbytes, finished, initial, expected):
    assert credit_rules.is_slice_sent(nbytes, finished, initial) == expected


def test_a_backlog_is_announced_only_without_any_credit():
    due = [
        case
        for case in itertools.product((0, 1), (0, 1), (0, 3), (0, 1))
        if credit_rules.needs_backlog_announcement(*case) == 1
    ]
    assert due == [(0, 0, 3, 0)]  # initial credit 0, credit 0, a backlog, not available


def test_reader_rules():
    assert [credit_rules.is_reader_available(c, 1, 0) for c in (0, 1, 2)] == [0, 1, 1]
    assert [credit_rules.is_reader_available(c, 0, 1) for c in (0, 1, 2)] == [1, 0, 0]


# -- pool --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_use", "free", "size", "overdraft", "global_free", "expected"),
    [
        (3, 1, 4, 0, 0, 1),  # a free one
        (3, 0, 4, 0, 0, 0),  # below the quota, the global pool is empty
        (3, 0, 4, 5, 9, 0),  # below the quota the fetch is eager: no overdraft
        (4, 0, 4, 0, 9, 0),
        (4, 0, 4, 1, 9, 1),
        (4, 0, 4, 1, 1, 1),
        (4, 0, 4, 1, 0, 0),
        (5, 0, 4, 1, 9, 0),
        (5, 0, 4, 2, 9, 1),
        (9, 0, 4, 2, 9, 0),  # shrunk far below what is in use
    ],
)
def test_can_request(in_use, free, size, overdraft, global_free, expected):
    assert pool_rules.can_request(in_use, free, size, overdraft, global_free) == expected


def test_a_refused_request_changes_nothing():
    row, segments = pool(size=2, in_use=2, free=0), GlobalPool(8, 6, 0, 1)
    assert pool_rules.request_segment(row, segments) == 0
    assert (row, segments) == (pool(size=2, in_use=2, free=0), GlobalPool(8, 6, 0, 1))


def test_a_destroyed_pool_takes_and_gives_nothing():
    row, segments = pool(size=1, in_use=1, free=0, overdraft=3), GlobalPool(8, 7, 0, 1)
    row.is_destroyed = 1
    assert pool_rules.request_segment(row, segments) == 0
    assert pool_rules.fetch_segment(row, segments) == 0
    assert pool_rules.pool_is_available(row) == 0
    assert segments == GlobalPool(8, 7, 0, 1)
    assert pool_rules.recycle_segment(row, segments) == 1
    assert (row.in_use, row.free, segments) == (0, 0, GlobalPool(8, 8, 0, 1))


@pytest.mark.parametrize(("in_use", "free", "fetched"), [(3, 0, 1), (4, 0, 0), (0, 1, 0)])
def test_one_segment_is_fetched_below_the_quota_and_only_one(in_use, free, fetched):
    row, segments = pool(size=4, in_use=in_use, free=free), GlobalPool(20, 1, 0, 1)
    assert pool_rules.fetch_segment(row, segments) == fetched
    assert row == pool(size=4, in_use=in_use, free=free + fetched)
    assert segments.free == 1 - fetched


@pytest.mark.parametrize(("in_use", "kept"), [(3, 1), (4, 1), (5, 0)])
def test_recycling_keeps_what_the_quota_allows(in_use, kept):
    row, segments = pool(size=4, in_use=in_use, free=0), GlobalPool(8, 8 - in_use, 0, 1)
    assert pool_rules.recycle_segment(row, segments) == 1 - kept
    assert row == pool(size=4, in_use=in_use - 1, free=kept)
    assert segments.free == 8 - in_use + 1 - kept


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_quota_is_noted_exactly_at_its_limit(limit):
    row, counts, seen = pool(), [0, 0], []
    for change in [1] * (limit + 1) + [-1] * (limit + 1):
        assert pool_rules.note_quota(row, counts, 1, change, limit) == counts[1]
        seen.append((counts[1], row.at_quota))
    up = [(n, int(n >= limit)) for n in range(1, limit + 2)]
    down = [(n, int(n >= limit)) for n in range(limit, -1, -1)]
    assert seen == up + down
    assert counts == [0, 0]


def test_no_quota_is_never_reached():
    row, counts = pool(), [0]
    for _ in range(50):
        pool_rules.note_quota(row, counts, 0, 1, UNLIMITED)
    assert (counts, row.at_quota) == ([50], 0)


@pytest.mark.parametrize(
    ("size", "free", "returned", "free_after"),
    [(2, 4, 3, 1), (1, 4, 4, 0), (5, 4, 0, 4), (9, 4, 0, 4), (3, 0, 0, 1), (1, 0, 0, 0)],
)
def test_resizing_returns_free_excess_or_fetches_one(size, free, returned, free_after):
    row, segments = pool(size=8, in_use=1, free=free), GlobalPool(20, 19 - free, 0, 1)
    assert pool_rules.resize_pool(row, size, segments) == returned
    assert row == pool(size=min(size, 8), in_use=1, free=free_after)
    assert segments.free + free_after == 19


def test_pools_that_lack_a_segment_are_served_in_order_of_creation():
    rows_, segments = (
        [pool(free=0), pool(free=1), pool(free=0), pool(free=0)],
        GlobalPool(20, 2, 0, 4),
    )
    assert pool_rules.serve_pools(rows_, segments) == 2
    assert [row.free for row in rows_] == [1, 1, 1, 0]
    assert segments.free == 0


@pytest.mark.parametrize(
    ("count", "global_free", "granted", "free"), [(0, 0, 1, 1), (1, 0, 1, 1), (2, 0, 0, 1)]
)
def test_reserving(count, global_free, granted, free):
    row, segments = pool(), GlobalPool(20, global_free, 0, 1)
    assert pool_rules.reserve_segments(row, count, segments) == granted
    assert row == pool(free=free)


def test_reserving_fetches_what_is_missing():
    row, segments = pool(), GlobalPool(20, 5, 0, 1)
    assert pool_rules.reserve_segments(row, 3, segments) == 1
    assert (row, segments) == (pool(free=3), GlobalPool(20, 3, 0, 1))


def gate(channels, own_pool, segments, waiting=None):
    return Gate(channels, own_pool, segments, waiting or [0] * 3, [], [], [])


# -- channel -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exclusive", "floating", "taken", "after"),
    [(2, 1, 2, (2, 0)), (2, 0, 1, (1, 0)), (1, 0, 1, (0, 0)), (0, 0, 0, (0, 0))],
)
def test_floating_buffers_are_taken_first_and_required_falls(exclusive, floating, taken, after):
    row = channel(exclusive, floating, required=0)
    assert credit_rules.request_buffer(row) == taken
    assert row == channel(*after, required=-1)


def test_a_released_channel_takes_announces_and_wants_nothing():
    row = channel(unannounced=3)
    row.is_released = 1
    assert credit_rules.request_buffer(row) == 0
    assert credit_rules.announce(row) == 0
    assert credit_rules.on_backlog(gate([row], pool(), GlobalPool(20, 9, 0, 1)), 0, 5) == 0
    assert row.required == 2


def test_a_recycled_exclusive_buffer_gives_credit_above_what_is_required():
    """Section 1.5: also then, if the channel holds no floating buffer to give back."""
    row = channel(exclusive=1, required=1)
    assert credit_rules.recycle_exclusive(gate([row], pool(), GlobalPool(20, 9, 2, 1)), 0) == 1
    assert row == channel(exclusive=2, required=1, unannounced=1)


@pytest.mark.parametrize(
    ("floating", "required", "pushed"), [(0, 1, 0), (1, 2, 1), (1, 3, 0), (1, 4, 0), (2, 3, 1)]
)
def test_an_exclusive_buffer_pushes_one_out_only_above_what_is_required(floating, required, pushed):
    row, gate_pool = channel(1, floating, required), pool(size=4, in_use=floating, free=0)
    own = gate([row], gate_pool, GlobalPool(20, 0, 2, 1))
    assert credit_rules.recycle_exclusive(own, 0) == 1 - pushed
    assert row == channel(2, floating - pushed, required, unannounced=1 - pushed)
    assert gate_pool == pool(size=4, in_use=floating - pushed, free=pushed)


def test_an_exclusive_buffer_of_a_released_channel_goes_to_the_global_pool():
    row, segments = channel(0, 0), GlobalPool(20, 5, 2, 1)
    row.is_released = 1
    assert credit_rules.recycle_exclusive(gate([row], pool(), segments), 0) == 0
    assert (row.exclusive, segments) == (0, GlobalPool(20, 6, 1, 1))


@pytest.mark.parametrize(("destroyed", "size"), [(0, 1), (1, 9)])
def test_a_floating_buffer_over_the_quota_or_of_a_destroyed_pool_leaves_it(destroyed, size):
    row, gate_pool, waiting = channel(2, 0, 9, waiting=1), pool(size, in_use=2, free=0), [0] * 3
    gate_pool.is_destroyed = destroyed
    segments = GlobalPool(20, 5, 2, 1)
    rows.fifo_push(waiting, 0)
    assert credit_rules.recycle_floating(gate([row], gate_pool, segments, waiting)) == -1
    assert (gate_pool.in_use, gate_pool.free, segments.free, row.is_waiting) == (1, 0, 6, 1)


def test_a_floating_buffer_pushed_out_goes_to_the_first_who_waits():
    giver, taker = channel(1, 2, required=2), channel(2, 0, required=5, waiting=1)
    gate_pool, segments, waiting = (
        pool(size=2, in_use=2, free=0),
        GlobalPool(20, 0, 4, 1),
        [0, 0, 0, 0],
    )
    rows.fifo_push(waiting, 1)
    assert (
        credit_rules.recycle_exclusive(gate([giver, taker], gate_pool, segments, waiting), 0) == 0
    )
    assert giver == channel(2, 1, required=2)
    assert taker == channel(2, 1, required=5, waiting=1, unannounced=1)
    assert waiting[1] == 1  # still hungry, so at the tail again
    assert gate_pool == pool(size=2, in_use=2, free=0)


def test_channels_that_refuse_lose_their_place_and_the_buffer_stays_in_the_pool():
    full, released = channel(2, 0, required=2, waiting=1), channel(0, 0, required=9, waiting=1)
    released.is_released = 1
    gate_pool, segments, waiting = (
        pool(size=2, in_use=1, free=0),
        GlobalPool(20, 0, 2, 1),
        [0, 0, 0, 0],
    )
    rows.fifo_push(waiting, 0)
    rows.fifo_push(waiting, 1)
    assert credit_rules.recycle_floating(gate([full, released], gate_pool, segments, waiting)) == -1
    assert gate_pool == pool(size=2, in_use=0, free=1)
    assert [full.is_waiting, released.is_waiting, waiting[1]] == [0, 0, 0]


def test_an_accepted_buffer_fetches_more_and_all_of_it_is_credit():
    row = channel(2, 0, required=5, waiting=1)
    gate_pool, segments, waiting = pool(size=4, in_use=1, free=2), GlobalPool(20, 0, 2, 1), [0] * 3
    rows.fifo_push(waiting, 0)
    assert credit_rules.recycle_floating(gate([row], gate_pool, segments, waiting)) == 0
    assert row == channel(2, 3, required=5, unannounced=3)


# -- shape -------------------------------------------------------------------------------------


def functions(*modules):
    return [
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]


OF_A_SENDER = functions(credit_rules)

COMPILED = [
    *(value for module in (rows, pool_rules, credit_rules, credit_rules)
      for value in vars(module).values()
      if inspect.isfunction(value) and value.__module__ == module.__name__
      and value not in (rows.fifo, rows.fifo_values, rows.refill)),
    sizing_rules.redistribute,
    sizing_rules.gate_sizes,
    sizing_rules.partition_sizes,
    sizing_rules.spare_capacity,
    partitioners.next_by_share,
    partitioners.count_share,
]  # fmt: skip

FORBIDDEN = (
    ast.Dict, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.ListComp, ast.List, ast.Raise,
    ast.Set, ast.SetComp, ast.Starred, ast.Try, ast.With, ast.Yield, ast.keyword,
    ast.JoinedStr,
)  # fmt: skip


@pytest.mark.parametrize("function", COMPILED, ids=lambda function: function.__name__)
def test_a_rule_is_plain_enough_for_a_compiler(function):
    """Integers, fields, indexing, loops and branches only; other rules are called by name."""
    tree = ast.parse(inspect.getsource(function))
    body = [node for statement in tree.body[0].body[1:] for node in ast.walk(statement)]
    assert [type(node).__name__ for node in body if isinstance(node, FORBIDDEN)] == []
    fields = {*Gate._fields, *(name for state in STATES for name in columns(state))}
    assert {node.attr for node in body if isinstance(node, ast.Attribute)} <= fields
    constants = {node.value for node in body if isinstance(node, ast.Constant)}
    assert {type(value) for value in constants} <= {int, bool}  # a bool only in "while True"
    assert function.__doc__
