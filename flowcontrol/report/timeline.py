"""The job graph sample by sample: what the slider of the page shows.

Every text and colour of every sample is made here, by the rules that drew the graph; the page's
script only puts them in their places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from flowcontrol.analysis.frames import in_flight_buffers
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.graph import StageState, edge_slots, in_flight_column, stage_slots
from flowcontrol.report.markup import json_for_script
from flowcontrol.report.rundata import RunData

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
