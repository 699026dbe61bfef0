"""What scalings did to a run: parallelism, throughput, lag and latency between them, and the cost.

A run is cut at its scalings: each **stretch** is a time in which the job ran at one set of
parallelisms, from its start to the next decision. What lies between two stretches is the restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from flowcontrol.analysis.frames import Tables, end_of, result_frame
from flowcontrol.analysis.latencies import combine_latencies, latency_frame
from flowcontrol.analysis.panel import Window
from flowcontrol.analysis.windows import within
from flowcontrol.analysis.wording import seconds
from flowcontrol.records import SCALINGS
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Stretch:
    """A time in which the job ran at one set of parallelisms."""

    from_s: float  # from_s, until_s: from its start to the next decision, or to the end (s)
    until_s: float
    parallelism: dict[str, int]  # By stage
    throughput: float  # Records that all sinks took up (records/s)
    # How far the source that was furthest behind its log was, at most and at the end (s).
    max_lag_s: float
    end_lag_s: float
    p99_ms: float | None  # Latency, of all sinks; None without a record (ms)
    busy_share: dict[str, float]  # By stage, the mean over time and subtasks


def scaling_frame(tables: Tables) -> pd.DataFrame:
    """Return the table ``scalings`` of a run, in the order of time; empty without one."""
    table = tables.get(SCALINGS.name)
    if table is None:
        table = SCALINGS.arrow_schema().empty_table()
    frame: pd.DataFrame = table.to_pandas()
    return frame.sort_values("t_s", kind="stable", ignore_index=True)


def scaling_summary(tables: Tables, scenario: Scenario) -> dict[str, Any]:
    """Return what ``summary.json`` says of the scalings of a run.

    ``tables``: ``stages``, ``latency`` and ``scalings`` of the run.

    Returns ``policy``; ``restarts``, ``down_s`` (time in which the job did not run); ``steps``, of
    each decision ``t_s``, ``changes`` (``stage``, ``old``, ``new``, ``reason``), ``restart_s``, and
    ``before`` and ``after``, the stretches around it (:class:`Stretch`); ``end``, the parallelism
    of each stage at the end; ``subtasks``, how many were held on average, and ``wasted_subtasks``,
    how many of them worked on nothing; ``slots``, how many were held on average, as a slot runs a
    subtask of every stage; ``throughput``, ``max_lag_s`` and ``p99_ms`` of the whole run; and
    ``sentences``.
    """
    frame, end_s = scaling_frame(tables), end_of(tables)
    stretches = list(_stretches(tables, scenario, frame, end_s))
    moments = list(dict.fromkeys(frame["t_s"].tolist()))
    steps = []
    for index, t_s in enumerate(moments):
        rows = frame[frame["t_s"] == t_s]
        after = stretches[index + 1] if index + 1 < len(stretches) else None
        steps.append(
            {
                "t_s": t_s,
                "changes": rows[["stage", "old", "new", "reason"]].to_dict("records"),
                "restart_s": float(rows["restart_s"].iloc[0]),
                "before": asdict(stretches[index]),
                "after": None if after is None else asdict(after),
            }
        )
    whole = _stretch(tables, scenario, (0.0, end_s), stretches[-1].parallelism)
    down_s = sum(min(step["restart_s"], end_s - step["t_s"]) for step in steps)
    found = {
        "policy": None if scenario.scaling is None else scenario.scaling.policy,
        "restarts": len(steps),
        "down_s": down_s,
        "steps": steps,
        "end": stretches[-1].parallelism,
        **_held(tables),
        "throughput": whole.throughput,
        "max_lag_s": whole.max_lag_s,
        "p99_ms": whole.p99_ms,
    }
    return {**found, "sentences": [_sentence(found)]}


def _stretches(
    tables: Tables, scenario: Scenario, frame: pd.DataFrame, end_s: float
) -> Iterator[Stretch]:
    widths = {stage.name: stage.parallelism for stage in scenario.stages}
    from_s = 0.0
    for t_s, rows in frame.groupby("t_s", sort=True):
        at_s = float(str(t_s))
        yield _stretch(tables, scenario, (from_s, at_s), dict(widths))
        for stage, new in zip(rows["stage"], rows["new"], strict=True):
            widths |= dict.fromkeys(_chained(scenario, stage), int(new))
        from_s = at_s + float(rows["restart_s"].iloc[0])
    if from_s < end_s:
        yield _stretch(tables, scenario, (from_s, end_s), widths)
    else:  # the run ended in the restart
        yield Stretch(end_s, end_s, widths, 0.0, 0.0, 0.0, None, {})


def _chained(scenario: Scenario, head: str) -> list[str]:
    """Return a stage and those that are chained to it."""
    found = [head]
    for name in found:  # grows as it goes
        found += [edge.receiver for edge in scenario.outputs(name) if edge.chain]
    return found


def _stretch(tables: Tables, scenario: Scenario, window: Window, widths: dict[str, int]) -> Stretch:
    """Return the figures of a time; samples count whose interval lies in it."""
    samples = result_frame(tables, "stages")
    rows = within(samples, window)
    rows = rows[rows["t_s"] - rows["interval_s"] >= window[0] - 1e-9]
    length = float(rows.groupby("t_s")["interval_s"].first().sum())
    sinks = [stage.name for stage in scenario.sinks]
    taken = rows[rows["stage"].isin(sinks)]
    records = float((taken["rate_in"] * taken["interval_s"]).sum())
    lag = rows.groupby("t_s")["lag_s"].max()
    latency = combine_latencies(within(latency_frame(tables), window))
    busy = {}
    for stage in scenario.stages:
        own = rows[rows["stage"] == stage.name]
        weight = float(own["interval_s"].sum())
        worked = float((own["busy_ms_per_s"] * own["interval_s"]).sum())
        busy[stage.name] = worked / 1000 / weight if weight > 0 else 0.0
    return Stretch(
        *window,
        widths,
        records / length if length > 0 else 0.0,
        float(lag.max()) if len(lag) else 0.0,
        float(lag.iloc[-1]) if len(lag) else 0.0,
        None if latency is None else latency["p99_ms"],
        busy,
    )


def _held(tables: Tables) -> dict[str, float]:
    """Return how many subtasks and slots were held on average, and how many did nothing."""
    rows = result_frame(tables, "stages")
    whole = float(rows.groupby("t_s")["interval_s"].first().sum())
    if whole <= 0:
        return {"subtasks": 0.0, "wasted_subtasks": 0.0, "slots": 0.0}
    held = float(rows["interval_s"].sum())
    idle = float(((1 - rows["busy_ms_per_s"] / 1000) * rows["interval_s"]).sum())
    by_stage = rows.groupby(["t_s", "stage"])["subtask"].count().groupby("t_s").max()
    lengths = rows.groupby("t_s")["interval_s"].first()
    return {
        "subtasks": held / whole,
        "wasted_subtasks": idle / whole,
        "slots": float((by_stage * lengths).sum()) / whole,
    }


def _sentence(found: dict[str, Any]) -> str:
    policy, count = found["policy"], found["restarts"]
    if not count:
        return f"{policy} left the parallelism as it was."
    times = "once" if count == 1 else f"{count} times"
    last = ", ".join(f"{width} of {name}" for name, width in found["end"].items())
    return (
        f"{policy} scaled the job {times}, which took {seconds(found['down_s'])} s of restarts in "
        f"all; at the end it runs {last}."
    )
