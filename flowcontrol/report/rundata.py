"""The data of the charts, and the part of a large job that they show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoints import COMPLETED, IN_PROGRESS, checkpoint_frame
from flowcontrol.analysis.frames import (
    Tables,
    end_of,
    in_flight_buffers,
    latency_frame,
    mean_over_time,
    result_frame,
    summed,
)
from flowcontrol.analysis.wording import seconds
from flowcontrol.records import MARKER
from flowcontrol.report.figures import (
    Series,
    capability,
    edge_capacity,
    over_interval,
    phase_changes,
    thinned,
)
from flowcontrol.report.graph import StageState, edge_slots, in_flight_column, stage_slots
from flowcontrol.report.markup import json_for_script
from flowcontrol.scenario import Edge, Scenario, Stage

if TYPE_CHECKING:
    import pandas as pd


MOST_STAGES = 8
"""Stages, or edges, in one chart; of a larger job the most relevant ones."""

MOST_CHANNELS = 8
"""Channels in one chart; of a larger job the fullest, and the median."""

_FULLEST = 5
_MOST_CHANGES = 40
_MOST_SPANS = 120


@dataclass(frozen=True)
class Spans:
    """Checkpoints as times from the trigger to the end, as many as can be drawn."""

    # Those that completed or were still in progress at the end of the run, and the others (s).
    completed: tuple[tuple[float, float], ...] = ()
    failed: tuple[tuple[float, float], ...] = ()
    left_out: int = 0  # Checkpoints that are not among them

    @classmethod
    def of(cls, tables: Tables) -> Spans:
        """Return those of a run; of too many the failed ones only, and of too many the first."""
        frame = checkpoint_frame(tables)
        ends = frame["ended_s"].fillna(end_of(tables))
        spans = list(zip(frame["triggered_s"].tolist(), ends.tolist(), strict=True))
        is_good = frame["status"].isin([COMPLETED, IN_PROGRESS]).tolist()
        failed = [span for span, good in zip(spans, is_good, strict=True) if not good]
        completed = [span for span, good in zip(spans, is_good, strict=True) if good]
        if len(spans) > _MOST_SPANS:
            completed, failed = [], failed[:_MOST_SPANS]
        left = len(spans) - len(completed) - len(failed)
        return cls(tuple(completed), tuple(failed), left)


@dataclass(frozen=True)
class RunData:
    """The data of the charts."""

    stages: pd.DataFrame  # stages, channels, latency: the result tables with ``interval_s``
    channels: pd.DataFrame
    latency: pd.DataFrame
    scenario: Scenario  # What was run; with a controller, with as many subtasks as there ever were
    until_s: float  # Time of the last sample (s)
    bottleneck: str | None = None  # The limiting stage, which is always drawn
    # From when until when tasks were down after a failure (s).
    outages: tuple[tuple[float, float], ...] = ()
    checkpoints: Spans = Spans()  # From when until when checkpoints were taken
    markers: pd.DataFrame | None = None  # Latencies of latency markers; None of a job without

    @classmethod
    def of(cls, tables: Tables, scenario: Scenario, bottleneck: str | None = None) -> RunData:
        """Return the data of a run from its result tables."""
        scenario = _as_drawn(scenario, tables)
        return cls(
            result_frame(tables, "stages"),
            result_frame(tables, "channels"),
            latency_frame(tables),
            scenario,
            end_of(tables),
            bottleneck,
            _outages(tables),
            Spans.of(tables),
            latency_frame(tables, MARKER) if scenario.options.latency_interval_us else None,
        )

    @property
    def changes(self) -> list[float]:
        """Times at which phases change; empty if there are too many to draw."""
        changes = phase_changes(self.scenario, self.until_s)
        return changes if len(changes) <= _MOST_CHANGES else []

    def shown_stages(self) -> list[Stage]:
        """Return the stages to draw in order: all, or bottleneck, ends and the most blocked."""
        order = list(self.scenario.topological())
        if len(order) <= MOST_STAGES:
            return order
        blocked = {
            str(stage): mean_over_time(rows, "backpressured_ms_per_s")
            for stage, rows in self.stages.groupby("stage")
        }

        def interest(stage: Stage) -> tuple[bool, bool, float]:
            inputs, outputs = self.scenario.inputs(stage.name), self.scenario.outputs(stage.name)
            is_end = not inputs or not outputs
            return stage.name == self.bottleneck, is_end, blocked.get(stage.name, 0.0)

        chosen = sorted(order, key=interest, reverse=True)[:MOST_STAGES]
        return [stage for stage in order if stage in chosen]

    def stage_rows(self, stage: str) -> pd.DataFrame:
        """Return the samples of one stage."""
        return self.stages[self.stages["stage"] == stage]


def _as_drawn(scenario: Scenario, tables: Tables) -> Scenario:
    """Return the scenario by which a run is drawn: with as many subtasks as any stage ever had.

    A line of what one parallelism allows means nothing where it changes, so service rates are left
    out. Without a controller it is the scenario itself.
    """
    if scenario.scaling is None:
        return scenario
    samples = tables["stages"].select(["stage", "subtask"]).to_pandas()
    most = samples.groupby("stage")["subtask"].max().to_dict()
    stages = []
    for stage in scenario.stages:
        width = int(most.get(stage.name, stage.parallelism - 1)) + 1
        more: dict[str, Any] = {"parallelism": width, "placement": (0,) * width}
        stages.append(stage.model_copy(update={**more, "service_rate": None}))
    return scenario.model_copy(update={"stages": tuple(stages)})


def _outages(tables: Tables) -> tuple[tuple[float, float], ...]:
    """Return when tasks were down, as many times as can be drawn."""
    rows = tables["restarts"].to_pylist() if "restarts" in tables else []
    ends = [end_of(tables) if row["running_s"] is None else row["running_s"] for row in rows]
    found = [(row["failed_s"], end) for row, end in zip(rows, ends, strict=True)]
    return tuple(found) if len(found) <= _MOST_CHANGES else ()


@dataclass(frozen=True)
class StageRate:
    """Rate of a stage over time, and the rate that its schedule allows."""

    name: str  # Of the stage
    is_source: bool  # True: rates of emission; False: rates of processing
    done: Series  # Records/s since the previous sample
    able: Series | None  # Records/s that its schedule allows; None without one
    # Records/s that are written to the log of a source; None without one.
    arrives: Series | None = None


@dataclass(frozen=True)
class EdgeFlight:
    """What was in flight on an edge."""

    name: str  # Of the edge
    buffers: Series  # buffers, records: levels at the samples, all channels together
    records: Series
    # Buffers that its pools can hold; None if the pools are not the edge's alone.
    room: Series | None


def stage_rates(run: RunData) -> list[StageRate]:
    """Return the rates of the stages to draw."""
    rates = []
    for stage in run.shown_stages():
        is_source = not run.scenario.inputs(stage.name)
        column = "rate_out" if is_source else "rate_in"
        done = over_interval(stage.name, summed(run.stage_rows(stage.name), column), column)
        schedules = stage.emit_rate if is_source else stage.service_rate
        name = f"{stage.name} could"
        able = None if schedules is None else capability(name, schedules, run.until_s)
        arrives = None
        if stage.arrival_rate is not None:
            arrives = capability(f"{stage.name}'s log gets", stage.arrival_rate, run.until_s)
        rates.append(StageRate(stage.name, is_source, done, able, arrives))
    return rates


def edge_flights(run: RunData) -> list[EdgeFlight]:
    """Return what was in flight on the edges to draw."""
    rows = run.channels.assign(in_flight=in_flight_buffers(run.channels, run.scenario))
    flights = []
    for edge in _fullest_edges(run):
        own = rows[rows["edge"] == edge.name]
        buffers, records = (
            Series(edge.name, *thinned(summed(own, column), column))
            for column in ("in_flight", "in_flight_records")
        )
        room = edge_capacity(edge, run.channels, run.stages, run.scenario)
        held = None
        if room is not None:
            held = Series(f"{edge.name} can hold", [0.0, run.until_s], [room, room])
        flights.append(EdgeFlight(edge.name, buffers, records, held))
    return flights


def shown_channels(run: RunData) -> tuple[list[tuple[str, pd.DataFrame]], int]:
    """Return the channels to draw, and the number of all channels if some are left out, else 0."""
    owner = ["edge", "sender", "receiver"]
    parts = [
        (f"{edge} [{sender} to {receiver}]", rows)
        for (edge, sender, receiver), rows in run.channels.groupby(owner, sort=False)
    ]
    if len(parts) <= MOST_CHANNELS:
        return parts, 0
    fullest = sorted(parts, key=lambda part: -mean_over_time(part[1], "backlog"))
    return fullest[:_FULLEST], len(parts)


def _fullest_edges(run: RunData) -> list[Edge]:
    """Return the edges to draw, in order: all, or those with most in flight."""
    edges = list(run.scenario.edges)
    if len(edges) <= MOST_STAGES:
        return edges
    held = run.channels.groupby("edge")["in_flight_records"].sum().to_dict()
    fullest = sorted(edges, key=lambda edge: -held.get(edge.name, 0))[:MOST_STAGES]
    return [edge for edge in edges if edge in fullest]


def left_out(run: RunData) -> str:
    """Return a sentence about the stages left out; empty if none is."""
    shown: Sequence[Stage] = run.shown_stages()
    left = len(run.scenario.stages) - len(shown)
    if not left:
        return ""
    return (
        f" Of the {len(run.scenario.stages)} stages {len(shown)} are drawn: the bottleneck, "
        "sources and sinks, then the most blocked."
    )


# --- The job graph sample by sample: what the slider of the page shows.
#
# Every text and colour of every sample is made here, by the rules that drew the graph; the page's
# script only puts them in their places.


MOST_SAMPLES: Final = 200
"""Samples on the slider; of more every second one, every third ... and the last."""

_PLAYER: Final = (
    '<div class="player" id="player" hidden>'
    '<button type="button" class="play">▶ Play</button>'
    '<input type="range" min="0" max="{last}" value="0" step="1" autocomplete="off" '
    'aria-label="Time of the run that the graph shows" aria-valuetext="whole run">'
    "<output>whole run</output>"
    '<button type="button" class="whole">Whole run</button></div>'
    '<script type="application/json" id="timeline">{data}</script>'
)


_STEPPED_S: Final = 0.5
"""Emulated time of a run through which the command steps, s."""


def player(run: RunData) -> str:
    """Return the slider over the samples with its data, as markup; empty without samples.

    To stand above the graph of :func:`flowcontrol.report.graph.job_graph`. It is hidden until the
    page's script finds it.
    """
    data = timeline(run)
    if not data["times"]:
        return ""
    return _PLAYER.format(last=len(data["times"]), data=json_for_script(data))


def player_note(run: RunData) -> str:
    """Return how to read the slider, and which samples it leaves out, as markup."""
    times = _sample_times(run)
    if not times:
        return ""
    step = _step(len(times))
    left = f" Of {len(times):,} samples one in {step} is shown." if step > 1 else ""
    return escape(
        " The slider shows a sample (keys: arrows, Home, End): shares and rates since the sample "
        f"before, data in flight at that moment.{left}"
    )


def timeline(run: RunData) -> dict[str, Any]:
    """Return the slots of the job graph at each sample.

    Returns ``times``: texts of the samples' times; ``slots``: by the name of a slot its content at
    each of them.
    """
    times = _picked(_sample_times(run))
    slots: dict[str, list[str]] = defaultdict(list)
    for index, found in enumerate(_stages(run, times)):
        for content in found:
            for name, text in content.items():
                slots[f"s{index}.{name}"].append(text)
    for index, found in enumerate(_edges(run, times)):
        for content in found:
            for name, text in content.items():
                slots[f"e{index}.{name}"].append(text)
    if times and run.scenario.scaling is None:
        slots["step.command"] = [step_command(run, at) for at in times]
    return {"times": [f"{seconds(at)} s" for at in times], "slots": dict(slots)}


def step_note(run: RunData) -> str:
    """Return the command that steps through the run at the slider's time, as markup."""
    times = _sample_times(run)
    if not times or run.scenario.scaling is not None:
        return ""
    command = escape(step_command(run, times[0]))
    return (
        '<p class="how">Every buffer and message before the time on the slider, round by round: '
        f'<code data-slot="step.command">{command}</code>, with the path of the scenario\'s '
        'file. <button type="button" class="copy" hidden>Copy the command</button></p>'
    )


def step_command(run: RunData, at_s: float) -> str:
    """Return the command that shows the rounds before a moment of a run, s."""
    start = max(0.0, at_s - min(_STEPPED_S, run.scenario.sample_interval_s))
    return f"flowcontrol step {run.scenario.name}.yaml --from {start:.10g} --to {at_s:.10g}"


def _sample_times(run: RunData) -> list[float]:
    return sorted(float(at) for at in run.stages["t_s"].unique())


def _step(samples: int) -> int:
    return max(1, -(-samples // MOST_SAMPLES))


def _picked(times: Sequence[float]) -> list[float]:
    """Return the times on the slider: evenly spaced, the last one among them."""
    return list(times[::-1][:: _step(len(times))][::-1])


def _stages(run: RunData, times: Sequence[float]) -> list[list[dict[str, str]]]:
    """Return for each stage its slots at each time."""
    rows = run.stages[run.stages["t_s"].isin(times)]
    found = rows.groupby(["stage", "t_s"]).agg(
        worst_blocked=("backpressured_ms_per_s", "max"),
        blocked=("backpressured_ms_per_s", "mean"),
        busy=("busy_ms_per_s", "mean"),
        busiest=("busy_ms_per_s", "max"),
        rate_in=("rate_in", "sum"),
        rate_out=("rate_out", "sum"),
    )
    states = {
        key: StageState(*map(float, row))
        for key, row in zip(found.index, found.to_numpy(), strict=True)
    }
    nothing = StageState(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return [
        [stage_slots(stage, states.get((stage.name, at), nothing), run.scenario) for at in times]
        for stage in run.scenario.stages
    ]


def _edges(run: RunData, times: Sequence[float]) -> list[list[dict[str, str]]]:
    """Return for each edge its slots at each time."""
    column = in_flight_column(run.scenario)
    rows = run.channels[run.channels["t_s"].isin(times)]
    if column not in rows.columns:
        rows = rows.assign(**{column: in_flight_buffers(rows, run.scenario)})
    held = rows.groupby(["edge", "t_s"])[column].sum().to_dict()
    emitted = run.stages.groupby(["stage", "t_s"])["rate_out"].sum().to_dict()
    return [
        [
            edge_slots(
                edge,
                float(emitted.get((edge.sender, at), 0.0)),
                float(held.get((edge.name, at), 0.0)),
                run.scenario,
            )
            for at in times
        ]
        for edge in run.scenario.edges
    ]
