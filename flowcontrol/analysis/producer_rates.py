"""The rate of a job's producers against its limit: swing, changes of the limit, who ran ahead.

A rate over time is given as what was counted: the times of the samples and the cumulative records
at each. Between two samples the count is a straight line, so that a mean rate over any time is
well defined. ``docs/reference/figures.md`` states the same formulas for readers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np

from flowcontrol.analysis.panel import Panel

TOLERANCE: Final = 0.1
"""A rate is at its limit within this share of it; a limit that moves by less is the same one."""

TRANSIENT: Final = 0.25
"""Share of a phase that counts as its transient."""

WINDOW_SAMPLES: Final = 5
"""Samples over which a rate is averaged before it is compared with its limit."""

_FEWEST: Final = 3
"""Samples after the transient from which on a phase has a swing."""

_EPSILON: Final = 1e-9


@dataclass(frozen=True)
class Step:
    """A time with one limit."""

    start_s: float  # start_s, end_s: from when to when (s)
    end_s: float
    limit: float  # In force there (records/s)


class Limit(Protocol):
    """The limit of a job for some time."""

    @property
    def start_s(self) -> float:
        """From when, s."""

    @property
    def end_s(self) -> float:
        """To when, s."""

    @property
    def produced(self) -> float:
        """What all sources together can emit, records/s."""

    @property
    def consumed(self) -> float:
        """What all sinks together then take up, records/s."""


@dataclass(frozen=True)
class Counted:
    """A cumulative count over a run."""

    times: Sequence[float]  # Of the samples, rising, after 0 (s)
    records: Sequence[float]  # Cumulative count at each

    def mean_rate(self, start_s: float, end_s: float) -> float:
        """Return the mean rate between two moments, records/s.

        Raises ValueError if the second is not after the first.
        """
        if end_s <= start_s:
            raise ValueError(f"no time passes from {start_s} to {end_s} s")
        begin, end = np.interp([start_s, end_s], [0.0, *self.times], [0.0, *self.records])
        return float(end - begin) / (end_s - start_s)

    def rates(self, start_s: float, end_s: float) -> tuple[list[float], list[float]]:
        """Return rate and length of each sample's interval that lies between two moments."""
        times = [0.0, *self.times]
        counts = [0.0, *self.records]
        found = [
            ((counts[i + 1] - counts[i]) / (times[i + 1] - times[i]), times[i + 1] - times[i])
            for i in range(len(times) - 1)
            if times[i] >= start_s - _EPSILON and times[i + 1] <= end_s + _EPSILON
        ]
        return [rate for rate, _ in found], [length for _, length in found]


@dataclass(frozen=True)
class Response:
    """The response of a producer to a change of its limit."""

    at_s: float  # at_s, until_s: the change, and the next one (or the end of the run) (s)
    until_s: float
    before: float  # before, after: the limits (records/s)
    after: float
    # From the change until the rate is at the new limit, and stays. None: it never is (s).
    after_s: float | None
    # Of the mean rates over the windows that begin after the transient, if it never is (records/s).
    lowest: float = 0.0
    highest: float = 0.0

    @property
    def missed(self) -> Literal["", "above", "below", "swings"]:
        """How the limit was missed: the rate stayed above it, below it, or went up and down."""
        if self.after_s is not None:
            return ""
        allowed = TOLERANCE * (self.after or self.before)
        if self.lowest > self.after + allowed:
            return "above"
        return "below" if self.highest < self.after - allowed else "swings"

    @property
    def is_slowdown(self) -> bool:
        """Whether the limit fell."""
        return self.after < self.before


def steps_of(phases: Sequence[Step]) -> list[Step]:
    """Return phases one after the other, those made one whose limits are equal."""
    merged: list[Step] = []
    for phase in phases:
        if merged and merged[-1].limit == phase.limit:
            merged[-1] = Step(merged[-1].start_s, phase.end_s, phase.limit)
        else:
            merged.append(phase)
    return merged


def limit_steps(limits: Sequence[Limit] | None) -> list[Step]:
    """Return the limit of all sources together over time; empty where it is not known."""
    return steps_of([Step(p.start_s, p.end_s, p.produced) for p in limits or ()])


def swing(produced: Counted, steps: Sequence[Step]) -> float | None:
    """Return the coefficient of variation of a rate in phases of a constant limit.

    Returns the root of the mean, over all time that counts, of (rate / mean of its phase - 1)
    squared. The first quarter of each phase (:data:`TRANSIENT`) does not count, nor do phases with
    fewer than three samples after it, nor those in which nothing was emitted. None if no phase is
    left.
    """
    squares = seconds = 0.0
    for step in steps:
        start_s = step.start_s + TRANSIENT * (step.end_s - step.start_s)
        rates, lengths = produced.rates(start_s, step.end_s)
        if len(rates) < _FEWEST or sum(rates) <= 0:
            continue
        mean = float(np.average(rates, weights=lengths))
        squares += sum((r / mean - 1) ** 2 * s for r, s in zip(rates, lengths, strict=True))
        seconds += sum(lengths)
    return (squares / seconds) ** 0.5 if seconds else None


def responses(produced: Counted, steps: Sequence[Step], window_s: float) -> list[Response]:
    """Return the response of a producer to each change of its limit.

    Candidates are the change itself and the samples after it. The rate is *at* the limit from a
    candidate on if its mean over the window that begins there, and over each later window that
    ends before the next change, is within a tenth of the new limit; of the old one where the new
    one is 0.

    ``window_s`` (s): time over which the rate is averaged, from each moment on.

    Changes of at most a tenth of the higher limit do not count, nor do those after which
    the limit stays for less than a window.
    """
    found = []
    for before, step in itertools.pairwise(steps):
        is_small = abs(step.limit - before.limit) <= TOLERANCE * max(step.limit, before.limit)
        if is_small or step.end_s - step.start_s < window_s - _EPSILON:
            continue
        allowed = TOLERANCE * (step.limit or before.limit)
        last = step.end_s - window_s + _EPSILON
        moments = [t for t in produced.times if step.start_s < t <= last]
        since: float | None = None
        for moment in (step.start_s, *moments):
            rate = produced.mean_rate(moment, moment + window_s)
            is_there = abs(rate - step.limit) <= allowed * (1 + _EPSILON)
            if not is_there:
                since = None
            elif since is None:
                since = moment - step.start_s
        settled = step.start_s + TRANSIENT * (step.end_s - step.start_s)
        late = [m for m in (step.start_s, *moments) if m >= settled] or [step.end_s - window_s]
        rates = [produced.mean_rate(moment, moment + window_s) for moment in late]
        ends = (0.0, 0.0) if since is not None else (min(rates), max(rates))
        found.append(Response(step.start_s, step.end_s, before.limit, step.limit, since, *ends))
    return found


def ahead(produced: Counted, steps: Sequence[Step], window_s: float) -> float | None:
    """Return by how much a producer ran ahead of a limit at most.

    ``window_s`` (s): phases that are shorter do not count, nor do those whose limit is 0.

    Returns the largest, over the phases, of (mean rate after the transient / limit - 1); below 0 if
    it never did. None if no phase counts.
    """
    found = []
    for step in steps:
        start_s = step.start_s + TRANSIENT * (step.end_s - step.start_s)
        if step.limit > 0 and step.end_s - step.start_s >= window_s - _EPSILON:
            found.append(produced.mean_rate(start_s, step.end_s) / step.limit - 1)
    return max(found, default=None)


@dataclass(frozen=True)
class Reaction:
    """What the producers did after the falls of the limit, or after its rises."""

    count: int  # Changes that count
    missed: int  # Those after which the rate never was at the new limit
    # How those were missed: above, swings or below, the first of these that occurs; empty if none
    # was.
    how: str
    # Longest time to be at the new limit after one of the others; None without others (s).
    longest_s: float | None


def reaction_of(changes: Sequence[Response], *, is_slowdown: bool) -> Reaction:
    """Return what the producers did after all changes of one direction."""
    own = [change for change in changes if change.is_slowdown == is_slowdown]
    times = [change.after_s for change in own if change.after_s is not None]
    ways = {change.missed for change in own}
    how = next((how for how in ("above", "swings", "below") if how in ways), "")
    return Reaction(len(own), len(own) - len(times), how, max(times, default=None))


@dataclass(frozen=True)
class PiledUp:
    """The edge on which most records piled up between two moments."""

    edge: str  # Its name
    records: int  # records, nbytes: by how much what was in flight on it grew
    nbytes: int
    at_sender: bool  # More of the waiting buffers were added at the sender than at the receiver


_LEVELS: Final = ("in_flight_records", "in_flight_bytes", "backlog", "queued")


def most_piled_up(channels: Panel, at_s: float, until_s: float) -> PiledUp | None:
    """Return the edge on which most was added between two moments; None if none grew."""
    best: PiledUp | None = None
    for edge in sorted(set(channels["edge"].tolist())):
        rows = channels.of("edge", edge).per_sample(_LEVELS)
        first, last = (_levels(rows, moment) for moment in (at_s, until_s))
        records, nbytes, backlog, queued = (b - a for a, b in zip(first, last, strict=True))
        if records > (best.records if best else 0):
            # What lies in a socket is in neither, while a queue may happen to be shorter.
            best = PiledUp(edge, int(records), int(nbytes), backlog > max(0.0, queued))
    return best


def _levels(rows: Panel, at_s: float) -> list[float]:
    """Return the levels at the last sample up to a moment; 0 before the first."""
    count = int(rows["t_s"].searchsorted(at_s + _EPSILON, "right"))
    return [float(rows[name][count - 1]) if count else 0.0 for name in _LEVELS]
