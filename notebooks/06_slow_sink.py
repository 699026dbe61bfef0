# Databricks notebook source
# MAGIC %md
# MAGIC # My sink is slow: which knob?
# MAGIC
# MAGIC A sink that writes to a service has batches, requests in flight, retries and commits. This notebook turns these
# MAGIC knobs one by one on two jobs, and measures what each is worth: a table of DynamoDB that throttles its writers,
# MAGIC and an Iceberg table whose commits take time.
# MAGIC
# MAGIC Everything runs on the virtual clock, in seconds and without Spark. On a cluster install the package with the
# MAGIC extras `report` and `virtual` first. As plain Python: `python notebooks/06_slow_sink.py`.

# COMMAND ----------

import os
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import yaml

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
    """Display a table or a plot; outside Databricks print it, or write the plot."""
    if ON_DATABRICKS:
        display(shown)
    elif hasattr(shown, "write_html"):
        shown.write_html(out / f"{name}.html")
    else:
        print(shown.to_string())


# COMMAND ----------

# MAGIC %md
# MAGIC ## A destination that throttles
# MAGIC
# MAGIC The job of `conf/dynamodb-throttled.yaml`: from 20 s on the source emits 3,000 records/s, and the table takes
# MAGIC `capacity` records/s. What is above that fails, and the sink sends it again. `out` is the folder of the results.

# COMMAND ----------

capacity = float(parameter("capacity", "2000"))
out = Path(parameter("out", "out/slow-sink-notebook")).absolute()
out.mkdir(parents=True, exist_ok=True)

throttled = yaml.safe_load("""\
schema: 1
name: dynamodb-throttled
duration_s: 60
sample_interval_s: 1

stages:
  - name: orders
    emit_rate: [{at_s: 0, rate: 1000}, {at_s: 20, rate: 3000}]
    record_bytes: 1000
  - name: sink
    requests:
      like: dynamodb
      latency_ms: 20
      limit: {records_per_s: 2000}

edges:
  - {from: orders, to: sink}
""")
KEY = "stages.sink.requests"
KNOBS = {
    "as the connector has it": {},
    "2 requests in flight": {f"{KEY}.in_flight": 2},
    "1 request in flight": {f"{KEY}.in_flight": 1},
    "no rate limiting": {f"{KEY}.rate_limiting": "none"},
    "a token bucket": {f"{KEY}.rate_limiting": {"records_per_s": capacity}},
}


def run(scenario, name, overrides):
    """Run a scenario with some keys changed."""
    return flowcontrol.emulate(
        scenario, clock="virtual", overrides=overrides, out=out / name, overwrite=True, quiet=True
    )


runs = {
    knob: run(throttled, f"throttled-{number}", {f"{KEY}.limit.records_per_s": capacity, **keys})
    for number, (knob, keys) in enumerate(KNOBS.items())
}

# COMMAND ----------

# MAGIC %md
# MAGIC The throughput hardly differs: the destination decides it. The knobs decide how much is sent in vain, and how long
# MAGIC a record takes until the destination acknowledges it. One request in flight is too few: 25 records each 20 ms.

# COMMAND ----------


def figures(found):
    """Return what a knob is worth in the last 30 s, when the source emits more than is taken."""
    rows = found.tables["requests"].to_pandas()
    rows = rows[rows.t_s >= 30].set_index(["stage", "subtask"])
    grown = rows.iloc[-1] - rows.iloc[0]
    own = found.summary["requests"]["stages"]["sink"]
    return {
        "acknowledged_per_s": grown.records_acknowledged / grown.t_s,
        "sent_in_vain": grown.records_retried / grown.records_sent,
        "in_flight": rows.in_flight.mean(),
        "batch": grown.records_sent / grown.requests,
        "latency_p50_ms": own["acknowledged"]["p50_ms"],
        "limit": own["limit"],
    }


knobs = pd.DataFrame([figures(found) for found in runs.values()], list(runs))
show(knobs.round(2), "knobs")

# COMMAND ----------

# MAGIC %md
# MAGIC Congestion control finds the capacity by exceeding it: the window of records in flight grows by 10 records with
# MAGIC each request without failures, and is halved by each other one. A token bucket knows the capacity.

# COMMAND ----------

rows = runs["as the connector has it"].tables["requests"].to_pandas()
figure = go.Figure(
    [
        go.Scatter(x=rows.t_s, y=rows.window, name="window"),
        go.Scatter(x=rows.t_s, y=rows.buffered_records, name="buffered"),
    ]
)
figure.update_layout(xaxis_title="emulated time (s)", yaxis_title="records", yaxis_type="log")
show(figure, "window")
for sentence in runs["as the connector has it"].summary["requests"]["sentences"]:
    print(sentence)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Commits that take time
# MAGIC
# MAGIC The job of `conf/iceberg-commits.yaml`: one committer adds eight files to the table for each checkpoint, which
# MAGIC takes 1.6 s. A short interval shows rows sooner and leaves more small files; below the time of a commit, commits
# MAGIC pile up.

# COMMAND ----------

commits = yaml.safe_load("""\
schema: 1
name: iceberg-commits
duration_s: 120
sample_interval_s: 1

options:
  execution.checkpointing.interval: 5s

stages:
  - name: events
    arrival_rate: 2000
    emit_rate: 5000
    record_bytes: 200
  - name: sink
    parallelism: 2
    service_rate: 1500
    guarantee: exactly-once
    commit: {fixed_ms: 800, per_file_ms: 100, files: 4, shared: true}

edges:
  - {from: events, to: sink, partitioner: rebalance}
""")
INTERVAL = "options.execution.checkpointing.interval"
intervals = {
    seconds: run(commits, f"interval-{seconds}", {INTERVAL: f"{seconds}s"})
    for seconds in (1, 2, 5, 20)
}


def costs(found):
    """Return what an interval costs, and what it gives to readers."""
    own = found.summary["commits"]["stages"]["sink"]
    readers = found.summary["delivery"]["sinks"]["sink"]
    return {
        "files_per_h": own["files_per_h"],
        "committing": own["share"],
        "visible_after_p50_s": readers["visibility_p50_ms"] / 1000,
        "visible_after_max_s": readers["visibility_max_ms"] / 1000,
    }


choices = pd.DataFrame([costs(found) for found in intervals.values()], list(intervals))
choices.index.name = "interval_s"
show(choices.round(2), "intervals")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What would you change?
# MAGIC
# MAGIC `flowcontrol.advise` tries such changes by itself, alone and in pairs, and lists those that help. The how-to
# MAGIC "My sink is slow: which knob?" has a command for each question.
