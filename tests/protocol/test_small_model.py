"""Every order of events of a small world: 2 senders, 1 receiver, up to 3 buffers, 3 messages each.

The rules are driven directly, as a compiled kernel would. All reachable states are visited;
in each the invariants hold, and a state from which nothing can happen is one where every
message was consumed: no order of delivery leads to a deadlock.
"""

from __future__ import annotations

from dataclasses import astuple

import pytest

from flowcontrol.protocol.network import credit_rules, pool_rules
from flowcontrol.spec.connection import credit_after_send
from flowcontrol.state import rows
from flowcontrol.state.network import GlobalPool, InputChannel, LocalPool
from flowcontrol.state.rows import Gate

MESSAGES = 3

# A state is (channels, pool, global, waiting, senders); a sender is
# (to write, queued, credit, sent, consumed, wire, received kinds, credits on the way back).


def start(exclusive, floating):
    channels = []
    for credit in exclusive:
        channels.append(astuple(InputChannel(exclusive=credit, initial=credit)))
    total = sum(exclusive) + floating
    pool = (floating, 0, 1, 1, floating, 0, 0, 0)  # of a LocalPool
    segments = (total, floating - 1, sum(exclusive), 1)  # of a GlobalPool
    senders = tuple((MESSAGES, 0, credit, 0, 0, (), (), ()) for credit in exclusive)
    return tuple(channels), pool, segments, (0,) * (rows.FIFO_SLOTS + 2), senders


def unfreeze(state):
    channels, pool, segments, waiting, senders = state
    return (
        [InputChannel(*row) for row in channels],
        LocalPool(*pool),
        GlobalPool(*segments),
        list(waiting),
        [list(sender) for sender in senders],
    )


def freeze(channels, pool, segments, waiting, senders):
    return (
        tuple(map(astuple, channels)),
        astuple(pool),
        astuple(segments),
        normal(waiting),
        tuple(map(tuple, senders)),
    )


def normal(waiting):
    """One form for every rotation of the same queue."""
    row, values = list(waiting), []
    while (value := rows.fifo_pop(row)) >= 0:
        values.append(value)
    return (0, len(values), *values, *[0] * (len(waiting) - rows.FIFO_SLOTS - len(values)))


def backlog_of(sender):
    """Of full buffers behind which the end is known: the queue was finished or flushed."""
    return credit_rules.reported_backlog(sender[1], 1, 0, 0, 0)


def gate(channels, pool, segments, waiting):
    return Gate(channels, pool, segments, waiting, [], [], [])


def write(i, channels, pool, segments, waiting, senders):
    sender = senders[i]
    if sender[0] == 0:
        return False
    sender[0] -= 1
    sender[1] += 1
    if credit_rules.needs_backlog_announcement(channels[i].initial, sender[2], sender[1], 0):
        sender[5] += (-backlog_of(sender),)
    return True


def send(i, channels, pool, segments, waiting, senders):
    sender = senders[i]
    available = credit_rules.is_data_available(0, 1 if sender[1] else 0, 0)
    if not credit_rules.is_reader_available(sender[2], available, 0):
        return False
    sender[1] -= 1
    sender[2] = credit_after_send(sender[2], 0)
    sender[3] += 1
    sender[5] += (backlog_of(sender),)
    return True


def deliver(i, channels, pool, segments, waiting, senders):
    sender = senders[i]
    if not sender[5]:
        return False
    backlog, sender[5] = sender[5][0], sender[5][1:]
    if backlog >= 0:
        kind = credit_rules.request_buffer(channels[i])
        assert kind != rows.TAKEN_NONE
        sender[6] += (kind,)
    credit_rules.on_backlog(gate(channels, pool, segments, waiting), i, abs(backlog))
    return True


def consume(i, channels, pool, segments, waiting, senders):
    sender = senders[i]
    if not sender[6]:
        return False
    kind, sender[6] = sender[6][0], sender[6][1:]
    sender[4] += 1
    if kind == rows.TAKEN_FLOATING:
        credit_rules.recycle_floating(gate(channels, pool, segments, waiting))
    else:
        credit_rules.recycle_exclusive(gate(channels, pool, segments, waiting), i)
    pool_rules.serve_pools([pool], segments)
    return True


def announce(i, channels, pool, segments, waiting, senders):
    credit = credit_rules.announce(channels[i])
    senders[i][7] += (credit,) if credit else ()
    return credit > 0


def add_credit(i, channels, pool, segments, waiting, senders):
    sender = senders[i]
    if not sender[7]:
        return False
    sender[2] += sender[7][0]
    sender[7] = sender[7][1:]
    return True


ACTIONS = (write, send, deliver, consume, announce, add_credit)


def check(state, total):
    channels, pool, segments, waiting, senders = state
    channels = [InputChannel(*row) for row in channels]
    floating = exclusive = 0
    for row, sender in zip(channels, senders, strict=True):
        _, _, credit, sent, consumed, wire, kinds, back = sender
        assert credit >= 0
        assert consumed <= sent <= MESSAGES
        granted = credit + sent + sum(back) + row.unannounced
        held = credit_rules.available_buffers(row) + len(kinds)
        assert granted - consumed == held
        assert sum(message >= 0 for message in wire) + len(kinds) + consumed == sent
        floating += row.floating + kinds.count(rows.TAKEN_FLOATING)
        exclusive += row.exclusive + kinds.count(rows.TAKEN_EXCLUSIVE)
        assert row.exclusive <= row.initial
    pool, segments = LocalPool(*pool), GlobalPool(*segments)
    assert floating == pool.in_use <= pool.size
    assert exclusive == segments.unpooled
    assert segments.free + pool.free + floating + exclusive == total
    queued = waiting[rows.FIFO_SLOTS : rows.FIFO_SLOTS + waiting[rows.FIFO_COUNT]]
    assert sorted(queued) == [i for i in (0, 1) if channels[i].is_waiting]
    assert not (queued and pool.free)


def explore(exclusive, floating):
    """Visit every reachable state; return them, and those from which nothing can happen."""
    first = start(exclusive, floating)
    seen, todo, final = {first}, [first], []
    while todo:
        state = todo.pop()
        check(state, sum(exclusive) + floating)
        is_final = True
        for action in ACTIONS:
            for i in (0, 1):
                rows = unfreeze(state)
                if action(i, *rows):
                    is_final = False
                    following = freeze(*rows)
                    if following not in seen:
                        seen.add(following)
                        todo.append(following)
        if is_final:
            final.append(state)
    return seen, final


@pytest.mark.holds("credit", "rules", "every order of events of a small model")
@pytest.mark.parametrize(
    ("exclusive", "floating"), [((1, 1), 1), ((0, 0), 1), ((1, 0), 1), ((0, 0), 2)]
)
def test_no_order_of_events_breaks_an_invariant_or_ends_in_a_deadlock(exclusive, floating):
    states, final = explore(exclusive, floating)
    assert len(states) > 500
    assert any(state[3][rows.FIFO_COUNT] == 2 for state in states)  # both waited at once
    for *_, senders in final:
        assert [sender[4] for sender in senders] == [MESSAGES, MESSAGES]
