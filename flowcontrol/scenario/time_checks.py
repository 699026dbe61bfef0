"""Checks of event time and windows against the job: sources, columns, keys, output modes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.event_time import TimeModel
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.inputs import Replayed, number_column_faults, time_column_faults
from flowcontrol.scenario.key_distribution import count_names
from flowcontrol.scenario.models import Edge, ScenarioHead
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.stage_models import Stage
from flowcontrol.scenario.windows import MAX_KEYS, Trigger, Window, split_aggregate

SPARKS: Final = "structured-streaming"
"""The system whose event time is Spark's."""

BATCH_THROTTLE: Final = "static_admission"
"""The throttle whose batches are those of Spark's event time."""

Fault = tuple[str, str]
"""A key of a stage or a window, and why it is refused."""


def check_event_time(
    stages: Sequence[tuple[int, Stage]],
    edges: Sequence[Edge],
    replayed: Mapping[str, Replayed | None],
    problems: list[Problem],
) -> None:
    """Refuse event time where no records begin, watermarks without it, and columns without times.

    ``problems``: grows by everything that is wrong.
    """
    receivers = {edge.receiver for edge in edges}
    for index, stage in stages:
        if stage.name in receivers:
            faults = _inner_faults(stage)
        else:
            faults = _source_faults(stage, replayed.get(stage.name))
        problems += [Problem(f"stages[{index}].{key}", text) for key, text in faults]


def _inner_faults(stage: Stage) -> Iterator[Fault]:
    for key in ("event_time", "watermark"):
        if getattr(stage, key) is not None:
            text = f"edges lead to {stage.name!r}: only a source gives records their event time and"
            yield key, f"{text} watermarks: state it there"


def _source_faults(stage: Stage, rows: Replayed | None) -> Iterator[Fault]:
    times = stage.event_time
    if times is None:
        if stage.watermark is not None:
            text = f"{stage.name!r} has no event time that a watermark could follow"
            yield "watermark", f"{text}: state event_time, or take the watermark out"
        return
    if times.column is None:
        return
    if stage.input is None:
        text = f"{times.column!r}: {stage.name!r} replays no rows: state an input, or leave it out"
        yield "event_time.column", text
    elif rows is not None:
        for text in time_column_faults(rows, times.column):
            yield "event_time.column", text


def time_model_of(
    head: ScenarioHead, system: object, stages: Sequence[tuple[int, Stage]]
) -> TimeModel:
    """Return whose event time a job has.

    ``system``: ``system`` in the file.

    As stated; else Spark's if the system is Spark's and there is event time, else Flink's.
    """
    if is_stated(head, "time_model"):
        return head.time_model
    has_times = any(stage.event_time or stage.window for _, stage in stages)
    return "spark" if system == SPARKS and has_times else "flink"


def check_time_model(
    head: ScenarioHead, system: object, stages: Sequence[tuple[int, Stage]]
) -> Iterator[Problem]:
    """Yield what contradicts the model of time: another system's, batches, Flink's own watermarks.

    ``system``: ``system`` in the file.
    """
    model = time_model_of(head, system, stages)
    if model == "flink" and system == SPARKS and is_stated(head, "time_model"):
        text = f"'flink': the event time of {SPARKS} is Spark's: use spark, or leave it out"
        yield Problem("time_model", text)
    if head.batch_s is not None:
        yield from _batch_problems(head, head.batch_s, model)
    if model == "spark":
        for index, stage in stages:
            for key, text in _flinks_own(stage):
                yield Problem(f"stages[{index}].watermark.{key}", text)


def _batch_problems(head: ScenarioHead, batch_s: Fraction, model: TimeModel) -> Iterator[Problem]:
    if model == "flink":
        text = f"{float(batch_s):g}: Flink's event time knows no batches: take it out, or write"
        yield Problem("batch_s", f"{text} time_model: spark")
    elif head.round_ms is not None:
        rounds = batch_s * 1000 / Fraction(repr(head.round_ms))
        if rounds.denominator != 1:
            text = f"{float(batch_s):g} is not a multiple of round_ms, {head.round_ms:g}: a batch"
            yield Problem("batch_s", f"{text} is a whole number of rounds; change one of the two")


def _flinks_own(stage: Stage) -> Iterator[Fault]:
    """Yield keys of a watermark that Spark does not have."""
    marks = stage.watermark
    if marks is None:
        return
    for key, value in (
        ("punctuated", marks.punctuated or None),
        ("idle_after_s", marks.idle_after_s),
        ("alignment", None if marks.alignment is None else marks.alignment.group),
    ):
        if value is not None:
            shown = f"{float(value):g}" if isinstance(value, Fraction) else show(value)
            text = f"{shown}: Spark's watermark has a delay and nothing else: take it out, or"
            yield key, f"{text} write time_model: flink"


ONE_SUBTASK = "global, or rebalance and parallelism 1, the column being the key of the input"
"""How rows meet by key in a window that they do not reach straight from their source."""

_NO_TIME = "Record has Long.MIN_VALUE timestamp (= no timestamp marker)"
"""Flink's words (``TumblingEventTimeWindows.assignWindows``)."""


@dataclass(frozen=True)
class _Place:
    """A window in its job."""

    stage: Stage
    window: Window
    edges: Sequence[Edge]
    by_name: Mapping[str, Stage]
    rows: Mapping[str, Replayed | None]

    @property
    def inputs(self) -> list[Edge]:
        return [edge for edge in self.edges if edge.receiver == self.stage.name]

    @cached_property
    def above(self) -> list[Stage]:
        """All stages whose records reach it."""
        found = [self.stage.name]
        for name in found:
            senders = [edge.sender for edge in self.edges if edge.receiver == name]
            found += [sender for sender in senders if sender not in found]
        return [self.by_name[name] for name in found[1:]]

    @property
    def sources(self) -> list[Stage]:
        receivers = {edge.receiver for edge in self.edges}
        return [stage for stage in self.above if stage.name not in receivers]

    @property
    def has_rows(self) -> bool:
        return any(source.input is not None for source in self.sources)

    def without(self, key: str) -> str:
        """Return the sources that lack a key; empty if none does."""
        return ", ".join(repr(one.name) for one in self.sources if getattr(one, key) is None)


def check_windows(
    stages: Sequence[tuple[int, Stage]],
    edges: Sequence[Edge],
    rows: Mapping[str, Replayed | None],
    model: TimeModel | None,
    problems: list[Problem],
) -> None:
    """Refuse windows that the job around them does not allow.

    - ``model``: whose event time it is; None: the top of the file was refused.
    - ``problems``: grows by everything that is wrong.
    """
    by_name = {stage.name: stage for _, stage in stages}
    for index, stage in stages:
        if stage.window is None:
            continue
        at = _Place(stage, stage.window, edges, by_name, rows)
        place = f"stages[{index}]"
        if not at.inputs:
            text = f"no edge leads to {stage.name!r}: a source has no records to put together: move"
            problems.append(Problem(f"{place}.window", f"{text} the window to a stage behind it"))
            continue
        if stage.selectivity_exact != 1:
            text = f"{stage.selectivity:g}: the window decides how many records leave"
            problems.append(Problem(f"{place}.selectivity", f"{text} {stage.name!r}: take it out"))
        faults = [*_times(at, model), *_keys(at), *_columns(at)]
        if model is not None:
            faults += _sparks(at) if model == "spark" else _flinks(at)
        problems += [Problem(f"{place}.window.{key}", text) for key, text in faults]
        problems += [*_unkeyed(at), *_named(at)]


def _times(at: _Place, model: TimeModel | None) -> Iterator[Fault]:
    """Refuse event time that the records do not have, and lateness without it."""
    window, trigger = at.window, at.window.trigger
    missing = at.without("event_time")
    if trigger == "processing_time" or window.kind == "global":
        return
    is_any = any(source.event_time is not None for source in at.sources)
    if missing and (trigger == "event_time" or is_any):
        text = f"{_shown(window)}: the records of {missing} have no event time ({_NO_TIME}): state"
        instead = "" if model == "spark" else ", or trigger: processing_time"
        yield "trigger", f"{text} event_time there{instead}"
    elif missing and window.allowed_lateness_s:
        text = f"{float(window.allowed_lateness_s):g}: nothing is late without event time, which"
        text = f"{text} {missing} has not: state event_time there, or take it out"
        yield "allowed_lateness_s", text


def _flinks(at: _Place) -> Iterator[Fault]:
    window = at.window
    if window.output != "append":
        text = f"{window.output!r}: output modes are Spark's: write time_model: spark, or leave it"
        yield "output", f"{text} out and choose trigger and accumulate"
    waits = window.trigger == "event_time" or _continuous(window)
    missing = at.without("watermark")
    is_timed = not at.without("event_time") and window.kind != "global"
    if waits and missing and is_timed:
        text = f"{_shown(window)}: {missing} sends no watermark, so no window ever ends: state one"
        yield "trigger", f"{text} there, as watermark: {{delay_s: 5}}, or trigger: {{count: n}}"


def _continuous(window: Window) -> bool:
    return isinstance(window.trigger, Trigger) and window.trigger.continuous_s is not None


def _shown(window: Window) -> str:
    trigger = window.trigger
    return str(trigger.model_dump()) if isinstance(trigger, Trigger) else repr(trigger)


def _sparks(at: _Place) -> Iterator[Fault]:
    """Refuse what Spark refuses or does not have, in its words where it has words."""
    window = at.window
    if window.kind == "global":
        text = "'global': windows of Spark are tumbling, sliding or session"
        yield "kind", f"{text}: use one of these, or time_model: flink"
        return
    own = "Spark's windows have output modes instead: take it out, or write time_model: flink"
    if window.trigger != "event_time":
        yield "trigger", f"{_shown(window)}: {own}"
    if window.allowed_lateness_s:
        yield "allowed_lateness_s", f"{float(window.allowed_lateness_s):g}: {own}"
    if not window.accumulate:
        yield "accumulate", f"false: {own}"
    size, slide = window.size_s, window.slide_s
    if size is not None and slide is not None and slide > size:
        text = f"{float(slide):g}: The slide_duration({int(slide * 10**6)}) must be <= the"
        yield "slide_s", f"{text} window_duration({int(size * 10**6)}): at most {float(size):g}"
    yield from _output_mode(at)


def _output_mode(at: _Place) -> Iterator[Fault]:
    window, missing = at.window, at.without("watermark")
    refused = f"{window.output!r}: Invalid streaming output mode: {window.output}. This output mode"
    if window.output == "append" and missing and not at.without("event_time"):
        text = f"{refused} is not supported for streaming aggregations without watermark on"
        text = f"{text} streaming DataFrames/DataSets: state the watermark of {missing}, or use"
        yield "output", f"{text} update or complete"
    if window.output == "update" and window.kind == "session":
        text = f"{refused} is not supported for session window streaming aggregations on streaming"
        yield "output", f"{text} DataFrames/DataSets: use append or complete"
    others = [one.name for one in at.above if one.window is not None]
    if window.output != "append" and others:
        text = f"{window.output!r} behind the window of {', '.join(map(repr, others))}: Spark's"
        yield "output", f"{text} aggregations in a row only append: use append"
    if window.kind == "session" and at.has_rows and _key_column(at) is None:
        text = "'session': Global aggregation with session window in streaming query is not"
        yield "kind", f"{text} supported: state the key of the input, or of the edge"


def _key_column(at: _Place) -> str | None:
    found = [edge.key for edge in at.inputs]
    found += [source.input.key for source in at.sources if source.input is not None]
    return next((key for key in found if key is not None), None)


def _keys(at: _Place) -> Iterator[Fault]:
    """Refuse a number of keys that is not that of the records."""
    stated = at.window.keys
    named = count_names(at.inputs)
    if stated is not None and at.has_rows:
        text = f"{stated}: replayed rows bring their keys, in the key of the input: take it out"
        yield "keys", text
    elif stated is not None and named and named != stated:
        text = f"{stated}: the edges into {at.stage.name!r} name {named} keys: take it out"
        yield "keys", text
    elif at.has_rows and _key_column(at) is not None and at.without("input"):
        made, rows = at.without("input"), [one.name for one in at.sources if one.input is not None]
        text = f"made records of {made} and replayed rows of {', '.join(map(repr, rows))} meet in"
        text = f"{text} it, and made ones have no column {_key_column(at)!r} to be grouped by: give"
        yield "keys", f"{text} {made} an input, or the rows no key"
    elif named > MAX_KEYS:
        text = (
            f"{named}: so many keys the edges into {at.stage.name!r} name, at most {MAX_KEYS} are"
        )
        yield "keys", f"{text} possible: lower their number"


def _columns(at: _Place) -> Iterator[Fault]:
    """Refuse aggregates of columns that are not there, or hold no numbers."""
    entering = list(dict.fromkeys(at.rows[edge.sender] for edge in at.inputs))
    for name, text in at.window.aggregate.items():
        _, column = split_aggregate(text)
        if column is None:
            continue
        if None in entering:
            why = f"{text!r}: no replayed rows enter {at.stage.name!r}, and made records have no"
            yield f"aggregate.{name}", f"{why} columns: use count, or an input of the source"
            continue
        for rows in filter(None, entering):
            for fault in number_column_faults(rows, column):
                yield f"aggregate.{name}", fault


def _named(at: _Place) -> Iterator[Problem]:
    """Refuse keys of made records on the way of replayed rows, which bring theirs."""
    for edge in at.inputs if at.has_rows else ():
        for key in ("key_weights", "key_distribution"):
            if getattr(edge, key) is not None:
                text = f"replayed rows reach the window of {at.stage.name!r}, and bring their keys:"
                text = f"{text} use {_how_to_meet(at, edge)}"
                yield Problem(f"edges[{at.edges.index(edge)}].{key}", text)


def _unkeyed(at: _Place) -> Iterator[Problem]:
    """Refuse edges that chain the window, or spread records of one key over several subtasks."""
    for edge in at.inputs:
        if edge.chain:
            text = f"true: {at.stage.name!r} has a window, and nothing is chained in front of its"
            text = f"{text} records' keys (keyBy): take chain out"
            yield Problem(f"edges[{at.edges.index(edge)}].chain", text)
    if at.stage.parallelism == 1:
        return
    for edge in at.inputs:
        has_keys = edge.partitioner == "hash" and edge.channel_weights is None
        if not has_keys and edge.partitioner != "global":
            how = str(edge.partitioner) if is_stated(edge, "partitioner") else "no partitioner"
            how += " by channel_weights" * (edge.partitioner == "hash")
            text = f"{how} into the window of {at.stage.name!r}, {at.stage.parallelism} subtasks:"
            text = f"{text} records of one key must meet in one (keyBy): use"
            text = f"{text} {_how_to_meet(at, edge)}"
            yield Problem(f"edges[{at.edges.index(edge)}].partitioner", text)


def _how_to_meet(at: _Place, edge: Edge) -> str:
    """Return what brings records of one key together in a window; rows have their key."""
    if not at.has_rows:
        return "hash with key_weights or key_distribution, or parallelism 1"
    if at.by_name[edge.sender].input is None:
        return ONE_SUBTASK
    return "hash with key, the column, or rebalance and parallelism 1"
