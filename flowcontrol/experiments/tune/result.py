"""The result of a search: figures, sentences, the best points on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowcontrol.analysis.waits import ROUND
from flowcontrol.experiments.sweep.charts import value_text
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.plan import Point
from flowcontrol.experiments.tune.goals import Constraint, Objective, throughput_of
from flowcontrol.experiments.tune.judge import Verdict, kept_measures
from flowcontrol.experiments.tune.plan import TunePlan
from flowcontrol.experiments.tune.search import Outcome
from flowcontrol.report.markup import bytes_text, milliseconds, number, percent
from flowcontrol.report.result import Result
from flowcontrol.report.terminal import plain_table, print_widest

if TYPE_CHECKING:
    import pyarrow as pa


# --- A search in words: the chosen point, what it gains, or by how much the nearest one misses.


_SAME: Final = 0.01
"""Relative difference of a throughput that is not worth a word."""

_SMALL: Final = 0.01
"""Limit below which two digits behind the point do not show it."""

_FAR: Final = 10.0
"""Relative miss from which per cent say nothing."""


def figure_text(measure: Metric, value: float | None) -> str:
    """Return a value with its unit."""
    if value is None:
        return "none"
    if measure.unit == "bytes":
        return bytes_text(value)
    if measure.unit == "ms":
        return milliseconds(value)
    return f"{number(value)} {measure.unit}".strip()


def point_text(tuning: Tuning, point: Point) -> str:
    """Return a point by the values of its keys."""
    pairs = zip(tuning.plan.sweep.varied, point, strict=True)
    return ", ".join(f"{varied.label}={value_text(value)}" for varied, value in pairs)


def limit_text(constraint: Constraint) -> str:
    """Return a constraint with its limit in words: ``sink.latency_p99_ms at most 200 ms``."""
    return f"{constraint.measure.name} {_short(constraint)}"


def miss_text(constraint: Constraint, value: float | None) -> str:
    """Return by how much a constraint is missed."""
    if value is None:
        return f"{limit_text(constraint)}: there is no such figure in the run"
    miss = constraint.miss(value)
    far = f"{percent(miss)} beyond" if miss < _FAR else f"{number(1 + miss)} times as much"
    return f"{limit_text(constraint)}: it is {figure_text(constraint.measure, value)}, {far}"


def misses_of(tuning: Tuning, outcome: Outcome) -> list[str]:
    """Return the constraints that a run misses, each with by how much."""
    found = [(one, outcome.value(one.measure)) for one in tuning.plan.goals.constraints]
    return [miss_text(one, value) for one, value in found if one.miss(value) > 0]


def conclusion(tuning: Tuning) -> str:
    """Return the result of a search in a few sentences."""
    best = tuning.verdict.best
    parts = _found(tuning, best) if best is not None else _not_found(tuning)
    return "\n".join([*_of_rounds(tuning), " ".join(parts)])


def _of_rounds(tuning: Tuning) -> Iterator[str]:
    """Yield that the length of the rounds limited runs, which says nothing of the job."""
    ran = [one for one in (tuning.given, *tuning.verdict.ran) if one is not None]
    count = sum(one.bottleneck == ROUND for one in ran)
    if count:
        yield (
            f"{count:,} of {len(ran):,} runs were limited by the length of their rounds, and not "
            "by the job, so what follows may not hold for it: leave round_ms out."
        )


def counts(tuning: Tuning) -> str:
    """Return how much was run, and how much of it satisfies the constraints."""
    verdict = tuning.verdict
    ran, refused = len(verdict.ran), len(verdict.outcomes) - len(verdict.ran)
    text = f"{ran:,} of {tuning.plan.space.size:,} points were run"
    if refused:
        text += f"; {refused:,} more were not valid scenarios"
    if tuning.plan.goals.constraints:
        text += f"; {len(verdict.feasible):,} satisfy every constraint"
    if tuning.ended_early:
        text += "; no other can be better, as figures show that need no run"
    return f"{text}."


def _found(tuning: Tuning, best: Outcome) -> Iterator[str]:
    verdict, goals = tuning.verdict, tuning.plan.goals
    figures = " and ".join(
        f"{one.measure.name} {figure_text(one.measure, best.value(one.measure))}"
        for one in goals.objectives
    )
    where = point_text(tuning, best.point)
    name = "Best" if len(goals.objectives) == 1 else "Chosen of the front"
    yield f"{name}: {figures} at {where}."
    for constraint in goals.constraints:
        value = figure_text(constraint.measure, best.value(constraint.measure))
        yield f"{constraint.measure.name} is {value} ({_short(constraint)})."
    yield from _gains(tuning, best)
    place = verdict.outcomes.index(best) + 1
    yield f"It was point {place:,} of the search. {counts(tuning)}"


def _short(constraint: Constraint) -> str:
    which = "most" if constraint.is_most else "least"
    text = figure_text(constraint.measure, constraint.limit)
    if 0 < abs(constraint.limit) < _SMALL:
        text = f"{constraint.limit:g} {constraint.measure.unit}".rstrip()
    return f"at {which} {text}"


def _gains(tuning: Tuning, best: Outcome) -> Iterator[str]:
    """Yield what is better than in the scenario as given, and what is lost."""
    given = tuning.given
    if given is None:
        yield "The scenario as given cannot run, so there is nothing to compare with."
        return
    if best.variant == given.variant:
        yield "That is the scenario as given: nothing better was found."
        return
    for one in tuning.plan.goals.objectives:
        yield f"{gain_text(one, given.value(one.measure), best.value(one.measure))}."
    missed = misses_of(tuning, given)
    if missed:
        yield f"The scenario as given misses {'; '.join(missed)}."
    yield from _lost(tuning, given, best)


def gain_text(objective: Objective, given: float | None, best: float | None) -> str:
    """Return the change of an objective against the scenario as given."""
    measure = objective.measure
    if given is None or best is None:
        return f"{measure.name} as given: {figure_text(measure, given)}"
    as_given = f"as given ({figure_text(measure, given)})"
    if given == best:
        return f"{measure.name} is that of the scenario {as_given}"
    more = "more" if best > given else "less"
    share = f"{percent(abs(best - given) / given)} " if given else ""
    return f"{measure.name} is {share}{more} than {as_given}"


def _lost(tuning: Tuning, given: Outcome, best: Outcome) -> Iterator[str]:
    """Warn if fewer records get through and nobody said that they should."""
    rate = tuning.throughput
    if rate in tuning.plan.goals.measures:
        return
    before, after = given.value(rate), best.value(rate)
    if before and after is not None and after < before * (1 - _SAME):
        yield (
            f"But {rate.name} falls by {percent(1 - after / before)}, from "
            f"{figure_text(rate, before)} to {figure_text(rate, after)}: to keep it, add "
            f'--subject-to "{rate.name}>={before:.4g}".'
        )


def _not_found(tuning: Tuning) -> Iterator[str]:
    nearest = tuning.verdict.nearest
    if nearest is None:
        reason = tuning.verdict.outcomes[0].reason
        yield f"No point is a scenario that can run, first for {reason}"
        return
    missed = misses_of(tuning, nearest)
    if not missed:
        every = [one.measure for one in tuning.plan.goals.objectives]
        never = [one for one in every if all(ran.value(one) is None for ran in tuning.verdict.ran)]
        names = " and ".join(one.name for one in never or every)
        yield f"No run has {names}."
    else:
        yield "No point that was run satisfies the constraints."
        yield f"Nearest: {point_text(tuning, nearest.point)}, which misses {'; '.join(missed)}."
    yield counts(tuning)


# --- The result of a search: figures, table, the best points on a terminal.


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
