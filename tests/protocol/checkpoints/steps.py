"""Step tables of a coordinator: what is done, and what comes of it, a line each.

A job has the tasks s (a source) and t. A step is a line of words; its answer is what the call
returned, and the actions that it caused, tasks of equal ones written together.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import NamedTuple

from flowcontrol.protocol.checkpoints.requests import CheckpointRequest
from flowcontrol.spec.coordinator import CheckpointCoordinator

TASKS = ("s", "t")
PERIODIC = {"interval": 100, "first_delay": 100}
ENDURING = {"tolerable_failures": 99}


class Table(NamedTuple):
    """What a table shows, the coordinator's arguments, and lines with their answers."""

    name: str
    arguments: dict
    steps: list[tuple[str, str]]


def written(actions):
    """Return ``complete st 1 -1`` for the same action at s and t."""
    grouped = groupby(actions, key=lambda action: (action[0], *action[2:]))
    lines = []
    for (name, *rest), same in grouped:
        tasks = "".join(action[1] for action in same if len(action) > 1)
        lines.append(" ".join([name, *([tasks] if tasks else []), *map(str, rest)]))
    return lines


def status(request: CheckpointRequest) -> str:
    words = [request.state, request.id, request.reason]
    return " ".join(str(word) for word in words if word is not None)


class Play:
    """A coordinator that is driven by lines."""

    def __init__(self, **arguments) -> None:
        self.arguments = {"tasks": TASKS, "triggered": "s"} | arguments
        self.coordinator = CheckpointCoordinator(**self.arguments)
        self.requests: dict[str, CheckpointRequest] = {}

    def step(self, line: str) -> str:
        name, *words = line.split()
        values = [int(word) if word.lstrip("-").isdigit() else word for word in words]
        answer = getattr(self, name, None) or getattr(self, f"see_{name}")
        found = answer(*values)
        parts = [] if found in (None, "") else [str(found)]
        return ", ".join([*parts, *written(self.coordinator.take_actions())])

    def kill(self) -> None:
        """Go on with another coordinator, from what JSON has of this one."""
        kept = json.dumps(self.coordinator.state())
        self.coordinator = CheckpointCoordinator(**self.arguments)
        self.coordinator.restore(json.loads(kept))

    def tick(self, now):
        self.coordinator.tick(now)
        assert self.coordinator.next_time is None or self.coordinator.next_time > now

    def ask(self, label, now, kind="checkpoint", user=""):
        made = self.coordinator.request(now, kind, periodic=user != "user")
        self.requests[str(label)] = made
        return status(made)

    def ack(self, now, id, task):
        return self.coordinator.acknowledge(now, id, task)

    def decline(self, now, id, task, reason="CHECKPOINT_DECLINED"):
        return self.coordinator.decline(now, id, task, reason)

    def fail(self, now, task):
        return self.coordinator.fail_task(now, task)

    def finish(self, now, task):
        return self.coordinator.finish_task(now, task)

    def suspend(self, now):
        return self.coordinator.suspend(now)

    def recover(self, now, *tasks):
        return self.coordinator.recover(now, tasks or None)

    def see_is(self, label):
        return status(self.requests[str(label)])

    def see_next(self):
        return str(self.coordinator.next_time)

    def see_next_id(self):
        return self.coordinator.next_id

    def see_pending(self):
        return " ".join(map(str, self.coordinator.pending))

    def see_retained(self):
        return " ".join(map(str, self.coordinator.retained))

    def see_queued(self):
        labels = {request.number: label for label, request in self.requests.items()}
        waiting = self.coordinator.queued
        assert self.coordinator.is_waiting == bool(waiting)
        return " ".join(labels.get(request.number, "tick") for request in waiting)

    def see_counts(self):
        c = self.coordinator.counts
        return f"{c.total} {c.restored} {c.in_progress} {c.completed} {c.failed}"

    def see_status(self, id):
        figures = self.coordinator.statistics(id)
        return f"{figures.status} {figures.end_to_end} {figures.acknowledged}/{figures.subtasks}"


def check(table: Table, is_killed: bool = False) -> None:
    """Play a table; killed between any two steps, it goes on from what JSON has.

    A request is another object then, so how it ended is left to the other way.
    """
    play = Play(**table.arguments)
    for number, (line, expected) in enumerate(table.steps):
        if not (is_killed and line.startswith("is ")):
            assert play.step(line) == expected, f"step {number}: {line}"
        if is_killed:
            play.kill()
