"""The coordinator under random requests, ticks, acknowledgements, declines and failures.

A world keeps books of its own, from what it asked and what the coordinator answered. Before each
step another coordinator is restored from the state of the first: both must do the same.
"""

from __future__ import annotations

import json
import random
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from flowcontrol.protocol.checkpoints.checkpoint import FailureCounter
from flowcontrol.protocol.checkpoints.requests import KINDS, FailureReason
from flowcontrol.spec.coordinator import CheckpointCoordinator

TASKS = ("source", "map", "sink")
REASONS = ("CHECKPOINT_DECLINED", "IO_EXCEPTION", "CHECKPOINT_DECLINED_TASK_NOT_READY")
INTERESTING = [
    "queued",
    "started from the queue",
    "thrown out",
    "forced above the limit",
    "two unforced pending",
    "dropped by the pause",
    "tick moved",
    "success",
    "duplicate",
    "unknown",
    "discarded",
    "completed checkpoint",
    "completed savepoint",
    "completed stop_savepoint",
    "expired",
    "declined",
    "aborted",
    "subsumed",
    "subsumed out of the store",
    "savepoint survives a newer completion",
    "failed too often",
    "stop with savepoint failed",
    "finished task",
    "not all running",
    "suspended",
    "restored",
]


def forced(request, unaligned):
    return request.kind != "checkpoint" and not unaligned


class World:
    """A coordinator, what a step did to it, and what must hold after each."""

    def __init__(self, choice: list[int]) -> None:
        interval, pause, timeout, most, tolerable, retained, unaligned, queue = choice
        self.pause, self.retained, self.max_queued = (0, 7, 40)[pause], retained, queue + 1
        self.unaligned, self.most = unaligned == 1, 1 if unaligned == 1 else most
        self.arguments = {
            "tasks": TASKS,
            "triggered": TASKS[:1],
            "interval": (None, 10, 25)[interval],
            "min_pause": self.pause,
            "timeout": (15, 60, 10_000)[timeout],
            "max_concurrent": self.most,
            "tolerable_failures": tolerable,
            "retained": retained,
            "unaligned": self.unaligned,
            "max_queued": self.max_queued,
        }
        self.coordinator = CheckpointCoordinator(**self.arguments)
        self.now = 0
        self.asked = []
        self.by_id = {}  # the request of each id, made by a tick if it is not in asked
        self.before = {}  # status of each id
        self.running = {}  # tasks that ran when it was triggered
        self.gone: set[str] = set()
        self.stored: list[int] = []
        self.failures = FailureCounter(tolerable)
        self.last_completion: int | None = None
        self.seen: Counter[str] = Counter()

    # What happens.

    def step(self, name, a, b, c):
        """Do it to the coordinator and to one that was restored from its state."""
        state = json.dumps(self.coordinator.state())
        twin = CheckpointCoordinator(**self.arguments)
        twin.restore(json.loads(state))
        assert json.dumps(twin.state()) == state
        tick = self.coordinator.next_time
        queued = {request.number for request in self.coordinator.queued}
        gone = set(self.gone)
        answers = [getattr(self, name)(each, a, b, c) for each in (self.coordinator, twin)]
        assert answers[0] == answers[1]
        actions = self.coordinator.take_actions()
        assert twin.take_actions() == actions
        assert twin.state() == self.coordinator.state()
        if name == "acknowledge":
            self.seen[answers[0]] += 1
        self.check(actions, queued, gone)
        if name == "acknowledge" and tick is not None and self.coordinator.next_time is not None:
            pause_ends = None if self.last_completion is None else self.last_completion + self.pause
            moved = self.coordinator.state()["ticks"]["next"] == pause_ends != tick
            self.seen["tick moved"] += bool(queued) and moved

    def request(self, coordinator, a, b, c):
        made = coordinator.request(self.now, KINDS[max(0, a - 3)], periodic=b < 4)
        if coordinator is self.coordinator:
            self.asked.append(made)
        return made

    def wait(self, coordinator, a, b, c):
        if coordinator is self.coordinator:
            self.now += 3 * a + b

    def tick(self, coordinator, a, b, c):
        coordinator.tick(self.now)
        assert coordinator.next_time is None or coordinator.next_time > self.now

    def acknowledge(self, coordinator, a, b, c):
        """Mostly of the newest ones and by tasks that are waited for."""
        id = max(1, coordinator.next_id - 1 - a // 2)
        task = (*TASKS, *TASKS, "stranger")[b]
        return coordinator.acknowledge(self.now, id, task, sync=c, full_size=b, persisted=a)

    def acknowledge_all(self, coordinator, a, b, c):
        pending = coordinator.pending
        for task in TASKS if pending else ():
            coordinator.acknowledge(self.now, pending[(a * 7 + b) % len(pending)], task)

    def decline(self, coordinator, a, b, c):
        coordinator.decline(self.now, max(1, coordinator.next_id - 1 - a // 2), "x", REASONS[c % 3])

    def fail_task(self, coordinator, a, b, c):
        coordinator.fail_task(self.now, TASKS[a % 3])
        self.gone.add(TASKS[a % 3])

    def finish_task(self, coordinator, a, b, c):
        """Never the last one."""
        coordinator.finish_task(self.now, TASKS[a % 2])
        self.gone.add(TASKS[a % 2])
        self.seen["finished task"] += 1

    def recover(self, coordinator, a, b, c):
        self.gone.clear()
        assert coordinator.recover(self.now) == (self.stored[-1] if self.stored else -1)
        self.seen["restored"] += bool(self.stored)

    def suspend(self, coordinator, a, b, c):
        coordinator.suspend(self.now)

    # What holds.

    def check(self, actions, queued, gone):
        statuses = {id: self.coordinator.statistics(id) for id in self.coordinator.ids}
        assert list(statuses) == list(range(1, len(statuses) + 1))
        for id, was in self.before.items():
            assert statuses[id].status == was or was == "in_progress", "an id ends once"
        new = [id for id in statuses if id not in self.before]
        ended = [id for id, now in statuses.items() if now.status != "in_progress"]
        ended = [id for id in ended if self.before.get(id, "in_progress") == "in_progress"]
        self.before = {id: now.status for id, now in statuses.items()}
        self.check_ends(statuses, ended)
        self.check_actions(actions, statuses, new, ended, gone | self.gone)
        self.check_starts(statuses, new, queued)
        self.check_requests(statuses)
        counts = self.coordinator.counts
        by = Counter(self.before.values())
        assert counts.total == len(statuses)
        assert counts.in_progress == by["in_progress"] == len(self.coordinator.pending)
        assert counts.completed == by["completed"]
        assert counts.failed == by["expired"] + by["declined"] + by["aborted"]
        assert list(self.coordinator.retained) == self.stored[-self.retained :]

    def check_ends(self, statuses, ended):
        completed = [id for id in ended if statuses[id].status == "completed"]
        for id in completed:
            assert statuses[id].acknowledged == len(TASKS)
            self.last_completion = self.now
            kind = statuses[id].kind
            self.seen[f"completed {kind}"] += 1
            self.seen["subsumed out of the store"] += len(self.stored) > self.retained
            if kind == "checkpoint":
                self.stored.append(id)
            if kind != "savepoint":
                older = [statuses[other] for other in self.coordinator.pending if other < id]
                assert all(other.kind != "checkpoint" for other in older)
                self.seen["savepoint survives a newer completion"] += len(older)
        for id in ended:
            self.seen[statuses[id].status] += 1
            if statuses[id].reason == "CHECKPOINT_SUBSUMED":
                self.seen["subsumed"] += 1
                assert any(
                    other > id and statuses[other].kind != "savepoint" for other in completed
                )

    def check_actions(self, actions, statuses, new, ended, gone):
        """Triggers, one notification a task, and a failure of the job where it is due."""
        triggered = [action[2] for action in actions if action[0] == "trigger"]
        source_runs = TASKS[0] not in self.gone
        assert triggered == (new if source_runs else [])
        told = Counter(
            (act[0], act[2], act[1]) for act in actions if act[0] in ("abort", "complete")
        )
        for id in new:
            self.running[id] = set(TASKS) - self.gone
        due = Counter()
        fails = 0
        for id in ended:
            now = statuses[id]
            what = "complete" if now.status == "completed" else "abort"
            if (what, now.kind) != ("complete", "savepoint"):
                due.update((what, id, task) for task in self.running[id] - gone)
            fails += self.count(id, now)
        assert told == due
        latest = self.stored[-1] if self.stored else -1
        assert all(action[3] == latest for action in actions if action[0] == "abort")
        assert actions.count(("fail_job",)) == fails

    def count(self, id, now):
        """Return whether the end of a checkpoint fails the job."""
        if now.status == "completed":
            self.failures.succeed(id)
        elif now.kind == "stop_savepoint" and now.status != "aborted":
            self.seen["stop with savepoint failed"] += 1
            return True
        elif (now.kind, now.status) == ("checkpoint", "expired") or now.status == "declined":
            fails = self.failures.fail(id, FailureReason(now.reason))
            self.seen["failed too often"] += fails
            return fails
        return False

    def check_starts(self, statuses, new, queued):
        for id in new:
            request = next((one for one in self.asked if one.id == id), None)
            if request is None or request.periodic:
                completed = [
                    other.ended for other in statuses.values() if other.status == "completed"
                ]
                earlier = [ended + self.pause for ended in completed if ended is not None]
                assert self.now >= max(earlier, default=0)
            self.seen["started from the queue"] += request is not None and request.number in queued
        pending = [statuses[id] for id in self.coordinator.pending]
        unforced = [each for each in pending if not forced(each, self.unaligned)]
        assert len(unforced) <= self.most
        self.seen["two unforced pending"] += len(unforced) > 1
        self.seen["forced above the limit"] += len(pending) > self.most

    def check_requests(self, statuses):
        waiting = self.coordinator.queued
        self.seen["queued"] += len(waiting)
        order = [
            (one.kind == "checkpoint", not forced(one, self.unaligned), one.periodic, one.number)
            for one in waiting
        ]
        assert order == sorted(order)
        assert len(waiting) <= self.max_queued
        assert all(one.state == "queued" for one in waiting)
        if waiting and len(self.coordinator.pending) < self.most:
            assert waiting[0].periodic and self.pause, "only the pause holds a request back"
        for one in self.asked:
            assert (one.state == "queued") == (one in waiting)
            assert (one.id is None) == (one.state in ("queued", "refused"))
            assert (one.reason is None) == (one.state in ("queued", "started", "completed"))
            if one.id is not None:
                status = statuses[one.id].status
                expected = {"in_progress": "started", "completed": "completed"}
                assert one.state == expected.get(status, "failed")
            self.seen["thrown out"] += one.reason == "TOO_MANY_CHECKPOINT_REQUESTS"
            self.seen["dropped by the pause"] += one.reason == "MINIMUM_TIME_BETWEEN_CHECKPOINTS"
            self.seen["not all running"] += one.reason == "NOT_ALL_REQUIRED_TASKS_RUNNING"
            self.seen["suspended"] += one.reason == "PERIODIC_SCHEDULER_SHUTDOWN"


OFTEN = ("request", "wait", "tick", "acknowledge", "acknowledge_all")
SELDOM = ("decline", "fail_task", "finish_task", "recover", "suspend")
CHOICES = (2, 2, 2, (1, 3), 2, (1, 3), 1, 3)
BOUNDS = [bound if isinstance(bound, tuple) else (0, bound) for bound in CHOICES]


class CoordinatorMachine(RuleBasedStateMachine):
    @initialize(choice=st.tuples(*[st.integers(low, high) for low, high in BOUNDS]))
    def start(self, choice):
        self.world = World(choice)

    @rule(
        name=st.sampled_from(2 * OFTEN + SELDOM),
        a=st.integers(0, 5),
        b=st.integers(0, 6),
        c=st.integers(0, 9),
    )
    def step(self, name, a, b, c):
        self.world.step(name, a, b, c)


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = settings(stateful_step_count=40)


def drive(choice, worlds, steps):
    """Run worlds of random steps; return how often what is interesting was met."""
    seen: Counter[str] = Counter()
    names = 8 * OFTEN + ("recover",) + SELDOM
    for _ in range(worlds):
        world = World([choice.randint(low, high) for low, high in BOUNDS])
        for _ in range(steps):
            a, b, c = choice.randint(0, 5), choice.randint(0, 6), choice.randint(0, 9)
            world.step(choice.choice(names), a, b, c)
        seen += world.seen
    return seen


def test_a_seeded_drive_reaches_every_interesting_state():
    seen = drive(random.Random(7), worlds=60, steps=80)
    assert [name for name in INTERESTING if seen[name] == 0] == []
