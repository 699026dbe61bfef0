"""The figures of every run on the page: key figures, and the table of the stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal

from flowcontrol.analysis.bottleneck import Pressure, pressure_of
from flowcontrol.analysis.frames import combine_latencies
from flowcontrol.analysis.panel import Panel
from flowcontrol.analysis.subtasks import SubtaskFigures, subtask_figures
from flowcontrol.analysis.wording import join_words, seconds
from flowcontrol.report.figures import PRESSURE_COLOURS
from flowcontrol.report.markup import (
    bytes_text,
    key_figure,
    milliseconds,
    number,
    percent,
    rate,
    score,
    share_of_time,
    table_body,
    table_of,
)
from flowcontrol.report.rundata import RunData
from flowcontrol.scenario import Scenario, Stage

if TYPE_CHECKING:
    import pandas as pd


# --- The key figures of a run, and its line: clock, length and rounds.


CLOCKS = {"live": "Structured Streaming, live", "virtual": "virtual clock"}


def run_line(summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return clock, length and rounds of a run in one line."""
    emulated = seconds(summary["emulated_s"])
    is_whole = summary["emulated_s"] >= scenario.duration_s * 0.999
    length = f"{emulated} s emulated" if is_whole else (
        f"ended early, {emulated} of {seconds(scenario.duration_s)} s emulated"
    )  # fmt: skip
    return " · ".join(
        [
            CLOCKS.get(summary["clock"], summary["clock"]),
            f"{length} in {seconds(summary['wall_s'])} s",
            f"{summary['rounds']:,} rounds of {milliseconds(summary['round_ms'])}"
            + (" (chosen)" if summary.get("round_is_chosen") else ""),
            *_round_error(summary),
        ]
    )


def says_nothing_of_the_job(summary: Mapping[str, Any]) -> bool:
    """Tell whether the length of the rounds limited a run, so that it shows nothing of its job."""
    return bool(summary["bottleneck_detail"].get("is_of_round"))


def _round_error(summary: Mapping[str, Any]) -> list[str]:
    """Return the latency that whole rounds add, if it is known."""
    if "round_error_ms" not in summary:
        return []
    return [f"whole rounds add up to {milliseconds(summary['round_error_ms'])} to a latency"]


def key_figures(summary: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """Return the figures of a run that come first.

    Returns markup: records emitted, processed, blocked time, in flight, and any latency.
    """
    stages = {name: stage["whole"] for name, stage in summary["stages"].items()}
    sources = [stage.name for stage in scenario.sources]
    sinks = [stage.name for stage in scenario.sinks]
    figures = [
        key_figure(
            "Producers emitted",
            rate(sum(stages[name]["rate_out"] for name in sources)),
            f"{number(sum(stages[name]['records_out'] for name in sources))} records in all",
        ),
        key_figure(
            "Consumers took up",
            rate(sum(stages[name]["rate_in"] for name in sinks)),
            f"{number(sum(stages[name]['records_in'] for name in sinks))} records in all"
            + "".join(f"; {text}" for text in _between(scenario)),
        ),
        _blocked(stages),
        _in_flight(summary),
    ]
    lags = summary.get("lags", ())
    if lags:
        worst = max(lags, key=lambda lag: float(lag["max_s"]))
        figures.append(_lag(worst, is_only=len(lags) == 1))
    latencies = [stages[name]["latency"] for name in sinks if stages[name]["latency"]]
    return figures + ([_latency(latencies)] if latencies else [])


def _between(scenario: Scenario) -> Iterator[str]:
    """Yield why consumers take up more or fewer records than producers emit, though none is lost.

    Several sinks behind one stage each take up all of its records, as if these were broadcast.
    """
    for stage in scenario.stages:
        if stage.window is not None:
            yield f"{stage.name} puts out results of windows, not each record"
        elif stage.selectivity_exact != 1:
            yield f"{stage.name} emits {float(stage.selectivity_exact):g} records for each"
    for edge in scenario.edges:
        if edge.partitioner == "broadcast":
            yield f"{edge.name} copies each record to all subtasks"
    several = [stage.name for stage in scenario.stages if _edges_out(scenario, stage.name) > 1]
    if several:
        yield f"each edge of {join_words(several)} carries all its records"


def _edges_out(scenario: Scenario, stage: str) -> int:
    return sum(edge.sender == stage for edge in scenario.edges)


def _blocked(stages: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the share of time of the most blocked subtask."""
    key = "worst_backpressured_ms_per_s"
    worst = max(stages, key=lambda name: stages[name][key])
    share = stages[worst][key] / 1000
    note = worst if share > 0 else "nothing was blocked"
    return key_figure("Most blocked", f"{percent(share)} of the time", note)


def _in_flight(summary: Mapping[str, Any]) -> str:
    """Return the data in flight between all stages."""
    edges = [edge["whole"] for edge in summary["edges"].values()]
    records = sum(edge["in_flight_records"] for edge in edges)
    size = sum(edge["in_flight_bytes"] for edge in edges)
    return key_figure(
        "In flight", f"{number(records)} records", f"{bytes_text(size)}, mean over the run"
    )


def _latency(latencies: list[Mapping[str, Any]]) -> str:
    """Return the latency of the slowest sink."""
    worst = max(latencies, key=lambda latency: float(latency["p50_ms"]))
    median, high = (milliseconds(worst[key]) for key in ("p50_ms", "p99_ms"))
    sink = "" if len(latencies) == 1 else " at the slowest sink"
    return key_figure("Latency", f"{median} median", f"p99 {high}{sink}")


def _lag(lag: Mapping[str, Any], *, is_only: bool) -> str:
    """Return how far a source was behind its log."""
    after = lag["caught_up_after_s"]
    note = "kept up" if lag["kept_up"] else "has not caught up"
    if after is not None:
        note = f"caught up after {seconds(after)} s"
    name = "" if is_only else f"{lag['stage']}: "
    records = f"{number(lag['max_records'])} records at most"
    return key_figure("Behind the log", f"{seconds(lag['max_s'])} s", f"{name}{records}, {note}")


# --- The table of the stages on the page; a stage of several subtasks opens to them.
#
# The rows of the subtasks stand in a body of the table of their own, under the same columns, so
# that a subtask is compared with its stage and its neighbours by looking down a column.


MOST_ROWS: Final = 200
"""Subtasks of a stage that get a row; of more, those that were busiest."""


def _times(ratio: float) -> str:
    return f"{number(ratio)}x"


@dataclass(frozen=True)
class _Column:
    """One column after the first three."""

    head: str  # head, key, text: its head, the figure that it shows and how
    key: str
    text: Callable[[float], str] = number
    side: Literal["in", "out", "both"] = "both"  # Blank where a stage has no inputs, or no outputs
    # The figure of a stage to show as that of the subtask with the most; None for none.
    largest: tuple[str, Callable[[float], str]] | None = None
    # Which transports it is for: those that count buffers, or all.
    counts: Literal["buffers", "both"] = "both"
    # What a stage shows instead, as key and text.
    of_stage: tuple[str, Callable[[float], str]] | None = None


def _beside(key: str, text: Callable[[float], str]) -> tuple[str, Callable[[float], str]]:
    return f"max_{key}", text


def _column(
    head: str,
    key: str,
    text: Callable[[float], str] = number,
    side: Literal["in", "out", "both"] = "both",
    counts: Literal["buffers", "both"] = "both",
) -> _Column:
    """Return a column that shows the largest figure of a subtask beside that of its stage."""
    return _Column(head, key, text, side, _beside(key, text), counts)


_LARGEST: Final = "<small>most of a subtask</small>"
"""What the second line of a stage's row is."""

_MAX_OVER_MEAN: Final = "records_in_max_over_mean"
_COLUMNS: Final = (
    _Column("Records in", "records_in", side="in"),
    _column("In /s", "rate_in", side="in"),
    _Column(
        "Skew", "over_mean", _times, "in", (_MAX_OVER_MEAN, _times),
        of_stage=("data_skew_percent", score),
    ),
    _column("In pool", "in_pool_usage", percent, "in", "buffers"),
    _column("Queued", "input_queue_buffers", side="in"),
    _Column("Records out", "records_out", side="out"),
    _column("Out /s", "rate_out", side="out"),
    _column("Out pool", "out_pool_usage", percent, "out", "buffers"),
    _column("To send", "output_queue_buffers", side="out"),
    _column("Busy", "busy_ms_per_s", share_of_time),
    _column("Idle", "idle_ms_per_s", share_of_time),
    _column("Blocked", "backpressured_ms_per_s", share_of_time),
    _Column("Latency p50", "p50_ms", milliseconds),
    _Column("p99", "p99_ms", milliseconds),
    _Column("max", "max_ms", milliseconds),
)  # fmt: skip


def stage_table(run: RunData, summary: Mapping[str, Any]) -> str:
    """Return the table of the stages over the whole run, as markup.

    ``run``: the samples, for the figures of each subtask.

    Returns a row per stage. A stage of several subtasks has a button that opens and closes the rows
    of its subtasks; without a script they are all shown.
    """
    scenario = run.scenario
    counts = {"both", "records" if scenario.system.counts_records else "buffers"}
    columns = [column for column in _COLUMNS if column.counts in counts]
    heads = ["Stage", "Pressure", "Subtasks", *(column.head for column in columns)]
    bodies = []
    for index, stage in enumerate(scenario.stages):
        figures = summary["stages"][stage.name]
        rows_id = f"rows-of-stage-{index}" if stage.parallelism > 1 else None
        cells = _stage_cells(stage, figures, scenario, columns, rows_id)
        bodies.append(table_body([cells], len(heads)))
        if rows_id is not None:
            limiting = _limiting(summary, stage)
            rows = _subtask_rows(run, stage, columns, limiting)
            bodies.append(
                table_body(rows, len(heads), id=rows_id, class_="subtasks", is_hidden=True)
            )
    return table_of(heads, bodies)


def _limiting(summary: Mapping[str, Any], stage: Stage) -> Sequence[int]:
    """Return the subtasks that limit, if it is this stage's that do."""
    is_limit = summary["bottleneck"] == stage.name
    found: Sequence[int] = summary["bottleneck_detail"]["subtasks"] if is_limit else ()
    return found


def _stage_cells(
    stage: Stage,
    figures: Mapping[str, Any],
    scenario: Scenario,
    columns: Sequence[_Column],
    rows_id: str | None,
) -> list[str]:
    """Return the cells of a stage's row as markup."""
    whole = figures["whole"]
    most = {f"max_{name}": value for name, value in whole["max_over_subtasks"].items()}
    shown = {**whole, **most, **(whole["latency"] or {})}
    name = escape(stage.name)
    if rows_id is not None:
        name = (
            f'<button type="button" class="opener" aria-expanded="false" '
            f'aria-controls="{rows_id}">{name}</button>{_LARGEST}'
        )
    cells = [name, _badge(Pressure(figures["pressure"])), number(stage.parallelism)]
    for column in columns:
        key, text = column.of_stage or (column.key, column.text)
        cell = _cell(column, text, shown.get(key), stage, scenario)
        if cell and column.largest and stage.parallelism > 1:
            largest, text = column.largest
            cell += f"<small>{text(shown[largest])}</small>"
        cells.append(cell)
    return cells


def _subtask_rows(
    run: RunData, stage: Stage, columns: Sequence[_Column], limiting: Sequence[int]
) -> list[list[str]]:
    """Return the rows of a stage's subtasks, cells as markup."""
    rows = Panel.of_frame(run.stage_rows(stage.name))
    subtasks = subtask_figures(rows, (0.0, run.until_s))
    shown = sorted(subtasks, key=lambda subtask: -subtask.busy_ms_per_s)[:MOST_ROWS]
    mean = sum(subtask.records_in for subtask in subtasks) / max(1, len(subtasks))
    latency = run.latency[run.latency["stage"] == stage.name]
    cells = [
        _subtask_cells(
            subtask, mean, latency, stage, run.scenario, columns,
            is_limit=subtask.subtask in limiting,
        )
        for subtask in sorted(shown, key=lambda subtask: subtask.subtask)
    ]  # fmt: skip
    if len(shown) < len(subtasks):
        left = f"The {len(shown)} busiest of {len(subtasks):,} subtasks; the others are left out."
        cells.append([left])
    return cells or [["No sample was taken."]]


def _subtask_cells(
    subtask: SubtaskFigures,
    mean: float,
    latency: pd.DataFrame,
    stage: Stage,
    scenario: Scenario,
    columns: Sequence[_Column],
    *,
    is_limit: bool,
) -> list[str]:
    """Return the cells of a subtask's row as markup; ``mean`` is that of the records taken up."""
    times = combine_latencies(latency[latency["subtask"] == subtask.subtask]) or {}
    figures: dict[str, float] = {**subtask._asdict(), **times}
    figures["over_mean"] = subtask.records_in / mean if mean else 0.0
    name = f"subtask {subtask.subtask}"
    return [
        f"<strong>{name}, limits</strong>" if is_limit else name,
        _badge(pressure_of(subtask.backpressured_ms_per_s)),
        "" if scenario.scaling is not None else f"on {stage.placement[subtask.subtask]}",
        *(_cell(c, c.text, figures.get(c.key), stage, scenario) for c in columns),
    ]


def _cell(
    column: _Column,
    text: Callable[[float], str],
    figure: float | None,
    stage: Stage,
    scenario: Scenario,
) -> str:
    """Return a figure as text; blank where there is none."""
    if column.side == "in" and not scenario.inputs(stage.name):
        return ""
    if column.side == "out" and not scenario.outputs(stage.name):
        return ""
    return "" if figure is None else text(figure)


def _badge(pressure: Pressure) -> str:
    colour = PRESSURE_COLOURS[pressure]
    return f'<span class="badge" style="background:{colour}">{pressure.value}</span>'
