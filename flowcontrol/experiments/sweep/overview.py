"""The result of a sweep in numbers and words: the conclusion, and both ends of its table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowcontrol.experiments.sweep.charts import value_text
from flowcontrol.experiments.sweep.metric import (
    NOTHING,
    Metric,
    Ranking,
    is_noise,
    noise_text,
    rank,
)
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.report.markup import number, percent
from flowcontrol.report.result import Result
from flowcontrol.report.terminal import plain_table, print_widest

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class PointRow:
    """One point of a sweep, as a row of a table."""

    values: tuple[str, ...]  # Of the varied keys
    figures: tuple[str, ...]  # Of the metrics, each with its ± where there are replications
    bottleneck: str  # The limit there


@dataclass(frozen=True)
class Overview:
    """The result of a sweep."""

    variants: int  # variants, points: in the table
    points: int
    sentence: str  # Best, worst and limits; or that the best differ by no more than noise
    limits: dict[str, int]  # Number of points by limit, the most frequent first
    simulated_s: float  # Wall-clock time of all simulations together (s)
    _ranking: Ranking

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of the rows; the first one orders them."""
        return self._ranking.metrics

    @property
    def valued(self) -> int:
        """Number of points with a value of the first metric."""
        return len(self._ranking.order)

    @property
    def best(self) -> dict[str, Any]:
        """Values of the varied keys at the best point, by column; empty if no point has a value."""
        first, order = self._ranking.frames[0], self._ranking.order
        columns = [varied.column for varied in self._ranking.plan.varied]
        return {name: plain(first[name][order[0]]) for name in columns} if order else {}

    def ends(self, count: int) -> list[PointRow | None]:
        """Return the best and the worst rows, best first; None marks the rows left out."""
        if self.valued <= 2 * count:
            return [self._row(place) for place in range(self.valued)]
        best = [self._row(place) for place in range(count)]
        worst = [self._row(place) for place in range(self.valued - count, self.valued)]
        return [*best, None, *worst]

    def _row(self, place: int) -> PointRow:
        index, frames = self._ranking.order[place], self._ranking.frames
        first = frames[0]
        return PointRow(
            tuple(value_text(plain(first[v.column][index])) for v in self._ranking.plan.varied),
            tuple(_with_error(frame["mean"][index], frame["error"][index]) for frame in frames),
            str(first["bottleneck"][index]) or NOTHING,
        )


def overview(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> Overview:
    """Return the result of a sweep.

    - ``table``: of the sweep; at least one row.
    - ``metrics``: the first one decides what is best, by the second half of the run.

    Points without a value of the first metric are in no row.
    """
    ranking = rank(table, plan, metrics)
    first = ranking.frames[0]
    limits = Counter(name or NOTHING for name in first["bottleneck"])
    runs = table.select(["variant", "wall_s"]).to_pandas().drop_duplicates("variant")
    return Overview(
        variants=len(runs),
        points=len(first),
        sentence=verdict(ranking, limits),
        limits=dict(limits.most_common()),
        simulated_s=float(runs["wall_s"].sum()),
        _ranking=ranking,
    )


def _with_error(mean: float, error: float) -> str:
    if mean != mean:
        return ""
    return f"{number(mean)} ± {number(error)}" if error else number(mean)


_MOST_NAMED: Final = 3

_NOT_CAUGHT_UP: Final = " (the log grew faster, or the run ended before)"
_WHY_NONE: Final = {
    **dict.fromkeys(("caught_up_after_s", "caught_up_at_s"), _NOT_CAUGHT_UP),
    "catch_up_s": " (the run ended before)",
    **dict.fromkeys(("checkpoint_e2e_p50_ms", "checkpoint_persisted_bytes"), " (none completed)"),
}
"""By column, what it means that a point has no value."""


def plain(value: Any) -> Any:
    """Return a cell of a frame as a plain number or text."""
    found = value.item() if hasattr(value, "item") else value
    return int(found) if isinstance(found, float) and found.is_integer() else found


def verdict(ranking: Ranking, limits: Counter[str]) -> str:
    """Return the conclusion of a sweep.

    - ``ranking``: its points in order.
    - ``limits``: points by what limits them.

    Returns a few sentences, each with figures and units.
    """
    if not ranking.order:
        return f"No point has a value of {ranking.metrics[0].name}."
    parts = _tied(ranking) if ranking.leaders > 1 else [_best(ranking)]
    named = [f"{name} {count:,}" for name, count in limits.most_common(_MOST_NAMED)]
    left = len(limits) - len(named)
    more = f" and {left} more" if left else ""
    limited = f"What limits, in points: {', '.join(named)}{more}."
    return " ".join([*parts, *_without(ranking), limited])


def _without(ranking: Ranking) -> list[str]:
    """Return the sentence on the points that have no value, if there are any."""
    valued = set(ranking.order)
    rows = [row for row in range(len(ranking.frames[0])) if row not in valued]
    if not rows:
        return []
    metric = ranking.metrics[0]
    text = f"No {metric.short_name}{_WHY_NONE.get(metric.figure.column.name, '')} "
    if len(rows) > _MOST_NAMED:
        return [f"{text}at {len(rows):,} of {len(ranking.frames[0]):,} points."]
    return [f"{text}at {', nor at '.join(_at(ranking, row) for row in rows)}."]


def _best(ranking: Ranking) -> str:
    """Return the sentence on both ends of a sweep with one best point."""
    metric, best, worst = ranking.metrics[0], ranking.order[0], ranking.order[-1]
    name, over = metric.short_name, " over the second half of the run" if metric.is_steady else ""
    text = f"Best{over}: {name} {_figure(ranking, 0, best)} at {_at(ranking, best)}"
    if worst != best:
        text += f"; worst: {name} {_figure(ranking, 0, worst)} at {_at(ranking, worst)}"
    return f"{text}."


def _tied(ranking: Ranking) -> list[str]:
    """Return the sentences on a sweep whose best points are the same within noise."""
    metric, frame = ranking.metrics[0], ranking.frames[0]
    leaders = list(ranking.order[: ranking.leaders])
    over = " over the second half of the run" if metric.is_steady else ""
    parts = [
        f"No measurable difference in {metric.short_name}{over} between "
        f"{_whom(ranking)}: {_span(frame, leaders)} {metric.unit} "
        f"({noise_text(frame)} is noise)."
    ]
    if ranking.has_decider:
        parts.append(_decided(ranking, leaders))
    elif 2 < ranking.leaders < len(ranking.order):
        parts.append(f"One of them: {_at(ranking, leaders[0])}.")
    if ranking.leaders < len(ranking.order):
        worst = ranking.order[-1]
        parts.append(
            f"Worst: {metric.short_name} {_figure(ranking, 0, worst)} at {_at(ranking, worst)}."
        )
    return parts


def _whom(ranking: Ranking) -> str:
    """Name the points that are the same: two by their values, more by their number."""
    count, points = ranking.leaders, len(ranking.order)
    if count == 2:
        return " and ".join(_at(ranking, row) for row in ranking.order[:2])
    if count == points:
        return f"all {count:,} points"
    return f"the best {count:,} of {points:,} points"


def _decided(ranking: Ranking, leaders: list[int]) -> str:
    """Return the sentence on the second metric of the best points."""
    metric, frame = ranking.metrics[1], ranking.frames[1]
    valued = [row for row in leaders if frame["mean"][row] == frame["mean"][row]]
    best, worst = valued[0], valued[-1]
    over = " over the same time" if metric.is_steady else ""
    if is_noise(frame, best, worst):
        unit = metric.unit
        text = f"Nor is there one in {metric.short_name}{over}: {_span(frame, valued)} {unit}"
        is_named = len(leaders) == 2 or len(leaders) == len(ranking.order)
        return f"{text}." if is_named else f"{text}, for instance at {_at(ranking, best)}."
    means = float(frame["mean"][best]), float(frame["mean"][worst])
    ratio = means[1] / means[0] if means[0] else 0.0
    against = f", {number(ratio)} times as much" if ratio >= 2 else ""
    against = f", {percent(ratio)} of that" if 0 < ratio < 1 else against
    return (
        f"Best of these by {metric.short_name}{over}: {_figure(ranking, 1, best)} at "
        f"{_at(ranking, best)}; worst: {_figure(ranking, 1, worst)} at "
        f"{_at(ranking, worst)}{against}."
    )


def _span(frame: pd.DataFrame, rows: list[int]) -> str:
    """Return the lowest and the highest mean of some points; one number if they read alike."""
    means = [float(frame["mean"][row]) for row in rows]
    low, high = number(min(means)), number(max(means))
    return low if low == high else f"{low} to {high}"


def _figure(ranking: Ranking, place: int, row: int) -> str:
    unit = ranking.metrics[place].unit
    return f"{number(float(ranking.frames[place]['mean'][row]))} {unit}"


def _at(ranking: Ranking, row: int) -> str:
    """Return a point by the values of its keys."""
    frame = ranking.frames[0]
    return ", ".join(
        f"{varied.label}={value_text(plain(frame[varied.column][row]))}"
        for varied in ranking.plan.varied
    )


_HEAD: Final = 12
"""Width of a column's head in characters, where columns are many."""

_WIDE_HEAD: Final = 25
"""The same where there is room: as long as the longest key of Flink's that is varied often."""

_ENDS: Final = 5
"""Rows at each end of the table."""


@dataclass(frozen=True, repr=False)
class SweepResult(Result):
    """Results of a sweep.

    Attributes
    ----------
    path : Path
        Its folder.
    plan : Plan
        The plan of the sweep.
    metrics : tuple of Metric
        Metrics of the report; the first one ranks the points.
    table : pyarrow.Table
        A row per variant and stage; ``to_pandas()`` makes a frame of it.
    """

    kind = "sweep of"

    path: Path
    plan: Plan
    metrics: tuple[Metric, ...]
    table: pa.Table

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.plan.base.mapping.get("name", self.plan.base.source))

    @cached_property
    def overview(self) -> Overview | None:
        """The points in order; None if nothing was run."""
        if not self.table.num_rows:
            return None
        return overview(self.table, self.plan, self.metrics)

    @cached_property
    def sentence(self) -> str:
        """The conclusion, as on terminal and page; empty if nothing was run."""
        return self.overview.sentence if self.overview else ""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Variants, points, the conclusion, points by what limits them, and the best point."""
        found = self.overview
        if found is None:
            return {"scenario": self.name, "variants": 0, "points": 0, "sentence": ""}
        return {
            "scenario": self.name,
            "variants": found.variants,
            "points": found.points,
            "sentence": found.sentence,
            "limits": found.limits,
            "best": found.best,
            "simulated_s": found.simulated_s,
        }

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``results``: a row per variant and stage."""
        return {"results": self.table}

    def show(self, console: Console | None = None) -> None:
        """Print the best and the worst points and the conclusion."""
        print_sweep(self, console)

    @property
    def results(self) -> Path:
        """The Delta table that ``table`` was read from."""
        return self.path / "results"


def print_sweep(result: SweepResult, console: Console | None = None) -> None:
    """Print the result of a sweep.

    ``console``: by default standard output; the table has as many metrics as fit.
    """
    console = console or Console()
    found = result.overview
    if found is None:
        console.print(Text("No variant was run."))
        return
    counts = range(len(found.metrics), 0, -1)
    forms = [(count, head) for count in counts for head in (_WIDE_HEAD, _HEAD)]
    print_widest(console, (_table(result, found, count, head) for count, head in forms))
    console.print(Text(found.sentence))


def _table(result: SweepResult, found: Overview, metrics: int, width: int) -> Table:
    """Return the table with the first metrics, heads at most ``width`` characters wide."""
    table = plain_table()
    heads = [_head(width, varied.label) for varied in result.plan.varied]
    for metric in found.metrics[:metrics]:
        half = "second half" if metric.is_steady else ""
        unit = metric.unit
        unit = "" if metric.short_name.endswith(f"_{unit}") else unit
        heads.append(_head(width, metric.short_name.replace(".", " "), half, unit))
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True, vertical="bottom")
    table.add_column("limits", no_wrap=True, vertical="bottom")
    for row in found.ends(_ENDS):
        cells = ["…"] * len(table.columns)
        if row is not None:
            cells = [*row.values, *row.figures[:metrics], row.bottleneck]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _head(width: int, *phrases: str) -> Text:
    """Return the head of a column: phrases below each other, cut after blanks, - and _."""
    lines: list[str] = []
    for phrase in filter(None, phrases):
        lines.append("")
        for part in re.split(r"(?<=[ _-])", phrase):
            if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
                lines.append("")
            lines[-1] += part
    return Text("\n".join(line.rstrip() for line in lines))
