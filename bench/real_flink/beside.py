"""Figures of a run on Flink beside those of the emulation: by phase of the scenario, by stage.

Both sides are result tables with the same columns, and every figure is taken from both in the same
way. A phase lasts from one change of a rate to the next; its first seconds are left out, in which
buffers fill or drain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import faults
import pandas as pd
import pyarrow as pa
import saving
import times
from placing import head_of

from flowcontrol.scenario import Scenario

Tables = Mapping[str, pa.Table]

SKIPPED_S = 5.0
"""So much of a phase is left out, at most half of it."""

SHORTEST_S = 5.0
"""Schedules with a shorter phase are compared over the whole run."""

SHARES = ("busy_ms_per_s", "backpressured_ms_per_s")
USAGES = ("in_pool_usage", "out_pool_usage")

_COUNTED = (
    *("requests", "requests_failed"),
    *("records_sent", "records_acknowledged", "records_retried"),
)

EARLY_S = 0.3
"""Flink is polled a moment after each sample; one so little after a window's end belongs to it."""


@dataclass(frozen=True)
class Row:
    """One figure of one phase.

    Attributes
    ----------
    window : tuple of (float, float)
        From when to when it was taken, s.
    place : str
        A stage, or ``to STAGE``: all channels to it.
    figure, unit : str
        What it is.
    measured, emulated : float
        On Flink, and on the virtual clock.
    """

    window: tuple[float, float]
    place: str
    figure: str
    unit: str
    measured: float
    emulated: float

    @property
    def difference(self) -> str:
        """Of the emulated to the measured figure: in per cent, of shares in their own unit."""
        apart = self.emulated - self.measured
        if self.unit in {"ms/s", "of 1"}:
            return f"{apart:+.3g}"
        return f"{100 * apart / self.measured:+.1f} %" if self.measured else f"{apart:+.3g}"


def windows(scenario: Scenario) -> list[tuple[float, float]]:
    """Return the phases of a scenario without their first seconds, s."""
    moments = {0, scenario.duration_us}
    for stage in scenario.stages:
        for rates in (stage.emit_rate, stage.service_rate, stage.arrival_rate):
            moments |= {at for schedule in rates or () for at in schedule.changes()}
        moments |= {at for stall in stage.stalls for at in stall.span}
    for job in scenario.jobs:
        moments |= {job.start_us, job.stop_us or 0}
    bounds = [at / 1e6 for at in sorted(moments) if at <= scenario.duration_us]
    phases = list(pairwise(bounds))
    if min(end - begin for begin, end in phases) < SHORTEST_S:
        phases = [(0.0, scenario.duration_s)]
    return [(begin + min(SKIPPED_S, (end - begin) / 2), end) for begin, end in phases]


def rows(scenario: Scenario, measured: Tables, emulated: Tables) -> Iterator[Row]:
    """Yield every figure that both runs have, phase by phase.

    One that fails or is stopped has no phases: its counters begin anew, or end.
    """
    whole = 0.0, scenario.duration_s
    ours = dict(whole_figures(scenario, emulated))
    for place, value in whole_figures(scenario, measured):
        yield Row(whole, *place, value, ours.get(place, float("nan")))
    if saving.is_interrupted(scenario):
        return
    for window in windows(scenario):
        ours = dict(figures(scenario, emulated, window))
        for (place, figure, unit), value in figures(scenario, measured, window):
            if (place, figure, unit) in ours:
                yield Row(window, place, figure, unit, value, ours[place, figure, unit])
    for stage, both in times.alike(scenario, measured, emulated):
        yield Row((0.0, scenario.duration_s), stage, "windows", "windows", *both)


def whole_figures(scenario: Scenario, tables: Tables) -> Iterator[saving.Figure]:
    """Yield the figures of a run as a whole: restarts, savepoints, rows that readers see."""
    if scenario.failures:
        yield from faults.figures(tables)
    yield from saving.figures(scenario, tables)


def figures(
    scenario: Scenario, tables: Tables, window: tuple[float, float]
) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Yield (place, figure, unit) and the value over a window."""
    stages = tables["stages"].to_pandas()
    inside = _within(stages, window)
    for stage in scenario.topological():
        own = inside[inside["stage"] == stage.name]
        column = "records_in" if scenario.inputs(stage.name) else "records_out"
        yield (stage.name, "records", "1/s"), _growth(own, column)
        if head_of(scenario, stage.name) == stage.name:
            yield from _task(scenario, inside, stage.name)
    for stage in scenario.topological():
        if any(not edge.chain for edge in scenario.inputs(stage.name)):
            value = _in_flight(scenario, inside, stage.name)
            yield (f"to {stage.name}", "in flight", "records"), value
    if "requests" in tables:
        yield from _requests(tables["requests"].to_pandas(), window)
    yield from times.figures(scenario, tables, window)
    yield from _latencies(tables["latency"].to_pandas(), window)
    if "checkpoints" in tables:
        yield from _checkpoints(tables["checkpoints"].to_pandas(), window)


def _within(rows: pd.DataFrame, window: tuple[float, float]) -> pd.DataFrame:
    """Return the samples whose interval is in a window; what began before it is out."""
    begin, end = (moment + EARLY_S for moment in window)
    return rows[(rows["t_s"] > begin) & (rows["t_s"] <= end)]


def _growth(own: pd.DataFrame, column: str) -> float:
    """Return the growth of a counter per second, over all subtasks."""
    totals = own.groupby("t_s")[column].sum()
    if len(totals) < 2:
        return float("nan")
    times = totals.index
    return float((totals.iloc[-1] - totals.iloc[0]) / (times[-1] - times[0]))


def _task(
    scenario: Scenario, inside: pd.DataFrame, name: str
) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Yield how busy a task is, and how full its pools are: means over its subtasks.

    The stages of a chain are one task: its first stage shows its times, its last its output.
    """
    chain = [
        stage.name for stage in scenario.topological() if head_of(scenario, stage.name) == name
    ]
    means = inside.groupby("stage")[[*SHARES, *USAGES]].mean()
    blocked = float(means.loc[name, "backpressured_ms_per_s"])
    busy = float(means.loc[name, "busy_ms_per_s"])
    yield (name, "busy", "ms/s"), busy
    yield (name, "idle", "ms/s"), max(0.0, 1000 - busy - blocked)
    yield (name, "blocked", "ms/s"), blocked
    if scenario.inputs(name):
        yield (name, "in pool", "of 1"), float(means.loc[name, "in_pool_usage"])
    last = [one for one in chain if any(not edge.chain for edge in scenario.outputs(one))]
    if last:
        yield (name, "out pool", "of 1"), float(means.loc[last, "out_pool_usage"].max())


def _in_flight(scenario: Scenario, inside: pd.DataFrame, name: str) -> float:
    """Return the mean of the records that were sent to a stage and not taken up.

    A broadcast sends each record to all. What a stage sends is counted once for all its edges.
    """
    sums = inside.groupby(["t_s", "stage"])[["records_in", "records_out"]].sum()
    held = -sums["records_in"].xs(name, level="stage")
    for edge in scenario.inputs(name):
        copies = scenario.stage(name).parallelism if edge.partitioner == "broadcast" else 1
        held = held + copies * sums["records_out"].xs(edge.sender, level="stage")
    return float(held.mean())


def _requests(
    requests: pd.DataFrame, window: tuple[float, float]
) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Yield what each stage sends: rates, means, and shares of what was answered.

    Requests in flight are the times of all answers over the time in which they came.
    """
    for stage, own in _within(requests, window).groupby("stage"):
        name, grown = str(stage), {c: _growth(own, c) for c in _COUNTED}
        answers = grown["requests"] - _growth(own, "in_flight")
        records = grown["records_acknowledged"] + grown["records_retried"]
        each = own.assign(answers=own["requests"] - own["in_flight"])
        each["answers"] = each.groupby("subtask")["answers"].diff()
        flown_ms = (each["answers"] * each["latency_mean_ms"]).sum()
        length_s = own["t_s"].max() - own["t_s"].min()
        yield (name, "delivered", "1/s"), grown["records_acknowledged"]
        yield (name, "requests in flight", "requests"), float(flown_ms) / 1000 / length_s
        yield (name, "batch", "records"), grown["records_sent"] / grown["requests"]
        yield (name, "failed records", "of 1"), grown["records_retried"] / records
        yield (name, "failed requests", "of 1"), grown["requests_failed"] / answers


def _latencies(
    latency: pd.DataFrame, window: tuple[float, float]
) -> Iterator[tuple[tuple[str, str, str], float]]:
    own = _within(latency[latency["kind"] == "record"], window)
    for name, part in own.groupby("stage"):
        counts = part["count"]
        for figure in ("p50", "p99"):
            value = float((part[f"{figure}_ms"] * counts).sum() / counts.sum())
            yield (str(name), f"latency {figure}", "ms"), value


def _checkpoints(
    checkpoints: pd.DataFrame, window: tuple[float, float]
) -> Iterator[tuple[tuple[str, str, str], float]]:
    own = checkpoints[checkpoints["status"] == "completed"]
    own = own[(own["triggered_s"] > window[0]) & (own["triggered_s"] <= window[1])]
    if len(own):
        yield ("checkpoints", "end to end", "ms"), float(own["e2e_ms"].median())
        yield ("checkpoints", "persisted", "bytes"), float(own["persisted_bytes"].mean())


def show(found: list[Row]) -> str:
    """Return rows as text, a block for each phase."""
    lines = []
    for window in dict.fromkeys(row.window for row in found):
        lines.append(f"\n{window[0]:g} to {window[1]:g} s")
        lines.append(f"{'':<22}{'':<14}{'Flink':>10}{'emulated':>10}{'':<9}{'difference':>11}")
        for row in (row for row in found if row.window == window):
            lines.append(
                f"{row.place:<22}{row.figure:<14}{number(row.measured):>10}"
                f"{number(row.emulated):>10} {row.unit:<8}{row.difference:>11}"
            )
    return "\n".join(lines)


def number(value: float) -> str:
    """Return a figure as text, three digits of it or whole."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
