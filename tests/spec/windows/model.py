"""Windows as Flink's source reads: dicts, lists and sets of timers, nothing compiled, nothing fast.

Timers of one time are one timer, of the watermark and of the clock each. A window whose trigger
deletes the timer of its clean-up would stay for ever in Flink; here it goes in silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NEVER = (1 << 63) - 1


@dataclass
class Pane:
    """A window of a key."""

    key: str
    start: int
    end: int
    values: list[int] = field(default_factory=list)
    timers: dict[str, set[int]] = field(default_factory=lambda: {"event": set(), "clock": set()})
    count: int = 0
    next: int | None = None
    timeout: int | None = None


class Model:
    """What a window operator should do."""

    def __init__(
        self,
        assigner: tuple[Any, ...],
        trigger: tuple[Any, ...] = ("event",),
        lateness: int = 0,
        purging: bool = False,
        time: str = "event",
    ) -> None:
        self.assigner, self.purging, self.time = assigner, purging, time
        self.timeout = trigger[2:] if trigger[0] == "timeout" else None
        self.trigger = trigger[1] if self.timeout else trigger
        self.is_global = assigner[0] == "global"
        self.lateness = lateness if time == "event" else 0
        self.panes: list[Pane] = []
        self.at = {"event": -NEVER - 1, "clock": -NEVER - 1}
        self.now = 0
        self.late: list[tuple[str, int, int]] = []
        self.merged = 0

    def last(self, pane: Pane) -> int:
        return NEVER if self.is_global else pane.end - 1

    def cleanup(self, pane: Pane) -> int | None:
        return None if self.is_global else pane.end - 1 + self.lateness

    def is_late(self, pane: Pane) -> bool:
        cleanup = self.cleanup(pane)
        return self.time == "event" and cleanup is not None and cleanup <= self.at["event"]

    def spans(self, key: str, value: int, at: int) -> list[tuple[int, int]]:
        kind = self.assigner[0]
        if kind == "global":
            return [(-NEVER - 1, NEVER)]
        if kind == "session":
            gap = self.assigner[1]
            return [(at, at + (gap(key, value) if callable(gap) else gap))]
        size = self.assigner[1]
        slide = self.assigner[2] if kind == "sliding" else size
        offset = self.assigner[-1]
        starts = range(at - size + 1, at + 1)
        return [(s, s + size) for s in reversed(starts) if (s - offset) % slide == 0]

    def element(self, now: int, key: str, value: int, timestamp: int) -> list[Any]:
        at = now if self.time == "processing" else timestamp
        self.now, found, is_skipped = now, [], True
        for start, end in self.spans(key, value, at):
            pane = self.pane_for(key, start, end)
            if pane is None:
                continue
            is_skipped = False
            pane.values.append(value)
            if self.on_element(pane, at, now):
                found += self.fire(pane)
            cleanup = self.cleanup(pane)
            if cleanup is not None:
                pane.timers["event" if self.time == "event" else "clock"].add(cleanup)
            self.forget(pane)
        is_behind = self.time == "event" and timestamp + self.lateness <= self.at["event"]
        if is_skipped and is_behind and not self.is_global:
            self.late.append((key, value, timestamp))
        return found

    def pane_for(self, key: str, start: int, end: int) -> Pane | None:
        own = [pane for pane in self.panes if pane.key == key]
        new = Pane(key, start, end)
        if self.assigner[0] == "session":
            touching = [pane for pane in own if start <= pane.end and pane.start <= end]
            if touching:
                return self.merge(new, touching)
        else:
            same = [pane for pane in own if pane.start == start]
            if same:
                return None if self.is_late(same[0]) else same[0]
        if self.is_late(new):
            return None
        self.panes.append(new)
        return new

    def merge(self, new: Pane, touching: list[Pane]) -> Pane:
        first = touching[0]
        start = min(pane.start for pane in [new, *touching])
        end = max(pane.end for pane in [new, *touching])
        if (start, end) == (first.start, first.end):
            return first
        self.merged += len(touching) > 1
        whole = Pane(first.key, start, end)
        whole.values = [value for pane in touching for value in pane.values]
        whole.count = sum(pane.count for pane in touching)
        whole.next = min((p.next for p in touching if p.next is not None), default=None)
        last = self.last(whole)
        if self.trigger[0] == "event" and last > self.at["event"]:
            whole.timers["event"].add(last)
        if self.trigger[0] == "processing" and last > self.now:
            whole.timers["clock"].add(last)
        if whole.next is not None:
            whole.timers["event" if self.time == "event" else "clock"].add(whole.next)
        self.panes[self.panes.index(first)] = whole
        self.panes = [pane for pane in self.panes if not any(pane is old for old in touching)]
        return whole

    def fire(self, pane: Pane) -> list[Any]:
        if not pane.values:
            return []
        found = (pane.key, sum(pane.values), pane.start, pane.end, self.last(pane))
        if self.purging:
            pane.values = []
        return [found]

    def on_element(self, pane: Pane, at: int, now: int) -> bool:
        fires = self.inner_on_element(pane, at, now)
        if self.timeout is None:
            return fires
        if fires:
            self.clear(pane)
            return True
        after, resets = self.timeout[0], self.timeout[1]
        if pane.timeout is not None and resets:
            pane.timers["clock"].discard(pane.timeout)
            pane.timeout = None
        if pane.timeout is None:
            pane.timeout = now + after
            pane.timers["clock"].add(pane.timeout)
        return False

    def inner_on_element(self, pane: Pane, at: int, now: int) -> bool:
        kind = self.trigger[0]
        last = self.last(pane)
        if kind == "count":
            pane.count += 1
            fires = pane.count >= self.trigger[1]
            pane.count = 0 if fires else pane.count
            return fires
        if kind == "processing":
            pane.timers["clock"].add(last)
        if kind == "event" or (kind == "continuous" and self.time == "event"):
            if last <= self.at["event"]:
                return True
            pane.timers["event"].add(last)
        if kind == "continuous" and pane.next is None:
            now = at if self.time == "event" else now
            self.set_next(pane, abs(now) // self.trigger[1] * self.trigger[1] * (-1, 1)[now >= 0])
        return False

    def set_next(self, pane: Pane, after: int) -> None:
        pane.next = min(after + self.trigger[1], self.last(pane))
        pane.timers["event" if self.time == "event" else "clock"].add(pane.next)

    def on_timer(self, pane: Pane, which: str, at: int) -> bool:
        kind, fires = self.trigger[0], False
        if kind == "event":
            fires = which == "event" and at == self.last(pane)
        elif kind == "processing":
            fires = which == "clock"
        elif kind == "continuous" and which == ("event" if self.time == "event" else "clock"):
            if which == "event" and at == self.last(pane):
                fires = True
            elif pane.next == at:
                fires = True
                self.set_next(pane, at)
        if self.timeout is None:
            return fires
        if self.timeout[2]:
            self.clear(pane)
        return True

    def clear(self, pane: Pane) -> None:
        if pane.timeout is not None:
            pane.timers["clock"].discard(pane.timeout)
            pane.timeout = None
        if self.trigger[0] == "event":
            pane.timers["event"].discard(self.last(pane))
        if self.trigger[0] == "processing":
            pane.timers["clock"].discard(self.last(pane))
        if pane.next is not None:
            pane.timers["event" if self.time == "event" else "clock"].discard(pane.next)
            pane.next = None
        pane.count = 0

    def advance(self, which: str, at: int) -> list[Any]:
        """Let the watermark or the clock come to a time."""
        self.at[which], found = max(self.at[which], at), []
        removes = which == ("event" if self.time == "event" else "clock")
        if at < self.at[which]:
            return []
        while True:
            due = [(t, i) for i, pane in enumerate(self.panes) for t in pane.timers[which]]
            if removes and not self.is_global:
                due += [(self.cleanup(pane) or 0, i) for i, pane in enumerate(self.panes)]
            due = [(t, i) for t, i in due if t <= at]
            if not due:
                return found
            t, i = min(due)
            pane = self.panes[i]
            if t in pane.timers[which]:
                pane.timers[which].discard(t)
                if self.on_timer(pane, which, t):
                    found += self.fire(pane)
            if removes and t == self.cleanup(pane):
                self.panes.pop(i)
            self.forget(pane)

    def forget(self, pane: Pane) -> None:
        """Drop a global window of which nothing is left: it begins anew, behind the others."""
        remembers = (pane.values, pane.count, *pane.timers.values())
        if self.is_global and not any(remembers) and pane.next is pane.timeout is None:
            self.panes = [other for other in self.panes if other is not pane]
