"""What the page and the terminal show of scalings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import Tables, summed
from flowcontrol.analysis.scalings import scaling_frame
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.colours import GREY, line_style
from flowcontrol.report.figures import Chart, axis, figure, line
from flowcontrol.report.markup import chart_texts, html_table
from flowcontrol.report.numbers import number
from flowcontrol.report.rundata import RunData, left_out
from flowcontrol.report.series import Series, over_interval, thinned
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

HEADS: Final = (
    "At", "Stage", "Parallelism", "Why", "Restart", "Records/s before", "after",
    "p99 before", "after", "Most lag before", "after",
)  # fmt: skip
MOST_ROWS: Final = 100
"""Scalings in the table of the page; of more the first ones."""

_FIGURES: Final[dict[str, Callable[[Any], str]]] = {
    "restarts": number,
    "down_s": lambda value: _time(value),
    "throughput": number,
    "p99_ms": lambda value: "" if value is None else _time(value / 1000),
    "max_lag_s": lambda value: _time(value),
    "end_lag_s": lambda value: _time(value),
    "subtasks": number,
    "wasted_subtasks": number,
    "slots": number,
}
"""Figures of a run beside others."""

_SIDE: Final = (
    "Scaled", "Down", "Records/s", "p99", "Most lag", "End lag", "Subtasks", "Idle",
    "Slots",
)  # fmt: skip

_REPORT: Final = "flowcontrol.report"


def scaling_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the scalings, if the run has a controller."""
    return list(summary.get("scaling", {}).get("sentences", ()))


def scaling_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each vertex that was scaled, under :data:`HEADS`."""
    rows = []
    for step in found["steps"]:
        for index, change in enumerate(step["changes"]):
            row = ["" if index else _time(step["t_s"]), change["stage"]]
            row += [f"{change['old']} → {change['new']}", change["reason"]]
            row += [""] * 7 if index else [_time(step["restart_s"]), *_around(step)]
            rows.append(row)
    return rows


def _around(step: Mapping[str, Any]) -> list[str]:
    """Return the figures before and after a step."""
    found = []
    for key, show in (("throughput", number), ("p99_ms", _ms), ("max_lag_s", _time)):
        for stretch in (step["before"], step["after"]):
            value = None if stretch is None else stretch[key]
            found.append("" if value is None else show(value))
    return found


def scaling_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty without a controller."""
    found = summary.get("scaling")
    if found is None:
        return ""
    rows = [list(map(escape, row)) for row in scaling_rows(found)]
    note = f" The first {MOST_ROWS} of {len(rows):,}." if len(rows) > MOST_ROWS else ""
    table = f'<div class="scroll">{html_table(HEADS, rows[:MOST_ROWS])}</div>' if rows else ""
    return (
        f'<section id="scalings"><h2>Scalings</h2>{table}'
        f'<p class="how">{escape(held_sentence(found))} Before and after: from the start of the '
        f"job to the decision, and from its new start to the next one.{note}</p></section>\n"
    )


def held_sentence(found: Mapping[str, Any]) -> str:
    """Return what was held and wasted."""
    return (
        f"On average {number(found['subtasks'])} subtasks in {number(found['slots'])} slots were "
        f"held, of which {number(found['wasted_subtasks'])} subtasks had nothing to do; the job "
        f"stood for {seconds(found['down_s'])} s."
    )


def scaling_charts(run: RunData, tables: Tables) -> list[Chart]:
    """Return parallelism, throughput and lag over time; nothing without a controller."""
    if run.scenario.scaling is None:
        return []
    frame = scaling_frame(tables)
    traces: list[dict[str, Any]] = []
    for index, stage in enumerate(run.shown_stages()):
        rows, style = run.stage_rows(stage.name), line_style(index)
        width = rows.assign(width=1)
        series = over_interval(stage.name, summed(width, "width"), "width")
        shape = {"color": style.colour, "dash": style.dash, "width": 2.0, "shape": "vh"}
        traces.append(line(series, style, mode="lines", line=shape))
        if stage in run.scenario.sinks:
            rate = over_interval(stage.name, summed(rows, "rate_in"), "rate_in")
            traces.append(line(rate, style, row=1, mode="lines", line=shape, showlegend=False))
        if stage.reads_log:
            x, y = thinned(summed(rows, "lag_s", "max"), "lag_s")
            traces.append(line(Series(stage.name, x, y), style, row=2, showlegend=False))
    has_lag = any(stage.reads_log for stage in run.shown_stages())
    axes = [axis("subtasks"), axis("records/s")] + ([axis("lag (s)")] if has_lag else [])
    drawn = figure(traces, axes, until_s=run.until_s, row_px=170)
    drawn["layout"]["shapes"] = [*drawn["layout"].get("shapes", ()), *_marks(frame)]
    texts = chart_texts(_REPORT)["scaling"]
    lag = texts["lag"] if has_lag else ""
    return [Chart("scaling", texts["title"], texts["text"].format(lag=lag) + left_out(run), drawn)]


def as_drawn(scenario: Scenario, tables: Tables) -> Scenario:
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


def _marks(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a line at each decision, and a band until the job runs again."""
    found: list[dict[str, Any]] = []
    for t_s, rows in frame.groupby("t_s"):
        at_s = float(str(t_s))
        until_s = at_s + float(rows["restart_s"].iloc[0])
        place = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
        found.append(
            {"type": "line", "x0": at_s, "x1": at_s, **place}
            | {"line": {"color": GREY, "width": 1.5, "dash": "dash"}}
        )
        found.append(
            {"type": "rect", "x0": at_s, "x1": until_s, **place}
            | {"fillcolor": GREY, "opacity": 0.18, "line": {"width": 0}}
        )
    return found


def print_scalings(runs: Mapping[str, Mapping[str, Any]], console: Console | None = None) -> None:
    """Print the steps of each policy, then the runs beside each other.

    - ``runs``: by policy, as in ``scaling.json``.
    - ``console``: by default standard output.
    """
    from rich.console import Console as Terminal
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = console or Terminal()
    for found in runs.values():
        for words in _step_lines(found):
            console.print(Text(words))
        for sentence in found["sentences"]:
            console.print(Text(sentence))
    # A column a policy, so that the names of all fit into a narrow terminal.
    table = _table(Table, ("", *runs))
    for head, (key, show) in zip(_SIDE, _FIGURES.items(), strict=True):
        table.add_row(head, *(Text(show(found[key])) for found in runs.values()))
    console.print(Padding(table, (1, 0)))


def _step_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the terminal says of each step: what changed, why, and what came of it."""
    names = ("records/s", "p99", "most lag")
    for step in found["steps"]:
        changes = ", ".join(
            f"{one['stage']} {one['old']} → {one['new']}" for one in step["changes"]
        )
        yield f"{_time(step['t_s'])}: {changes}; it runs again {_time(step['restart_s'])} later"
        yield from (f"    {text}" for text in dict.fromkeys(o["reason"] for o in step["changes"]))
        figures = _around(step)
        pairs = zip(names, figures[::2], figures[1::2], strict=True)
        yield "    " + ", ".join(f"{name} {one or '-'} → {two or '-'}" for name, one, two in pairs)


def _table(kind: type[Table], heads: Sequence[str]) -> Table:
    """Return an empty table of the terminal."""
    from rich import box

    table = kind(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, head in enumerate(heads):
        table.add_column(head, justify="right" if index else "left", overflow="fold")
    return table


def _time(value: float) -> str:
    return f"{seconds(value)} s"


def _ms(value: float) -> str:
    return f"{number(value)} ms"
