"""A change of a scenario, the figures that it is judged by, and what it gains for its cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from flowcontrol.analysis.figures import Figures, figures, values_of
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.run_view import RunView
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.problems import key_path

# --- A change of a scenario, and what the choice of changes depends on.


Path = tuple[str | int, ...]
"""A key of a scenario: keys, names of stages and positions."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a scenario."""

    # What is changed, such as ``parallelism``; of one kind at most one change is made at a time.
    kind: str
    name: str  # What it does, in a few words
    keys: tuple[tuple[Path, Any], ...]  # Keys with their new values, plain JSON
    why: str  # What suggests it
    cautions: tuple[str, ...] = ()  # What it takes besides, a sentence each

    @property
    def caution(self) -> str:
        """What it takes besides; empty if nothing."""
        return " ".join(self.cautions)

    @property
    def document(self) -> dict[str, Any]:
        """The keys as text, with their values."""
        return {key_path(list(path)): value for path, value in self.keys}

    @property
    def text(self) -> str:
        """The keys in one text: equal changes have equal ones."""
        return json.dumps(self.document, sort_keys=True)

    def on_managers(self, count: int) -> Change:
        """Return the change with so many task managers."""
        key = (("cluster", "task_managers"), count)
        return replace(self, name=f"{self.name}, on {count} task managers", keys=(*self.keys, key))

    def joined(self, other: Change, why: str) -> Change:
        """Return both changes in one."""
        return Change(
            f"{self.kind}+{other.kind}",
            f"{self.name}; {other.name}",
            self.keys + other.keys,
            why,
            tuple(dict.fromkeys((*self.cautions, *other.cautions))),
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run shows of a job, as far as changes depend on it."""

    limits: str | None  # The stage that limits
    busiest: Mapping[str, float]  # Busy share of the busiest subtask of each stage, 0 to 1
    # Share of time for which the most blocked source was, while any was at all; or of what was
    # emitted at the end, what filled buffers that are not full yet, if that is more.
    held_back: float


@dataclass(frozen=True, slots=True)
class Subject:
    """A scenario whose changes are sought."""

    scenario: Scenario  # Read and checked
    # The same as its file has it: what is stated there must be changed with what depends on it.
    mapping: Mapping[str, Any]
    seen: Seen  # What its run shows

    def path(self, stage: str, key: str) -> Path:
        """Return the path of a key of a stage or operator."""
        return ("operators" if self.scenario.operators else "stages", stage, key)

    def stated(self, stage: str, key: str) -> Any:
        """Return what the file states for a key of a stage or operator; None if nothing."""
        kind = "operators" if self.scenario.operators else "stages"
        return next(one.get(key) for one in self.mapping[kind] if one["name"] == stage)


@dataclass(frozen=True, slots=True)
class NotRun:
    """A change that was not run."""

    change: Change  # Which
    why: str  # What refused it


# --- The figures that judge a run: throughput, latency, data in flight, checkpoints, memory, slots.


Goal = Literal["throughput", "latency", "checkpoints", "memory"]
"""What a change is to improve."""

GOALS: Final[tuple[Goal, ...]] = ("throughput", "latency", "checkpoints", "memory")

FIGURE_OF: Final[dict[Goal, str]] = {
    "throughput": "throughput",
    "latency": "latency_p99_ms",
    "checkpoints": "checkpoint_ms",
    "memory": "memory_bytes",
}
"""The figure that each goal is measured by."""


def measured(found: Figures, goal: Goal) -> float | None:
    """Return the figure that a goal is measured by."""
    value: float | None = found.values[FIGURE_OF[goal]]
    return value


def is_more_better(goal: Goal) -> bool:
    """Tell whether more of the figure of a goal is better."""
    own = (one for one in figures("advise", of_job=True))
    return next(one.better == "higher" for one in own if one.at("advise").name == FIGURE_OF[goal])


def figures_of(tables: Tables, scenario: Scenario) -> Figures:
    """Work out the figures of a run."""
    return Figures(values_of(RunView(scenario, tables), "advise"))


# --- How much a change gains, and for what.


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
