"""Axes for varied keys, numeric if evenly spaced, and points coloured by what limits them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.sweep.metric import NOTHING, Metric
from flowcontrol.experiments.sweep.varied import Varied, show_value
from flowcontrol.report.figures import Chart, line_style, scatter
from flowcontrol.report.markup import chart_texts
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    import pandas as pd

PACKAGE: Final = "flowcontrol.experiments.sweep"
_MOST_TICKS: Final = 12
"""Values up to which each one gets a tick."""

_TOLERANCE: Final = 1.05
"""Ratio of the widest to the narrowest step up to which steps are equal."""


def value_text(value: Any) -> str:
    """Return a value of a varied key as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return show_value(value)
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if abs(value) >= 0.1 else f"{value:.3g}"


def _equal_steps(steps: Sequence[float]) -> bool:
    return bool(steps) and min(steps) > 0 and max(steps) <= _TOLERANCE * min(steps)


def is_even(varied: Varied) -> bool:
    """Whether the values are numbers in rising, equal steps."""
    if not varied.is_numeric:
        return False
    pairs = zip(varied.values, varied.values[1:], strict=False)
    return _equal_steps([b - a for a, b in pairs])


def is_geometric(varied: Varied) -> bool:
    """Whether the values are positive numbers, three or more, each a multiple of the one before."""
    if not varied.is_numeric or len(varied.values) < 3 or min(varied.values) <= 0:
        return False
    pairs = zip(varied.values, varied.values[1:], strict=False)
    ratios = [b / a for a, b in pairs]
    return _equal_steps(ratios) and min(ratios) > _TOLERANCE


def _titled(varied: Varied) -> dict[str, Any]:
    title = {"text": escape(varied.title, quote=False), "standoff": 8}
    return {"title": title, "automargin": True}


def key_axis(varied: Varied) -> dict[str, Any]:
    """Return the axis of a line plot."""
    made = _titled(varied)
    if not varied.is_numeric:
        names = [value_text(value) for value in varied.values]
        return made | {"type": "category", "categoryorder": "array", "categoryarray": names}
    made["type"] = "log" if is_geometric(varied) else "linear"
    if len(varied.values) <= _MOST_TICKS:
        made["tickvals"] = list(varied.values)
        made["ticktext"] = [value_text(value) for value in varied.values]
    return made


def cells_axis(varied: Varied, ticks: int = _MOST_TICKS) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the place of each value on the axis of a heat map, and the axis.

    Many evenly spaced numbers get an axis of numbers; otherwise each value gets a place of equal
    width, and at most ``ticks`` of them a label.
    """
    made = _titled(varied) | {"tickangle": 0}
    if is_even(varied) and len(varied.values) > _MOST_TICKS:
        return {varied.typed(v): v for v in varied.values}, made | {
            "type": "linear",
            "nticks": ticks,
        }
    places = {varied.typed(value): place for place, value in enumerate(varied.values)}
    named = range(0, len(places), -(-len(places) // ticks))
    return places, made | {
        "type": "linear",
        "tickvals": list(named),
        "ticktext": [escape(value_text(varied.values[place]), quote=False) for place in named],
        "showgrid": False,
        "zeroline": False,
        "range": [-0.5, len(places) - 0.5],
    }


def metric_chart(
    kind: str, metric: Metric, data: list[dict[str, Any]], layout: dict[str, Any], **words: str
) -> Chart:
    """Return a chart of a metric; some words complete its text in ``charts.yaml``.

    The id of its element has only letters, digits and hyphens.
    """
    letters = "".join(letter if letter.isalnum() else "-" for letter in metric.name)
    texts = chart_texts(PACKAGE)[kind]
    title, text = (texts[name].format(metric=metric, **words) for name in ("title", "text"))
    return Chart(f"{kind}-{letters}", title, text, {"data": data, "layout": layout})


def chart_layout(height: int, **more: Any) -> dict[str, Any]:
    """Return the layout that all charts share, with further keys; they win."""
    return {
        "height": height,
        "margin": {"l": 70, "r": 20, "t": 34, "b": 60},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        **more,
    }


def limit_traces(
    frame: pd.DataFrame,
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    size: int,
    errors: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Return a trace of points for each limit, in the order in which limits occur.

    - ``frame``: a row a point, with ``bottleneck``.
    - ``errors``: half the height of each point's error bar.
    """
    limits = [name or NOTHING for name in frame["bottleneck"]]
    traces = []
    for index, name in enumerate(dict.fromkeys(limits)):
        picked = [row for row, limit in enumerate(limits) if limit == name]
        style = line_style(index)
        trace = scatter(
            f"{name} limits",
            [x[row] for row in picked],
            [y[row] for row in picked],
            mode="markers",
            marker={"color": style.colour, "symbol": style.marker, "size": size},
        )
        if errors is not None:
            array = [errors[row] for row in picked]
            trace["error_y"] = {"type": "data", "array": array, "color": style.colour}
        traces.append(trace)
    return traces
