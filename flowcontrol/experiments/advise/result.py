"""The result of advice: what was run, what each change did, and the conclusion."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.console import Console
from rich.text import Text

from flowcontrol.analysis.figures import Figures, figures, values_of
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.run_view import RunView
from flowcontrol.report.advice import print_advice
from flowcontrol.report.markup import bytes_text, milliseconds, rate
from flowcontrol.report.result import Result
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.problems import key_path

if TYPE_CHECKING:
    import pyarrow as pa


# --- A change of a scenario, and what the choice of changes depends on.


KeyPath = tuple[str | int, ...]
"""A key of a scenario: keys, names of stages and positions."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a scenario."""

    # What is changed, such as ``parallelism``; of one kind at most one change is made at a time.
    kind: str
    name: str  # What it does, in a few words
    keys: tuple[tuple[KeyPath, Any], ...]  # Keys with their new values, plain JSON
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

    def path(self, stage: str, key: str) -> KeyPath:
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


# --- Advice in sentences.


MOST_SAVINGS: Final = 3
"""Changes named that only save something."""

_WORDS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "throughput": ("throughput", rate),
    "latency": ("the p99 of latency", milliseconds),
    "checkpoints": ("a checkpoint", milliseconds),
    "memory": ("network memory", bytes_text),
}


def conclusion(goal: Goal, before: Figures, proposals: Sequence[Proposal]) -> str:
    """Return the best change, what it does and what it takes; or that nothing helps."""
    noun, text = _WORDS[goal]
    if not proposals:
        return "No change of this scenario could be run."
    if not proposals[0].helps:
        if len(proposals) == 1:
            return f"The only change that was run does not improve {noun} by more than 1 %."
        return f"None of {len(proposals)} changes that were run improves {noun} by more than 1 %."
    best = proposals[0]
    was, now = measured(before, goal), measured(best.figures, goal)
    change = "none" if was is None else text(was)
    to = "none" if now is None else text(now)
    line = f"What helps most for its cost is {best.change.name}: {noun} from {change} to {to}"
    taken = ", ".join(_taken(best))
    line += f", for {taken}." if taken else ", at no cost in slots or network memory."
    line += "".join(_besides(goal, before, best.figures))
    if best.seen.limits is not None:
        line += f" Then {best.seen.limits} limits."
    return f"{line} {best.change.caution}".rstrip()


def savings(before: Figures, proposals: Sequence[Proposal]) -> list[str]:
    """Return sentences on changes that save slots or memory and lose nothing."""
    found = [one for one in proposals if not one.helps and saves(one, before)]
    found.sort(key=lambda one: (one.slots, one.memory_bytes))
    return [
        f"{_at_the_start(one.change)} would save {' and '.join(_saved(one))} and lose nothing."
        for one in found[:MOST_SAVINGS]
    ]


def _at_the_start(change: Change) -> str:
    """Return the name of a change for the start of a sentence; a stage keeps its own letters."""
    first, _, rest = change.name.partition(" ")
    is_stage = "->" in first or any(first in path for path, _ in change.keys)
    return f"{first if is_stage else first[:1].upper() + first[1:]} {rest}"


def _taken(one: Proposal) -> Iterator[str]:
    if one.slots > 0:
        yield f"{one.slots} more slot{'s' * (one.slots > 1)}"
    if one.memory_bytes > 0:
        yield f"{bytes_text(one.memory_bytes)} more network memory"


def _saved(one: Proposal) -> Iterator[str]:
    if one.slots < 0:
        yield f"{-one.slots} slot{'s' * (one.slots < -1)}"
    if one.memory_bytes < 0:
        yield f"{bytes_text(-one.memory_bytes)} of network memory"


def _besides(goal: Goal, before: Figures, after: Figures) -> Iterator[str]:
    """Yield what becomes worse by more than a tenth."""
    was, now = before.latency_p99_ms, after.latency_p99_ms
    if goal != "latency" and was is not None and now is not None and now > 1.1 * was:
        yield f" But the p99 of latency rises from {milliseconds(was)} to {milliseconds(now)}."
    if goal != "throughput" and after.throughput < 0.9 * before.throughput:
        first, second = rate(before.throughput), rate(after.throughput)
        yield f" But throughput falls from {first} to {second}."


# --- The result of advice: what was run and what each change did.


@dataclass(frozen=True, repr=False)
class Advice(Result):
    """Changes of a scenario that were run.

    Attributes
    ----------
    name : str
        Of the scenario.
    goal : Goal
        What was to improve.
    limits : str or None
        The stage that limits the scenario as it is.
    finding : str
        The bottleneck of the scenario as it is, and why.
    before : Figures
        Of the scenario as it is.
    proposals : tuple of Proposal
        What was run, the most gain for its cost first.
    not_run : tuple of NotRun
        Changes that the clock refuses, or that were too long.
    path : Path or None
        Folder of the results; None if nothing is written.
    """

    kind = "advice on"

    name: str
    goal: Goal
    limits: str | None
    finding: str
    before: Figures
    proposals: tuple[Proposal, ...]
    not_run: tuple[NotRun, ...]
    path: Path | None = None

    @cached_property
    def sentence(self) -> str:
        """The best change, what it does and what it takes."""
        return conclusion(self.goal, self.before, self.proposals)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All of it as plain JSON, as in ``advice.json``."""
        proposals = [one.document() for one in self.proposals]
        for one in proposals:  # JSON knows no infinity: where there was nothing before
            for key in ("gain", "score"):
                one[key] = one[key] if math.isfinite(one[key]) else None
        return {
            "scenario": self.name,
            "goal": self.goal,
            "limits": self.limits,
            "finding": self.finding,
            "sentence": self.sentence,
            "savings": savings(self.before, self.proposals),
            "before": self.before.document(),
            "proposals": proposals,
            "not_run": [
                {"name": one.change.name, "changes": one.change.document, "why": one.why}
                for one in self.not_run
            ],
        }

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``proposals``: a row a change, in their order."""
        import pyarrow as pa

        rows = []
        for one in self.summary["proposals"]:
            figures = {f"{key}_after": value for key, value in one["figures"].items()}
            rows.append({**one, **figures, "changes": json.dumps(one["changes"])})
            del rows[-1]["figures"]
        return {"proposals": pa.Table.from_pylist(rows)}

    def show(self, console: Console | None = None) -> None:
        """Print what limits, the changes that help most, and those that save something."""
        console = console or Console()
        console.print(Text(self.finding))
        print_advice(self.summary, console)
