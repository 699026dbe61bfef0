"""How much a change gains, and for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.figures import Figures
from flowcontrol.experiments.advise.changes import Change, Seen
from flowcontrol.experiments.advise.figures import Goal, is_more_better, measured

if TYPE_CHECKING:
    from flowcontrol.scenario import Scenario

HELD_BACK: Final = 0.02
"""Blocked share of a source, or share of its records that wait in its log, above which throughput
is what a job lacks."""

NOTICEABLE: Final = 0.01
"""Least gain, as a share, that is advice."""

_SLOW: Final = 0.5
"""Share of the interval from which a checkpoint is slow."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that was run."""

    change: Change  # What was changed
    figures: Figures  # Of its run
    # By how much the goal's figure is better, as a share of that of the scenario as it is: 0.5 is
    # half as much throughput again, or a latency of two thirds; below 0 it is worse. If the goal is
    # another and more than 1 % of throughput is lost, that loss is the gain.
    gain: float
    slots: int  # Slots more; below 0 fewer
    memory_bytes: int  # Network memory more; below 0 less (bytes)
    # The gain for its cost: gain / (1 + share of slots more + share of memory more), where what is
    # saved counts as 0; of a loss the loss.
    score: float
    seen: Seen  # What its run shows: what limits then

    @property
    def helps(self) -> bool:
        """Whether the gain is worth saying."""
        return self.gain > NOTICEABLE

    def document(self) -> dict[str, Any]:
        """Return the proposal as plain JSON."""
        return {
            "name": self.change.name,
            "kind": self.change.kind,
            "changes": self.change.document,
            "why": self.change.why,
            "caution": self.change.caution,
            "gain": self.gain,
            "slots": self.slots,
            "memory_bytes": self.memory_bytes,
            "score": self.score,
            "helps": self.helps,
            "limits": self.seen.limits,
            "figures": self.figures.document(),
        }


def goal_of(scenario: Scenario, figures: Figures) -> Goal:
    """Return what a job lacks.

    Returns ``throughput`` if a source is held back, or behind its log at the end; else
    ``checkpoints`` if one takes more than half of the interval; else ``latency``.
    """
    if figures.held_back > HELD_BACK or figures.lagging > HELD_BACK:
        return "throughput"
    own, taken_ms = scenario.checkpointing, figures.checkpoint_ms
    if own is None or own.interval_us is None or taken_ms is None:
        return "latency"
    return "checkpoints" if taken_ms > _SLOW * own.interval_us / 1000 else "latency"


def weighed(change: Change, before: Figures, after: Figures, goal: Goal, seen: Seen) -> Proposal:
    """Return what a change gained."""
    gain = _gain(measured(before, goal), measured(after, goal), more=is_more_better(goal))
    lost = _gain(before.throughput, after.throughput, more=True)
    if lost < -NOTICEABLE:
        gain = min(gain, lost)
    slots = after.slots - before.slots
    memory = (after.memory_bytes or 0) - (before.memory_bytes or 0)
    cost = max(0, slots) / max(1, before.slots) + max(0, memory) / max(1, before.memory_bytes or 0)
    score = gain / (1 + cost) if gain > 0 else gain
    return Proposal(change, after, gain, slots, memory, score, seen)


def saves(proposal: Proposal, before: Figures) -> bool:
    """Tell whether a change takes less and loses nothing: throughput, nor latency."""
    after = proposal.figures
    is_less = (proposal.slots, proposal.memory_bytes) != (0, 0) and max(
        proposal.slots, proposal.memory_bytes
    ) <= 0
    keeps = after.throughput >= (1 - NOTICEABLE) * before.throughput
    late, was = after.latency_p99_ms, before.latency_p99_ms
    is_late = late is None or was is None or late > (1 + NOTICEABLE) * was
    return is_less and keeps and not is_late


def _gain(before: float | None, after: float | None, *, more: bool) -> float:
    """Return by which share a figure is better; 0 where there was nothing to compare with."""
    if before is None or after is None:
        # No record came to a sink, or no checkpoint completed: that some do is all the gain.
        return float(before is None) - float(after is None)
    if before == after:
        return 0.0
    first, second = (before, after) if more else (after, before)
    return second / first - 1 if first > 0 else float("inf")
