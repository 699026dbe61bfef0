"""The result of advice: what was run and what each change did."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from flowcontrol.experiments.advise.wording import conclusion, savings
from flowcontrol.report.advice import print_advice
from flowcontrol.report.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.analysis.figures import Figures
    from flowcontrol.experiments.advise.figures import Goal
    from flowcontrol.experiments.advise.gain import Proposal
    from flowcontrol.experiments.advise.tried import NotRun


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
