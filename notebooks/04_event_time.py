# Databricks notebook source
# MAGIC %md
# MAGIC # Event time: when does a window answer?
# MAGIC
# MAGIC A job that counts by event time answers when its watermark has passed the end of a window. This notebook shows
# MAGIC how a slow sink delays that moment, and compares Flink's and Spark's rules on the same rows.
# MAGIC
# MAGIC Everything runs on the virtual clock or on the rules themselves, in seconds and without Spark. On a cluster
# MAGIC install the package with the extras `report` and `virtual` first. As plain Python:
# MAGIC `python notebooks/04_event_time.py`.

# COMMAND ----------

import os
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import yaml

import flowcontrol
from flowcontrol.spec import SparkAggregation, WatermarkGenerator, WindowOperator

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
    """Display a table or a plot; outside Databricks print it, or write the plot."""
    if ON_DATABRICKS:
        display(shown)
    elif hasattr(shown, "write_html"):
        shown.write_html(out / f"{name}.html")
    else:
        print(shown.to_string())


# COMMAND ----------

# MAGIC %md
# MAGIC ## A slow sink
# MAGIC
# MAGIC The job of `conf/watermark-lag.yaml` counts 600 orders/s in windows of 5 s and gives 100 results/s.
# MAGIC `slow_rate` is the rate of the sink from 30 to 60 s, `out` the folder of the results.

# COMMAND ----------

slow_rate = float(parameter("slow_rate", "50"))
out = Path(parameter("out", "out/event-time-notebook")).absolute()
out.mkdir(parents=True, exist_ok=True)

scenario = yaml.safe_load("""\
schema: 1
name: watermark-lag
duration_s: 90
round_ms: 50
sample_interval_s: 1
cluster:
  task_managers: 2
options:
  taskmanager.memory.segment-size: 8kb
  execution.buffer-timeout.interval: 50ms
stages:
  - name: orders
    total_arrival_rate: 600
    total_rate: 1500
    record_bytes: 200
    event_time: {out_of_orderness_s: 2}
    watermark: {delay_s: 2}
    placement: [0]
  - name: count
    total_rate: 3000
    window: {kind: tumbling, size_s: 5}
    placement: [1]
  - name: sink
    total_rate:
      - {at_s: 0, rate: 2000}
      - {at_s: 30, rate: 50}
      - {at_s: 60, rate: 2000}
    placement: [0]
edges:
  - {from: orders, to: count, partitioner: hash, key_distribution: {kind: uniform, keys: 500}}
  - {from: count, to: sink, partitioner: forward}
""")
runs = {
    rate: flowcontrol.emulate(
        scenario,
        clock="virtual",
        overrides={"stages.sink.total_rate.1.rate": rate},
        out=out / f"sink-{rate:g}",
        overwrite=True,
        quiet=True,
    )
    for rate in (2000, 2 * slow_rate, slow_rate)
}


def figures(run):
    """Return what event time costs in a run."""
    own = run.summary["event_time"]["stages"]
    results = run.tables["output/count"].to_pandas()
    return {
        "lag_at_sink_s": own["sink"]["lag"]["max_ms"] / 1000,
        "lag_at_count_s": own["count"]["lag"]["max_ms"] / 1000,
        "windows_at_most": own["count"]["max_open_windows"],
        "last_result_s": (results.emitted_s - results.window_end).max(),
        "results": len(results),
        "records_counted": results.n.sum(),
        "late_records": own["count"]["late_records"],
    }


lags = pd.DataFrame([figures(run) for run in runs.values()], [f"{rate:g}/s" for rate in runs])
show(lags.round(2), "lags")

# COMMAND ----------

# MAGIC %md
# MAGIC All runs count the same: a record waits in the same queues as the watermark, so backpressure makes no record
# MAGIC late. It delays the answers. The page of each run takes the lag apart, hop by hop:

# COMMAND ----------

print(runs[slow_rate].summary["event_time"]["sentences"][0])

time = runs[slow_rate].tables["time"].to_pandas()
figure = go.Figure(
    [
        go.Scatter(x=part.t_s, y=part.watermark_lag_ms / 1000, name=stage)
        for stage, part in time.groupby("stage", sort=False)
    ]
)
figure.update_layout(xaxis_title="emulated time (s)", yaxis_title="watermark lag (s)")
show(figure, "lag")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The same rows, by Flink's and by Spark's rules
# MAGIC
# MAGIC Windows of 10 s, a delay of 3 s, eleven rows in five batches. Three rows are out of order, and one of them is
# MAGIC too late by any rule. Flink looks for a new watermark after each row here (a probe), Spark computes one at the
# MAGIC end of a batch and uses it from the next batch on.

# COMMAND ----------

SECOND = 1000
DELAY, SIZE = 3 * SECOND, 10 * SECOND
BATCHES = [[1, 4, 8], [9, 12, 7], [14, 6], [21], [24, 5]]
"""Event times of the rows, s, in the order in which they come."""


def by_flink(batches, lateness=0):
    """Return (batch, window, rows, is it an answer again) of each result, and the rows dropped."""
    marks = WatermarkGenerator(out_of_orderness=DELAY)
    operator = WindowOperator(("tumbling", SIZE, 0), lateness=lateness, aggregate="count")
    found, seen = [], set()
    for batch, times in enumerate(batches):
        for at in times:
            results = operator.element(0, "all", 1, at * SECOND)
            marks.event(0, at * SECOND)
            mark = marks.probe(0)
            results += operator.watermark(mark) if isinstance(mark, int) else []
            for _, count, start, _, _ in results:
                found.append((batch, start // SECOND, count, start in seen))
                seen.add(start)
    return found, operator.dropped


def by_spark(batches, mode="append"):
    """Return the same of Spark; a batch without data follows at the end."""
    query = SparkAggregation(DELAY, ("tumbling", SIZE), mode=mode)
    found, seen = [], set()
    for batch, times in enumerate([*batches, []]):
        for group in query.batch([at * SECOND for at in times]):
            found.append((batch, group.start // SECOND, group.rows, group.start in seen))
            seen.add(group.start)
    return found, query.dropped


WAYS = {
    "Flink": by_flink(BATCHES),
    "Flink, lateness 5 s": by_flink(BATCHES, lateness=5 * SECOND),
    "Spark, append": by_spark(BATCHES),
    "Spark, update": by_spark(BATCHES, "update"),
    "Spark, complete": by_spark(BATCHES, "complete"),
}
answers = pd.DataFrame(
    [
        {"by": way, "batch": batch, "window": f"{start} to {start + 10} s", "rows": rows}
        for way, (found, _) in WAYS.items()
        for batch, start, rows, _ in found
    ]
)
side_by_side = answers.pivot_table(
    index=["window", "by"], columns="batch", values="rows", aggfunc=list, sort=False
)
side_by_side = side_by_side.reindex(columns=range(len(BATCHES) + 1))
show(side_by_side.map(lambda cell: cell if isinstance(cell, list) else ""), "answers")
dropped = {way: lost for way, (_, lost) in WAYS.items()}
print("dropped:", dropped)

# COMMAND ----------

# MAGIC %md
# MAGIC What it shows:
# MAGIC
# MAGIC - Flink answers as soon as a row has moved the watermark past the end of a window, between two rows. Spark
# MAGIC   answers in the batch *after* the one whose rows moved it.
# MAGIC - The row of 6 s arrives when Flink's watermark has passed 10 s: it is dropped, or with an allowed lateness of
# MAGIC   5 s it makes the window answer again. For Spark it is in time, because the watermark of the previous batch
# MAGIC   decides.
# MAGIC - The row of 5 s is too late in every mode except complete, which drops nothing.
# MAGIC - Append answers once and never corrects. Update emits the changes of each batch. Complete emits and keeps
# MAGIC   everything.

# COMMAND ----------

# MAGIC %md
# MAGIC ## The same job under both
# MAGIC
# MAGIC 1,000 records/s that are 2 s late in the mean, without a bound, counted in windows of 5 s with a delay of 4 s.
# MAGIC Under Flink's rules, under Spark's in batches of 2 s, and under Spark's with the micro-batches and the rate
# MAGIC control of `structured-streaming`.

# COMMAND ----------

JOB = {
    "schema": 1,
    "name": "both",
    "duration_s": 60,
    "round_ms": 50,
    "sample_interval_s": 1,
    "stages": [
        {
            "name": "source",
            "parallelism": 2,
            "emit_rate": 500,
            "record_bytes": 200,
            "event_time": {"out_of_orderness_s": 2, "distribution": "exponential"},
            "watermark": {"delay_s": 4},
        },
        {
            "name": "count",
            "parallelism": 2,
            "service_rate": 2000,
            "window": {"kind": "tumbling", "size_s": 5},
        },
        {"name": "sink", "service_rate": 400},
    ],
    "edges": [
        {
            "from": "source",
            "to": "count",
            "partitioner": "hash",
            "key_distribution": {"kind": "zipf", "keys": 50},
        },
        {"from": "count", "to": "sink", "partitioner": "rebalance"},
    ],
}
RULES = {
    "flink": {},
    "spark": {"time_model": "spark", "batch_s": 2},
    "structured-streaming": {"time_model": "spark", "system": "structured-streaming"},
}

found = {}
for rules, changes in RULES.items():
    run = flowcontrol.emulate(
        JOB | changes, clock="virtual", out=out / rules, overwrite=True, quiet=True
    )
    results = run.tables["output/count"].to_pandas()
    whole = results[(results.window_start >= 10) & (results.window_end <= 50)]
    waits = whole.emitted_s - whole.window_end
    found[rules] = {
        "results": len(results),
        "first_after_s": waits.min(),
        "last_after_s": waits.max(),
        "records_of_10_to_15_s": results[results.window_start == 10].n.sum(),
        "too_late": run.summary["event_time"]["stages"]["count"]["late_records"],
    }
both = pd.DataFrame(found).T
show(both.round(2), "both")

# COMMAND ----------

# MAGIC %md
# MAGIC Spark answers later, by the rest of a batch and the next one. So it has fewer late records: those that arrive
# MAGIC meanwhile still count. It counts late groups of a batch, key by key, not late records.
