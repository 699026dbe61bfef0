"""What the job graph shows of a stage and of an edge, over the whole run or at a sample.

A **slot** is a place in the drawing that changes: a text, a colour, a bar. The graph is drawn with
the slots of the whole run; the page's script puts those of a sample in their place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.analysis.bottleneck import pressure_of
from flowcontrol.report.figures import PRESSURE_COLOURS
from flowcontrol.report.layout import NODE_WIDTH
from flowcontrol.report.numbers import number, rate, share_of_time
from flowcontrol.scenario import Edge, Scenario, Stage

Slots = dict[str, str]

BAR_LEFT: Final = 11.0
_BAR_WIDTH: Final = NODE_WIDTH - 2 * BAR_LEFT


@dataclass(frozen=True)
class StageState:
    """A stage over the whole run, or since the sample before."""

    # Back-pressured time of the worst subtask, and the mean (ms/s).
    worst_blocked: float
    blocked: float
    busy: float  # busy, busiest: busy time, the mean and that of the busiest subtask (ms/s)
    busiest: float
    rate_in: float  # rate_in, rate_out: all subtasks together (records/s)
    rate_out: float

    @classmethod
    def of_run(cls, whole: Mapping[str, Any]) -> "StageState":
        """Return the state over the whole run, from a stage's figures in the summary."""
        return cls(
            whole["worst_backpressured_ms_per_s"],
            whole["backpressured_ms_per_s"],
            whole["busy_ms_per_s"],
            whole["busiest_busy_ms_per_s"],
            whole["rate_in"],
            whole["rate_out"],
        )


def stage_slots(stage: Stage, state: StageState, scenario: Scenario) -> Slots:
    """Return what a stage's box shows: title, status, colour, lines and bar."""
    pressure = pressure_of(state.worst_blocked)
    status = f"{pressure.value} · blocked {share_of_time(state.worst_blocked)}"
    busy = BAR_LEFT + _BAR_WIDTH * min(1.0, state.busy / 1000)
    blocked = min(BAR_LEFT + _BAR_WIDTH, busy + _BAR_WIDTH * state.blocked / 1000)
    lines = {f"line{row}": text for row, text in enumerate(_lines(stage, state, scenario))}
    return {
        "title": f"{stage.name}: {status}",
        "status": status,
        "fill": PRESSURE_COLOURS[pressure],
        "busy": f"M{BAR_LEFT:g} 0H{busy:.0f}",
        "blocked": f"M{busy:.0f} 0H{blocked:.0f}",
        **lines,
    }


def _lines(stage: Stage, state: StageState, scenario: Scenario) -> list[str]:
    """Return the lines under a stage's name."""
    noun = "subtask" if stage.parallelism == 1 else "subtasks"
    most = "" if scenario.scaling is None else "≤ "
    lines = [f"{most}{stage.parallelism:,} {noun}, busy {share_of_time(state.busy)}"]
    if stage.parallelism > 1:
        lines.append(f"busiest {share_of_time(state.busiest)}")
    if scenario.inputs(stage.name):
        lines.append(f"in {rate(state.rate_in)}")
    if scenario.outputs(stage.name):
        lines.append(f"out {rate(state.rate_out)}")
    return lines


def edge_slots(edge: Edge, sender_rate: float, in_flight: float, scenario: Scenario) -> Slots:
    """Return what stands at an edge: its rate and its data in flight.

    - ``sender_rate`` (records/s): what its sender emits, each record once.
    - ``in_flight``: buffers, or records where the transport counts those.
    """
    unit = "records" if scenario.system.counts_records else "buffers"
    copies = scenario.stage(edge.receiver).parallelism if edge.partitioner == "broadcast" else 1
    return {"rate": f"{number(sender_rate * copies)}/s", "held": f"{number(in_flight)} {unit}"}


def in_flight_column(scenario: Scenario) -> str:
    """Return the figure of an edge that is its data in flight, in what its transport counts."""
    return "in_flight_records" if scenario.system.counts_records else "in_flight_buffers"
