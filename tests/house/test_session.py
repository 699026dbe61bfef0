"""The shared Spark session: Delta works on it, batch and stream, without a warning."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_delta_is_written_and_read(spark, tmp_path):
    path = str(tmp_path / "table")
    spark.range(5).write.format("delta").save(path)
    spark.range(5, 8).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 8
    assert spark.sql(f"SELECT sum(id) AS total FROM delta.`{path}`").first().total == 28


def test_delta_streams_through_foreach_batch(spark, tmp_path):
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    spark.range(5).write.format("delta").save(source)
    batches = []

    def copy(rows, batch_id):
        batches.append(batch_id)
        rows.write.format("delta").mode("append").save(target)

    query = (
        spark.readStream.format("delta")
        .load(source)
        .writeStream.foreachBatch(copy)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert batches == [0]
    assert spark.read.format("delta").load(target).count() == 5


def test_workers_run_the_same_python(spark):
    def where(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(1).mapInArrow(where, "python string").collect()
    assert Path(rows[0].python).samefile(sys.executable)


def test_settings_are_those_of_the_start_script(spark):
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"
