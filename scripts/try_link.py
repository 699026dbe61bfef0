"""A link between two queries, as the documents show it, in the Python that this is run with.

    python scripts/try_link.py

Sends 1,000 rows through a link into a sink, in a folder of its own. The last line says so.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 1000
PATIENCE_S = 600.0


def main(base: Path) -> int:
    """Run both queries until the sink has all rows; return the exit status."""
    from pyspark.sql import SparkSession

    import flowcontrol
    from flowcontrol import Link

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    files, found = str(base / "in"), set[int]()
    spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 7 AS key").write.parquet(files)
    rows = spark.readStream.schema("id long, key long").parquet(files)

    def sink(frame: DataFrame, batch_id: int) -> None:
        found.update(row["id"] for row in frame.collect())

    link = Link(base / "link", key="key", channels=2)
    up = rows.writeStream.foreachBatch(link.sender("orders"))
    up_query = up.option("checkpointLocation", str(base / "a")).start()
    down = link.receive(spark).writeStream.foreachBatch(sink)
    queries = [up_query, down.option("checkpointLocation", str(base / "b")).start()]
    until = time.monotonic() + PATIENCE_S
    while len(found) < ROWS and time.monotonic() < until and all(q.isActive for q in queries):
        time.sleep(0.1)
    for query in queries:
        query.stop()
    spark.stop()
    print(f"flowcontrol {flowcontrol.__version__}: {len(found)} of {ROWS} rows came through")
    return int(len(found) != ROWS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(Path(folder)))
