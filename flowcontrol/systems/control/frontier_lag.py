"""Timely's probe: a source begins a batch only while few before it are unfinished.

"Emit only while time < probe + k" of Timely Dataflow's applications; the formulas are in
:mod:`flowcontrol.systems.frontier_lag`. A batch's number is its logical time. It lasts
``interval_ms`` from when it began, and the sources, all of them together, wait between two batches
while the next one may not begin. What falls due then is lost: there is no log.

Where this differs: a batch lasts whole rounds; it is done when sinks have taken up all its records,
where Timely's frontier also waits for operators that hold a time back; and word of the frontier
takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from flowcontrol.systems.control.controller import Controller, interval_us
from flowcontrol.systems.control.seen import GO, STOP, Command, Seen, SourceSeen
from flowcontrol.systems.frontier_lag import frontier, may_begin

__all__ = ["FrontierLag"]


class FrontierLag(Controller):
    """Stop the sources while ``lag`` of their batches are not done everywhere.

    Messages are the steps of the frontier that the sources hear of, one a batch and source.

    Parameters
    ----------
    values : mapping of str to float
        The throttle's parameters.
    round_us : int
        Length of a round, microseconds.
    """

    needs_ages: ClassVar[bool] = True

    _kept: ClassVar[tuple[str, ...]] = ("look_us", "is_open", "first_open", "ends")

    def __init__(self, values: Mapping[str, float], round_us: int) -> None:
        super().__init__()
        self._round_us = round_us
        self._interval_us = interval_us(values["interval_ms"], round_us)
        self._lag = int(values["lag"])
        self.look_us = self._interval_us
        self.is_open = True  # a batch is being emitted
        self.first_open = 0  # the frontier, as it was last seen
        self.ends: list[int] = []  # when the batches from there on ended, the one emitted not yet

    def first(self, sources: Sequence[SourceSeen]) -> list[Command]:
        """Begin batch 0."""
        return [GO] * len(sources)

    def next_look_us(self) -> int:
        """Return the end of the batch; every round while the next one waits."""
        return self.look_us

    def observe(self, seen: Seen) -> list[Command]:
        """End a batch that has lasted its time; begin the next one if it may."""
        if seen.now_us >= self.look_us:
            if self.is_open:
                self.is_open = False
                self.ends.append(seen.now_us)
            self._advance(seen)
            if may_begin(self.first_open + len(self.ends), self.first_open, self._lag) == 1:
                self.is_open = True
            self.look_us = seen.now_us + (self._interval_us if self.is_open else self._round_us)
        return [GO if self.is_open else STOP] * len(seen.sources)

    def _advance(self, seen: Seen) -> None:
        """Move the frontier past the batches of which nothing is under way."""
        steps = frontier(self.first_open, self.ends, seen.oldest_us) - self.first_open
        self.ends = self.ends[steps:]
        self.first_open += steps
        self.messages += steps * len(seen.sources)
