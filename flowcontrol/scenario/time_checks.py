"""Checks of event time and windows against the job: sources, columns, keys, output modes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.event_time import TimeModel
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.inputs import Replayed, number_column_faults, time_column_faults
from flowcontrol.scenario.key_distribution import count_names
from flowcontrol.scenario.models import Edge, ScenarioHead
from flowcontrol.scenario.refusals import faults
from flowcontrol.scenario.stage_models import Stage
from flowcontrol.scenario.windows import Trigger, Window, split_aggregate

SPARKS: Final = ("structured-streaming", "spark-real-time")
"""The systems whose event time is Spark's."""

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
        role, rows, times = "inner stages", None, stage.event_time
        if stage.name not in receivers:
            role, rows = "sources", replayed.get(stage.name)
        found = list(faults(f"event time of {role}", stage))
        if times is not None and times.column is not None and rows is not None:
            wrong = time_column_faults(rows, times.column)
            found += [("event_time.column", text) for text in wrong]
        problems += [Problem(f"stages[{index}].{key}", text) for key, text in found]


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
    return "spark" if system in SPARKS and has_times else "flink"


def check_time_model(
    head: ScenarioHead, system: object, stages: Sequence[tuple[int, Stage]]
) -> Iterator[Problem]:
    """Yield what contradicts the model of time: another system's, batches, Flink's own watermarks.

    ``system``: ``system`` in the file.
    """
    model = time_model_of(head, system, stages)
    if model == "flink" and system in SPARKS and is_stated(head, "time_model"):
        text = f"'flink': the system {system} has Spark's event time: use spark, or remove it"
        yield Problem("time_model", text)
    if head.batch_s is not None:
        yield from _batch_problems(head, head.batch_s, model)
    if model == "spark":
        for index, stage in stages:
            own = stage.watermark
            is_idle = own is not None and own.idle_after_s is not None
            rows = () if own is None else faults("Spark's watermarks", own, is_idle_stated=is_idle)
            for key, text in rows:
                yield Problem(f"stages[{index}].watermark.{key}", text)


def _batch_problems(head: ScenarioHead, batch_s: Fraction, model: TimeModel) -> Iterator[Problem]:
    if model == "flink":
        text = f"{float(batch_s):g}: Flink's event time has no batches: remove it, or write"
        yield Problem("batch_s", f"{text} time_model: spark")
    elif head.round_ms is not None:
        rounds = batch_s * 1000 / Fraction(repr(head.round_ms))
        if rounds.denominator != 1:
            text = f"{float(batch_s):g} is not a multiple of round_ms, {head.round_ms:g}: a batch"
            yield Problem("batch_s", f"{text} is a whole number of rounds; change one of the two")


ONE_SUBTASK = "global, or rebalance with parallelism 1, with the column as the key of the input"
"""How rows meet by key in a window that they do not reach straight from their source."""


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

    def __getattr__(self, name: str) -> Any:
        """Return the names of sources without a key, or another fact of the window."""
        if name in _LACKING:
            key = _LACKING[name]
            return _names(one for one in self.sources if getattr(one, key) is None)
        return _FACTS[name](self)


def _names(stages: Iterable[Stage]) -> str:
    return ", ".join(repr(stage.name) for stage in stages)


def _follows_time(at: _Place) -> bool:
    return at.window.trigger != "processing_time" and at.window.kind != "global"


def _wants_time(at: _Place) -> bool:
    is_any = any(source.event_time is not None for source in at.sources)
    return at.window.trigger == "event_time" or is_any


def _waits(at: _Place) -> bool:
    trigger = at.window.trigger
    is_continuous = isinstance(trigger, Trigger) and trigger.continuous_s is not None
    return trigger == "event_time" or is_continuous


def _shown(at: _Place) -> str:
    trigger = at.window.trigger
    return str(trigger.model_dump()) if isinstance(trigger, Trigger) else repr(trigger)


def _leaves_gaps(at: _Place) -> bool:
    size, slide = at.window.size_s, at.window.slide_s
    return size is not None and slide is not None and slide > size


def _key_column(at: _Place) -> str | None:
    found = [edge.key for edge in at.inputs]
    found += [source.input.key for source in at.sources if source.input is not None]
    return next((key for key in found if key is not None), None)


_LACKING: Final = {
    "missing_time": "event_time",
    "missing_marks": "watermark",
    "missing_input": "input",
}
_FACTS: Final[dict[str, Callable[[_Place], Any]]] = {
    "follows_time": _follows_time,
    "wants_time": _wants_time,
    "waits": _waits,
    "is_timed": lambda at: not at.missing_time and at.window.kind != "global",
    "shown": _shown,
    "leaves_gaps": _leaves_gaps,
    "slide_us": lambda at: int((at.window.slide_s or 0) * 10**6),
    "size_us": lambda at: int((at.window.size_s or 0) * 10**6),
    "windows_above": lambda at: _names(one for one in at.above if one.window is not None),
    "key_column": _key_column,
    "names": lambda at: count_names(at.inputs),
    "names_others": lambda at: count_names(at.inputs) not in {0, at.window.keys},
    "replaying": lambda at: _names(one for one in at.sources if one.input is not None),
}
"""What rows ask of a window beside its attributes."""


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
            text = f"no edge leads to {stage.name!r}, so it receives no records to group: move the"
            problems.append(Problem(f"{place}.window", f"{text} window to a stage behind it"))
            continue
        if stage.selectivity_exact != 1:
            text = f"{stage.selectivity:g}: the window decides how many records leave"
            problems.append(Problem(f"{place}.selectivity", f"{text} {stage.name!r}: remove it"))
        groups = ["windows"] if model is None else ["windows", f"{model.capitalize()}'s windows"]
        or_clock = "" if model == "spark" else ", or trigger: processing_time"
        found = [fault for one in groups for fault in faults(one, at, or_clock=or_clock)]
        problems += [
            Problem(f"{place}.window.{key}", text) for key, text in (*found, *_columns(at))
        ]
        problems += _edges_into(at)


def _columns(at: _Place) -> Iterator[Fault]:
    """Refuse aggregates of columns that are not there, or hold no numbers."""
    entering = list(dict.fromkeys(at.rows[edge.sender] for edge in at.inputs))
    for name, text in at.window.aggregate.items():
        _, column = split_aggregate(text)
        if column is None:
            continue
        if None in entering:
            why = f"{text!r}: no replayed rows enter {at.stage.name!r}, and generated records have"
            yield f"aggregate.{name}", f"{why} no columns: use count, or an input of the source"
            continue
        for rows in filter(None, entering):
            for fault in number_column_faults(rows, column):
                yield f"aggregate.{name}", fault


def _edges_into(at: _Place) -> Iterator[Problem]:
    """Refuse edges that chain the window, name keys of rows, or spread records of one key."""
    for edge in at.inputs:
        how = str(edge.partitioner) if is_stated(edge, "partitioner") else "no partitioner"
        has_keys = edge.partitioner == "hash" and edge.channel_weights is None
        facts = {
            "edge": edge,
            "how": how + " by channel_weights" * (edge.partitioner == "hash"),
            "meet": _how_to_meet(at, edge),
            "is_spread": at.stage.parallelism > 1 and not has_keys and edge.partitioner != "global",
        }
        for key, text in faults("edges into windows", at, **facts):
            yield Problem(f"edges[{at.edges.index(edge)}].{key}", text)


def _how_to_meet(at: _Place, edge: Edge) -> str:
    """Return what brings records of one key together in a window; rows have their key."""
    if not at.has_rows:
        return "hash with key_weights or key_distribution, or parallelism 1"
    if at.by_name[edge.sender].input is None:
        return ONE_SUBTASK
    return "hash with the column as key, or rebalance with parallelism 1"
