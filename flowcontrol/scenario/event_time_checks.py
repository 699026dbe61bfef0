"""Checks of event time against the job: which sources have it, from which column, whose it is."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.columns import time_column_faults
from flowcontrol.scenario.event_time_models import TimeModel
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.inputs import Replayed
from flowcontrol.scenario.models import Edge, ScenarioHead
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.stage_models import Stage

SPARKS: Final = "structured-streaming"
"""The system whose event time is Spark's."""

BATCH_THROTTLE: Final = "static_admission"
"""The throttle whose batches are those of Spark's event time."""

Fault = tuple[str, str]
"""A key of a stage, and why it is refused."""


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


def batch_problems(
    *,
    needs_batches: bool,
    batch_s: Fraction | None,
    live_round_us: int,
    clock: str,
    throttle: str = "none",
) -> list[Problem]:
    """Return what a clock cannot do with the batches of Spark's event time.

    - ``needs_batches``: whether the job has Spark's event time.
    - ``live_round_us``: a round on the live clock, microseconds, which is a micro-batch.
    - ``clock``: the clock to run it, ``live`` or ``virtual``.
    - ``throttle``: what slows the sources; it may have batches of its own.
    """
    if not needs_batches:
        return []
    if clock == "virtual" and throttle == BATCH_THROTTLE:
        if batch_s is None:
            return []
        text = f"{float(batch_s):g} s: batches are those of the throttle {throttle!r}: leave it out"
        return [Problem("batch_s", text)]
    if clock == "virtual" and batch_s is None:
        text = "is missing: time_model spark counts in batches, and the virtual clock has none of"
        return [Problem("batch_s", f"{text} its own: state their length in s")]
    if clock == "live" and batch_s is not None and batch_s * 1_000_000 != live_round_us:
        text = f"{float(batch_s):g} s: on the live clock a batch is a micro-batch, which is"
        text = f"{text} {live_round_us / 1000:g} ms: leave it out, or state round_ms: "
        return [Problem("batch_s", f"{text}{float(batch_s * 1000):g}")]
    return []
