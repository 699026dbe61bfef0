"""Subtasks of a sink that restart together, whose records are dealt out anew each time."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from flowcontrol.protocol.commits.delivery import Returning, restore_together, share_out
from flowcontrol.protocol.commits.transactions import Guarantee, SettledRows
from flowcontrol.spec.two_phase import Delivery


class Sink:
    """Three subtasks, a log, and what readers see of each record.

    A checkpoint is (records read, those in flight that it holds for each subtask).
    """

    def __init__(self, guarantee, rewinds, choice):
        self.rewinds, self.choice, self.now = rewinds, choice, 0
        self.guarantee, self.is_exact = guarantee, guarantee == "exactly-once"
        settled = SettledRows()
        self.accounts = [Delivery(guarantee, settled=settled) for _ in range(3)]
        self.read, self.moving = 0, [[] for _ in self.accounts]
        self.visible, self.staged, self.first = Counter(), [], []
        self.dropping = 0
        self.number, self.completed, self.cuts = 0, None, {}
        self.pending = []
        self.met = Counter()

    def deal(self, records):
        for record in records:
            self.choice.choice(self.moving).append(record)

    def emit(self):
        count = self.choice.randrange(6)
        self.deal(range(self.read, self.read + count))
        self.read += count

    def write(self, most=4):
        self.now += 1
        for account, moving in zip(self.accounts, self.moving, strict=True):
            rows = moving[: self.choice.randrange(most + 1)]
            del moving[: len(rows)]
            account.write(self.now, len(rows))
            (self.staged.extend if self.is_exact else self.visible.update)(rows)

    def checkpoint(self):
        """Unaligned: what is in flight belongs to it."""
        self.number += 1
        for account in self.accounts:
            account.barrier(self.now, self.number)
        held = [list(moving) for moving in self.moving]
        self.cuts[self.number] = (self.read, held)
        self.pending.append((self.number, self.staged))
        self.staged = []

    def complete(self):
        if self.number in self.cuts and self.completed != self.number:
            self.completed = self.number
            self.commit(self.number)
            for account in self.accounts:
                account.complete(self.now, self.number)

    def commit(self, number):
        for at, rows in self.pending:
            if at <= number:
                self.visible.update(rows)
        self.pending = [(at, rows) for at, rows in self.pending if at > number]

    def fail(self):
        self.met["without a checkpoint"] += self.completed is None
        self.met["during a replay"] += self.accounts[0].settled.coming > 0
        read, held = self.cuts.get(self.completed, (0, [[], [], []]))
        self.met["held"] += any(held)
        again = None if self.rewinds else 0
        returning = [
            Returning(len(moving), 0, len(own), again)
            for moving, own in zip(self.moving, held, strict=True)
        ]
        restore_together(self.now, self.completed, list(zip(self.accounts, returning, strict=True)))
        self.pending, self.staged, self.moving = [], [], [list(own) for own in held]
        self.cuts = {n: cut for n, cut in self.cuts.items() if n == self.completed}
        self.number += 1
        if self.rewinds:
            self.read = read
        else:
            self.cuts = dict.fromkeys(self.cuts, (self.read, held))

    def kill(self):
        """Go on from the states, as JSON has them."""
        settled = SettledRows()
        for index, account in enumerate(self.accounts):
            fresh = Delivery(self.guarantee, settled=settled)
            fresh.restore_state(json.loads(json.dumps(account.state())))
            self.accounts[index] = fresh

    def finish(self, top):
        self.deal(range(self.read, top))
        self.read = top
        while any(self.moving):
            self.write()
        self.checkpoint()
        self.complete()

    def sums(self):
        names = ("committed", "visible_twice", "lost", "staged")
        return [sum(getattr(one, name) for one in self.accounts) for name in names]


@pytest.mark.parametrize("rewinds", [True, False])
@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_the_sums_are_those_of_the_records(guarantee, rewinds):
    choice, met = random.Random(7), Counter()
    for _ in range(150):
        sink, top = Sink(guarantee, rewinds, choice), 0
        steps = 4 * [sink.emit, sink.write, sink.write] + [sink.checkpoint, sink.complete]
        for _ in range(60):
            choice.choice([*steps, sink.complete, sink.fail, sink.kill])()
            top = max(top, sink.read)
        sink.finish(top)
        committed, twice, lost, staged = sink.sums()
        assert (committed - twice + lost, staged) == (top, 0)
        assert min(one.lost for one in sink.accounts) >= 0
        if guarantee == "at-most-once":
            assert twice == 0
        else:
            assert committed == sum(sink.visible.values())
            assert twice == committed - len(sink.visible)
            assert lost == 0 or not rewinds
        met += sink.met
        met["twice"] += twice > 0
        met["lost"] += lost > 0
    assert met["without a checkpoint"] > 0 < met["held"]
    assert met["during a replay"] > 0 or not rewinds or guarantee == "exactly-once"
    assert (met["lost"] > 0) == (guarantee == "at-most-once" or not rewinds)
    assert (met["twice"] > 0) == (guarantee == "at-least-once")  # what is held comes again too


@pytest.mark.parametrize(
    ("total", "weights", "rooms", "expected"),
    [
        (7, [3, 1], [9, 9], [6, 1]),
        (7, [3, 1], [2, 9], [2, 5]),
        (7, [3, 1], [2, 4], [2, 4]),  # more than there is room
        (0, [0, 0], [3, 3], [0, 0]),
        (3, [0, 0], [1, 5], [1, 2]),
    ],
)
def test_what_is_shared_out_is_whole_and_has_room(total, weights, rooms, expected):
    assert share_out(total, weights, rooms) == expected
