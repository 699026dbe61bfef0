# Databricks notebook source
# MAGIC %md
# MAGIC # A slow consumer throttles its producer
# MAGIC
# MAGIC The classic backpressure experiment, step by step. A producer can emit 1,000 records/s; it runs at 60 % of
# MAGIC that until 40 s, then at 100 %. A consumer can process 120, 30, 120, 30 and 120 % of it, in phases of 20 s.
# MAGIC Only a channel with credits connects the two, as in Apache Flink.
# MAGIC
# MAGIC On a cluster install the package with the extra `report` first. As plain Python:
# MAGIC `./spark-submit.sh notebooks/01_experiment.py`.

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
# MAGIC ## The scenario
# MAGIC
# MAGIC The scenario of `conf/experiment.yaml`. `duration` shortens the run: emulated seconds. `out` is the folder of
# MAGIC the results.

# COMMAND ----------

duration_s = parameter("duration", "100")
out = Path(parameter("out", "out/experiment-notebook")).absolute()

experiment = yaml.safe_load("""\
schema: 1
name: experiment
duration_s: 100
round_ms: 100
sample_interval_s: 1
seed: 1
system: flink
cluster:
  task_managers: 2
  network_latency_ms: 300
options:
  taskmanager.memory.segment-size: 4kb
  taskmanager.network.memory.buffers-per-channel: 27
  taskmanager.network.memory.floating-buffers-per-gate: 10
  taskmanager.network.memory.max-buffers-per-channel: 50
  execution.buffer-timeout.interval: 100ms
stages:
  - name: producer
    emit_rate:
      - {at_s: 0, rate: 600}
      - {at_s: 40, rate: 1000}
    record_bytes: 200
  - name: consumer
    service_rate:
      - {at_s: 0, rate: 1200}
      - {at_s: 20, rate: 300}
      - {at_s: 40, rate: 1200}
      - {at_s: 60, rate: 300}
      - {at_s: 80, rate: 1200}
edges:
  - {from: producer, to: consumer, partitioner: rebalance}
""")
changes = {"duration_s": float(duration_s)}
for stage in experiment["stages"]:
    print(f"{stage['name']}: {stage.get('parallelism', 1)} subtask(s)")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The run
# MAGIC
# MAGIC Two Structured Streaming queries, with three rounds of 100 emulated milliseconds in each micro-batch. The run
# MAGIC takes as long as Spark needs; the results are in emulated time and do not depend on that. A result displays
# MAGIC itself: stages, bottleneck, tables, page. `result.summary` has its figures. The run uses the running session;
# MAGIC as plain Python, it starts one.

# COMMAND ----------

result = flowcontrol.emulate(experiment, overrides=changes, out=out, overwrite=True)
show(result, "run")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Rates
# MAGIC
# MAGIC The results are Delta tables; `result.to_pandas("stages")` has one as a data frame. Averages over 5 s,
# MAGIC as the experiment is usually drawn: the producer follows the consumer within one interval after each
# MAGIC change.

# COMMAND ----------

spark = SparkSession.active()
for name in ("stages", "channels", "latency"):
    spark.read.format("delta").load(str(out / name)).createOrReplaceTempView(name)

rates = spark.sql("""
    SELECT ceil(t_s / 5) * 5 AS until_s,
           avg(CASE WHEN stage = 'producer' THEN rate_out END) AS produced,
           avg(CASE WHEN stage = 'consumer' THEN rate_in END) AS consumed
    FROM stages
    GROUP BY 1
    ORDER BY 1
""")
show(rates, "rates")

# COMMAND ----------

import plotly.graph_objects as go

points = rates.toPandas()
figure = go.Figure()
for column in ("produced", "consumed"):
    figure.add_scatter(x=points.until_s, y=points[column], name=column, line_shape="vh")
figure.update_layout(xaxis_title="emulated time (s)", yaxis_title="records/s")
show(figure, "rates")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Credit and backlog
# MAGIC
# MAGIC Credit is what the producer may still send, backlog what it has ready. While the consumer is slow
# MAGIC credit stays at 0: the consumer has no free buffer, and that holds the producer back.

# COMMAND ----------

credit = spark.sql("SELECT t_s, credit, backlog, floating_held FROM channels ORDER BY t_s")
points = credit.toPandas()
figure = go.Figure()
for column in ("credit", "backlog", "floating_held"):
    figure.add_scatter(x=points.t_s, y=points[column], name=column)
figure.update_layout(xaxis_title="emulated time (s)", yaxis_title="buffers")
show(figure, "credit")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The ledger
# MAGIC
# MAGIC The ledger of the link has each side's counters, one row per channel and micro-batch. Counters only grow, and
# MAGIC every promise of the flow control can be checked on them.

# COMMAND ----------

ledger = out / "links" / "producer-consumer" / "ledger"
spark.read.format("delta").load(str(ledger)).createOrReplaceTempView("ledger")
rounds = spark.sql("""
    SELECT s.batch_id, s.released, s.sent, s.credit, s.backlog, r.announced, r.consumed,
           s.released - r.consumed AS in_flight_buffers
    FROM ledger s
    JOIN ledger r USING (batch_id, sender, receiver)
    WHERE s.side = 'sender' AND r.side = 'receiver'
    ORDER BY batch_id
""")
show(rounds.orderBy("in_flight_buffers", ascending=False).limit(5), "fullest")
