"""The result of a sweep in numbers and words, for the page and the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcontrol.experiments.sweep.axes import value_text
from flowcontrol.experiments.sweep.metric import NOTHING, Metric
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.ranking import Ranking, rank
from flowcontrol.experiments.sweep.verdict import plain, verdict
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PointRow:
    """One point of a sweep, as a row of a table.

    Attributes
    ----------
    values : tuple of str
        Of the varied keys.
    figures : tuple of str
        Of the metrics, each with its ± where there are replications.
    bottleneck : str
        The limit there.
    """

    values: tuple[str, ...]
    figures: tuple[str, ...]
    bottleneck: str


@dataclass(frozen=True)
class Overview:
    """The result of a sweep.

    Attributes
    ----------
    variants, points : int
        In the table.
    sentence : str
        Best, worst and limits; or that the best differ by no more than noise.
    limits : dict of str to int
        Number of points by limit, the most frequent first.
    simulated_s : float, s
        Wall-clock time of all simulations together.
    """

    variants: int
    points: int
    sentence: str
    limits: dict[str, int]
    simulated_s: float
    _ranking: Ranking

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of the rows; the first one orders them."""
        return self._ranking.metrics

    @property
    def valued(self) -> int:
        """Number of points with a value of the first metric."""
        return len(self._ranking.order)

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

    Parameters
    ----------
    table : pyarrow.Table
        Of the sweep; at least one row.
    plan : Plan
        The plan of the sweep.
    metrics : sequence of Metric
        The first one decides what is best, by the second half of the run.

    Returns
    -------
    Overview
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
