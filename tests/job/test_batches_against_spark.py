"""What a window stage takes up batch by batch, through Structured Streaming: the same table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.spec.spark_aggregation import MicroBatch
from modules import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

small: Any = load("tests/job/small_windows.py")
follow_batches: Any = load("tests/job/follow_batches.py")
streams: Any = load("tests/spec/spark_time/streams.py")

IS_LONG = "FLOWCONTROL_LONG" in os.environ
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling, append": {"kind": "tumbling", "size_s": 0.5},
    "sliding, update": {"kind": "sliding", "size_s": 0.4, "slide_s": 0.2, "output": "update"},
    "tumbling, complete": {"kind": "tumbling", "size_s": 0.5, "output": "complete"},
    "session, append": {"kind": "session", "gap_s": 0.04},
}
QUICK = ("sliding, update", "session, append")
"""Of each kind of state; test_against_spark.py has every kind with each output."""
ANSWERS = "case int, batch int, start long, end long, key string, rows long"
BATCHES = "case int, batch int, watermark long, dropped long, state_rows long"


def laid_out(window: dict[str, Any]) -> Job:
    """Two sources, one of them behind, whose records wait behind a slow stage, into windows."""
    given = small.keyed_mapping(window, time_model="spark", batch_s=0.25, duration_s=6,
                                source={"watermark": {"delay_s": 0.1}})  # fmt: skip
    given["stages"][1]["service_rate"] = 40
    behind = {**given["stages"][0], "name": "behind", "event_time": {"offset_s": -0.2}}
    given["stages"].append(behind)
    given["edges"].append({**given["edges"][1], "from": "behind"})
    given["stages"][-1]["record_bytes"] = 4000
    return build_physical_graph(small.checked(given), round_us=10_000)


def test_a_window_stage_puts_out_what_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    """Batch for batch; those without data are at the end, where Spark has them too."""
    drawn, ours = list[Any](), list[list[MicroBatch]]()
    for name in WINDOWS if IS_LONG else QUICK:
        job = laid_out(WINDOWS[name])
        *_, (last, followers) = follow_batches.follow(job)
        follower = followers["count"]
        assert all(task.state.is_finished for task in last.tasks)
        has_rows = [any(rows) for rows in follower.rows]
        assert has_rows == sorted(has_rows, reverse=True)
        assert sum(has_rows) > 10
        rows = [
            [[(time, str(key)) for time, key in own] for own in batch]
            for batch in follower.rows[: sum(has_rows)]
        ]
        drawn.append(replace(follow_batches.case_of(job, "count"), runs=[rows]))
        ours.append(follower.done)
    assert sum(batch.dropped for done in ours for batch in done) > 0
    theirs = streams.answers(spark, drawn, tmp_path)
    for schema, table in ((BATCHES, figures_of), (ANSWERS, rows_of)):
        found, wanted = (spark.createDataFrame(table(one), schema) for one in (ours, theirs))
        assert_df_equality(found.orderBy(wanted.columns), wanted.orderBy(wanted.columns))


def rows_of(batches: Sequence[Sequence[MicroBatch]]) -> list[tuple[Any, ...]]:
    return [
        (at, batch.number, group.start, group.end, str(group.key), group.rows)
        for at, done in enumerate(batches)
        for batch in done
        for group in batch.answer
    ]


def figures_of(batches: Sequence[Sequence[MicroBatch]]) -> list[tuple[Any, ...]]:
    return [
        (at, batch.number, batch.watermark, batch.dropped, batch.state_rows)
        for at, done in enumerate(batches)
        for batch in done
    ]
