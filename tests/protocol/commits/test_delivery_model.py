"""The account of a sink beside a job that remembers every record: the same figures, always.

The job has a log, records on their way and a sink whose rows are counted one by one.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flowcontrol.protocol.commits.transactions import Guarantee
from flowcontrol.spec.two_phase import Delivery

TIMEOUT = 60


class Job:
    """Every record by its number in the log.

    ``moving`` are on their way to the sink; ``open`` is the transaction, or None; ``waiting`` the
    pre-committed ones as (checkpoint, began, rows), a row being (record, time of its writing).
    """

    def __init__(self, guarantee, rewinds, timeout):
        self.guarantee, self.rewinds, self.timeout = guarantee, rewinds, timeout
        self.now = 0
        self.read = 0  # the source's next record
        self.moving = []
        self.dropping = set()  # at most once: what a restore brings again
        self.visible = []  # (record, latency)
        self.sampled = 0
        self.written = 0
        self.rows, self.began = [], 0
        self.waiting = []
        self.barriers = {}
        self.arrived = []  # in order, those that came again too
        self.gone = set()  # records that are not visible and do not come again

    def write(self, count):
        for record in self.moving[:count]:
            self.arrived.append(record)
            if record in self.dropping:
                self.dropping.discard(record)
                continue
            self.written += 1
            if self.guarantee == "exactly-once":
                self.rows.append((record, self.now))
            else:
                self.visible.append((record, 0))
        del self.moving[:count]

    def barrier(self, number, early):
        """Snapshot: the last ``early`` that arrived came behind the barrier."""
        resumes = self.arrived[-early] if early else self.next_record()
        self.waiting.append((number, self.began, self.rows))
        self.rows, self.began = [], self.now
        self.barriers[number] = (resumes, list(self.waiting))

    def next_record(self):
        """The record that reaches the sink next."""
        return self.moving[0] if self.moving else self.read

    def commit(self, transactions):
        for _, began, rows in transactions:
            if self.timeout is not None and self.now - began > self.timeout:
                seen = {record for record, _ in self.visible}
                self.gone |= {record for record, _ in rows} - seen
            else:
                self.visible += [(record, self.now - time) for record, time in rows]

    def complete(self, number):
        self.commit([t for t in self.waiting if t[0] <= number])
        self.waiting = [t for t in self.waiting if t[0] > number]
        self.barriers = {n: kept for n, kept in self.barriers.items() if n >= number}

    def restore(self, number):
        resumes, named = (0, []) if number is None else self.barriers[number]
        committing = {t[0] for t in named}
        aborted = [row for t in self.waiting if t[0] not in committing for row in t[2]]
        aborted += self.rows
        # What the state names and is committed already stays so.
        self.commit([t for t in self.waiting if t[0] in committing])
        self.waiting, self.rows, self.began = [], [], self.now
        seen = {record for record, _ in self.visible}
        if self.guarantee == "at-most-once" or not self.rewinds:
            moving = {*self.moving, *(record for record, _ in aborted)}
            self.gone |= moving - seen
        if self.rewinds and self.guarantee == "at-most-once":
            self.dropping = {record for record in seen | self.gone if record >= resumes}
        elif self.rewinds:
            self.gone = {record for record in self.gone if record < resumes}
        if self.rewinds:
            self.read = resumes
        self.moving = []
        self.barriers = {n: k for n, k in self.barriers.items() if number and n <= number}

    def figures(self):
        """What a sample of the account must say."""
        new = sorted(latency for _, latency in self.visible[self.sampled :])
        self.sampled = len(self.visible)
        distinct = {record for record, _ in self.visible}
        staged = len(self.rows) + sum(len(rows) for _, _, rows in self.waiting)
        median = new[(len(new) + 1) // 2 - 1] if new else None
        return (
            *(self.written, len(self.visible), len(self.visible) - len(distinct)),
            *(len(self.gone), staged, len(new), median, new[-1] if new else None),
        )


class World:
    """A job and its account, driven together."""

    def __init__(self, guarantee, rewinds=True, timeout=None, at_least_once=False):
        self.settings = (guarantee, timeout)
        self.account = Delivery(*self.settings)
        self.job = Job(guarantee, rewinds, timeout)
        self.at_least_once = at_least_once  # barriers that do not align
        self.number = 0
        self.pending = []
        self.completed = None
        self.top = 0  # all that was ever read
        self.met = Counter()

    def move(self, number):
        """Read records, let time pass."""
        self.job.moving += range(self.job.read, self.job.read + number)
        self.job.read += number
        self.top = max(self.top, self.job.read)
        self.job.now += 1 + 3 * number

    def write(self, number):
        count = min(number, len(self.job.moving))
        self.job.write(count)
        self.account.write(self.job.now, count)

    def barrier(self, number):
        self.number += 1
        early = 0
        if self.at_least_once and self.job.rows:
            # Of this attempt and transaction: what came behind the barrier came last.
            early = min(number, len(self.job.rows))
            self.met["early"] += early > 0
        self.job.barrier(self.number, early)
        self.account.barrier(self.job.now, self.number, early)
        self.pending.append(self.number)

    def complete(self, number):
        """Complete the oldest; its notification arrives, or is lost."""
        if not self.pending:
            return
        self.completed = self.pending.pop(0)
        if number == 0:
            self.met["lost notification"] += 1
            return
        self.met["several in a commit"] += sum(t[0] <= self.completed for t in self.job.waiting) > 1
        self.job.complete(self.completed)
        self.account.complete(self.job.now, self.completed)

    def abort(self, number):
        if self.pending:
            self.pending.pop(number % len(self.pending))
            self.met["aborted"] += 1

    def fail(self, number):
        self.job.now += number
        job = self.job
        self.met["without a checkpoint"] += self.completed is None
        self.met["in flight"] += bool(job.moving)
        self.met["staged"] += bool(job.rows)
        self.met["pre-committed"] += bool(job.waiting)
        self.met["during a replay"] += bool(job.dropping) or (
            job.next_record() <= max((r for r, _ in job.visible), default=-1)
        )
        in_flight = len(job.moving)
        lost = len(job.gone)
        job.restore(self.completed)
        self.account.restore(job.now, self.completed, in_flight, job.rewinds)
        self.met["lost"] += len(job.gone) > lost
        self.pending = []

    def kill(self, number):
        """Kill the process, between two calls."""
        kept = json.dumps(self.account.state())
        self.account = Delivery(*self.settings)
        self.account.restore_state(json.loads(kept))

    def sample(self, number):
        figures = self.job.figures()
        assert self.account.sample() == figures
        self.met["expired"] += self.settings[1] is not None and figures[3] > 0

    STEPS = (move, write, barrier, complete, abort, fail, kill, sample)

    def check(self):
        """What each guarantee promises, whatever happens."""
        account, guarantee = self.account, self.settings[0]
        if self.at_least_once or self.settings[1] is not None or not self.job.rewinds:
            return
        if guarantee != Guarantee.AT_LEAST_ONCE:
            assert account.visible_twice == 0
        if guarantee != Guarantee.AT_MOST_ONCE:
            assert account.lost == 0

    def finish(self):
        """Let everything arrive and be committed; then each record is visible or lost."""
        self.move(max(0, self.top - self.job.read) + 1)
        self.write(len(self.job.moving))
        self.pending = []
        self.barrier(0)
        self.complete(1)
        self.sample(0)
        account = self.account
        assert account.staged == 0
        assert account.committed - account.visible_twice + account.lost == self.job.read
        self.met["visible twice"] += account.visible_twice > 0
        self.check()


KINDS = [
    *[(guarantee, True, None, False) for guarantee in Guarantee],
    *[(guarantee, False, None, False) for guarantee in Guarantee],
    ("exactly-once", True, TIMEOUT, False),
    ("exactly-once", False, TIMEOUT, False),
    ("exactly-once", True, None, True),
    ("exactly-once", True, TIMEOUT, True),
]


class Accounting(RuleBasedStateMachine):
    """Hypothesis chooses the steps."""

    @initialize(kind=st.sampled_from(KINDS))
    def begin(self, kind):
        self.world = World(*kind)

    @rule(step=st.sampled_from(World.STEPS), number=st.integers(0, 6))
    def step(self, step, number):
        step(self.world, number)

    @rule(number=st.integers(0, 6))
    def flow(self, number):
        self.world.move(number)
        self.world.write(number)

    @invariant()
    def holds(self):
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self):
        if hasattr(self, "world"):
            self.world.finish()


TestAccounting = Accounting.TestCase
TestAccounting.settings = settings(stateful_step_count=40)

ALWAYS = ["aborted", "in flight", "lost notification", "without a checkpoint"]
ONLY = {
    "at-most-once": ["during a replay", "lost"],
    "at-least-once": ["during a replay", "visible twice"],
    "exactly-once": ["pre-committed", "several in a commit", "staged"],
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)))
def test_a_seeded_drive_meets_every_case(kind):
    choice, met = random.Random(5), Counter()
    guarantee, rewinds, timeout, at_least_once = kind
    for _ in range(60):
        world = World(*kind)
        for _ in range(150):
            often = 3 * (World.move, World.write, World.barrier, World.complete)
            choice.choice((*World.STEPS, *often))(world, choice.randrange(7))
            world.check()
        world.finish()
        met += world.met
    wanted = [*ALWAYS, *(ONLY[guarantee] if rewinds else ["lost"])]
    wanted += ["expired"] if timeout is not None else []
    wanted += ["early", "visible twice"] if at_least_once else []
    assert [name for name in wanted if met[name] == 0] == []
