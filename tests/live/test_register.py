"""Several queries on one Python data source start at the same time."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from flowcontrol.link.link import Link
from flowcontrol.live.source import StageSource
from flowcontrol.spark.session import WRITTEN_BY_QUERIES, register_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_query_that_starts_inserts_nothing_into_the_shared_map(spark: SparkSession) -> None:
    """Spark's queries write into one map without a lock: its keys must be there before."""
    register_source(spark, StageSource)
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    shared = manager.lookupDataSource("flowcontrol_stage").dataSourceCls().envVars()
    assert set(WRITTEN_BY_QUERIES) <= set(shared)


@pytest.mark.spark
def test_what_is_added_is_taken_back(spark: SparkSession) -> None:
    before = dict(spark.sparkContext.environment)
    register_source(spark, StageSource)
    assert spark.sparkContext.environment == before


@pytest.mark.spark
def test_a_source_is_registered_once(spark: SparkSession, tmp_path, monkeypatch) -> None:
    """Spark has found ``flowcontrol`` by itself, and warns of one that takes its place."""
    registered = []
    monkeypatch.setattr(type(spark.dataSource), "register", lambda _, one: registered.append(one))
    Link(tmp_path / "link", schema="a int").receive(spark)
    Link(tmp_path / "link").receive(spark, name="other")
    assert registered == []
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    shared = manager.lookupDataSource("flowcontrol").dataSourceCls().envVars()
    assert set(WRITTEN_BY_QUERIES) <= set(shared)


class Context:
    """A context whose environment another thread reads while a source is registered."""

    def __init__(self) -> None:
        self.environment = {"PYTHONHASHSEED": "0", "SPARK_BUFFER_SIZE": "1"}
        self.during = dict[str, str]()
        self.dataSource = self.sparkContext = self

    def register(self, source) -> None:
        self.during = dict(self.environment)
        next(self.reader, None)
        if source is Broken:
            raise RuntimeError("no source")


class Nameless:
    """A source; a context that knows none is asked for its name first."""

    @staticmethod
    def name() -> str:
        return "nameless"


class Broken(Nameless):
    """One that Spark refuses."""


@pytest.mark.parametrize("source", [Nameless, Broken])
def test_a_batch_that_makes_a_function_meanwhile_reads_one_environment(source):
    """py4j copies it key by key: it must not change size under a sender's running batch."""
    context, copied = Context(), {}
    before = context.environment

    def copy():
        for key in before.keys():  # noqa: SIM118 - as py4j's MapConverter does
            copied[key] = before[key]
            yield

    context.reader = copy()
    next(context.reader)
    with nullcontext() if source is Nameless else pytest.raises(RuntimeError, match="no source"):
        register_source(context, source)
    list(context.reader)
    assert copied == {"PYTHONHASHSEED": "0", "SPARK_BUFFER_SIZE": "1"}
    assert context.environment is before
    assert context.during == {**WRITTEN_BY_QUERIES, **copied}


class Keeping(Context):
    """A session of Spark 4.0, which refuses to replace a source that it has found by itself."""

    def __init__(self, condition: str) -> None:
        super().__init__()
        self.condition = condition

    def register(self, source) -> None:
        raise AnalysisException("no", errorClass=self.condition, messageParameters={})


def test_a_source_that_spark_has_found_by_itself_is_kept():
    register_source(Keeping("DATA_SOURCE_ALREADY_EXISTS"), Nameless)
    with pytest.raises(AnalysisException):
        register_source(Keeping("UNSUPPORTED"), Nameless)
