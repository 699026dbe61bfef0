"""Exactly once through writers and a committer (Sink V2), whatever fails.

Two writers send files in front of their barriers; a committer behind two channels commits them.
Barriers are aligned, or overtake what is in flight, which is kept and comes late. A commit fails
before or after its work, asks for a retry, or the job fails between any two steps.
"""

from __future__ import annotations

import json
import random
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flowcontrol.spec import END_OF_INPUT, Committer

WRITERS = 2
FAULTS = ("before", "after", "retry")


class CommitError(Exception):
    """A commit failed for no known reason."""


class World:
    """Writers, channels, a committer, its target, and the checkpoints of the job."""

    def __init__(self):
        self.now = 0
        self.number = 0
        self.attempt = 0
        self.files = {}  # rows by name
        self.committed = []  # names, in order
        self.faults = []
        self.completed = (0, [0] * WRITERS, None, [[] for _ in range(WRITERS)])
        self.met = Counter()
        self.recover()

    def commit(self, name):
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            self.met[fault] += 1
        if fault == "retry":
            return "retry"
        if fault == "before":
            raise CommitError(name)
        answer = "already" if name in self.committed else None
        self.met["already"] += answer is not None
        if answer is None:
            self.committed.append(name)
        if fault == "after":
            raise CommitError(name)
        return answer

    def guarded(self, call):
        self.now += 1
        try:
            call()
        except CommitError:
            self.recover()

    def recover(self):
        """Begin again from the last completed checkpoint, until no commit fails."""
        while True:
            self.attempt += 1
            self.now += 1
            number, read, state, in_flight = self.completed
            self.read = list(read)
            self.since = list(read)  # rows from here on are in no file
            self.channels = [list(messages) for messages in in_flight]
            self.met["in flight at a restore"] += any(in_flight)
            self.pending = []  # (number, positions)
            self.acknowledged = []
            self.notices = []
            self.committer = Committer(self.commit)
            try:
                self.committer.open(self.now, state and json.loads(state), number)
            except CommitError:
                self.met["failure in recovery"] += 1
            else:
                return

    def write(self, i, count):
        self.read[i % WRITERS] += count

    def send(self, i, checkpoint, size):
        """Put a writer's rows into files of a size, and send them."""
        rows = [(i, row) for row in range(self.since[i], self.read[i])]
        parts = [rows[at : at + size] for at in range(0, len(rows), size)]
        self.since[i] = self.read[i]
        self.channels[i].append(("summary", i, checkpoint, len(parts)))
        for part in parts:
            name = f"{self.attempt}-{i}-{len(self.files)}"
            self.files[name] = part
            self.channels[i].append(("committable", i, checkpoint, name))

    def trigger(self, i, size):
        """Let both writers send their files and the barrier."""
        self.number += 1
        for i in range(WRITERS):
            self.send(i, self.number, size + 1)
            self.channels[i].append(("barrier", self.number))
        self.pending.append((self.number, list(self.read)))

    def receive(self, i, count):
        """Let the committer take messages; a barrier blocks its channel until both are there."""
        for _ in range(count + 1):
            channel = self.channels[i % WRITERS]
            if channel and channel[0][0] != "barrier":
                message = channel.pop(0)
                late = message[2] <= self.completed[0]
                self.met["late"] += late
                self.guarded(lambda message=message: self.committer.add(self.now, message))
        if all(channel and channel[0][0] == "barrier" for channel in self.channels):
            self.snapshot()

    def snapshot(self):
        """Take the barrier out of both channels; what is in front of it is kept."""
        number, read = self.pending.pop(0)
        in_flight = []
        for channel in self.channels:
            at = channel.index(("barrier", number))
            in_flight.append(channel[:at])
            del channel[at]
        state = json.dumps(self.committer.snapshot())
        self.acknowledged.append((number, read, state, in_flight))

    def overtake(self, i, count):
        """Let an unaligned barrier reach the committer before all that is in flight."""
        if self.pending:
            self.met["overtaken"] += 1
            self.snapshot()

    def complete(self, i, count):
        if self.acknowledged:
            self.completed = self.acknowledged.pop(0)
            self.notices.append(self.completed[0])

    def notify(self, i, count):
        if self.notices:
            number = self.notices.pop(0)
            if i == 0 and count == 0:
                self.met["lost notification"] += 1
                return
            self.guarded(lambda: self.committer.notify_complete(self.now, number))

    def tick(self, i, count):
        self.now += 400 * count
        self.met["retried"] += (self.committer.next_time or self.now + 1) <= self.now
        self.guarded(lambda: self.committer.tick(self.now))

    def fail(self, i, count):
        self.recover()

    def kill(self, i, count):
        kept = json.dumps(self.committer.state())
        self.committer = Committer(self.commit)
        self.committer.restore(json.loads(kept))

    def plant(self, i, count):
        self.faults.append(FAULTS[count % len(FAULTS)])

    STEPS = (*(write, trigger, receive, overtake, complete, notify), *(tick, fail, kill, plant))

    def visible(self):
        return [row for name in self.committed for row in self.files[name]]

    def check(self):
        seen = Counter(self.visible())
        assert max(seen.values(), default=1) == 1, "a row is visible twice"
        upto = self.completed[1]
        assert all(row < upto[i] for i, row in seen), "a row is visible before its completion"

    def finish(self):
        """End the input; one last checkpoint commits everything."""
        self.faults.clear()
        self.recover()
        for i in range(WRITERS):
            self.write(i, 1)
            self.send(i, END_OF_INPUT, 2)
            self.receive(i, 1000)
        self.committer.end_of_input(self.now)
        self.number += 1
        self.completed = (self.number, list(self.read), None, [])
        self.faults.append("retry")
        self.committer.notify_complete(self.now, self.number)
        if self.committer.next_time is not None:
            self.committer.tick(self.committer.next_time)
        wanted = [(i, row) for i in range(WRITERS) for row in range(self.read[i])]
        assert sorted(self.visible()) == wanted
        assert self.committer.next_time is None


class Job(RuleBasedStateMachine):
    """Hypothesis chooses the steps."""

    def __init__(self):
        super().__init__()
        self.world = World()

    @rule(step=st.sampled_from(World.STEPS), i=st.integers(0, 1), count=st.integers(0, 4))
    def step(self, step, i, count):
        step(self.world, i, count)

    @rule(count=st.integers(0, 4))
    def checkpoint(self, count):
        """Take a whole checkpoint, or short runs never complete one."""
        self.world.write(count, count)
        self.world.trigger(0, count)
        self.world.overtake(0, 0)
        self.world.complete(0, 0)

    @invariant()
    def holds(self):
        self.world.check()

    def teardown(self):
        self.world.finish()


TestJob = Job.TestCase
TestJob.settings = settings(stateful_step_count=40)

CASES = [
    *FAULTS,
    "already",
    "failure in recovery",
    "in flight at a restore",
    "late",
    "lost notification",
    "overtaken",
    "retried",
]


def test_a_seeded_drive_meets_every_case():
    choice, met = random.Random(3), Counter()
    often = 3 * (World.write, World.trigger, World.receive, World.complete, World.notify)
    for _ in range(100):
        world = World()
        for _ in range(150):
            step = choice.choice((*World.STEPS, *often))
            step(world, choice.randrange(WRITERS), choice.randrange(5))
            world.check()
        world.finish()
        met += world.met
    assert [name for name in CASES if met[name] == 0] == []
