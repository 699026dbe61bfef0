"""The charts of a comparison: one small one per system, all with the same scale of rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.compare.figures import limit_steps
from flowcontrol.report.colours import BLUE, GREY, LIMIT, VERMILLION, LineStyle
from flowcontrol.report.figures import Chart, axis, figure, line
from flowcontrol.report.series import Series

if TYPE_CHECKING:
    from flowcontrol.experiments.compare.limits import LimitPhase
    from flowcontrol.experiments.compare.outcome import Outcome

_ROW_PX: Final = 132
_BELOW_PX: Final = 46
"""For the time axis and its title."""

_HEADROOM: Final = 1.08

_USUAL: Final = 0.98
"""Share of the samples that the common scale has room for."""


def top_rate(outcomes: Sequence[Outcome], limits: Sequence[LimitPhase] | None) -> float:
    """Return the rate at the upper end of all charts, records/s.

    A system that emits in batches has samples so high that all else would be flat beside them:
    of all samples of all systems the highest fiftieth part does not count.
    """
    limit = max((phase.produced for phase in limits or ()), default=0.0)
    rates = sorted(
        rate
        for outcome in outcomes
        if outcome.lines is not None
        for rate in (*outcome.lines.produced, *outcome.lines.consumed)
    )
    usual = rates[math.ceil(_USUAL * len(rates)) - 1] if rates else 0.0
    return _HEADROOM * max(limit, usual) or 1.0


def system_chart(
    outcome: Outcome, limits: Sequence[LimitPhase] | None, until_s: float, top: float
) -> Chart:
    """Return the rates of a system over time, the limit drawn in, and what was in flight."""
    traces: list[dict[str, Any]] = []
    steps = limit_steps(limits)
    if steps:
        x = [step.start_s for step in steps]
        limit = Series("limit", [*x, until_s], [*(s.limit for s in steps), steps[-1].limit])
        traces.append(_stroke(limit, LIMIT, "solid", 7.0, "hv") | {"opacity": 0.4})
    found = outcome.lines
    if found is not None:
        produced, consumed = (
            Series(name, [0.0, *found.t_s], [*values[:1], *values])
            for name, values in (("producers", found.produced), ("sinks", found.consumed))
        )
        traces.append(_stroke(produced, BLUE, "solid", 2.0, "vh"))
        traces.append(_stroke(consumed, VERMILLION, "dash", 1.5, "vh"))
        flight = Series("in flight", found.t_s, found.in_flight)
        traces.append(_stroke(flight, GREY, "solid", 1.5, "linear", row=1) | {"fill": "tozeroy"})
    axes = [axis("", range=[0, top], nticks=4), axis("", nticks=3)]
    drawn = figure(
        traces, axes, until_s=until_s, row_px=_ROW_PX, captions=["records/s", "records in flight"]
    )
    drawn["layout"] |= {
        "height": 2 * _ROW_PX + _BELOW_PX,
        "showlegend": False,
        "xaxis": {**drawn["layout"]["xaxis"], "nticks": 6},
        "margin": {"l": 44, "r": 8, "t": 22, "b": 40},
    }
    return Chart(f"rates-{outcome.system}", outcome.system, "", drawn)


def _stroke(
    series: Series, colour: str, dash: str, width: float, shape: str, row: int = 0
) -> dict[str, Any]:
    trace = line(series, LineStyle(colour, dash, "circle"), row=row, mode="lines")
    return trace | {"line": {"color": colour, "dash": dash, "width": width, "shape": shape}}
