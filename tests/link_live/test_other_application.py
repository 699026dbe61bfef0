"""A receiver in an application of its own, which knows of a link only where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import Link
from jvm import java_environment

# The sink of tests/link_kill finds the source by its name alone in the quick form.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]

READER = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
path, out = sys.argv[1:]
rows = spark.readStream.format("flowcontrol").load(path)
writer = rows.writeStream.format("parquet").option("checkpointLocation", out + "-checkpoint")
writer.trigger(availableNow=True).start(out).awaitTermination()
print("rows:", spark.read.parquet(out).count())
"""


def test_spark_finds_the_source_by_itself(
    spark: Any, tmp_path: Path, events: Any, until: Callable[..., None]
) -> None:
    if not (Path(sys.prefix) / "flowcontrol" / "ready-run").exists():
        pytest.skip("the start script did not make this environment: run ./run-tests.sh")
    events.write(250, files=2)
    link = Link(tmp_path / "link", key="customer_id", channels=2)
    up = events.stream().writeStream.foreachBatch(link.sender("events"))
    query = up.option("checkpointLocation", str(tmp_path / "a")).start()
    script = tmp_path / "reader.py"
    script.write_text(READER)
    environment = {**os.environ, "FLOWCONTROL_VENV": sys.prefix}
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
        environment.pop(name, None)
    environment |= java_environment()
    try:
        until(lambda: query.lastProgress is not None and query.lastProgress.batchId >= 1, query)
        found = subprocess.run(
            [str(ROOT / "spark-submit.sh"), str(script), str(tmp_path / "link"),
             str(tmp_path / "out")],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        query.stop()
    assert found.returncode == 0, found.stderr[-3000:]
    assert "rows: 500" in found.stdout
