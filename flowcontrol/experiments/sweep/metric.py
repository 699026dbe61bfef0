"""The metrics of a sweep: a figure of a stage, its mean and its error over replications."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.figures import SECOND_HALF, Figure
from flowcontrol.analysis.run_view import RunView
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.sweep.columns import figure_named, swept
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.records import Column
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Texts, as_list
from flowcontrol.scenario.problems import known

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


NOTHING: Final = "nothing"
"""Text in place of a bottleneck if there is none."""

_T_975: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1 to 30 degrees of freedom."""

_NORMAL_975: Final = 1.96

_DEFAULT: Final = ("rate_in", "latency_p99_ms")


Figures = Mapping[tuple[str, str], float | None]
"""Figures of a run by stage and column; null where there was nothing to measure."""


@dataclass(frozen=True)
class Metric:
    """A figure of a stage, or of the job."""

    stage: str  # Which
    figure: Figure  # Which column of the table

    @property
    def name(self) -> str:
        """As the command line has it: ``sink.rate_in``; without a stage if it is the job's."""
        if self.figure.of_job:
            return self.figure.column.name
        return f"{self.stage}.{self.figure.column.name}"

    @property
    def is_steady(self) -> bool:
        """Whether it covers the second half of the run only."""
        return self.figure.column.name.endswith(SECOND_HALF)

    @property
    def short_name(self) -> str:
        """The name without the suffix of the second half."""
        return self.name.removesuffix(SECOND_HALF)

    @property
    def steady(self) -> Metric:
        """The same metric over the second half of the run; a peak is returned unchanged."""
        if self.is_steady or self.figure.is_peak:
            return self
        return replace(self, figure=replace(self.figure, column=self.figure.second_half))

    @property
    def unit(self) -> str:
        """Unit of its values."""
        return self.figure.column.unit

    @property
    def column(self) -> Column:
        """Its column in a table with a row a point."""
        name = self.name.replace(".", "_").replace("-", "_")
        return replace(self.figure.column, name=name, nullable=self.figure.needs_run)

    def value(self, scenario: Scenario, figures: Figures) -> float | None:
        """Return the value of a variant; None where it has none."""
        if not self.figure.needs_run:
            found: float | None = self.figure.value(RunView(scenario, {}))
            return found
        return figures[self.stage, self.figure.column.name]

    @property
    def title(self) -> str:
        """Name and unit, for an axis."""
        return f"{self.name} ({self.unit})"

    @property
    def axis_title(self) -> str:
        """Unit, or the name of the column if it has none: short enough for a vertical axis.

        The heading of a chart names the metric; plotly clips a title longer than its axis.
        """
        return self.unit or self.figure.column.name

    @property
    def meaning(self) -> str:
        """What it is, with its unit, in sentences."""
        return f"{self.figure.column.meaning} Unit: {self.unit}."

    @property
    def good_end(self) -> str:
        """Which values are good, for a legend whose good end is blue."""
        return "high is good (blue)" if self.is_higher_better else "low is good (blue)"

    @property
    def is_higher_better(self) -> bool:
        """Whether the highest value is the best one."""
        return self.figure.better == "higher"


def read_metrics(texts: Texts, scenario: Scenario) -> tuple[Metric, ...]:
    """Return the requested metrics.

    ``texts``: ``STAGE.COLUMN`` each, or ``COLUMN``: of the first sink, a lag of the first source
    that reads a log. None for throughput and latency of the first sink over the second half.

    Raises ScenarioError if there is no such stage or column, with the nearest one.
    """
    wanted = as_list(texts) or [
        f"{scenario.sinks[0].name}.{name}{SECOND_HALF}" for name in _DEFAULT
    ]
    problems: list[Problem] = []
    found: list[Metric] = []
    for text in dict.fromkeys(wanted):
        try:
            found.append(_metric(text, scenario))
        except ValueError as error:
            problems.append(Problem(f"--metric {text}", str(error)))
    if problems:
        raise ScenarioError(problems, "command")
    return tuple(dict.fromkeys(found))


_LACKS: Final = {
    "checkpoints": (
        "the job takes no checkpoints: state the option execution.checkpointing.interval"
    ),
    "failures": "nothing fails, and the job takes no checkpoints: state failures",
}


def _metric(text: str, scenario: Scenario) -> Metric:
    """Return the metric of a text; raises ValueError with what is wrong with it."""
    stage, dot, name = text.rpartition(".")
    try:
        figure = figure_named(name)
    except KeyError:
        columns = [one.column.name for one in swept()]
        also = f", each also with {SECOND_HALF} behind it"
        raise ValueError(known(name, columns, "column") + also) from None
    stages = [stage.name for stage in scenario.stages]
    stage = stage if dot else _stage_of(figure, scenario)
    has = {
        "checkpoints": scenario.checkpointing is not None,
        "failures": scenario.is_fault_tolerant,
    }
    if stage not in stages:
        raise ValueError(known(stage, stages, "stage"))
    if figure.needs == "log" and not scenario.stage(stage).reads_log:
        raise ValueError(_no_log(stage, scenario))
    if not has.get(figure.needs, True):
        raise ValueError(_LACKS[figure.needs])
    return Metric(stage, figure)


def _stage_of(figure: Figure, scenario: Scenario) -> str:
    """Return the stage whose figure it is where none is named."""
    readers = [stage.name for stage in scenario.sources if stage.reads_log]
    return readers[0] if figure.needs == "log" and readers else scenario.sinks[0].name


def _no_log(stage: str, scenario: Scenario) -> str:
    """Return why a stage has no lag."""
    readers = [source.name for source in scenario.sources if source.reads_log]
    if readers:
        return f"{stage!r} reads no log: use one of {', '.join(readers)}"
    return "no source reads a log: state what is written to it, its arrival_rate"


def points_frame(table: pa.Table, plan: Plan, metric: Metric) -> pd.DataFrame:
    """Return a row per point: the metric over its replications.

    Returns the varied columns, ``mean``, ``error`` (half the width of the 95 % confidence interval
    of the mean; 0 with one replication), ``step`` (the least by which the figure can differ: a
    round, a record), ``count`` (replications with a value) and ``bottleneck`` (the most frequent
    one), in the order of the plan. ``mean`` is not a number where no replication has a value.
    """
    columns = [varied.column for varied in plan.varied]
    name = metric.figure.column.name
    names = dict.fromkeys([*columns, "stage", name, "bottleneck", "rounds", "round_ms"])
    frame = table.select(list(names)).to_pandas()
    rows = frame[frame["stage"] == metric.stage]
    points = rows.groupby(columns)[name].agg(mean="mean", deviation="std", count="count")
    points["error"] = _half_width(points["deviation"], points["count"])
    points["step"] = _step(rows, metric, plan).groupby([rows[column] for column in columns]).max()
    points["bottleneck"] = _most_frequent(rows, columns)
    heads = ["mean", "error", "step", "count", "bottleneck"]
    return _in_order(points[heads].reset_index(), plan)


def _step(rows: pd.DataFrame, metric: Metric, plan: Plan) -> pd.Series[float]:
    """Return the least by which the figure of each run can differ from another one's."""
    half_s = rows["rounds"] * rows["round_ms"] / 2000
    steps: dict[str, pd.Series[float] | float] = {
        "ms": rows["round_ms"],
        "records/s": 1 / half_s,
        "records": 1.0,
        "checkpoints": 1.0,
    }
    step = steps.get(metric.unit, 0.0)
    if metric.figure.needs == "log" and not metric.figure.has_half:
        step = _sample_s(rows, plan)  # a moment, which is that of a sample
    return rows.assign(step=step)["step"].astype(float)


def _sample_s(rows: pd.DataFrame, plan: Plan) -> pd.Series[float] | float:
    """Return the time between two samples of each run, which may be a key that is varied."""
    for varied in plan.varied:
        if varied.path == ("sample_interval_s",):
            return rows[varied.column]
    return float(plan.base.mapping.get("sample_interval_s", 1.0))


def _half_width(deviation: pd.Series[float], count: pd.Series[int]) -> pd.Series[float]:
    """Return half of the 95 % confidence interval of each mean; 0 for fewer than two values."""
    quantiles = dict(enumerate(_T_975, start=2))
    quantile = count.map(lambda values: quantiles.get(values, _NORMAL_975))
    return (quantile * deviation / count.pow(0.5)).where(count > 1, 0.0)


def _most_frequent(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series[str]:
    """Return the bottleneck of most replications, by point; of equally many the first by name."""
    counts = rows.groupby([*columns, "bottleneck"]).size().reset_index(name="replications")
    ordered = counts.sort_values("replications", ascending=False, kind="stable")
    return ordered.drop_duplicates(list(columns)).set_index(list(columns))["bottleneck"]


def _in_order(frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Sort points by the order of their values in the plan."""
    for varied in reversed(plan.varied):
        order = {varied.typed(value): index for index, value in enumerate(varied.values)}
        frame = frame.sort_values(varied.column, key=lambda c: c.map(order), kind="stable")
    return frame.reset_index(drop=True)


# --- The order of a sweep's points, best first.
#
# Points are ranked by the second half of the run: records that fill buffers at the beginning raise
# a rate over the whole run, the more, the larger the buffers are. Among points that differ from the
# best one by no more than noise, a second figure decides.
#
# Two means are the same within the largest of three tolerances: BAND of the larger one, the effect
# of filling and draining buffers in a run of ordinary length; the 95 % confidence interval of their
# difference, if there are replications; and the least step of the figure, a round for a latency and
# a record for a count.


BAND: Final = 0.01
"""Difference up to which two means are the same, as a share of the larger one."""

_DECIDES = f"latency_p99_ms{SECOND_HALF}"
"""Metric that breaks ties between equal rates if no other was requested."""


@dataclass(frozen=True)
class Ranking:
    """The points of a sweep in order."""

    plan: Plan  # The plan of the sweep
    # Metrics of the table: the one that ranks, then the one that breaks ties, then the other
    # requested ones.
    metrics: tuple[Metric, ...]
    frames: tuple[pd.DataFrame, ...]  # The points, for each of these metrics
    order: tuple[int, ...]  # Rows of the frames, best first; points without a value are left out
    leaders: int  # Number of points, from the first on, that are the same within noise
    has_decider: bool  # Whether the second metric orders the leaders


def rank(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> Ranking:
    """Return the points of a sweep in order.

    - ``table``: of the sweep; at least one row.
    - ``metrics``: the requested metrics. The first one ranks, by its second half (a peak by the
      whole run); the next other figure breaks ties.

    Points with equal figures stay in the order of the plan.
    """
    first = metrics[0].steady
    decider = next((m.steady for m in metrics[1:] if m.steady != first), _latency_of(first))
    shown = tuple(dict.fromkeys([first, *([decider] if decider else []), *metrics]))
    frames = tuple(points_frame(table, plan, metric) for metric in shown)
    order = _best_first(frames[0].dropna(subset="mean"), first)
    leaders = [row for row in order if is_noise(frames[0], order[0], row)]
    has_decider = decider is not None and bool(frames[1]["mean"][leaders].notna().any())
    if decider is not None and not has_decider and decider not in metrics:
        shown, frames = (shown[0], *shown[2:]), (frames[0], *frames[2:])
    if decider is not None and has_decider:
        leaders = _best_first(frames[1].loc[leaders], decider)
    rest = [row for row in order if row not in set(leaders)]
    return Ranking(plan, shown, frames, (*leaders, *rest), len(leaders), has_decider)


def _latency_of(metric: Metric) -> Metric | None:
    """Return the latency that decides between equal rates of a stage; None for other figures."""
    return Metric(metric.stage, figure_named(_DECIDES)) if metric.is_higher_better else None


def _best_first(frame: pd.DataFrame, metric: Metric) -> list[int]:
    """Return the rows of a frame in order, those without a value last."""
    ordered = frame["mean"].sort_values(ascending=not metric.is_higher_better, kind="stable")
    return [int(index) for index in ordered.index]


def is_noise(frame: pd.DataFrame, one: int, other: int) -> bool:
    """Tell whether two points of a sweep are the same in a metric.

    ``frame``: of :func:`~.metric.points_frame`: ``mean``, ``error``, ``step``.

    Returns True if they differ by no more than the tolerance.
    """
    means = [float(frame["mean"][row]) for row in (one, other)]
    errors = [float(frame["error"][row]) for row in (one, other)]
    steps = [float(frame["step"][row]) for row in (one, other)]
    band = BAND * max(map(abs, means))
    return abs(means[0] - means[1]) <= max(band, math.hypot(*errors), *steps)


def noise_text(frame: pd.DataFrame) -> str:
    """Return the tolerance for a sentence: ``up to 1 %``."""
    text = f"up to {100 * BAND:g} %"
    if (frame["error"] > 0).any():
        text += ", or as the replications scatter,"
    return text
