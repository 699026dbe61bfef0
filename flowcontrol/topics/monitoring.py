"""Where backpressure by sampling and by timers differ: bursts that Flink up to 1.12 did not show.

A page shows the result of the last set until the next one is there. Timers, of the table
``stages``, say at every sample of the run how long each subtask was blocked since the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol import notices
from flowcontrol.analysis.bottleneck import HIGH_ABOVE, LOW_ABOVE, Pressure, pressure_of
from flowcontrol.analysis.frames import Tables, mean_over_time, result_frame, summed
from flowcontrol.analysis.wording import seconds
from flowcontrol.metrics import MOST_ROWS, metrics_table, rows_of_metrics
from flowcontrol.records import METRICS, SAMPLES
from flowcontrol.report.figures import (
    BLUE,
    GREY,
    VERMILLION,
    Chart,
    LineStyle,
    Series,
    axis,
    figure,
    numbered,
    over_interval,
    span,
    steps,
    stroked,
)
from flowcontrol.report.markup import chart_of, html_table, number, percent
from flowcontrol.report.rundata import RunData, left_out
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.monitoring import SamplingKeys
from flowcontrol.topics.topic import Topic

if TYPE_CHECKING:
    import pandas as pd


MOST_UNSEEN: Final = 20
"""Times of backpressure without a sample that are listed for a stage: the worst, the longest."""

_SLACK_S: Final = 1e-9


@dataclass(frozen=True)
class Interval:
    """The time between two samples of a run, for one stage."""

    from_s: float  # from_s, until_s: emulated seconds
    until_s: float
    blocked: float  # Share of that time for which its worst subtask was blocked, 0 to 1
    shown: Pressure | None  # The level on the page at its end; None: no set was finished

    @property
    def timed(self) -> Pressure:
        """The level by timers."""
        return pressure_of(1000 * self.blocked)


def sampling_summary(tables: Tables, scenario: Scenario, keys: SamplingKeys) -> dict[str, Any]:
    """Return what sampling saw of each stage beside the timers, for ``summary.json``.

    ``tables``: result tables of a run, ``samples`` among them.

    Returns ``set_s``: how long a set takes; ``requests`` and ``answers``: messages between
    JobManager and task managers for the sets that were finished, one of each per subtask of a task
    and set; ``requests_per_set``: for one set of every task; ``stages``: by stage the finished sets
    (``from_s``, ``t_s``, ``level``, ``ratio`` of the worst subtask, and by timers over the same
    time ``timer_level`` and ``timer_ratio``), ``differs_s``: for how long the page showed another
    level than the timers, ``hidden_s``: of that a milder one, and ``unseen``: times of such
    backpressure that no sample fell into.
    """
    samples, frame = tables["samples"].to_pandas(), result_frame(tables, "stages")
    heads = _heads(scenario)
    stages, requests = {}, 0
    for stage in scenario.stages:
        own = samples[samples["stage"] == stage.name]
        rows = frame[frame["stage"] == stage.name]
        sets = _sets(own, rows, keys)
        found = intervals(own, rows)
        wrong = [one for one in found if one.shown is not None and one.shown != one.timed]
        stages[stage.name] = {
            "sets": sets,
            "differs_s": _length(wrong),
            "hidden_s": _length([one for one in wrong if _is_hidden(one)]),
            "unseen": _unseen(found, sets),
        }
        if stage.name in heads:
            requests += len(sets) * stage.parallelism
    return {
        "samples": keys.samples,
        "delay_ms": keys.delay_ms,
        "refresh_s": keys.refresh_ms / 1000,
        "set_s": keys.length_ms / 1000,
        "requests_per_set": sum(scenario.stage(name).parallelism for name in heads),
        "requests": requests,
        "answers": requests,
        "stages": stages,
    }


def intervals(samples: pd.DataFrame, rows: pd.DataFrame) -> list[Interval]:
    """Return the intervals of one stage, in order.

    - ``samples``: rows of the table ``samples`` of the stage.
    - ``rows``: those of the table ``stages``, with ``interval_s``.
    """
    known = [(at, pressure_of(1000 * ratio)) for at, ratio in _worst(samples)]
    blocked = rows.groupby("t_s")[["backpressured_ms_per_s", "interval_s"]].max()
    found, shown = list[Interval](), None
    for until_s, share, length in blocked.itertuples(name=None):
        while known and known[0][0] <= until_s + _SLACK_S:
            shown = known.pop(0)[1]
        found.append(Interval(round(until_s - length, 6), until_s, min(share / 1000, 1.0), shown))
    return found


def _worst(samples: pd.DataFrame) -> list[tuple[float, float]]:
    """Return the end of each set, s, and the ratio of the worst subtask."""
    worst = samples.groupby("t_s")["ratio"].max()
    return list(zip(worst.index.tolist(), worst.tolist(), strict=True))


def _sets(samples: pd.DataFrame, rows: pd.DataFrame, keys: SamplingKeys) -> list[dict[str, Any]]:
    """Return the finished sets of a stage, each beside the timers over the same time."""
    found = []
    for end_s, ratio in _worst(samples):
        start_s = round(end_s - keys.length_ms / 1000, 6)
        share = _blocked_between(rows, start_s, end_s)
        found.append(
            {
                "from_s": start_s,
                "t_s": end_s,
                "level": pressure_of(1000 * ratio).value,
                "ratio": ratio,
                "timer_level": pressure_of(1000 * share).value,
                "timer_ratio": round(share, 6),
            }
        )
    return found


def _blocked_between(rows: pd.DataFrame, start_s: float, end_s: float) -> float:
    """Return the blocked share of the worst subtask in a time, intervals at its ends in part.

    Of a time without length, that of the interval around it.
    """
    begins = rows["t_s"] - rows["interval_s"]
    inside = rows[(rows["t_s"] >= start_s - _SLACK_S) & (begins <= end_s + _SLACK_S)]
    upto, since = inside["t_s"].clip(upper=end_s), begins[inside.index].clip(lower=start_s)
    part = inside.assign(interval_s=(upto - since).clip(lower=0.0) + _SLACK_S)
    shares = [mean_over_time(own, "backpressured_ms_per_s") for _, own in part.groupby("subtask")]
    return min(max(shares, default=0.0) / 1000, 1.0)


def _unseen(found: Sequence[Interval], sets: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the times of more backpressure than the page showed into which no sample fell."""
    spans: list[list[Interval]] = []
    for one in found:
        if not _is_hidden(one):
            continue
        if spans and spans[-1][-1].until_s == one.from_s:
            spans[-1].append(one)
        else:
            spans.append([one])
    kept = [span for span in spans if not any(_meet(span, own) for own in sets)]
    longest = sorted(kept, key=_importance)[:MOST_UNSEEN]
    return [
        {
            "from_s": span[0].from_s,
            "until_s": span[-1].until_s,
            "level": max((one.timed for one in span), key=lambda level: level.rank).value,
            "shown": None if span[0].shown is None else span[0].shown.value,
            "most_blocked": round(max(one.blocked for one in span), 6),
        }
        for span in sorted(longest, key=lambda span: span[0].from_s)
    ]


def _importance(span: Sequence[Interval]) -> tuple[int, float, float]:
    """Order times of backpressure: the worst first, of these the longest, the earliest."""
    return -max(one.timed.rank for one in span), -_length(span), span[0].from_s


def _meet(span: Sequence[Interval], own: Mapping[str, Any]) -> bool:
    """Tell whether samples of a set fell into a time."""
    return bool(own["from_s"] < span[-1].until_s and own["t_s"] > span[0].from_s)


def _is_hidden(one: Interval) -> bool:
    """Tell whether the page showed less than the timers say."""
    return one.shown is not None and one.shown.rank < one.timed.rank


def _length(found: Sequence[Interval]) -> float:
    return round(sum(one.until_s - one.from_s for one in found), 6)


def _heads(scenario: Scenario) -> list[str]:
    """Return the stages that are asked about: of a chain the first one, which is the task's."""
    behind = {edge.receiver for edge in scenario.edges if edge.chain}
    return [stage.name for stage in scenario.stages if stage.name not in behind]


_TIMERS, _SHOWN = LineStyle(BLUE, "solid", "circle"), LineStyle(VERMILLION, "dash", "diamond")
_PER_CENT: Final = 0.1
"""Per cent of a ms/s."""

_HEADS: Final = (
    *("Stage", "Sets", "Last set", "Timers, then", "Shown differs for", "Shown less for"),
    *("Unseen", "The worst unseen"),
)


def sampling_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence on what sampling did not see; none without sampling.

    ``summary``: as in summary.json: its ``sampling``, if the run has it.
    """
    found = summary.get("sampling")
    if found is None:
        return []
    sets = max((len(own["sets"]) for own in found["stages"].values()), default=0)
    texts = [
        f"Sampling as up to Flink 1.12: {number(sets)} sets of {number(found['samples'])} samples, "
        f"{number(found['requests'])} requests to task managers and as many answers."
    ]
    worst = [
        (burst["level"] == "HIGH", burst["until_s"] - burst["from_s"], name, burst)
        for name, own in found["stages"].items()
        for burst in own["unseen"]
    ]
    if worst:
        _, _, name, burst = max(worst, key=lambda one: one[:2])
        texts.append(
            f"No sample fell into the backpressure of {name} {_span(burst)}: its page said "
            f"{burst['shown']}, the timers say {burst['level']}, "
            f"{percent(burst['most_blocked'])} blocked at most."
        )
    return [" ".join(texts)]


def _span(burst: Mapping[str, Any]) -> str:
    return f"from {seconds(burst['from_s'])} s to {seconds(burst['until_s'])} s"


def sampling_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty without sampling."""
    found = summary.get("sampling")
    if found is None:
        return ""
    rows = [[escape(text) for text in _row(name, own)] for name, own in found["stages"].items()]
    how = (
        f"A set of every task is {number(found['requests_per_set'])} requests and takes "
        f"{found['set_s']:g} s; the next begins {seconds(found['refresh_s'])} s after its "
        "end, and until that is over a page shows the old result. Levels are those of a stage's "
        "worst subtask: OK up to 10 %, LOW up to 50 %, HIGH above. Unseen: times in which the "
        "timers say more than the page did, and into which no sample fell, at most 20."
    )
    return (
        '<section id="sampling"><h2>Backpressure by sampling</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>'
        f'<p class="how">{escape(how)} All of them stand in <code>summary.json</code>, the '
        "samples in the table <code>samples</code>.</p></section>\n"
    )


def _row(name: str, own: Mapping[str, Any]) -> list[str]:
    """Return the cells of a stage."""
    sets, unseen = own["sets"], own["unseen"]
    last = sets[-1] if sets else None
    worst = max(
        unseen,
        key=lambda one: (one["level"] == "HIGH", one["until_s"] - one["from_s"]),
        default=None,
    )
    return [
        name,
        number(len(sets)),
        "" if last is None else f"{last['level']}, {percent(last['ratio'])}",
        "" if last is None else f"{last['timer_level']}, {percent(last['timer_ratio'])}",
        f"{seconds(own['differs_s'])} s",
        f"{seconds(own['hidden_s'])} s",
        number(len(unseen)) if unseen else "",
        "" if worst is None else f"{worst['level']} {_span(worst)}",
    ]


def sampling_charts(run: RunData, tables: Tables) -> list[Chart]:
    """Return the chart of both figures over time, a plot for each stage; none without sampling."""
    if "samples" not in tables:
        return []
    samples = tables["samples"].to_pandas()
    stages = [stage for stage in run.shown_stages() if run.scenario.outputs(stage.name)]
    traces = []
    for row, stage in enumerate(stages):
        own = run.stages[run.stages["stage"] == stage.name]
        worst = summed(own, "backpressured_ms_per_s", "max")
        series = over_interval("by timers", worst, "backpressured_ms_per_s", _PER_CENT)
        traces.append(steps(series, _TIMERS, row=row, showlegend=row == 0))
        shown = _on_the_page(samples[samples["stage"] == stage.name], run.until_s)
        more: dict[str, Any] = {"mode": "lines+markers", "showlegend": row == 0}
        traces.append(stroked(shown, _SHOWN, shape="hv", row=row, **more))
    axes = [axis("blocked", ticksuffix=" %", range=[0, 103]) for _ in stages]
    drawn = figure(
        traces, axes, until_s=run.until_s, row_px=170, captions=[stage.name for stage in stages]
    )
    for row in range(len(stages)):
        drawn["layout"]["shapes"] += [_threshold(row, 100 * at) for at in (LOW_ABOVE, HIGH_ABOVE)]
    return [chart_of("sampling-chart", drawn, left_out(run), texts="sampling")]


def _on_the_page(samples: pd.DataFrame, until_s: float) -> Series:
    """Return what a page shows from the end of each set on, per cent."""
    worst = samples.groupby("t_s")["ratio"].max() * 100
    x, y = worst.index.tolist(), worst.tolist()
    return Series("on the page, by sampling", [*x, *[until_s] * bool(x)], [*y, *y[-1:]])


def _threshold(row: int, at: float) -> dict[str, Any]:
    """Return a dotted line at the level above which backpressure is LOW, or HIGH."""
    dotted = {"color": GREY, "width": 1, "dash": "dot"}
    return span("line", (0, 1), (at, at), xref="paper", yref=numbered("y", row), line=dotted)


def _add(run: Run, summary: dict[str, Any]) -> None:
    """Put the metrics of a run into its tables, and what sampling saw into its summary.

    - ``run``: its tables get ``metrics``, unless its scenario says ``metrics: false``, a controller
      changed its parallelism (a subtask is not the same one after that) or, without being asked,
      there were more than :data:`flowcontrol.metrics.MOST_ROWS` rows.
    - ``summary``: gets ``sampling`` if the scenario asks for samples.
    """
    scenario = run.job.scenario
    monitoring = scenario.monitoring
    if SAMPLES.name in run.tables and monitoring is not None and monitoring.sampling is not None:
        summary["sampling"] = sampling_summary(run.tables, scenario, monitoring.sampling)
    if scenario.scaling is not None:
        return
    wanted = None if monitoring is None else monitoring.metrics
    rows = rows_of_metrics(run.tables, scenario) if wanted is None else 0
    if rows > MOST_ROWS:
        notices.warn(
            f"the table metrics is left out: it had some {rows:,} rows, more than {MOST_ROWS:,}; "
            "monitoring: {metrics: true} has it written, {metrics: false} says nothing"
        )
    elif wanted is not False:
        run.tables[METRICS.name] = metrics_table(run.tables, scenario)


MONITORING: Final = Topic(
    add=_add,
    sentences=sampling_sentences,
    section=lambda run: sampling_section(run.summary),
    charts=lambda run: sampling_charts(run.drawn, run.tables),
)
