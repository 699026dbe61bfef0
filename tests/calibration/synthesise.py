"""Dumps of Flink's REST API made of emulated runs, in the shape and with the quirks of a real one.

A source's read-records is 0 and a sink's write-records too; bytes count when a buffer is taken to
be sent, so they trail by what is queued; times are whole milliseconds; a metric's value is text.
"""

import hashlib

from flowcontrol.analysis.frames import result_frame
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job

EPOCH_MS = 1_790_000_000_000
USAGES = {
    "in_pool_usage": "Shuffle.Netty.Input.Buffers.inPoolUsage",
    "out_pool_usage": "Shuffle.Netty.Output.Buffers.outPoolUsage",
    "floating_buffers_usage": "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage",
    "exclusive_buffers_usage": "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage",
}
TIMES = {
    "busy_ms_per_s": "accumulated-busy-time",
    "idle_ms_per_s": "accumulated-idle-time",
    "backpressured_ms_per_s": "accumulated-backpressured-time",
}


def identity(name):
    return hashlib.md5(name.encode()).hexdigest()


def dump_of(scenario, *, since_s=20.0, every_s=None, config=True):
    """Run a scenario and return a dump of its samples from ``since_s`` on; and the run."""
    run = run_job(job_for(parse_scenario(scenario), "virtual"))
    return dump_from(run, since_s=since_s, every_s=every_s, config=config), run


def dump_from(run, *, since_s=20.0, every_s=None, config=True):
    own = run.job.scenario
    job = identity(own.name)
    frame = result_frame(run.tables, "stages")
    for column in TIMES:
        grown = frame[column] * frame["interval_s"]
        frame[f"sum_{column}"] = grown.groupby([frame["stage"], frame["subtask"]]).cumsum()
    channels = result_frame(run.tables, "channels")
    waits = channels.groupby(["t_s", "edge"])[["in_flight_bytes"]].sum()
    moments = [at for at in sorted(frame["t_s"].unique()) if at >= since_s]
    if every_s is not None:
        step = max(1, round(every_s / (moments[1] - moments[0])))
        moments = moments[::step]
    rows = dict(list(frame.groupby("t_s")))
    polls = [_poll(own, job, at, rows[at], waits) for at in moments]
    _only_grow(polls)
    polls[0][f"/jobs/{job}/plan"] = {"plan": {"nodes": _nodes(own)}}
    polls[0]["/config"] = {"flink-version": "1.20.1"}
    if config:
        segment = own.options.segment_bytes
        polls[0]["/taskmanagers/tm-0"] = {
            "metrics": {
                "nettyShuffleMemorySegmentsTotal": 2048,
                "nettyShuffleMemoryTotal": 2048 * segment,
            }
        }
        polls[0]["/jobmanager/config"] = [
            {"key": key, "value": str(value)} for key, value in own.canonical()["options"].items()
        ]
    if "checkpoints" in run.tables:
        polls[-1][f"/jobs/{job}/checkpoints"] = {"history": _history(run, polls[0])}
    return {"polls": polls}


def _nodes(own):
    nodes = []
    for stage in own.stages:
        node = {"id": identity(stage.name), "parallelism": stage.parallelism}
        node["inputs"] = [
            {
                "num": k,
                "id": identity(edge.sender),
                "ship_strategy": edge.partitioner.upper(),
                "exchange": "pipelined_bounded",
            }
            for k, edge in enumerate(own.inputs(stage.name))
        ]
        nodes.append(node)
    return nodes


def _poll(own, job, at, rows, waits):
    now = EPOCH_MS + round(1000 * at)
    poll = {
        f"/jobs/{job}": {
            "jid": job,
            "name": own.name,
            "state": "RUNNING",
            "now": now,
            "vertices": [
                {
                    "id": identity(stage.name),
                    "name": f"Source: {stage.name}" if stage.is_source else stage.name,
                    "parallelism": stage.parallelism,
                    "maxParallelism": 128,
                    "metrics": {},
                }
                for stage in own.stages
            ],
        }
    }
    for stage in own.stages:
        place = f"/jobs/{job}/vertices/{identity(stage.name)}"
        mine = rows[rows["stage"] == stage.name].sort_values("subtask")
        outputs = [edge for edge in own.edges if edge.sender == stage.name]
        inputs = list(own.inputs(stage.name))
        subtasks = []
        for row in mine.to_dict("records"):
            subtask = int(row["subtask"])
            metrics = {
                "read-records": int(row["records_in"]) if inputs else 0,
                "write-records": int(row["records_out"]) if outputs else 0,
                **{name: round(row[f"sum_{column}"]) for column, name in TIMES.items()},
            }
            written = metrics["write-records"] * stage.record_bytes
            trail = sum(waits.loc[(at, edge.name), "in_flight_bytes"] for edge in outputs)
            metrics["write-bytes"] = max(0, round(written - trail / stage.parallelism / 2))
            size = own.stage(inputs[0].sender).record_bytes if inputs else 0
            metrics["read-bytes"] = metrics["read-records"] * size
            for key in ("read-records", "write-records", "read-bytes", "write-bytes"):
                metrics[f"{key}-complete"] = True
            subtasks.append(
                {
                    "subtask": subtask,
                    "status": "RUNNING",
                    "attempt": 0,
                    "start-time": EPOCH_MS,
                    "taskmanager-id": f"tm-{stage.placement[subtask]}",
                    "metrics": metrics,
                }
            )
            poll[f"{place}/subtasks/{subtask}/metrics?get=pools"] = [
                {"id": name, "value": str(row[column])} for column, name in USAGES.items()
            ]
        poll[place] = {"id": identity(stage.name), "now": now, "subtasks": subtasks}
    return poll


def _only_grow(polls):
    """Have bytes only grow: what is queued is known of a whole edge, and may grow by more."""
    most = {}
    for poll in polls:
        for place, body in poll.items():
            for one in body.get("subtasks", ()) if isinstance(body, dict) else ():
                key = place, one["subtask"]
                most[key] = max(most.get(key, 0), one["metrics"]["write-bytes"])
                one["metrics"]["write-bytes"] = most[key]


def _history(run, first):
    begun = min(
        body["now"] for path, body in first.items() if "vertices/" not in path and "now" in body
    )
    return [
        {
            "id": row["checkpoint_id"],
            "status": "COMPLETED",
            "trigger_timestamp": EPOCH_MS + round(1000 * row["triggered_s"]),
            "end_to_end_duration": round(row["e2e_ms"]),
        }
        for row in run.tables["checkpoints"].to_pylist()
        if row["status"] == "completed" and EPOCH_MS + 1000 * row["triggered_s"] >= begun
    ]
