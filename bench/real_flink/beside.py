"""Figures of a run on Flink beside those of the emulation: by phase of the scenario, by stage.

Both sides are result tables with the same columns, and every figure is taken from both in the same
way. A phase lasts from one change of a rate to the next; its first seconds are left out, in which
buffers fill or drain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
import pyarrow as pa
from placing import head_of

from flowcontrol.scenario import Scenario

Tables = Mapping[str, pa.Table]

SKIPPED_S = 5.0
"""So much of a phase is left out, at most half of it."""

SHORTEST_S = 5.0
"""Schedules with a shorter phase are compared over the whole run."""

SHARES = {"busy": "busy_ms_per_s", "idle": "idle_ms_per_s", "blocked": "backpressured_ms_per_s"}
USAGES = {"in pool": "in_pool_usage", "out pool": "out_pool_usage"}


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
    bounds = [at / 1e6 for at in sorted(moments) if at <= scenario.duration_us]
    phases = list(pairwise(bounds))
    if min(end - begin for begin, end in phases) < SHORTEST_S:
        phases = [(0.0, scenario.duration_s)]
    return [(begin + min(SKIPPED_S, (end - begin) / 2), end) for begin, end in phases]


def rows(scenario: Scenario, measured: Tables, emulated: Tables) -> Iterator[Row]:
    """Yield every figure that both runs have, phase by phase."""
    for window in windows(scenario):
        ours = dict(figures(scenario, emulated, window))
        for (place, figure, unit), value in figures(scenario, measured, window):
            if (place, figure, unit) in ours:
                yield Row(window, place, figure, unit, value, ours[place, figure, unit])


def figures(
    scenario: Scenario, tables: Tables, window: tuple[float, float]
) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Yield (place, figure, unit) and the value over a window."""
    stages = tables["stages"].to_pandas()
    inside = stages[(stages["t_s"] > window[0] + 1e-6) & (stages["t_s"] <= window[1] + 0.5)]
    for stage in scenario.topological():
        own = inside[inside["stage"] == stage.name]
        column = "records_in" if scenario.inputs(stage.name) else "records_out"
        yield (stage.name, "records", "1/s"), _growth(own, column)
        if head_of(scenario, stage.name) != stage.name:
            continue
        for figure, name in SHARES.items():
            yield (stage.name, figure, "ms/s"), float(own[name].mean())
        is_first, is_last = not scenario.inputs(stage.name), _sends_nothing(scenario, stage.name)
        for figure, name in USAGES.items():
            if not (is_first if figure == "in pool" else is_last):
                yield (stage.name, figure, "of 1"), float(own[name].mean())
    for stage in scenario.topological():
        if any(not edge.chain for edge in scenario.inputs(stage.name)):
            value = _in_flight(scenario, inside, stage.name)
            yield (f"to {stage.name}", "in flight", "records"), value
    yield from _latencies(tables["latency"].to_pandas(), window)
    if "checkpoints" in tables:
        yield from _checkpoints(tables["checkpoints"].to_pandas(), window)


def _growth(own: pd.DataFrame, column: str) -> float:
    """Return the growth of a counter per second, over all subtasks."""
    totals = own.groupby("t_s")[column].sum()
    if len(totals) < 2:
        return float("nan")
    times = totals.index
    return float((totals.iloc[-1] - totals.iloc[0]) / (times[-1] - times[0]))


def _sends_nothing(scenario: Scenario, name: str) -> bool:
    """Whether the task of a stage, with all that is chained to it, has no output."""
    return all(
        edge.chain and _sends_nothing(scenario, edge.receiver) for edge in scenario.outputs(name)
    )


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


def _latencies(
    latency: pd.DataFrame, window: tuple[float, float]
) -> Iterator[tuple[tuple[str, str, str], float]]:
    own = latency[(latency["kind"] == "record") & (latency["t_s"] > window[0] + 1e-6)]
    own = own[own["t_s"] <= window[1] + 0.5]
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
                f"{row.place:<22}{row.figure:<14}{_number(row.measured):>10}"
                f"{_number(row.emulated):>10} {row.unit:<8}{row.difference:>11}"
            )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
