"""Delivery: what readers of the sinks see, how late, and what each guarantee would have shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.wording import join_words, seconds
from flowcontrol.report.figures import (
    BLUE,
    GREEN,
    VERMILLION,
    Chart,
    axis,
    figure,
    outage_bands,
    scatter,
)
from flowcontrol.report.markup import chart_of, html_table, milliseconds, number
from flowcontrol.report.rundata import RunData
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario, Stage
from flowcontrol.topics.topic import Topic

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"


def delivery_summary(
    table: pa.Table,
    scenario: Scenario,
    staged: Mapping[str, int],
    e2e: Mapping[str, float] | None,
    notification_ms: float,
) -> dict[str, Any]:
    """Return what ``summary.json`` says of what readers saw.

    A row waits for the next barrier, which takes half an interval in the median and a whole one at
    the most, for the end of that checkpoint, and for its notification.

    - ``table``: ``delivery`` of a run.
    - ``e2e``: durations of completed checkpoints as in ``summary.json``: ``p50_ms`` and ``max_ms``.
    - ``notification_ms`` (ms): from the end of a checkpoint until the tasks hear of it.

    Returns ``sinks``, of each by its name ``guarantee``, ``written``, ``visible`` (rows, those that
    are there twice included), ``twice``, ``lost``, ``staged``, and of an exactly-once sink
    ``visibility_p50_ms`` (of the samples' medians, each counted with its rows),
    ``visibility_max_ms`` and ``expected_p50_ms``, ``expected_max_ms``, the closed form; null where
    there is none. ``sentences``, one of each sink; ``losses``, one of each sink that lost records
    as its transactions expired; ``unaccounted``, one of each sink that promises more than
    at-least-once but has no rows in the table, and no figures here.
    """
    frame = table.to_pandas()
    known = set(frame["stage"]) if len(frame) else {stage.name for stage in scenario.sinks}
    sinks = {
        stage.name: {
            "guarantee": stage.guarantee,
            **_counts(frame[frame["stage"] == stage.name]),
            "staged": staged.get(stage.name, 0),
            **_latencies(stage.guarantee, frame[frame["stage"] == stage.name]),
            **_expected(stage.guarantee, scenario, e2e, notification_ms),
        }
        for stage in scenario.sinks
        if stage.name in known
    }
    return {
        "sinks": sinks,
        "sentences": [_sentence(name, own) for name, own in sinks.items()],
        "losses": [text for name, own in sinks.items() for text in _losses(name, own, scenario)],
        "unaccounted": [
            _unaccounted(stage, scenario)
            for stage in scenario.sinks
            if stage.name not in known and stage.guarantee != AT_LEAST_ONCE
        ],
    }


def _counts(rows: pd.DataFrame) -> dict[str, int]:
    """Return the counts at the last sample, of all subtasks together."""
    names = {"written": "written", "visible": "committed", "twice": "visible_twice", "lost": "lost"}
    last = rows[rows["t_s"] == rows["t_s"].max()]
    return {name: int(last[column].sum()) for name, column in names.items()}


def _latencies(guarantee: str, rows: pd.DataFrame) -> dict[str, float | None]:
    found: dict[str, float | None] = {"visibility_p50_ms": None, "visibility_max_ms": None}
    shown = rows[rows["visibility_p50_ms"].notna()]
    if guarantee != EXACTLY_ONCE or shown.empty:
        return found
    growth = rows.groupby("subtask")["committed"].diff().fillna(rows["committed"])
    ordered = shown.assign(rows=growth[shown.index]).sort_values("visibility_p50_ms")
    upto = ordered["rows"].cumsum()
    middle = ordered[upto >= upto.iloc[-1] / 2].iloc[0]
    found["visibility_p50_ms"] = round(float(middle["visibility_p50_ms"]), 6)
    found["visibility_max_ms"] = round(float(shown["visibility_max_ms"].max()), 6)
    return found


def _expected(
    guarantee: str, scenario: Scenario, e2e: Mapping[str, float] | None, notification_ms: float
) -> dict[str, float | None]:
    own = scenario.checkpointing
    if guarantee != EXACTLY_ONCE or own is None or own.interval_us is None or e2e is None:
        return {"expected_p50_ms": None, "expected_max_ms": None}
    interval_ms = own.interval_us / 1000
    return {
        "expected_p50_ms": round(interval_ms / 2 + e2e["p50_ms"] + notification_ms, 6),
        "expected_max_ms": round(interval_ms + e2e["max_ms"] + notification_ms, 6),
    }


def _losses(name: str, own: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    """Yield why a sink lost records, if its transactions expired.

    Below a sink whose timeout exceeds interval, checkpoint and notification, a source that cannot
    rewind may be the reason as well: then nothing is named.
    """
    limit_us, most_ms = scenario.stage(name).transaction_timeout_us, own["expected_max_ms"]
    if not own["lost"] or limit_us is None:
        return
    text = f"{name} lost {own['lost']:,} of the {own['written']:,} records that it wrote, as "
    limit = f"transaction_timeout_s, {limit_us / 1e6:g} s"
    above = scenario.upstream(name)
    if most_ms is not None and limit_us < 1000 * most_ms:
        text += (
            f"{limit}, is shorter than the {round(most_ms / 1000, 2):,} s from a checkpoint to the "
        )
        text += "commit of the next"
    elif all(source.replayable for source in scenario.sources if source.name in above):
        text += f"transactions waited longer for their commit than {limit}"
    else:
        return
    yield f"{text}; state more than interval, checkpoint and restart take together."


def _unaccounted(stage: Stage, scenario: Scenario) -> str:
    """Return why nothing is known of what the readers of a sink see."""
    above = [scenario.stage(name) for name in scenario.upstream(stage.name)]
    windows = [one.name for one in above if one.window is not None]
    text = f"{stage.name} ({stage.guarantee}): what its readers see is not accounted for"
    if windows:
        text += (
            f": in a job that may restart, nobody knows which results {join_words(windows)} would "
            "put out again"
        )
    return f"{text}."


def _sentence(name: str, own: Mapping[str, Any]) -> str:
    text = f"{name} ({own['guarantee']}): readers see {own['visible']:,} rows"
    text += f", {own['twice']:,} of them a second time" if own["twice"] else ", none twice"
    text += f"; {own['lost']:,} records are lost" if own["lost"] else "; no record is lost"
    if own["staged"]:
        text += f", {own['staged']:,} are written and not committed"
    if own["visibility_max_ms"] is None:
        return f"{text}."
    middle, most = own["visibility_p50_ms"] / 1e3, own["visibility_max_ms"] / 1e3
    text += f". A row was visible {seconds(middle)} s after it was written in the median"
    text += f", {seconds(most)} s at the most"
    if own["expected_max_ms"] is None:
        return f"{text}."
    half, whole = own["expected_p50_ms"] / 1e3, own["expected_max_ms"] / 1e3
    return (
        f"{text}; half an interval and a whole one, with checkpoint and notification, give "
        f"{seconds(half)} s and {seconds(whole)} s."
    )


def shown_rows(table: pa.Table, sinks: Sequence[str]) -> list[tuple[float, int, int, int]]:
    """Return of each sample its time, and what readers of some sinks see: rows, twice, lost."""
    frame = table.to_pandas()
    frame = frame[frame["stage"].isin(sinks)]
    sums = frame.groupby("t_s")[["committed", "visible_twice", "lost"]].sum()
    times, rows = [float(t_s) for t_s in sums.index], sums.to_numpy().tolist()
    return [(t_s, int(a), int(b), int(c)) for t_s, (a, b, c) in zip(times, rows, strict=True)]


_HEADS = (
    "Sink", "Guarantee", "Rows visible", "twice", "Records lost", "not committed", "Visible after",
    "at most", "by the closed form",
)  # fmt: skip
_COMPARED = ("Guarantee", *_HEADS[2:8])

_LOOKS: Final = {
    "at-most-once": (VERMILLION, "dash"),
    "at-least-once": (BLUE, "solid"),
    "exactly-once": (GREEN, "dot"),
}
"""Colour and dash of a guarantee."""


def delivery_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each sink that says more than that rows are visible at once.

    Sinks of which nothing is known come last.

    ``summary``: as in summary.json: its ``delivery``, if the run has any.
    """
    found = summary.get("delivery", {})
    names = _told(found.get("sinks", {}))
    pairs = zip(found.get("sinks", {}), found.get("sentences", ()), strict=True)
    known = [sentence for name, sentence in pairs if name in names]
    return [*known, *found.get("unaccounted", ())]


def _told(sinks: Mapping[str, Any]) -> set[str]:
    return {
        name
        for name, own in sinks.items()
        if own["guarantee"] != "at-least-once" or own["twice"] or own["lost"]
    }


def delivery_section(summary: Mapping[str, Any]) -> str:
    """Return the section of the page; empty where there is nothing to say."""
    found = summary.get("delivery", {})
    sinks = found.get("sinks", {})
    unknown = "".join(f"<p>{escape(text)}</p>" for text in found.get("unaccounted", ()))
    if not _told(sinks) and not unknown:
        return ""
    rows = [
        list(map(escape, [name, own["guarantee"], *_cells(own), _form(own)]))
        for name, own in sinks.items()
    ]
    return (
        '<section id="delivery"><h2>What readers see</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>{unknown}'
        '<p class="how">At the end of the run. Rows visible count a record that is there twice as '
        "two. Not committed: written in a transaction that no checkpoint has committed. Visible "
        "after: from when a row was written until readers saw it, the median. By the closed form: "
        "half an interval and a whole one, each with the checkpoint's duration and the "
        "notification.</p></section>\n"
    )


def delivery_charts(run: RunData, summary: Mapping[str, Any]) -> list[Chart]:
    """Return the picture that compares the guarantees; none without a comparison."""
    found = summary.get("delivery", {}).get("guarantees", ())
    if not found:
        return []
    samples = {one["guarantee"]: one["samples"] for one in found}
    # Under at-least-once every record that reaches the sink is visible, the first time it does.
    arrived = [rows - twice for _, rows, twice, _ in samples["at-least-once"]]
    traces = []
    for name, (colour, dash) in _LOOKS.items():
        behind = [rows - most for (_, rows, _, _), most in zip(samples[name], arrived, strict=True)]
        look = {"color": colour, "dash": dash, "width": 2.5}
        x = [t_s for t_s, *_ in samples[name]]
        traces.append(scatter(name, x, behind, mode="lines", line=look, showlegend=True))
    value_axis = axis("rows visible less records at the sink", zeroline=True)
    drawn = figure(traces, [value_axis], until_s=run.until_s, row_px=300)
    drawn["layout"]["shapes"] += outage_bands(_outages(summary, run.until_s))
    cells = [list(map(escape, [one["guarantee"], *_cells(one)])) for one in found]
    table = f'<div class="scroll">{html_table(_COMPARED, cells)}</div>'
    return [chart_of("guarantees", drawn, controls=table)]


def _outages(summary: Mapping[str, Any], until_s: float) -> list[tuple[float, float]]:
    failures = summary.get("restarts", {}).get("failures", ())
    ends = [until_s if one["running_s"] is None else one["running_s"] for one in failures]
    return [(one["failed_s"], end) for one, end in zip(failures, ends, strict=True)]


def _cells(own: Mapping[str, Any]) -> list[str]:
    counts = [number(own[name]) for name in ("visible", "twice", "lost", "staged")]
    if own["guarantee"] != "exactly-once":
        return [*counts, "at once", "at once"]
    times = [own[f"visibility_{name}_ms"] for name in ("p50", "max")]
    return counts + ["never" if time is None else milliseconds(time) for time in times]


def _form(own: Mapping[str, Any]) -> str:
    if own["expected_max_ms"] is None:
        return ""
    half, whole = (milliseconds(own[f"expected_{name}_ms"]) for name in ("p50", "max"))
    return f"{half}, {whole}"


def _add(run: Run, summary: dict[str, Any]) -> None:
    if "delivery" in run.tables:
        job = run.job
        e2e = summary["checkpoints"]["e2e"] if "checkpoints" in summary else None
        notification_ms = job.latency * job.round_us / 1000
        table = run.tables["delivery"]
        found = delivery_summary(table, job.scenario, run.staged, e2e, notification_ms)
        summary["delivery"] = found


DELIVERY: Final = Topic(
    add=_add,
    alarms=lambda summary: summary.get("delivery", {}).get("losses", ()),
    sentences=delivery_sentences,
    section=lambda run: delivery_section(run.summary),
    charts=lambda run: delivery_charts(run.drawn, run.summary),
)
