"""Several queries on one Python data source start at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowcontrol.streaming.register import WRITTEN_BY_QUERIES, register_source
from flowcontrol.streaming.source import StageSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_query_that_starts_inserts_nothing_into_the_shared_map(spark: SparkSession) -> None:
    """Spark's queries write into one map without a lock: its keys must be there before."""
    register_source(spark, StageSource)
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    shared = manager.lookupDataSource("flowcontrol_stage").dataSourceCls().envVars()
    assert set(WRITTEN_BY_QUERIES) <= set(shared)


def test_what_is_added_is_taken_back(spark: SparkSession) -> None:
    before = dict(spark.sparkContext.environment)
    register_source(spark, StageSource)
    assert spark.sparkContext.environment == before
