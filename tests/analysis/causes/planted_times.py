"""Jobs with stalls, exchanges, checkpoints, sources and throttles that limit."""

from __future__ import annotations

import random
from typing import Any

from modules import load

BUILD = load("tests/analysis/causes/planting.py")
Job = Any
WHICHEVER = BUILD.WHICHEVER
chain = BUILD.chain
checkpointed = BUILD.checkpointed
edge = BUILD.edge
far = BUILD.far
offered = BUILD.offered
pauses = BUILD.pauses
planted = BUILD.planted
quick = BUILD.quick
scenario = BUILD.scenario
slow = BUILD.slow
source = BUILD.source
stage = BUILD.stage
weights = BUILD.weights


# ---- stalls


@planted
def sink_that_hangs(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r),
        stage("map", r * quick(rng), 2),
        stage("sink", r * rng.uniform(1.3, 1.6), 2, stalls=pauses(rng)),
    ]
    return scenario(stages, chain("source", "map", "sink")), {("stall", "sink", None)}, {"sink"}


@planted
def garbage_collections_of_a_task_manager(rng: random.Random) -> Job:
    r, stalls = offered(rng), pauses(rng)
    stages = [
        source(r, placement=[0]),
        stage("map", r * quick(rng), 1, stalls=stalls, placement=[1]),
        stage("sink", r * rng.uniform(1.3, 1.6), 1, stalls=stalls, placement=[1]),
    ]
    made = scenario(stages, chain("source", "map", "sink"))
    return made, {("stall", WHICHEVER, None)}, {"map", "sink"}


@planted
def garbage_collections_of_one_of_three_task_managers(rng: random.Random) -> Job:
    r = offered(rng)
    stalls = pauses(rng, subtasks=[1])
    stages = [
        source(r, placement=[0]),
        stage("map", r * quick(rng), 3, stalls=stalls, placement=[0, 1, 2]),
        stage("sink", r * rng.uniform(1.4, 1.8), 3, stalls=stalls, placement=[0, 1, 2]),
    ]
    made = scenario(stages, chain("source", "map", "sink"), cluster={"task_managers": 3})
    return made, {("stall", WHICHEVER, 1)}, {"map", "sink"}


@planted
def one_subtask_that_hangs(rng: random.Random) -> Job:
    r, which = offered(rng), rng.randrange(3)
    stages = [
        source(r),
        stage("map", r * quick(rng), 2),
        stage("sink", r * 1.5, 3, stalls=pauses(rng, subtasks=[which])),
    ]
    made = scenario(stages, chain("source", "map", "sink"))
    return made, {("stall", "sink", which)}, {"sink"}


@planted
def stalls_of_a_keyed_stage_with_checkpoints(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r),
        stage("count", r * 1.5, 2, stalls=pauses(rng), state={"bytes": "1mb"}),
        stage("sink", r * quick(rng)),
    ]
    edges = [edge("source", "count", "hash", channel_weights=[1, 1]), edge("count", "sink")]
    made = scenario(stages, edges, options=checkpointed("aligned", 2000))
    return made, {("stall", "count", None)}, {"count"}


# ---- exchanges


@planted
def narrow_connection(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r, record_bytes=200, placement=[0]),
        stage("map", r * quick(rng), placement=[1]),
        stage("sink", r * quick(rng), placement=[1]),
    ]
    cluster = {"task_managers": 2, "bandwidth_bytes_per_s": round(200 * r * slow(rng))}
    made = scenario(stages, chain("source", "map", "sink"), cluster=cluster)
    return made, {("network", "map", None)}, {"source->map"}


@planted
def narrow_connections_of_a_fan_in(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r, "left", placement=[0]),
        source(r, "right", placement=[0]),
        stage("join", 2 * r * quick(rng), 2, placement=[1, 1]),
        stage("sink", None, placement=[1]),
    ]
    cluster = {"task_managers": 2, "bandwidth_bytes_per_s": round(2 * 100 * r * slow(rng))}
    edges = [edge("left", "join"), edge("right", "join"), edge("join", "sink")]
    made = scenario(stages, edges, cluster=cluster)
    return made, {("network", "join", None)}, {"left->join", "right->join"}


@planted
def far_data_centre(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r, placement=[0]),
        stage("map", r * quick(rng), placement=[1]),
        stage("sink", r * quick(rng), placement=[1]),
    ]
    cluster = {"task_managers": 2, "network_latency_ms": far(rng, r, 100, 10)}
    made = scenario(stages, chain("source", "map", "sink"), cluster=cluster)
    return made, {("network", "map", None)}, {"source->map"}


@planted
def far_sinks(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r, placement=[0]),
        stage("map", r * quick(rng), placement=[0]),
        stage("sink", r * quick(rng), 2, placement=[1, 2]),
    ]
    cluster = {"task_managers": 3, "network_latency_ms": far(rng, r / 2, 100, 10)}
    made = scenario(stages, chain("source", "map", "sink"), cluster=cluster)
    return made, {("network", "sink", None)}, {"map->sink"}


FEW = {
    "taskmanager.network.memory.buffers-per-channel": 1,
    "taskmanager.network.memory.floating-buffers-per-gate": 1,
}


@planted
def one_buffer_a_channel(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r, record_bytes=1000), stage("sink", r * quick(rng))]
    cluster = {"task_managers": 2, "network_latency_ms": far(rng, r, 1000, 2)}
    made = scenario(stages, chain("source", "sink"), options=FEW, cluster=cluster)
    return made, {("buffers", "sink", None)}, {"source->sink"}


@planted
def no_floating_buffers_for_a_hot_channel(rng: random.Random) -> Job:
    r, hot = offered(rng), rng.randrange(4)
    stages = [
        *(source(r, record_bytes=1000, placement=[0]), stage("map", None, placement=[0])),
        stage("sink", 4 * r * quick(rng), 4, placement=[1] * 4),
    ]
    shares = weights(rng, 4, hot, 0.85)
    edges = [edge("source", "map"), edge("map", "sink", "custom", channel_weights=shares)]
    cluster = {"task_managers": 2, "network_latency_ms": far(rng, 0.85 * r, 1000, 2)}
    made = scenario(stages, edges, options=FEW, cluster=cluster)
    return made, {("buffers", "sink", None)}, {"map->sink"}


@planted
def slow_disk(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r, record_bytes=1000),
        *(stage("map", r * quick(rng), 2), stage("sink", r * quick(rng))),
    ]
    edges = [edge("source", "map", partition_type="hybrid_full"), edge("map", "sink")]
    cluster = {"task_managers": 2, "disk_bytes_per_s": round(1000 * r * slow(rng) * 0.8)}
    options = {"taskmanager.network.numberOfBuffers": 400}
    made = scenario(stages, edges, cluster=cluster, options=options)
    return made, {("disk", "map", None)}, {"source->map"}


@planted
def slow_disk_of_a_sort(rng: random.Random) -> Job:
    r = offered(rng)
    ends = [{"at_s": 0, "rate": round(r)}, {"at_s": 3, "rate": 0}]
    stages = [
        {**source(r, record_bytes=1000), "emit_rate": ends},
        *(stage("map", r * quick(rng), 2), stage("sink", r * quick(rng))),
    ]
    edges = [edge("source", "map"), edge("map", "sink", partition_type="sort_merge")]
    cluster = {"task_managers": 2, "disk_bytes_per_s": round(500 * r * slow(rng) * 0.6)}
    options = {
        "taskmanager.network.numberOfBuffers": 1000,
        "taskmanager.network.sort-shuffle.min-buffers": 32,
    }
    made = scenario(stages, edges, cluster=cluster, options=options)
    return made, {("disk", "sink", None)}, {"map->sink"}


# ---- checkpoints


@planted
def checkpoints_whose_sync_phase_blocks(rng: random.Random) -> Job:
    r = offered(rng)
    state = {"bytes": "100kb", "sync_ms": round(rng.uniform(300, 500))}
    stages = [
        source(r),
        stage("count", r * rng.uniform(1.15, 1.3), 2, state=state),
        stage("sink", r * quick(rng)),
    ]
    edges = [edge("source", "count", "hash", channel_weights=[1, 1]), edge("count", "sink")]
    made = scenario(stages, edges, options=checkpointed("aligned", 1000))
    return made, {("checkpoint", "count", None)}, {"count"}


@planted
def uploads_that_slow_the_work(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r),
        stage("count", r * rng.uniform(1.15, 1.25), 2, state={"bytes": "1mb"}),
        stage("sink", r * quick(rng)),
    ]
    edges = [edge("source", "count", "hash", channel_weights=[1, 1]), edge("count", "sink")]
    cluster = {  # a third of the interval: more than the buffers hold meanwhile
        "task_managers": 2,
        "upload_bytes_per_s": round(rng.uniform(1.2e6, 1.8e6)),
        "upload_slowdown": round(rng.uniform(0.5, 0.65), 2),
    }
    made = scenario(stages, edges, cluster=cluster, options=checkpointed("aligned", 1500))
    return made, {("checkpoint", "count", None)}, {"count"}


@planted
def alignment_behind_a_far_barrier(rng: random.Random) -> Job:
    """One input's barrier has a long way; meanwhile the other input is not read."""
    r = offered(rng)
    stages = [
        *(source(r, "near", placement=[0]), source(r / 30, "far", placement=[1])),
        *(stage("join", 2 * r * quick(rng), placement=[0]), stage("sink", None, placement=[0])),
    ]
    edges = [edge("near", "join"), edge("far", "join"), edge("join", "sink")]
    cluster = {"task_managers": 2, "network_latency_ms": round(rng.uniform(200, 350))}
    options = {**checkpointed("aligned", 1000), "execution.buffer-timeout.interval": "500ms"}
    made = scenario(stages, edges, cluster=cluster, options=options)
    return made, {("checkpoint", "join", None)}, {"near->join"}


# ---- processors


@planted
def too_few_cores(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        *(source(r, placement=[0]), stage("map", r * rng.uniform(1.5, 2), 4, placement=[1] * 4)),
        stage("sink", 4 * r, placement=[0]),
    ]
    cluster = {"task_managers": 2, "cores": round(4 * slow(rng) / 2, 2)}
    made = scenario(stages, chain("source", "map", "sink"), cluster=cluster)
    return made, {("cpu", "map", None)}, {"map"}


@planted
def neighbours_that_take_the_cores(rng: random.Random) -> Job:
    """Either of the two jobs would do on the cores that both share."""
    r = offered(rng)
    stages = [
        *(source(r, "orders", placement=[0]), source(r, "clicks", placement=[0])),
        *(stage("bill", r * 1.25, placement=[1]), stage("count", r * 8, placement=[1])),
        stage("sink", 9 * r, placement=[0]),
    ]
    edges = [
        *(edge("orders", "bill"), edge("clicks", "count")),
        *(edge("bill", "sink"), edge("count", "sink")),
    ]
    cluster = {"task_managers": 2, "cores": round(rng.uniform(0.5, 0.7), 2)}
    return scenario(stages, edges, cluster=cluster), {("cpu", "bill", None)}, {"bill"}


@planted
def calls_to_a_database(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        *(source(r, placement=[0]), stage("map", r * quick(rng), placement=[0], cpu=0.5)),
        stage(
            "lookup", r * slow(rng), 3, placement=[1, 1, 2], cpu=round(rng.uniform(0.05, 0.3), 2)
        ),
    ]
    cluster = {"task_managers": 3, "cores": 2}
    made = scenario(stages, chain("source", "map", "lookup"), cluster=cluster)
    return made, {("external", "lookup", None)}, {"lookup"}


@planted
def one_subtask_behind_a_lock(rng: random.Random) -> Job:
    r, which = offered(rng), rng.randrange(3)
    rates = [round(r * quick(rng) / 3) for _ in range(3)]
    rates[which] = round(r / 3 * slow(rng))
    lookup = {"name": "lookup", "parallelism": 3, "service_rate": rates, "cpu": 0.15}
    stages = [source(r, placement=[0]), {**lookup, "placement": [1, 2, 3]}]
    cluster = {"task_managers": 4, "cores": 2}
    made = scenario(stages, chain("source", "lookup"), cluster=cluster)
    return made, {("external", "lookup", which)}, {"lookup"}


@planted
def slow_and_computing(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r, placement=[0]), stage("score", r * slow(rng), 2, placement=[1, 1])]
    cluster = {"task_managers": 2, "cores": 4}
    made = scenario(stages, chain("source", "score"), cluster=cluster)
    return made, {("operator", "score", None)}, {"score"}


# ---- sources and throttles


@planted
def source_behind_its_log(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r * slow(rng), arrival_rate=round(r)),
        stage("map", r * quick(rng), 2),
        stage("sink"),
    ]
    return (
        scenario(stages, chain("source", "map", "sink")),
        {("source", "source", None)},
        {"source"},
    )


@planted
def source_with_little_to_give(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r * rng.uniform(0.05, 0.3)), stage("map", r, 2), stage("sink", r)]
    return scenario(stages, chain("source", "map", "sink")), {("source", "source", None)}, {None}


@planted
def all_that_arrives_is_read(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r * 2, arrival_rate=round(r)),
        stage("map", r * quick(rng), 2),
        stage("sink", r * quick(rng)),
    ]
    return scenario(stages, chain("source", "map", "sink")), {("none", None, None)}, {None}


@planted
def busy_and_in_time(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r), stage("map", r * rng.uniform(1.2, 1.5), 2), stage("sink", r * 1.4, 2)]
    return scenario(stages, chain("source", "map", "sink")), {("none", None, None)}, {None}


@planted
def batches_of_limited_size(rng: random.Random) -> Job:
    r = offered(rng)
    throttle = {
        "name": "static_admission",
        "interval_ms": 200,
        "max_records": round(0.2 * r * slow(rng)),
    }
    stages = [source(r), stage("map", r * quick(rng), 2), stage("sink", r * quick(rng))]
    made = scenario(
        stages,
        chain("source", "map", "sink"),
        system={"transport": "unbounded", "throttle": throttle},
    )
    return made, {("throttle", "source", None)}, {"throttle"}


@planted
def cautious_rate(rng: random.Random) -> Job:
    r = offered(rng)
    throttle = {"name": "aimd_rate", "min_rate": round(r * 0.3), "max_rate": round(r * slow(rng))}
    stages = [source(r), stage("map", r * quick(rng), 2), stage("sink", r * quick(rng))]
    made = scenario(
        stages,
        chain("source", "map", "sink"),
        system={"transport": "blocking_queue", "throttle": throttle},
    )
    return made, {("throttle", "source", None)}, {"throttle"}
