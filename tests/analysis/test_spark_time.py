"""Spark's event time in figures and words."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from modules import load

others: Any = load("tests/analysis/test_event_time.py")


def test_spark_s_watermark_is_in_no_channel(builder: ModuleType) -> None:
    job = builder.scenario("x", others.LINE, others.CHAIN).model_copy(
        update={"time_model": "spark"}
    )
    found = others.found_in(others.line(builder), job)
    assert found["apart"]["hops"] == []
    assert found["apart"]["source"] == "source"
    assert found["sentences"][0].endswith(
        "5 s are the delay of source, 2.4 s pass until the batch that uses it."
    )


def test_spark_counts_late_groups(builder: ModuleType) -> None:
    job = builder.scenario("x", others.LINE, others.CHAIN).model_copy(
        update={"time_model": "spark"}
    )
    made = others.line(
        builder,
        watermark_s=others.behind(5.5),
        late_records=others.counted(36),
        fired=others.counted(2),
    )
    found = others.found_in(made, job)
    assert found["time_model"] == "spark"
    assert found["matter"] == ["720 groups of sink's batches came too late, as Spark counts them."]
    assert "it put out 40 results" in found["sentences"][-1]


def test_where_no_window_is_spark_has_no_watermark_to_miss(builder: ModuleType) -> None:
    made = others.line(builder)
    for row in made.rows["time"]:
        row["watermark_s"] = None
    for stages, why in (({**others.LINE, "sink": {}}, None), (others.LINE, "on_way")):
        job = builder.scenario("x", stages, others.CHAIN)
        job = job.model_copy(update={"time_model": "spark"})
        found = others.found_in(made, job)["silent"]
        assert (None if found is None else found["why"]) == why
