"""The same rows in the same batches through Structured Streaming itself: the same tables."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException

from flowcontrol.protocol.windows import firing, spark_batches
from flowcontrol.protocol.windows.spark_batches import WatermarkOperator
from flowcontrol.spec.spark_aggregation import MicroBatch
from flowcontrol.state.windows import WindowEntry
from modules import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

cases: Any = load("tests/spec/spark_time/cases.py")
streams: Any = load("tests/spec/spark_time/streams.py")

QUICK = 14
"""Each form of a query, most of them with one input and with two, and all that is seldom."""
LONG = 96
TRIES = 3_000
"""Cases among which each of what is seldom must be met."""

ANSWERS = "case int, batch int, start long, end long, key string, rows long"
BATCHES = "case int, batch int, watermark long, dropped long, state_rows long"


def differs(**changes: Any) -> Callable[[Any], bool]:
    """Tell of a case whether it puts out something else with other settings."""
    return lambda case: replace(case, **changes).answers() != case.answers()


def matters(module: ModuleType, rule: str, other: Callable[..., Any]) -> Callable[[Any], bool]:
    """Tell of a case whether it would put out something else by another rule."""

    def differs_by(case: Any) -> bool:
        answers = case.answers()
        with mock.patch.object(module, rule, other):
            return case.answers() != answers

    return differs_by


def forget_and_observe(operator: WatermarkOperator, latest: int) -> None:
    """Let a watermark fall."""
    operator.watermark = latest - operator.delay


def is_behind(end: int, watermark: int) -> int:
    """Leave out the end itself."""
    return int(end < watermark)


def overlaps(entry: WindowEntry, key: int, start: int, end: int) -> int:
    """Leave out sessions that only touch."""
    return int(entry.key == key and start < entry.end and entry.start < end)


def is_late(kind: str, mode: str) -> Callable[[Any], bool]:
    """Tell of a case whether it is of a kind and drops rows."""
    return lambda case: (
        (case.windows.kind, case.mode) == (kind, mode)
        and any(batch.dropped for batch in case.answers())
    )


def answers_without_data(case: Any) -> bool:
    """Tell whether a batch without data puts anything out."""
    return differs(no_data_batches=False)(case) and case.no_data_batches


HARD: dict[str, Callable[[Any], bool]] = {
    "a restart forgets what an input had seen": lambda case: (
        len(case.runs) == 2 and not case.keeps_what_it_saw()
    ),
    "an input's watermark never falls": matters(spark_batches, "observe", forget_and_observe),
    "a window is evicted at its end": matters(spark_batches, "is_over", is_behind),
    "a row is late at the end of its window": matters(spark_batches, "is_over", is_behind),
    "sessions that touch are one": matters(firing, "_touches", overlaps),
    **{
        f"{kind} windows drop late rows in {mode}": is_late(kind, mode)
        for kind, mode in cases.FORMS
        if kind == "session" or mode != "complete"
    },
    "a batch without data puts out": answers_without_data,
    "it stands between batches with data": lambda case: (
        case.is_stepped and differs(is_stepped=False)(case)
    ),
    "rows are late by the batch before, not by this one": lambda case: (
        case.multiple and differs(multiple=False)(case)
    ),
    "rows are late by this batch, not by the one before": lambda case: (
        not case.multiple and differs(multiple=True)(case)
    ),
    "the slowest input holds back": lambda case: (
        case.policy == "min" and differs(policy="max")(case)
    ),
    "the fastest input moves on": lambda case: case.policy == "max" and differs(policy="min")(case),
    "after a restart the batch without data that was due is not made up for": lambda case: (
        case.is_once and not case.keeps_what_it_saw()
    ),
    "rows of two inputs are dropped apart": lambda case: (
        case.windows.kind == "session" and case.drops_apart()
    ),
    "a row is late by its own session, though it would join another": (
        lambda case: case.windows.kind == "session" and case.joins_too_late()
    ),
}


def hard_cases(number: int) -> list[Any]:
    """Draw so many cases, and others in their places until each of what is seldom is met."""
    seed = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))
    print(f"FLOWCONTROL_SEED={seed}")
    chosen = dict[int, Any]()
    for name, is_met in HARD.items():
        if any(map(is_met, chosen.values())):
            continue
        for at, case in enumerate(islice(cases.draw(seed), TRIES)):
            if at % number not in chosen and is_met(case):
                chosen[at % number] = case
                break
        else:
            raise AssertionError(f"not met in {TRIES} cases: {name}")
    for at, case in enumerate(islice(cases.draw(seed), number)):
        print(at, chosen.setdefault(at, case).name())
    return [chosen[at] for at in range(number)]


def rows_of(batches: Sequence[Sequence[MicroBatch]]) -> list[tuple[Any, ...]]:
    """Return all answers of all cases."""
    return [
        (at, batch.number, *group)
        for at, done in enumerate(batches)
        for batch in done
        for group in batch.answer
    ]


def figures_of(batches: Sequence[Sequence[MicroBatch]]) -> list[tuple[Any, ...]]:
    """Return what is told of each batch of all cases."""
    return [
        (at, batch.number, batch.watermark, batch.dropped, batch.state_rows)
        for at, done in enumerate(batches)
        for batch in done
    ]


def assert_same(spark: SparkSession, number: int, folder: Path) -> None:
    drawn = hard_cases(number)
    ours = [case.answers() for case in drawn]
    theirs = streams.answers(spark, drawn, folder)
    print(f"{number} cases, {len(figures_of(theirs))} batches, {len(rows_of(theirs))} rows")
    for schema, table in ((BATCHES, figures_of), (ANSWERS, rows_of)):
        found, wanted = (spark.createDataFrame(table(one), schema) for one in (ours, theirs))
        order = wanted.columns
        assert_df_equality(found.orderBy(order), wanted.orderBy(order))


def test_batches_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    assert_same(spark, QUICK, tmp_path)


@pytest.mark.long
def test_more_batches_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    assert_same(spark, LONG, tmp_path)


REFUSED: dict[str, dict[str, Any]] = {
    "append without a watermark": {"delays": None},
    "a delay below 0": {"delays": (-1,)},
    "sessions in update mode": {"windows": cases.SESSIONS[0], "mode": "update"},
    "a window without a length": {"windows": cases.Windows("tumbling", (0,))},
    "a slide without a length": {"windows": cases.Windows("sliding", (10, 0))},
    "a slide above the size": {"windows": cases.Windows("sliding", (10, 11))},
    "an offset of a slide": {"windows": cases.Windows("sliding", (10, 5, 5))},
    "a negative offset of a size": {"windows": cases.Windows("tumbling", (10, -10))},
}


def test_spark_refuses_what_we_do(spark: SparkSession, tmp_path: Path) -> None:
    good = cases.Case(cases.Windows("tumbling", (10,)), "append", (0,), "min", True, [[[[]]]])
    session = streams.Sessions(spark).of(good)
    for name, changes in REFUSED.items():
        case = replace(good, **changes)
        with pytest.raises(ValueError, match="needs"):
            case.answers()
        with pytest.raises(PySparkException):
            streams.Stream(session, case, tmp_path / name.replace(" ", "-")).run()
