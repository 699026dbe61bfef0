"""Heat maps of the page: each subtask over time, a map for each stage of several subtasks.

A map is one row per subtask and one column per sample, or per group of neighbouring samples in a
long run. All figures are in the page; its script shows one of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.report.figures import Chart, Figure, caption, numbered
from flowcontrol.report.markup import chart_of
from flowcontrol.report.rundata import RunData, left_out
from flowcontrol.scenario import Stage

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

MOST_CELLS: Final = 300_000
"""Cells of all maps together, 1 to 2 MB of page: with 200 subtasks in each of four stages and four
figures, 93 columns."""

MOST_COLUMNS, LEAST_COLUMNS = 300, 20
"""Columns of a map, which is at most about 1,000 pixels wide."""

MOST_ROWS: Final = 200
"""Rows of a map; of more subtasks neighbours share one, which shows the largest of them."""

_ROW_PX, _LEAST_PX, _MOST_PX = 14, 78, 420
_ABOVE_PX, _BELOW_PX = 34, 58
"""Space above each map, for its caption, and below the last one, for the axis of time."""

_DIGITS: Final = 3
_ID: Final = "subtasks"


@dataclass(frozen=True)
class Shown:
    """A figure that the maps can show."""

    key: str  # Short, without blanks; names it in the page
    label: str  # Of its button
    unit: str  # Of its values
    # From whether a stage is a source, the column of the table ``stages``.
    column: Callable[[bool], str]
    factor: float = 1.0  # From the column's unit to the map's
    top: float | None = None  # Upper end of the scale; None for the largest value of the map
    # Least upper end of a scale, so that a queue of one buffer does not look full.
    least: float = 1.0


def shown_figures(unit: str) -> tuple[Shown, ...]:
    """Return the figures that the maps can show, busy time first; ``unit`` is that of queues."""
    return (
        Shown("busy", "Busy", "% of time", lambda _: "busy_ms_per_s", 0.1, 100.0),
        Shown("blocked", "Blocked", "% of time", lambda _: "backpressured_ms_per_s", 0.1, 100.0),
        Shown("rate", "Rate", "records/s", lambda is_source: _of_side("rate", is_source)),
        Shown("queue", "Queue", unit, lambda is_source: _QUEUES[is_source], least=10.0),
    )


_QUEUES: Final = {True: "output_queue_buffers", False: "input_queue_buffers"}


def _of_side(name: str, is_source: bool) -> str:
    return f"{name}_out" if is_source else f"{name}_in"


def heat_charts(run: RunData) -> list[Chart]:
    """Return the chart of the subtasks over time; none where each stage has a single one."""
    stages = [stage for stage in run.shown_stages() if stage.parallelism > 1]
    if not stages or run.stages.empty:
        return []
    unit = "records" if run.scenario.system.counts_records else "buffers"
    figures = shown_figures(unit)
    columns = columns_for(sum(min(s.parallelism, MOST_ROWS) for s in stages) * len(figures))
    drawn, group = _figure(run, stages, figures, columns)
    notes = _notes(run, stages, group)
    note = "".join(f" {text}" for text in notes if text)
    return [
        chart_of(_ID, drawn, note, controls=_switch(figures), is_packed=True, words={"unit": unit})
    ]


def columns_for(rows: int) -> int:
    """Return how many columns a map may have, so that all rows together keep to the limit."""
    return max(LEAST_COLUMNS, min(MOST_COLUMNS, MOST_CELLS // rows))


def _notes(run: RunData, stages: Sequence[Stage], group: int) -> list[str]:
    """Return a sentence for whatever is left out or taken together."""
    notes = []
    if group > 1:
        notes.append(f"A column is the mean of {group} samples.")
    together = max(_subtasks_a_row(stage) for stage in stages)
    if together > 1:
        notes.append(
            f"Of a stage with more than {MOST_ROWS} subtasks up to {together} neighbours share a "
            "row, which shows the largest of them."
        )
    if any(stage.parallelism == 1 for stage in run.shown_stages()):
        notes.append("A stage of one subtask has no map.")
    return [*notes, left_out(run).strip()]


def _switch(figures: Sequence[Shown]) -> str:
    """Return the buttons that choose a figure, as markup."""
    choices = "".join(
        f'<label><input type="radio" name="heat" value="{figure.key}" autocomplete="off"'
        f"{'' if number else ' checked'}> {escape(figure.label)}</label>"
        for number, figure in enumerate(figures)
    )
    return f'<fieldset class="switch" data-chart="{_ID}"><legend>Show</legend>{choices}</fieldset>'


def _subtasks_a_row(stage: Stage) -> int:
    return -(-stage.parallelism // MOST_ROWS)


def _figure(
    run: RunData, stages: Sequence[Stage], figures: Sequence[Shown], columns: int
) -> tuple[Figure, int]:
    """Return the figure, and how many samples are in a column."""
    heights = [_height(stage, len(stages)) for stage in stages]
    total = sum(heights) + _ABOVE_PX * len(stages) + _BELOW_PX
    layout = _layout(run.until_s, total, len(stages))
    plot = total - _BELOW_PX
    traces: list[dict[str, Any]] = []
    top, group = 0, 1
    for row, (stage, height) in enumerate(zip(stages, heights, strict=True)):
        top += _ABOVE_PX
        y = numbered("y", row)
        domain = [1 - (top + height) / plot, 1 - top / plot]
        layout[y.replace("y", "yaxis")] = _rows_axis(stage, domain)
        layout["annotations"].append(caption(f"{stage.name}, {stage.parallelism} subtasks", "x", y))
        samples = _Samples.of(run.stage_rows(stage.name), columns, _subtasks_a_row(stage))
        group = max(group, samples.group)
        is_source = not run.scenario.inputs(stage.name)
        traces += [
            _map(samples, figure, is_source, y, domain, is_visible=number == 0)
            for number, figure in enumerate(figures)
        ]
        top += height
    return {"data": traces, "layout": layout}, group


def _height(stage: Stage, stages: int) -> int:
    """Return the height of a stage's map: fewer pixels a row where there are many."""
    most = min(_MOST_PX, max(160, 1400 // stages))
    return max(_LEAST_PX, min(most, _ROW_PX * min(stage.parallelism, MOST_ROWS)))


def _layout(until_s: float, height: int, maps: int) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 62, "r": 88, "t": 0, "b": _BELOW_PX},
        "annotations": [],
        "xaxis": {
            "title": {"text": "emulated time (s)", "standoff": 8},
            "range": [0, until_s],
            "anchor": numbered("y", maps - 1),
            "showgrid": False,
        },
    }


def _rows_axis(stage: Stage, domain: Sequence[float]) -> dict[str, Any]:
    """Return the axis of a stage's subtasks, the first one at the top."""
    return {
        "title": {"text": "subtask", "standoff": 8},
        "range": [stage.parallelism - 0.5, -0.5],
        "domain": list(domain),
        "tickformat": "d",
        "nticks": min(10, stage.parallelism + 1),
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
    }


@dataclass(frozen=True)
class _Samples:
    """The samples of one stage as matrices, a row per subtask."""

    frame: pd.DataFrame  # Rows of the stage
    edges: list[float]  # Where the columns begin and end (s)
    group: int  # Samples in a column
    together: int  # Subtasks in a row

    @classmethod
    def of(cls, frame: pd.DataFrame, columns: int, together: int) -> _Samples:
        times = sorted(frame["t_s"].unique().tolist())
        group = -(-len(times) // columns)
        ends = [times[min(at + group, len(times)) - 1] for at in range(0, len(times), group)]
        return cls(frame, [0.0, *(round(end, 6) for end in ends)], group, together)

    def matrix(self, column: str) -> np.ndarray[Any, Any]:
        """Return a column of the table as a matrix; each cell a mean over its samples' time."""
        import numpy as np

        cells = self.frame.pivot(index="subtask", columns="t_s", values=column)
        values = cells.fillna(0).to_numpy("float64")
        lengths = self.frame.groupby("t_s")["interval_s"].first().to_numpy("float64")
        starts = np.arange(0, values.shape[1], self.group)
        sums = np.add.reduceat(values * lengths, starts, axis=1)
        means = sums / np.add.reduceat(lengths, starts)
        rows = np.arange(0, values.shape[0], self.together)
        return np.maximum.reduceat(means, rows, axis=0)


def _map(
    samples: _Samples,
    figure: Shown,
    is_source: bool,
    y: str,
    domain: Sequence[float],
    *,
    is_visible: bool,
) -> dict[str, Any]:
    """Return the heat map of one figure of one stage."""
    matrix = samples.matrix(figure.column(is_source)) * figure.factor
    top = figure.top or max(float(matrix.max()), figure.least)
    rows = samples.together
    return {
        "type": "heatmap",
        "meta": figure.key,
        "visible": is_visible,
        "x": samples.edges,
        "y0": (rows - 1) / 2,
        "dy": rows,
        "z": [[_short(value) for value in row] for row in matrix.tolist()],
        "xaxis": "x",
        "yaxis": y,
        "zmin": 0,
        "zmax": top,
        "colorscale": "Cividis",
        "colorbar": {
            "y": (domain[0] + domain[1]) / 2,
            "len": domain[1] - domain[0],
            "thickness": 12,
            "outlinewidth": 0,
            "nticks": 4,
            "tickformat": ",~r" if figure.top is None else "d",
            "title": {"text": figure.unit, "side": "right", "font": {"size": 12}},
        },
        "hovertemplate": f"subtask %{{y}}, %{{x}} s<br>%{{z:,}} {figure.unit}<extra></extra>",
    }


def _short(value: float) -> float:
    """Return a value with three significant digits, or more before the point."""
    if value >= 10 ** (_DIGITS - 1):
        return round(value)
    return float(f"{value:.{_DIGITS - 1}g}")
