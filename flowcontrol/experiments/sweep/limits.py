"""Points of a sweep by what limits them: a colour and a shape for each limit."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from flowcontrol.experiments.sweep.metric import NOTHING
from flowcontrol.report.colours import line_style

if TYPE_CHECKING:
    import pandas as pd


def limit_traces(
    frame: pd.DataFrame,
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    size: int,
    errors: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Return a trace of points for each limit, in the order in which limits occur.

    Parameters
    ----------
    frame : pandas.DataFrame
        A row a point, with ``bottleneck``.
    x, y : sequence
        Coordinates of the points.
    size : int, px
        Of a marker.
    errors : sequence of float, optional
        Half the height of each point's error bar.
    """
    limits = [name or NOTHING for name in frame["bottleneck"]]
    traces = []
    for index, name in enumerate(dict.fromkeys(limits)):
        picked = [row for row, limit in enumerate(limits) if limit == name]
        style = line_style(index)
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "name": f"{escape(name, quote=False)} limits",
            "x": [x[row] for row in picked],
            "y": [y[row] for row in picked],
            "marker": {"color": style.colour, "symbol": style.marker, "size": size},
        }
        if errors is not None:
            array = [errors[row] for row in picked]
            trace["error_y"] = {"type": "data", "array": array, "color": style.colour}
        traces.append(trace)
    return traces
