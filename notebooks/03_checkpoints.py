# Databricks notebook source
# MAGIC %md
# MAGIC # Checkpoints behind a slow sink
# MAGIC
# MAGIC A checkpoint of Flink begins with a barrier at each source. The barrier follows the records through the job,
# MAGIC so backpressure delays it. This notebook checkpoints one job in four ways and compares the figures; then a
# MAGIC part of the job fails and recovers.
# MAGIC
# MAGIC Everything runs on the virtual clock, in seconds and without Spark. On a cluster install the package with the
# MAGIC extras `report` and `virtual` first. As plain Python: `python notebooks/03_checkpoints.py`.

# COMMAND ----------

import os
from pathlib import Path

import pandas as pd
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
# MAGIC ## The job
# MAGIC
# MAGIC The job of `conf/checkpoint-aligned.yaml`: the source could emit 800 records/s, two sinks process 200/s
# MAGIC together, and a checkpoint is triggered every 8 s. `sink_rate` changes the rate of the sinks, `out` is the
# MAGIC folder of the results.

# COMMAND ----------

sink_rate = float(parameter("sink_rate", "200"))
out = Path(parameter("out", "out/checkpoints-notebook")).absolute()
out.mkdir(parents=True, exist_ok=True)

scenario = yaml.safe_load("""\
schema: 1
name: checkpoint-aligned
duration_s: 40
round_ms: 100
sample_interval_s: 1
cluster:
  task_managers: 2
options:
  taskmanager.memory.segment-size: 4kb
  execution.buffer-timeout.interval: 100ms
  execution.checkpointing.interval: 8s
stages:
  - name: source
    total_rate: 800
    record_bytes: 200
    placement: [0]
  - name: map
    parallelism: 2
    total_rate: 1000
    placement: [0, 1]
  - name: sink
    parallelism: 2
    total_rate: 200
    placement: [0, 1]
edges:
  - {from: source, to: map, partitioner: rebalance}
  - {from: map, to: sink, partitioner: rebalance}
""")

OPTIONS = "options.execution.checkpointing."
UNALIGNED = {f"{OPTIONS}unaligned.enabled": True}
WAYS = {
    "aligned": {},
    "debloating": {"options.taskmanager.network.memory.buffer-debloat.enabled": True},
    "aligned for 2 s": UNALIGNED | {f"{OPTIONS}aligned-checkpoint-timeout": "2s"},
    "unaligned": UNALIGNED,
}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Four ways, side by side
# MAGIC
# MAGIC `e2e_s` is the time from the trigger to the last acknowledgement, `persisted_kib` the size of the data that
# MAGIC barriers overtook. Each run has a page, `report.html` in its folder.

# COMMAND ----------

runs = {
    way: flowcontrol.emulate(
        scenario,
        clock="virtual",
        overrides={"stages.sink.total_rate": sink_rate} | changes,
        out=out / way.replace(" ", "-"),
        overwrite=True,
    )
    for way, changes in WAYS.items()
}


def figures(run):
    """Return the figures of a run's checkpoints."""
    found = run.summary["checkpoints"]
    return {
        "completed": found["counts"]["completed"],
        "e2e_s": found["e2e"]["p50_ms"] / 1000 if found["e2e"] else None,
        "persisted_kib": found["persisted_bytes"] / 1024,
        "sinks": run.summary["stages"]["sink"]["whole"]["rate_in"],
    }


ways = pd.DataFrame({way: figures(run) for way, run in runs.items()}).T
show(ways.round(2), "ways")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Why: what a subtask's part consists of
# MAGIC
# MAGIC The last checkpoint of each run. *Start delay*: until the first barrier arrived, behind the data in flight.
# MAGIC *Alignment*: from the first barrier to the last one. The aligned one is all start delay.

# COMMAND ----------

import plotly.graph_objects as go

PARTS = {"start_delay_ms": "start delay", "alignment_ms": "alignment", "async_ms": "asynchronous"}

rows = []
for way, run in runs.items():
    tasks = run.tables["checkpoint_tasks"].to_pandas()
    last = tasks[tasks.checkpoint_id == tasks.checkpoint_id.max()]
    rows += [{"way": way, **row} for row in last.to_dict("records")]
parts = pd.DataFrame(rows)
parts["who"] = parts.way + ", " + parts.stage + " " + parts.subtask.astype(str)

figure = go.Figure(
    [
        go.Bar(x=parts[column], y=parts.who, orientation="h", name=name, marker_color=colour)
        for (column, name), colour in zip(
            PARTS.items(), ("#56b4e9", "#d55e00", "#009e73"), strict=True
        )
    ]
)
figure.update_layout(barmode="stack", xaxis_title="time since the trigger (ms)", height=600)
figure.update_yaxes(autorange="reversed")
show(figure, "parts")

# COMMAND ----------

# MAGIC %md
# MAGIC ## When the time is not enough
# MAGIC
# MAGIC The same job with a timeout of 3 s. The sentences say which task was late and what helps, found by running it.

# COMMAND ----------

fails = yaml.safe_load("""\
schema: 1
name: checkpoint-fails
duration_s: 40
round_ms: 100
sample_interval_s: 1
cluster:
  task_managers: 2
options:
  taskmanager.memory.segment-size: 4kb
  execution.buffer-timeout.interval: 100ms
  execution.checkpointing.interval: 8s
  execution.checkpointing.timeout: 3s
  execution.checkpointing.tolerable-failed-checkpoints: 4
stages:
  - name: source
    total_rate: 800
    record_bytes: 200
    placement: [0]
  - name: map
    parallelism: 2
    total_rate: 1000
    placement: [0, 1]
  - name: sink
    parallelism: 2
    total_rate: 200
    placement: [0, 1]
edges:
  - {from: source, to: map, partitioner: rebalance}
  - {from: map, to: sink, partitioner: rebalance}
""")

late = flowcontrol.emulate(
    fails,
    clock="virtual",
    overrides={"stages.sink.total_rate": sink_rate},
    out=out / "late",
    overwrite=True,
)
for sentence in late.summary["checkpoints"]["sentences"]:
    print(sentence)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A failure, and its recovery
# MAGIC
# MAGIC `conf/recovery.yaml`: a log receives 300 records/s, the job can process 500/s, and at 34 s a subtask throws an
# MAGIC exception. All tasks restart from the last checkpoint. Records emitted since then are processed again, and new
# MAGIC ones wait. The job works off both with its spare 200/s.

# COMMAND ----------

recovery = yaml.safe_load("""\
schema: 1
name: recovery
duration_s: 60
round_ms: 10
sample_interval_s: 1
cluster:
  task_managers: 2
options:
  taskmanager.memory.segment-size: 4kb
  execution.buffer-timeout.interval: 10ms
  execution.checkpointing.interval: 10s
  restart-strategy.type: fixed-delay
  restart-strategy.fixed-delay.attempts: 3
  restart-strategy.fixed-delay.delay: 2s
failures:
  - {at_s: 34, stage: map, subtask: 0}
stages:
  - name: source
    parallelism: 2
    arrival_rate: 150
    emit_rate: 500
    record_bytes: 200
    placement: [0, 1]
  - name: map
    parallelism: 2
    service_rate: 250
    record_bytes: 200
    placement: [0, 1]
  - name: sink
    placement: [1]
edges:
  - {from: source, to: map, partitioner: rebalance}
  - {from: map, to: sink, partitioner: rebalance}
""")

failed = flowcontrol.emulate(recovery, clock="virtual", out=out / "failed", overwrite=True)
for sentence in failed.summary["restarts"]["sentences"]:
    print(sentence)
restarts = failed.tables["restarts"].to_pandas()
show(restarts, "restarts")

# COMMAND ----------

stages = failed.tables["stages"].to_pandas()
sums = stages.groupby(["stage", "t_s"]).agg(
    rate_in=("rate_in", "sum"), rate_out=("rate_out", "sum"), lag=("lag_records", "sum")
)
source, sink = sums.loc["source"], sums.loc["sink"]
figure = go.Figure(
    [
        go.Scatter(x=source.index, y=source.rate_out, name="source emits", line_shape="vh"),
        go.Scatter(x=sink.index, y=sink.rate_in, name="sink takes up", line_shape="vh"),
    ]
)
for row in restarts.itertuples():
    figure.add_vrect(x0=row.failed_s, x1=row.running_s, fillcolor="grey", opacity=0.25)
figure.update_layout(xaxis_title="emulated time (s)", yaxis_title="records/s")
show(figure, "recovery")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The older the checkpoint, the more it costs
# MAGIC
# MAGIC The failure at other times after the checkpoint of 30 s.

# COMMAND ----------

found = {}
for at_s in (31, 34, 37):
    run = flowcontrol.emulate(
        recovery,
        clock="virtual",
        overrides={"failures.0.at_s": at_s},
        out=out / f"failed-{at_s}",
        overwrite=True,
        quiet=True,
    )
    (one,) = run.summary["restarts"]["failures"]
    found[at_s] = {
        key: one[key] for key in ("records_reprocessed", "catch_up_s", "expected_catch_up_s")
    }
ages = pd.DataFrame(found).T
show(ages, "ages")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What the readers of the sink see
# MAGIC
# MAGIC `conf/two-phase-commit.yaml`: the same kind of failure, with a sink that commits with checkpoints. The run
# MAGIC also tries the two other guarantees. At-least-once shows rows at once, and some twice. At-most-once loses rows
# MAGIC in flight. Exactly-once does neither, but readers wait for the checkpoint.

# COMMAND ----------

two_phase = yaml.safe_load("""\
schema: 1
name: two-phase-commit
duration_s: 60
round_ms: 10
sample_interval_s: 0.5
cluster:
  task_managers: 2
options:
  taskmanager.memory.segment-size: 4kb
  execution.buffer-timeout.interval: 10ms
  execution.checkpointing.interval: 10s
  restart-strategy.type: fixed-delay
  restart-strategy.fixed-delay.attempts: 3
  restart-strategy.fixed-delay.delay: 2s
failures:
  - {at_s: 34, stage: map, subtask: 0}
stages:
  - name: source
    parallelism: 2
    arrival_rate: 150
    emit_rate: 500
    record_bytes: 200
    placement: [0, 1]
  - name: map
    parallelism: 2
    service_rate: 250
    record_bytes: 200
    placement: [0, 1]
  - name: sink
    guarantee: exactly-once
    placement: [1]
edges:
  - {from: source, to: map, partitioner: rebalance}
  - {from: map, to: sink, partitioner: rebalance}
""")

committed = flowcontrol.emulate(two_phase, clock="virtual", out=out / "committed", overwrite=True)
guarantees = committed.summary["delivery"]["guarantees"]
seen = pd.DataFrame(guarantees).set_index("guarantee").drop(columns="samples")
show(seen, "seen")

# COMMAND ----------

figure = go.Figure(
    [
        go.Scatter(
            x=[t_s for t_s, *_ in one["samples"]],
            y=[visible for _, visible, *_ in one["samples"]],
            name=one["guarantee"],
            line_shape="hv",
        )
        for one in guarantees
    ]
)
figure.update_layout(xaxis_title="emulated time (s)", yaxis_title="rows that readers see")
show(figure, "guarantees")
