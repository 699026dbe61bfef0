"""Storm 1 and Heron: one claim of pressure anywhere stops every source.

Storm 1.2.3 (``WorkerBackpressureThread``, ``topology-backpressure`` in ZooKeeper), Heron's stream
manager; the marks and ages are in :mod:`flowcontrol.systems.global_hysteresis`.

Where this differs from them:

- A queue is looked at every ``check_ms``, not at each insert, so it is found above a mark up to one
  look too late. Heron's looks are those of a connection at each write; here they are of what
  waits for a receiving subtask, at the ends of rounds.
- Every subtask claims for itself; Storm's claim is that of a worker, Heron's that of a stream
  manager, for all that they run. Whether anybody claims is the same.
- A claim that has grown too old ends for the sources at the next look; Storm's spouts ask again
  every 30 s at most.
- A source that hears of it stops at once. Heron's spouts go on until their sockets are full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from flowcontrol.systems.control.controller import Controller, interval_us, next_tick_us
from flowcontrol.systems.control.seen import GO, STOP, Command, Seen, SourceSeen
from flowcontrol.systems.global_hysteresis import (
    is_claimed,
    is_throttled,
    mark,
    mark_below,
    may_emit,
    streak,
)

__all__ = ["GlobalHysteresis"]


class GlobalHysteresis(Controller):
    """Stop all sources while any queue claims pressure.

    Messages are claims that are written, written again or taken back, and every source's hearing
    of a change.

    Parameters
    ----------
    values : mapping of str to float
        The throttle's parameters. Marks are in slots, or in bytes if ``high_bytes`` is positive.
    round_us : int
        Length of a round, microseconds.
    """

    _kept: ClassVar[tuple[str, ...]] = (
        "look_us", "claims", "met", "written_ms", "said", "heard", "pending",
    )  # fmt: skip

    def __init__(self, values: Mapping[str, float], round_us: int) -> None:
        super().__init__()
        self._by_bytes = values["high_bytes"] > 0
        if self._by_bytes:
            self._high = int(values["high_bytes"])
            self._low = mark_below(int(values["low_bytes"]))
        else:
            slots = int(values["slots"])
            self._high, self._low = mark(values["high"], slots), mark(values["low"], slots)
        self._consecutive = int(values["consecutive"])
        self._check_us = interval_us(values["check_ms"], round_us)
        self._delay_us = [round(values[f"delay_{to}_ms"] * 1000) for to in ("off", "on")]
        self._update_ms = int(values["update_ms"])
        self._timeout_ms = int(values["timeout_ms"])
        self.look_us = self._check_us
        self.claims: list[int] = []
        self.met: list[int] = []
        self.written_ms: list[int] = []
        self.said = self.heard = 0
        self.pending: list[list[int]] = []  # when the sources hear, and what

    def first(self, sources: Sequence[SourceSeen]) -> list[Command]:
        """Let all sources emit."""
        return [GO] * len(sources)

    def next_look_us(self) -> int:
        """Return the next look at the queues, or when the sources hear, if that is sooner."""
        return min([self.look_us, *(at for at, _ in self.pending)])

    def observe(self, seen: Seen) -> list[Command]:
        """Look at the queues if it is time; tell the sources what has reached them."""
        if seen.now_us >= self.look_us:
            self.look_us = next_tick_us(seen.now_us, self._check_us)
            self._look(seen)
        while self.pending and self.pending[0][0] <= seen.now_us:
            _, heard = self.pending.pop(0)
            self.messages += len(seen.sources) if heard != self.heard else 0
            self.heard = heard
        may = may_emit(0, self.heard, 0, 0)
        return [GO if may == 1 else STOP] * len(seen.sources)

    def _look(self, seen: Seen) -> None:
        """Renew every queue's claim, and send word to the sources if the outcome has changed."""
        if not self.claims:
            self.claims = [0] * len(seen.tasks)
            self.met = [0] * len(seen.tasks)
            self.written_ms = [-1] * len(seen.tasks)
        now_ms = seen.now_us // 1000
        for number, task in enumerate(seen.tasks):
            self._claim(number, task.queued_bytes if self._by_bytes else task.queued, now_ms)
        newest = max(self.written_ms, default=-1)
        said = is_throttled(newest, now_ms, self._timeout_ms)
        if said != self.said:
            self.said = said
            at = seen.now_us + self._delay_us[said]
            # Who is told reads what stands there then: word that comes later than this is of no
            # use any more.
            self.pending = [[time, word] for time, word in self.pending if time < at]
            self.pending.append([at, said])

    def _claim(self, number: int, waiting: int, now_ms: int) -> None:
        """Let a queue claim pressure, repeat its claim or take it back."""
        self.met[number] = streak(self.met[number], 1 if waiting >= self._high else 0)
        was = self.claims[number]
        claims = is_claimed(
            was, waiting, self._high, self._low, self.met[number], self._consecutive
        )
        self.claims[number] = claims
        is_old = self._timeout_ms > 0 and now_ms - self.written_ms[number] >= self._update_ms
        if claims == 1 and (was == 0 or is_old):
            self.written_ms[number] = now_ms
            self.messages += 1
        elif claims == 0 and was == 1:
            self.written_ms[number] = -1
            self.messages += 1
