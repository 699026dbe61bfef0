# Databricks notebook source
# MAGIC %md
# MAGIC # From a slow Spark pipeline to an answer
# MAGIC
# MAGIC A Structured Streaming query falls behind. Is it the rows, or the fixed cost of each micro-batch? Which change
# MAGIC would help, and how much? This notebook runs such a query, keeps its progress, fits a scenario to it, tries
# MAGIC changes on the scenario, makes the best change in the query, and compares.
# MAGIC
# MAGIC On a cluster install the package with the extras `report` and `virtual` first. As plain Python:
# MAGIC `./spark-submit.sh notebooks/05_slow_pipeline.py`.

# COMMAND ----------

import json
import os
import shutil
import time
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

import flowcontrol
from flowcontrol.diagnosis import fit_scenario

try:
    dbutils  # noqa: B018
    ON_DATABRICKS = True
except NameError:
    ON_DATABRICKS = False


def parameter(name, default):
    """Return a widget's value, or outside Databricks that of FLOWCONTROL_<NAME>."""
    if ON_DATABRICKS:
        dbutils.widgets.text(name, default)
        return dbutils.widgets.get(name)
    return os.environ.get(f"FLOWCONTROL_{name.upper()}", default)


def show(shown):
    """Display a result or a table; outside Databricks print it."""
    if ON_DATABRICKS:
        display(shown)
    elif isinstance(shown, flowcontrol.Result):
        shown.show()
    else:
        print(shown.to_string())


# COMMAND ----------

# MAGIC %md
# MAGIC ## The pipeline
# MAGIC
# MAGIC Files of differing length arrive. The query takes one file per micro-batch and passes its rows to a service. A
# MAGIC request takes `request_s` seconds plus 0.4 ms per row. `batches` is the number of observed micro-batches,
# MAGIC `out` the folder of everything.

# COMMAND ----------

request_s = float(parameter("request_s", "0.8"))
batches = int(parameter("batches", "14"))
out = Path(parameter("out", "out/slow-pipeline-notebook")).absolute()
shutil.rmtree(out, ignore_errors=True)
(out / "in").mkdir(parents=True)

ROW_S = 0.0004
LENGTHS = [1000, 500, 1500, 2000, 800, 1800, 1200, 600]

spark = SparkSession.builder.appName("slow pipeline").getOrCreate()
spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
for number in range(4 * batches + 8):
    rows = LENGTHS[number % len(LENGTHS)]
    frame = pd.DataFrame({"id": range(rows), "text": ["x" * 80] * rows})
    frame.to_parquet(out / "in" / f"{number:05d}.parquet")


def service(batch, batch_id):
    """Stand for a service that is called once a micro-batch."""
    began = time.monotonic()
    due = request_s + ROW_S * batch.count()
    time.sleep(max(0.0, due - (time.monotonic() - began)))


def run(name, files_a_batch):
    """Run the query for so many micro-batches; return the file with what Spark said of each."""
    source = spark.readStream.schema("id long, text string")
    stream = source.option("maxFilesPerTrigger", files_a_batch).parquet(str(out / "in"))
    place = str(out / f"{name}-checkpoint")
    query = stream.writeStream.foreachBatch(service).option("checkpointLocation", place)
    query = query.queryName(name).start()
    while len([one for one in query.recentProgress if one.numInputRows]) < batches:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.1)
    said = [json.loads(one.json) for one in query.recentProgress if one.numInputRows]
    query.stop()
    file = out / f"{name}.jsonl"
    # The first micro-batches compile and warm up.
    file.write_text("".join(json.dumps(one) + "\n" for one in said[2:batches]))
    return file


progress = run("as-it-is", 1)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What Spark says, as a scenario
# MAGIC
# MAGIC A line through the times of the micro-batches, over their rows, separates the cost of a row from the cost of a
# MAGIC batch. Each figure of the scenario has its origin and an estimate of its error; figures that the progress does
# MAGIC not show are marked as assumed. `flowcontrol calibrate --spark FILE` does the same and compares every figure.

# COMMAND ----------

fitted = fit_scenario(spark_progress=progress)
figures = pd.DataFrame(
    [
        {"key": key, "value": one.value, "assumed": one.is_assumed, "from": one.origin}
        for key, one in fitted.figures.items()
    ]
).set_index("key")
show(figures)
overhead_ms = figures.value["system.throttle.overhead_ms"]
most_rows = figures.value["system.throttle.max_records"]

# COMMAND ----------

# MAGIC %md
# MAGIC ## What would help
# MAGIC
# MAGIC Every row is a run of the scenario with that change.

# COMMAND ----------

advice = flowcontrol.advise(fitted.scenario, goal="throughput", out=out / "advice", quiet=True)
show(advice)
larger = next(
    one
    for one in advice.proposals
    if one.change.document == {"system.throttle.max_records": 2 * most_rows}
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The change in the query
# MAGIC
# MAGIC Batches of twice the rows need no hardware: `maxFilesPerTrigger` of 2. The prediction, and Spark's progress of
# MAGIC the changed query:

# COMMAND ----------


def rows_per_s(file):
    """Return how many rows a second went through, from the first start to the last."""
    said = [json.loads(line) for line in file.read_text().splitlines()]
    starts = pd.to_datetime([one["timestamp"] for one in said], format="ISO8601")
    passed = sum(one["numInputRows"] for one in said[:-1])
    return passed / (starts[-1] - starts[0]).total_seconds()


changed = run("changed", 2)
answer = pd.DataFrame(
    {
        "predicted": [advice.before.throughput, larger.figures.throughput],
        "observed": [rows_per_s(progress), rows_per_s(changed)],
    },
    index=["as it is", "two files a micro-batch"],
).round(1)
answer["off by, %"] = (100 * (answer.predicted / answer.observed - 1)).round(1)
show(answer)

# COMMAND ----------

# MAGIC %md
# MAGIC The fixed cost of a micro-batch is so high that twice the rows per batch raise the throughput a lot. If the
# MAGIC rows were the main cost, this would gain little, and the table above would say so before any change.
