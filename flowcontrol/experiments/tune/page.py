"""What a search leaves to read: ``report.html`` with the front, and ``best.yaml``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import yaml

from flowcontrol.errors import Problem
from flowcontrol.experiments.sweep.charts import chart_layout, value_text, values_text
from flowcontrol.experiments.sweep.varied import show_value
from flowcontrol.experiments.tune.judge import Axis
from flowcontrol.experiments.tune.result import (
    counts,
    figure_text,
    gain_text,
    limit_text,
    point_text,
)
from flowcontrol.experiments.tune.search import Outcome
from flowcontrol.report.figures import BLUE, GREEN, GREY, ORANGE, VERMILLION, Chart, axis, scatter
from flowcontrol.report.markup import (
    chart_section,
    chart_texts,
    html_table,
    key_figure,
    number,
    page,
)
from flowcontrol.scenario.given import apply_overrides
from flowcontrol.scenario.problems import key_path

if TYPE_CHECKING:
    from flowcontrol.experiments.tune.result import Tuning


# --- The pictures of a search: the front, and how the search went.


PACKAGE: Final = "flowcontrol.experiments.tune"
_HEIGHT: Final = 480
_WIDE: Final = 20
"""Ratio of the largest to the least value from which an axis is logarithmic."""

_BINARY: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")

Scale = tuple[str, float]
"""Unit of an axis, and how many of the figure's own make one."""


def front_chart(tuning: Tuning) -> Chart:
    """Return the two figures of every run, the front among them and the chosen one."""
    verdict = tuning.verdict
    first, second = verdict.axes
    scales = [_scale(axis, verdict.ran) for axis in verdict.axes]
    texts = chart_texts(PACKAGE)["front"]
    front, best = list(verdict.front), verdict.best
    feasible = [one for one in verdict.feasible if one not in front]
    missed = [one for one in verdict.ran if not verdict.is_feasible(one)]

    def marks(name: str, outcomes: Sequence[Outcome], **more: Any) -> dict[str, Any]:
        drawn = [one for one in outcomes if all(_finite(axis.cost(one)) for axis in verdict.axes)]
        x, y = (
            [_value(one, axis, scale) for one in drawn]
            for axis, scale in zip(verdict.axes, scales, strict=True)
        )
        words = [_hover(tuning, one) for one in drawn]
        return scatter(name, x, y, text=words, hoverinfo="text", **more)

    data = [
        marks("misses a constraint", missed, **_marker("x-thin-open", VERMILLION, 8)),
        marks("satisfies all", feasible, **_marker("circle", BLUE, 8)),
        marks("front", front, **_marker("diamond", GREEN, 10, mode="lines+markers")),
    ]
    if tuning.given is not None:
        data.append(marks("as given", [tuning.given], **_marker("square-open", GREY, 15)))
    if best is not None:
        data.append(marks("chosen", [best], **_marker("star", ORANGE, 17)))
    elif verdict.nearest is not None:
        data.append(marks("nearest", [verdict.nearest], **_marker("star-open", ORANGE, 17)))
    limits = _limits(tuning, scales)
    layout = chart_layout(
        _HEIGHT,
        xaxis=_axis(first, scales[0], verdict.ran),
        yaxis=_axis(second, scales[1], verdict.ran),
        shapes=limits,
        showlegend=True,
    )
    words = [texts["limits"]] if limits else []
    if len(tuning.plan.goals.objectives) == 1:
        words.append(texts["whole"].format(first=first.measure.name))
    title = texts["title"].format(first=first.measure.name, second=second.measure.name)
    text = texts["text"].format(limits=" ".join(words))
    return Chart(
        "front", title, text, {"data": [one for one in data if one["x"]], "layout": layout}
    )


def progress_chart(tuning: Tuning) -> Chart:
    """Return the first figure over the runs, in the order of the search."""
    verdict = tuning.verdict
    first = verdict.axes[0]
    scale = _scale(first, verdict.ran)
    texts = chart_texts(PACKAGE)["progress"]
    data = []
    for name, wanted, style in (
        ("misses a constraint", False, _marker("x-thin-open", VERMILLION, 8)),
        ("satisfies all", True, _marker("circle", BLUE, 8)),
    ):
        rows = [
            (place, one)
            for place, one in enumerate(verdict.ran, start=1)
            if verdict.is_feasible(one) == wanted and _finite(first.cost(one))
        ]
        x, y = [place for place, _ in rows], [_value(one, first, scale) for _, one in rows]
        data.append(scatter(name, x, y, **style))
    x, y = _best_so_far(tuning, first, scale)
    line = {"color": GREEN, "width": 2, "shape": "hv"}
    data.append(scatter("best so far", x, y, mode="lines", line=line))
    layout = chart_layout(
        360, xaxis=axis("runs"), yaxis=_axis(first, scale, verdict.ran), showlegend=True
    )
    title = texts["title"].format(first=first.measure.name)
    return Chart(
        "progress", title, texts["text"], {"data": [d for d in data if d["x"]], "layout": layout}
    )


def _best_so_far(tuning: Tuning, axis: Axis, scale: Scale) -> tuple[list[int], list[float]]:
    x: list[int] = []
    y: list[float] = []
    lowest = math.inf
    for place, outcome in enumerate(tuning.verdict.ran, start=1):
        if tuning.verdict.is_feasible(outcome):
            lowest = min(lowest, axis.cost(outcome))
        if _finite(lowest):
            x.append(place)
            y.append(axis.sign * lowest / scale[1])
    return x, y


def _marker(symbol: str, colour: str, size: int, mode: str = "markers") -> dict[str, Any]:
    stroke = {"color": colour, "width": 2 if symbol.endswith("open") else 1}
    return {
        "mode": mode,
        "line": {"color": colour, "width": 1.5, "dash": "dot"},
        "marker": {"symbol": symbol, "color": colour, "size": size, "line": stroke},
    }


def _scale(axis: Axis, outcomes: Sequence[Outcome]) -> Scale:
    """Return the unit of an axis: bytes in the largest unit of which there are several."""
    unit = axis.measure.unit
    if unit != "bytes":
        return unit, 1.0
    values = [one.value(axis.measure) or 0.0 for one in outcomes]
    most = max(values, default=0.0)
    power = 0
    while most >= 4 * 1024 ** (power + 1) and power + 1 < len(_BINARY):
        power += 1
    return _BINARY[power], 1024.0**power


def _axis(of: Axis, scale: Scale, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the axis of a figure; a logarithmic one where its values differ many times over."""
    values = [one.value(of.measure) for one in outcomes]
    known = [value for value in values if value is not None]
    title = _title(of, scale)
    if known and min(known) > 0 and max(known) > _WIDE * min(known):
        steps = _steps(min(known) / scale[1], max(known) / scale[1])
        ticks = {"tickvals": steps, "ticktext": [number(step) for step in steps]}
        return {**axis(title), "type": "log", "rangemode": "normal", **ticks}
    return axis(title)


def _steps(least: float, most: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten around a range, above 0."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    return [factor * 10.0**power for power in powers for factor in (1, 2, 5)]


def _title(axis: Axis, scale: Scale) -> str:
    unit = f" ({scale[0]})" if scale[0] else ""
    better = "less is better" if axis.sign > 0 else "more is better"
    return escape(f"{axis.measure.name}{unit}, {better}", quote=False)


def _value(outcome: Outcome, axis: Axis, scale: Scale) -> float:
    return axis.sign * axis.cost(outcome) / scale[1]


def _finite(value: float) -> bool:
    return math.isfinite(value)


def _hover(tuning: Tuning, outcome: Outcome) -> str:
    """Return the values and figures of a point, a line each, as plotly's markup."""
    words = [point_text(tuning, outcome.point) if outcome.point else "as given"]
    words += [f"{one.name}: {figure_text(one, outcome.value(one))}" for one in tuning.measures]
    return "<br>".join(escape(one, quote=False) for one in words)


def _limits(tuning: Tuning, scales: Sequence[Scale]) -> list[dict[str, Any]]:
    """Return a broken line for each limit of one of the two figures."""
    across: list[Callable[[float], dict[str, Any]]] = [
        lambda at: {"x0": at, "x1": at, "y0": 0, "y1": 1, "xref": "x", "yref": "paper"},
        lambda at: {"y0": at, "y1": at, "x0": 0, "x1": 1, "yref": "y", "xref": "paper"},
    ]
    stroke = {"color": GREY, "width": 1.5, "dash": "dash"}
    return [
        {"type": "line", "line": stroke, **line(constraint.limit / scale[1])}
        for axis, scale, line in zip(tuning.verdict.axes, scales, across, strict=True)
        for constraint in tuning.plan.goals.constraints
        if constraint.measure == axis.measure
    ]


# --- report.html of a search: one self-contained page with the front of what is best.


_ROWS: Final = 12
"""Points in the table."""


def tuning_page(tuning: Tuning) -> str:
    """Return the page of a search."""
    charts = [front_chart(tuning), progress_chart(tuning)]
    verdict, goals = tuning.verdict, tuning.plan.goals
    has_front = len(goals.objectives) > 1 and verdict.best is not None
    title = "The front" if has_front else "The best points"
    return page(
        PACKAGE,
        charts,
        title=f"{tuning.name}: tuning",
        run=f"{len(verdict.ran):,} runs on the virtual clock, search with seed {tuning.plan.seed}",
        sentence=tuning.sentence,
        noscript="The charts need JavaScript; the tables do not.",
        key_figures="".join(_key_figures(tuning)),
        charts="".join(map(chart_section, charts)),
        leaders_title=title if verdict.best is not None else "The nearest point",
        leaders=_leaders(tuning),
        best_file="<code>best.yaml</code> is the chosen scenario." if verdict.best else "",
        goals=_goals(tuning),
        varied=_varied(tuning),
        scenario=escape(
            yaml.safe_dump(dict(tuning.plan.base.mapping), sort_keys=False, allow_unicode=True)
        ),
    )


def _key_figures(tuning: Tuning) -> Iterator[str]:
    """Yield the large figures at the top."""
    verdict, given = tuning.verdict, tuning.given
    shown = verdict.best or verdict.nearest
    for one in tuning.plan.goals.objectives:
        if shown is None:
            continue
        note = (
            ""
            if given is None
            else f"as given {figure_text(one.measure, given.value(one.measure))}"
        )
        yield key_figure(one.measure.name, figure_text(one.measure, shown.value(one.measure)), note)
    yield key_figure("Runs", number(len(verdict.ran)), f"of {tuning.plan.space.size:,} points")
    if tuning.plan.goals.constraints:
        note = "satisfy every constraint"
        yield key_figure("Feasible", number(len(verdict.feasible)), note)
    yield key_figure("On the front", number(len(verdict.front)), "no other is better in both")


def _leaders(tuning: Tuning) -> str:
    """Return the table of the best points, and the scenario as given."""
    heads = ["", *(varied.title for varied in tuning.plan.sweep.varied)]
    heads += [one.name for one in tuning.measures] + ["limits"]
    best = tuning.verdict.best
    rows = [_row(tuning, "chosen" if one is best else "", one) for one in tuning.leaders(_ROWS)]
    if not rows and tuning.verdict.nearest is not None:
        rows = [_row(tuning, "nearest", tuning.verdict.nearest)]
    if tuning.given is not None:
        rows.append(_row(tuning, "as given", tuning.given))
    return html_table(heads, rows)


def _row(tuning: Tuning, name: str, outcome: Outcome) -> list[str]:
    keys = [value_text(value) for value in outcome.point] or [""] * len(tuning.plan.sweep.varied)
    figures = [figure_text(one, outcome.value(one)) for one in tuning.measures]
    return list(map(escape, [name, *keys, *figures, outcome.bottleneck or "nothing"]))


def _goals(tuning: Tuning) -> str:
    goals = tuning.plan.goals
    rows = [
        [one.direction, one.measure.name, one.measure.unit, one.measure.column.meaning]
        for one in goals.objectives
    ]
    rows += [
        ["subject to", limit_text(one), one.measure.unit, one.measure.column.meaning]
        for one in goals.constraints
    ]
    return html_table(["Goal", "Figure", "Unit", "Meaning"], [list(map(escape, r)) for r in rows])


def _varied(tuning: Tuning) -> str:
    rows = []
    for varied in tuning.plan.sweep.varied:
        rows.append(list(map(escape, [varied.key, varied.unit, values_text(varied)])))
    return html_table(["Key", "Unit", "Values"], rows)


# --- ``best.yaml``: the chosen scenario as a file, with comments on what was changed and why.


_WIDTH: Final = 96
_MARK: Final = "flowcontrol-tuned-value-{}-"
"""Stands for a changed value while the file is written; no scenario has such a text."""


def best_text(tuning: Tuning) -> str:
    """Return the file of the chosen scenario."""
    best = tuning.verdict.best
    if best is None:
        raise ValueError("no point satisfies the constraints: there is no best scenario")
    varied = tuning.plan.sweep.varied
    paths = [one.path for one in varied]
    marks = [_MARK.format(number) for number in range(len(paths))]
    text = yaml.safe_dump(
        _changed(tuning, list(zip(paths, marks, strict=True))), sort_keys=False, allow_unicode=True
    )
    for mark, one, value in zip(marks, varied, best.point, strict=True):
        written = json.dumps(value)
        text = text.replace(mark, f"{written}{_beside(tuning, one.path, value)}")
    head = "".join(f"# {line}".rstrip() + "\n" for line in _head(tuning))
    return f"{head}{text}"


def _changed(tuning: Tuning, changes: Sequence[tuple[tuple[str, ...], str]]) -> dict[str, Any]:
    problems: list[Problem] = []
    overrides = [f"{key_path(list(path))}={json.dumps(value)}" for path, value in changes]
    return apply_overrides(dict(tuning.plan.base.mapping), overrides, problems)


def _beside(tuning: Tuning, path: tuple[str, ...], value: Any) -> str:
    """Return the comment beside a value: what the scenario as given has."""
    found = _at(tuning.plan.base.mapping, path)
    if found is None:
        return "  # chosen; not stated before"
    if found == value:
        return "  # chosen; as before"
    return f"  # chosen; before: {show_value(found)}"


def _at(mapping: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value of a key of a file; None if it has none."""
    found: Any = mapping
    for part in path:
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list):
            named = [one for one in found if isinstance(one, Mapping) and one.get("name") == part]
            at = int(part) if part.isdecimal() else -1
            found = named[0] if named else found[at] if 0 <= at < len(found) else None
        else:
            return None
    return found


def _head(tuning: Tuning) -> Iterator[str]:
    """Yield the lines of the comment at the top."""
    goals, best, given = tuning.plan.goals, tuning.verdict.best, tuning.given
    if best is None:
        return
    aims = [f"{one.direction} {one.measure.name}" for one in goals.objectives]
    aims += [limit_text(one) for one in goals.constraints]
    yield from wrap(f"{tuning.name}, tuned by flowcontrol tune: {'; '.join(aims)}.", _WIDTH)
    yield ""
    for one in tuning.measures:
        yield f"{one.name}: {figure_text(one, best.value(one))}" + (
            "" if given is None else f"; as given {figure_text(one, given.value(one))}"
        )
    yield ""
    if given is not None:
        for objective in goals.objectives:
            before, after = given.value(objective.measure), best.value(objective.measure)
            yield from wrap(f"{gain_text(objective, before, after)}.", _WIDTH)
    yield from wrap(f"{counts(tuning)} Seed {tuning.plan.seed}.", _WIDTH)
