"""A job of one source, one queue and one server, round by round, that a controller drives.

The server is the sink. All times are whole microseconds, and everything is exact: the source emits
an own interval apart, the server takes a record up whenever it is free.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from flowcontrol.systems.throttles.controller import (
    Command,
    Controller,
    JobObservation,
    SourceObservation,
    TaskObservation,
)

ABOVE = {"sink": ["source"]}


@dataclass
class Toy:
    """The job; ``arrival`` and ``service`` are records/s that divide a million."""

    controller: Controller
    arrival: int
    service: int
    round_us: int
    has_log: bool = False
    record_bytes: int = 100
    now_us: int = 0
    offered: int = 0
    emitted: int = 0
    taken: int = 0
    free_us: int = 0
    last_ns: int = 0
    queue: deque[int] = field(default_factory=deque)
    commands: list[tuple[int, Command]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        self.say(self.controller.first([self.source()]))

    def source(self) -> SourceObservation:
        log = self.offered - self.emitted if self.has_log else 0
        return SourceObservation("source", 0, self.emitted, log, self.offered, float(self.arrival))

    def seen(self) -> JobObservation:
        queued = len(self.queue)
        service_ms = 1000 / self.service
        task = TaskObservation(
            "sink", 0, queued, queued * self.record_bytes, self.taken, service_ms
        )
        is_empty = queued == 0 and self.free_us <= self.now_us
        oldest = self.queue[0] if self.queue else -1
        return JobObservation(self.now_us, (self.source(),), (task,), is_empty, self.taken, oldest)

    def say(self, commands: list[Command]) -> None:
        """Keep what was said if it is something new."""
        assert len(commands) == 1
        if not self.commands or commands[0] != self.commands[-1][1]:
            self.commands.append((self.now_us // 1000, commands[0]))

    def run(self, seconds: float) -> Toy:
        """Run so many seconds more."""
        for _ in range(round(seconds * 1e6 / self.round_us)):
            self.round()
        return self

    def round(self) -> None:
        end_us = self.now_us + self.round_us
        self.emit(end_us)
        self.serve(end_us)
        self.now_us = end_us
        self.depths.append(len(self.queue))
        seen = self.seen()
        is_due = end_us >= self.controller.next_look_us()
        if is_due or (seen.is_empty and self.controller.wants_empty):
            self.looks += 1
            self.say(self.controller.observe(seen))
            assert self.controller.next_look_us() > end_us

    def emit(self, end_us: int) -> None:
        command = self.commands[-1][1]
        own_us = 1_000_000 // self.arrival
        if self.has_log:
            self.offered = end_us // own_us
            if command.is_stopped == 1:
                return
            most = self.offered if command.admitted < 0 else command.admitted
            more = min(self.offered, most) - self.emitted
            assert more >= 0
            self.push(more, end_us)
            return
        # A source that sleeps emits as soon as it has slept; what fell due while it was stopped is
        # lost, and its next record is due an own interval after it was let go.
        self.offered = end_us // own_us
        if command.is_stopped == 1:
            self.last_ns = end_us * 1000
            return
        step_ns = max(own_us * 1000, command.gap_ns)
        while self.last_ns + step_ns <= end_us * 1000:
            self.last_ns += step_ns
            self.push(1, end_us)

    def push(self, count: int, end_us: int) -> None:
        if count > 0 and not self.queue:
            self.free_us = max(self.free_us, self.now_us)
        self.queue.extend([end_us] * count)
        self.emitted += count

    def serve(self, end_us: int) -> None:
        while self.queue and self.free_us < end_us:
            self.queue.popleft()
            self.free_us += 1_000_000 // self.service
            self.taken += 1


def stops(toy: Toy) -> list[tuple[int, int]]:
    """Return when the source was stopped (1) and let go (0), ms, the beginning left out."""
    return [(at_ms, command.is_stopped) for at_ms, command in toy.commands[1:]]


def grown(toy: Toy) -> list[tuple[int, int]]:
    """Return when a batch began, ms, and how many records it had."""
    said = [(at_ms, command.admitted) for at_ms, command in toy.commands]
    return [(at, b - a) for (_, a), (at, b) in pairwise(said)]
