"""Tables of sweeps that were never run: each variant's rows follow from its point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flowcontrol.analysis.figures import SECOND_HALF
from flowcontrol.experiments.sweep.columns import results_table, swept
from flowcontrol.experiments.sweep.plan import Plan

STAGES = ("source", "map", "sink")
NAMES = [figure.column.name for figure in swept()]


def made_table(
    plan: Plan,
    rate: Callable[..., float | None],
    limit: Callable[..., str] = lambda *_: "sink",
    left_out: Callable[..., bool] = lambda *_: False,
    figures: Callable[..., dict[str, float]] | None = None,
    rounds: int = 10,
) -> pa.Table:
    """Return a table: ``rate(*point)`` is the sink's, plus the number of the replication.

    ``figures(*point)`` are columns of the sink that differ from that.
    """
    columns = [varied.result_column() for varied in plan.varied]
    rows: list[dict[str, Any]] = []
    for number, point in enumerate(plan.points()):
        if left_out(*point):
            continue
        for replication in range(plan.replications):
            given = {v.column: v.typed(x) for v, x in zip(plan.varied, point, strict=True)}
            rows += [
                {
                    "variant": f"{number}-{replication}",
                    **given,
                    "replication": replication,
                    "seed": replication + 1,
                    "stage": stage,
                    "parallelism": 1,
                    "pressure": "OK",
                    **_figures(stage, rate(*point), replication),
                    **(figures(*point) if figures and stage == "sink" else {}),
                    "bottleneck": limit(*point),
                    "rounds": rounds,
                    "round_ms": 1.0,
                    "wall_s": 0.5,
                }
                for stage in STAGES
            ]
    return pa.Table.from_pylist(rows, schema=results_table(columns).arrow_schema())


def _figures(stage: str, rate: float | None, replication: int) -> dict[str, Any]:
    is_sink = stage == "sink"
    value = None if rate is None or not is_sink else rate + replication
    found: dict[str, Any] = {}
    for name in NAMES:
        is_latency = name.startswith("latency")
        here = value if name == "rate_in" or is_latency else 0
        found |= {name: here, name + SECOND_HALF: here}
    return found
