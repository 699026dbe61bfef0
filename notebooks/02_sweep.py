# Databricks notebook source
# MAGIC %md
# MAGIC # How many buffers are enough?
# MAGIC
# MAGIC A sweep runs every combination of some values on the virtual clock, distributed over the cluster, and writes
# MAGIC the results into one table.
# MAGIC
# MAGIC On a cluster install the package with the extras `report` and `virtual` first, and choose a folder that all
# MAGIC machines can reach. As plain Python: `./spark-submit.sh notebooks/02_sweep.py`.

# COMMAND ----------

import os
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

import flowcontrol

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


def show(shown, name):
    """Display a result, a table or a plot; outside Databricks print it, or write the plot."""
    if ON_DATABRICKS:
        display(shown)
    elif isinstance(shown, flowcontrol.Result):
        print(shown)
    elif hasattr(shown, "write_html"):
        shown.write_html(out / f"{name}.html")
    else:
        shown.show(truncate=False)


# COMMAND ----------

# MAGIC %md
# MAGIC ## What is varied
# MAGIC
# MAGIC The chain of `conf/three-stages.yaml`, whose task managers are 200 ms apart: its exclusive buffers per
# MAGIC channel, and the speed of its sink. A credit and its buffer take 400 ms there. Three replications, with three
# MAGIC seeds, show how much of a difference is chance. `duration` shortens the runs, `points` is the number of
# MAGIC speeds, `out` is the folder of the results.

# COMMAND ----------

duration_s = parameter("duration", "60")
points = int(parameter("points", "19"))
out = Path(parameter("out", "out/sweep-notebook")).absolute()

chain = yaml.safe_load("""\
schema: 1
name: three-stages
duration_s: 60
round_ms: 200
sample_interval_s: 1
cluster:
  task_managers: 3
options:
  taskmanager.memory.segment-size: 8kb
  taskmanager.network.memory.buffers-per-channel: 8
  execution.buffer-timeout.interval: 200ms
stages:
  - name: source
    emit_rate: 1000
    record_bytes: 200
  - name: map
    service_rate: 1500
    selectivity: 0.5
    record_bytes: 400
  - name: sink
    service_rate:
      - {at_s: 0, rate: 600}
      - {at_s: 20, rate: 150}
      - {at_s: 40, rate: 600}
edges:
  - {from: source, to: map, partitioner: rebalance}
  - {from: map, to: sink, partitioner: rebalance}
""")
vary = {
    "options.taskmanager.network.memory.buffers-per-channel": [1, 2, 4, 8],
    "stages.sink.service_rate": f"100:1000:{points}",
}

# COMMAND ----------

# MAGIC %md
# MAGIC ## The sweep
# MAGIC
# MAGIC Every variant is checked before the first one runs. A second run of this cell does only what is
# MAGIC missing in the folder.

# COMMAND ----------

result = flowcontrol.sweep(
    chain,
    vary,
    replications=3,
    overrides={"duration_s": float(duration_s), "cluster.network_latency_ms": 200},
    out=out,
)
show(result, "sweep")

# COMMAND ----------

# MAGIC %md
# MAGIC ## One table
# MAGIC
# MAGIC A Delta table with a row per variant and stage. The varied keys are columns, the figures are those of
# MAGIC `summary.json`. How much does the sink process once buffers have filled, and what holds it back?

# COMMAND ----------

spark = SparkSession.active()
spark.read.format("delta").load(str(result.results)).createOrReplaceTempView("results")

taken = spark.sql("""
    SELECT buffers_per_channel, sink_service_rate, avg(rate_in_second_half) AS rate,
           stddev(rate_in_second_half) AS deviation, avg(latency_p99_ms_second_half) AS p99_ms,
           mode(bottleneck) AS limits
    FROM results
    WHERE stage = 'sink'
    GROUP BY 1, 2
    ORDER BY 1, 2
""")
show(taken, "taken")

# COMMAND ----------

import plotly.graph_objects as go

rows = taken.toPandas()
figure = go.Figure()
for buffers, part in rows.groupby("buffers_per_channel"):
    figure.add_scatter(
        x=part.sink_service_rate,
        y=part.rate,
        error_y={"array": part.deviation},
        name=f"{buffers} per channel",
    )
figure.update_layout(xaxis_title="the sink's speed (records/s)", yaxis_title="records/s")
show(figure, "rates")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Enough is where the sink is the limit
# MAGIC
# MAGIC With too few buffers the exchange in front of the sink limits, however fast the sink is: a credit
# MAGIC needs a round trip. The first speed at which that happens is what that many buffers can carry.

# COMMAND ----------

carried = spark.sql("""
    SELECT buffers_per_channel, min(sink_service_rate) AS not_faster_than
    FROM results
    WHERE bottleneck LIKE '%->%'
    GROUP BY 1
    ORDER BY 1
""")
show(carried, "carried")
