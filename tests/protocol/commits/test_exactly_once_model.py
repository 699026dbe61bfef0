"""Exactly once, whatever fails: two sinks and a committer's world, at every point of failure.

A job of two sink subtasks, each behind a log of its own. Its checkpoints complete when both have
pre-committed; then both are notified, or the notification is lost. The store fails in any call,
before or after its work; the job fails and the process is killed between any two calls.
"""

from __future__ import annotations

import json
import random
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flowcontrol.protocol.commits.transactions import SinkState
from flowcontrol.spec.two_phase import TwoPhaseCommitSink
from modules import load

stores = load("tests/protocol/commits/stores.py")
Store, StoreError = stores.Store, stores.StoreError

SINKS = 2
CALLS = ("begin", "write", "flush", "commit", "abort")
WHENS = ("before", "after")


class Checkpoint:
    """What each subtask gave: its position and its state, as JSON."""

    def __init__(self, number):
        self.number = number
        self.given = {}


class World:
    """A job, its checkpoints and its store."""

    def __init__(self):
        self.store = Store()
        self.now = 0
        self.number = 0
        self.pending = []  # checkpoints that are under way
        self.completed = None
        self.notices = [[] for _ in range(SINKS)]
        self.positions = [0] * SINKS
        self.ended = [False] * SINKS
        self.known = []  # rows that a completed checkpoint covers
        self.met = Counter()
        self.phase = "start"
        self.sinks = [TwoPhaseCommitSink(self.store) for _ in range(SINKS)]
        self.recover()

    # -- the job ---------------------------------------------------------------------------------

    def guarded(self, phase, call):
        """Call a sink; what its store raises fails the job, which recovers."""
        self.now += 1
        planned = dict(self.store.planned)
        try:
            call()
        except StoreError:
            fired = [c for c, how in planned.items() if self.store.planned.get(c) != how]
            for name in fired:
                self.met[phase, name, planned[name][0]] += 1
            self.fail()

    def fail(self, closes=False):
        """Fail the job, at wherever it is."""
        waits = [t.state for sink in self.sinks for t in sink.transactions]
        self.met["failure with pre-committed"] += "pre_committed" in waits
        self.met["failure with a notification under way"] += any(self.notices)
        self.met["failure between the barriers of a checkpoint"] += any(
            0 < len(checkpoint.given) < SINKS for checkpoint in self.pending
        )
        self.met["failure before any checkpoint"] += self.completed is None
        self.met["failure after the end"] += any(self.ended)
        if closes:
            for sink in self.sinks:
                try:
                    sink.close()
                    self.met["closed"] += 1
                except StoreError:
                    self.met["failure in close"] += 1
        self.recover()

    def recover(self):
        """Restore the last completed checkpoint, again and again until the store lets it."""
        self.pending = []
        self.notices = [[] for _ in range(SINKS)]
        self.positions = [0] * SINKS
        self.ended = [False] * SINKS
        for attempt in range(100):
            self.now += 1
            self.sinks = [TwoPhaseCommitSink(self.store) for _ in range(SINKS)]
            planned = dict(self.store.planned)
            try:
                for i, sink in enumerate(self.sinks):
                    state = None
                    if self.completed is not None:
                        self.positions[i], kept = self.completed.given[i]
                        state = SinkState.from_json(json.loads(kept))
                    sink.open(self.now, state)
            except StoreError:
                for name, how in planned.items():
                    if self.store.planned.get(name) != how:
                        self.met["recovery", name, how[0]] += 1
            else:
                self.met["recovered"] += attempt > 0
                return
        raise AssertionError("the store never lets the job recover")

    def write(self, i, count):
        """Read and write some rows of a subtask's log; each step may fail on its own."""
        for _ in range(count + 1):
            if not self.ended[i]:
                row = (i, self.positions[i])
                # A row counts as read with its writing: a failure puts the position back anyway.
                self.positions[i] += 1
                self.guarded("write", lambda row=row: self.sinks[i].write(row))

    def trigger(self, i, number):
        self.number += 1
        self.pending.append(Checkpoint(self.number))

    def barrier(self, i, number):
        """Let the oldest barrier that has not come reach a subtask."""
        waiting = [checkpoint for checkpoint in self.pending if i not in checkpoint.given]
        if waiting:
            checkpoint = waiting[0]

            def snapshot():
                state = self.sinks[i].snapshot(self.now, checkpoint.number)
                checkpoint.given[i] = (self.positions[i], json.dumps(state.to_json()))

            self.guarded("barrier", snapshot)

    def complete(self, i, number):
        """Complete a checkpoint that both subtasks have acknowledged; older ones are subsumed."""
        done = [checkpoint for checkpoint in self.pending if len(checkpoint.given) == SINKS]
        if done:
            self.completed = done[number % len(done)]
            subsumed = [c for c in self.pending if c.number < self.completed.number]
            self.met["subsumed"] += bool(subsumed)
            self.pending = [c for c in self.pending if c.number > self.completed.number]
            for notices in self.notices:
                notices.append(self.completed.number)
            self.known = [
                (j, row) for j in range(SINKS) for row in range(self.completed.given[j][0])
            ]

    def notify(self, i, number):
        if self.notices[i]:
            checkpoint = self.notices[i].pop(0)
            waits = [t for t in self.sinks[i].transactions if t.checkpoint is not None]
            self.met["commits several"] += len([t for t in waits if t.checkpoint <= checkpoint]) > 1
            self.guarded(
                "notification", lambda: self.sinks[i].notify_complete(self.now, checkpoint)
            )

    def lose(self, i, number):
        """Lose a notification."""
        if self.notices[i]:
            self.notices[i].pop(0)
            self.met["lost notification"] += 1

    def abort(self, i, number):
        """Abort a checkpoint that is under way, and say so to those that took part."""
        if self.pending:
            checkpoint = self.pending.pop(number % len(self.pending))
            for j in checkpoint.given:
                assert self.sinks[j].notify_aborted(checkpoint.number) == []
                self.met["aborted"] += 1

    def end(self, i, number):
        if number == 0:
            self.sinks[i].finish()
            self.ended[i] = True

    def crash(self, i, number):
        self.fail(closes=number % 2 == 0)

    def kill(self, i, number):
        """Kill the process: sinks are made anew from what was kept, and call nothing."""
        calls = len(self.store.calls)
        for j, sink in enumerate(self.sinks):
            kept = json.dumps(sink.state())
            self.sinks[j] = TwoPhaseCommitSink(self.store)
            self.sinks[j].restore(json.loads(kept))
        assert len(self.store.calls) == calls
        self.met["killed"] += 1

    def plant(self, i, number):
        """Have a call of the store fail, once or several times."""
        call = CALLS[(i * 5 + number) % len(CALLS)]
        self.store.fail(call, WHENS[i % 2], times=1 + number % 2)

    STEPS = (*(write, trigger, barrier, complete, notify), *(lose, abort, end, crash, kill, plant))

    # -- what must hold --------------------------------------------------------------------------

    def check(self):
        seen = Counter(self.store.visible)
        assert max(seen.values(), default=1) == 1, "a row is visible twice"
        assert seen.keys() <= set(self.known), "a row is visible before its checkpoint completed"

    def finish(self):
        """End the input and let a last checkpoint complete: then every row is there once."""
        self.store.planned.clear()
        self.recover()
        for i in range(SINKS):
            self.write(i, 2)
            self.sinks[i].finish()
        self.pending = []
        self.trigger(0, 0)
        for i in range(SINKS):
            self.barrier(i, 0)
        self.complete(0, 0)
        for i in range(SINKS):
            self.notify(i, 0)
            assert self.sinks[i].transactions == ()
        wanted = [(i, row) for i in range(SINKS) for row in range(self.positions[i])]
        assert sorted(self.store.visible) == wanted


class Job(RuleBasedStateMachine):
    """Hypothesis chooses the steps."""

    def __init__(self):
        super().__init__()
        self.world = World()

    @rule(step=st.sampled_from(World.STEPS), i=st.integers(0, SINKS - 1), number=st.integers(0, 4))
    def step(self, step, i, number):
        step(self.world, i, number)

    @rule(number=st.integers(0, 4))
    def checkpoint(self, number):
        """Write and take a whole checkpoint, or short runs never complete one."""
        self.world.write(number % SINKS, number)
        self.world.trigger(0, 0)
        for i in range(SINKS):
            self.world.barrier(i, 0)
        self.world.complete(0, number)

    @invariant()
    def holds(self):
        self.world.check()

    def teardown(self):
        self.world.finish()


TestJob = Job.TestCase
TestJob.settings = settings(stateful_step_count=40)

PHASES = [
    *[("write", "write", when) for when in WHENS],
    *[("barrier", call, when) for call in ("flush", "begin") for when in WHENS],
    *[("notification", "commit", when) for when in WHENS],
    *[("recovery", call, when) for call in ("commit", "abort", "begin") for when in WHENS],
    "aborted",
    "closed",
    "commits several",
    "failure after the end",
    "failure before any checkpoint",
    "failure between the barriers of a checkpoint",
    "failure in close",
    "failure with a notification under way",
    "failure with pre-committed",
    "killed",
    "lost notification",
    "recovered",
    "subsumed",
]


def drive(choice, worlds=150, steps=120):
    """Run worlds to their end, and count what they met."""
    often = 4 * (World.write, World.trigger, World.barrier, World.barrier, World.complete)
    met = Counter()
    for _ in range(worlds):
        world = World()
        for _ in range(steps):
            step = choice.choice((*World.STEPS, *often, World.notify, World.notify))
            step(world, choice.randrange(SINKS), choice.randrange(5))
            world.check()
        world.finish()
        met += world.met
    return met


def test_a_seeded_drive_meets_a_failure_in_every_phase():
    met = drive(random.Random(11))
    assert [name for name in PHASES if met[name] == 0] == []
