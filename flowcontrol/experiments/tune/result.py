"""The result of a search: figures, table, the best points on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowcontrol.experiments.sweep.axes import value_text
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.tune.explore import Outcome
from flowcontrol.experiments.tune.goals import throughput_of
from flowcontrol.experiments.tune.judge import Verdict, kept_measures
from flowcontrol.experiments.tune.plan import TunePlan
from flowcontrol.experiments.tune.wording import conclusion, figure_text, misses_of
from flowcontrol.report.result import Result
from flowcontrol.report.terminal import plain_table, print_widest

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN: Final = 5
"""Points on the terminal and at the top of the page's table."""


@dataclass(frozen=True, repr=False)
class Tuning(Result):
    """What a search found.

    Attributes
    ----------
    path : Path
        Its folder.
    plan : TunePlan
        What was searched.
    verdict : Verdict
        Its points, judged.
    given : Outcome or None
        The scenario as given; None if it cannot run.
    table : pyarrow.Table
        A row a point.
    """

    kind = "search of"

    path: Path
    plan: TunePlan
    verdict: Verdict
    given: Outcome | None
    table: pa.Table

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.plan.example.name

    @property
    def best(self) -> dict[str, Any] | None:
        """Values of the chosen point, by key; None if no point satisfies the constraints."""
        found = self.verdict.best
        return None if found is None else self.values(found)

    @cached_property
    def measures(self) -> tuple[Metric, ...]:
        """The figures that are kept of each point."""
        return kept_measures(self.plan.goals, self.verdict.axes, self.plan.example)

    @property
    def throughput(self) -> Metric:
        """The rate at which the first sink takes records."""
        return throughput_of(self.plan.example)

    @property
    def ended_early(self) -> bool:
        """Whether runs were left when no point that might be better was."""
        ran = len(self.verdict.ran)
        return ran < self.plan.runs and len(self.verdict.outcomes) < self.plan.space.size

    @cached_property
    def sentence(self) -> str:
        """The chosen point and what it gains, or the nearest one and what it misses."""
        return conclusion(self)

    def values(self, outcome: Outcome) -> dict[str, Any]:
        """Return the values of a point by key."""
        pairs = zip(self.plan.sweep.varied, outcome.point, strict=True)
        return {varied.key: value for varied, value in pairs}

    def figures(self, outcome: Outcome) -> dict[str, float | None]:
        """Return the figures of a point by name."""
        return {one.name: outcome.value(one) for one in self.measures}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The goals, how much was run, the chosen point, the one as given, and the front."""
        verdict, goals = self.verdict, self.plan.goals
        nearest = verdict.nearest if verdict.best is None else None
        return {
            "scenario": self.name,
            "objectives": [f"{one.direction} {one.measure.name}" for one in goals.objectives],
            "constraints": [one.text for one in goals.constraints],
            "points": self.plan.space.size,
            "runs": len(verdict.ran),
            "refused": len(verdict.outcomes) - len(verdict.ran),
            "feasible": len(verdict.feasible),
            "seed": self.plan.seed,
            "batch": self.plan.batch,
            "best": self._described(verdict.best),
            "as_given": None if self.given is None else self.figures(self.given),
            "nearest": self._described(nearest),
            "missed": [] if nearest is None else misses_of(self, nearest),
            "front": [self._described(one) for one in verdict.front],
            "sentence": self.sentence,
        }

    def _described(self, outcome: Outcome | None) -> dict[str, Any] | None:
        if outcome is None:
            return None
        return {"values": self.values(outcome), "figures": self.figures(outcome)}

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``tuning``: a row a point."""
        return {"tuning": self.table}

    def leaders(self, count: int = _SHOWN) -> Sequence[Outcome]:
        """Return the best points: of two objectives the front, evenly, the chosen one among it."""
        verdict = self.verdict
        if len(self.plan.goals.objectives) == 1 or verdict.best is None:
            return verdict.feasible[:count]
        last = len(verdict.front) - 1
        places = {round(last * number / max(1, count - 1)) for number in range(count)}
        places.add(verdict.front.index(verdict.best))
        return [verdict.front[place] for place in sorted(places)]

    def show(self, console: Console | None = None) -> None:
        """Print the best few points, the one as given, and the conclusion."""
        console = console or Console()
        counts = range(len(self.measures), 0, -1)
        print_widest(console, (self._table(count) for count in counts))
        console.print(Text(self.sentence))

    def _table(self, measures: int) -> Table:
        """Return the table with the first figures."""
        table = plain_table()
        table.add_column("")
        heads = [varied.label for varied in self.plan.sweep.varied]
        heads += [one.name for one in self.measures[:measures]]
        for head in heads:
            table.add_column(Text(_broken(head)), justify="right", vertical="bottom")
        rows = [("best" if one is self.verdict.best else "", one) for one in self.leaders()]
        if not rows and self.verdict.nearest is not None:
            rows = [("nearest", self.verdict.nearest)]
        for name, outcome in rows:
            cells = [value_text(value) for value in outcome.point]
            table.add_row(name, *cells, *self._figures(outcome, measures))
        if self.given is not None:
            cells = [value_text(value) for value in self.given.point] or [
                "" for _ in self.plan.sweep.varied
            ]
            table.add_row("as given", *cells, *self._figures(self.given, measures))
        return table

    def _figures(self, outcome: Outcome, count: int) -> list[str]:
        return [figure_text(one, outcome.value(one)) for one in self.measures[:count]]


def _broken(head: str) -> str:
    """Return a head of a column in lines of one word."""
    for mark in ("-", "_", "."):
        head = head.replace(mark, f"{mark}\n")
    return head.replace(" ", "\n")
