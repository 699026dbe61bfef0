"""Effects of scalings on a run: parallelism, throughput, lag and latency between them, and cost.

A run is cut at its scalings: each **stretch** is a time in which the job ran at one set of
parallelisms, from its start to the next decision. What lies between two stretches is the restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import (
    Tables,
    combine_latencies,
    end_of,
    latency_frame,
    result_frame,
    summed,
    within,
)
from flowcontrol.analysis.panel import Window
from flowcontrol.analysis.wording import seconds
from flowcontrol.records import SCALINGS
from flowcontrol.report.figures import (
    GREY,
    Chart,
    Series,
    axis,
    figure,
    line,
    line_style,
    over_interval,
    span,
    steps,
    thinned,
)
from flowcontrol.report.markup import chart_of, chart_texts, html_table, number
from flowcontrol.report.rundata import RunData, left_out
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario
from flowcontrol.topics.topic import Topic, sentences_of

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table


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
        traces.append(steps(series, style))
        if stage in run.scenario.sinks:
            rate = over_interval(stage.name, summed(rows, "rate_in"), "rate_in")
            traces.append(steps(rate, style, row=1, showlegend=False))
        if stage.reads_log:
            x, y = thinned(summed(rows, "lag_s", "max"), "lag_s")
            traces.append(line(Series(stage.name, x, y), style, row=2, showlegend=False))
    has_lag = any(stage.reads_log for stage in run.shown_stages())
    axes = [axis("subtasks"), axis("records/s")] + ([axis("lag (s)")] if has_lag else [])
    drawn = figure(traces, axes, until_s=run.until_s, row_px=170)
    drawn["layout"]["shapes"] = [*drawn["layout"].get("shapes", ()), *_marks(frame)]
    lag = chart_texts()["scaling"]["lag"] if has_lag else ""
    return [chart_of("scaling", drawn, left_out(run), words={"lag": lag})]


def _marks(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a line at each decision, and a band until the job runs again."""
    found: list[dict[str, Any]] = []
    for t_s, rows in frame.groupby("t_s"):
        at_s = float(str(t_s))
        until_s = at_s + float(rows["restart_s"].iloc[0])
        dashed = {"color": GREY, "width": 1.5, "dash": "dash"}
        found.append(span("line", (at_s, at_s), layer="below", line=dashed))
        look: dict[str, Any] = {"fillcolor": GREY, "opacity": 0.18, "line": {"width": 0}}
        found.append(span("rect", (at_s, until_s), layer="below", **look))
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


def _add(run: Run, summary: dict[str, Any]) -> None:
    """Put scalings and the parallelism at the end into the summary."""
    if run.job.scenario.scaling is not None:
        summary["scaling"] = scaling_summary(run.tables, run.job.scenario)
        for name, width in summary["scaling"]["end"].items():
            summary["stages"][name]["parallelism"] = width


SCALING: Final = Topic(
    add=_add,
    sentences=sentences_of("scaling"),
    section=lambda run: scaling_section(run.summary),
    first_charts=lambda run: scaling_charts(run.drawn, run.tables),
)
