"""The result of advice: what was run, what each change did, and the conclusion."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from flowcontrol.experiments.advise.gain import Change, Proposal, measured, saves
from flowcontrol.report.advice import print_advice
from flowcontrol.report.numbers import bytes_text, milliseconds, rate
from flowcontrol.report.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.analysis.figures import Figures
    from flowcontrol.experiments.advise.gain import Goal, NotRun


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
