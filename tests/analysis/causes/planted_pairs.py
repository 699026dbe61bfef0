"""Jobs with two causes at once."""

from __future__ import annotations

import random
from typing import Any

from modules import load

BUILD = load("tests/analysis/causes/planting.py")
Job = Any
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


# ---- two at once


@planted
def slow_branch_and_hot_key(rng: random.Random) -> Job:
    r, q, hot = offered(rng), offered(rng), rng.randrange(4)
    shares = weights(rng, 4, hot, rng.uniform(0.45, 0.6))
    stages = [
        *(source(r, "orders"), source(q, "clicks")),
        *(stage("bill", r * slow(rng)), stage("count", q * 1.3, 4), stage("sink", 4 * (r + q))),
    ]
    edges = [
        *(edge("orders", "bill"), edge("clicks", "count", "hash", channel_weights=shares)),
        *(edge("bill", "sink"), edge("count", "sink")),
    ]
    planted = {("operator", "bill", None), ("key_skew", "count", hot)}
    return scenario(stages, edges), planted, {"bill", "count"}


@planted
def slow_branch_and_hanging_branch(rng: random.Random) -> Job:
    r, q = offered(rng), offered(rng)
    stages = [
        *(source(r, "orders"), source(q, "clicks"), stage("bill", r * slow(rng), 2)),
        *(stage("count", q * 1.5, 2, stalls=pauses(rng)), stage("sink", 4 * (r + q))),
    ]
    edges = [
        *(edge("orders", "bill"), edge("clicks", "count")),
        *(edge("bill", "sink"), edge("count", "sink")),
    ]
    planted = {("operator", "bill", None), ("stall", "count", None)}
    return scenario(stages, edges), planted, {"bill", "count"}


@planted
def hot_key_of_a_stage_that_is_too_slow(rng: random.Random) -> Job:
    """Evenly spread, its keys would still be too many."""
    r, hot = offered(rng), rng.randrange(4)
    shares = weights(rng, 4, hot, rng.uniform(0.5, 0.6))
    stages = [source(r), stage("count", r * rng.uniform(0.5, 0.75), 4), stage("sink", 4 * r)]
    edges = [edge("source", "count", "hash", channel_weights=shares), edge("count", "sink")]
    planted = {("key_skew", "count", hot), ("operator", "count", None)}
    return scenario(stages, edges), planted, {"count"}


@planted
def one_slow_stage_after_the_other(rng: random.Random) -> Job:
    r = offered(rng)
    at = round(rng.uniform(2.5, 3.5), 1)
    first = [{"at_s": 0, "rate": round(r * slow(rng))}, {"at_s": at, "rate": round(r * 2)}]
    then = [{"at_s": 0, "rate": round(r * 2)}, {"at_s": at, "rate": round(r * slow(rng))}]
    stages = [
        *(source(r), {"name": "map", "service_rate": first}, {"name": "sink", "service_rate": then})
    ]
    planted = {("operator", "map", None), ("operator", "sink", None)}
    return scenario(stages, chain("source", "map", "sink")), planted, {"map", "sink"}


@planted
def slow_sink_that_hangs(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        *(source(r), stage("map", r * quick(rng), 2)),
        stage("sink", r * rng.uniform(0.6, 0.85), 2, stalls=pauses(rng)),
    ]
    planted = {("operator", "sink", None), ("stall", "sink", None)}
    return scenario(stages, chain("source", "map", "sink")), planted, {"sink"}


@planted
def hot_key_and_a_sync_phase(rng: random.Random) -> Job:
    r, q, hot = offered(rng), offered(rng), rng.randrange(3)
    shares = weights(rng, 3, hot, rng.uniform(0.55, 0.65))
    state = {"bytes": "100kb", "sync_ms": round(rng.uniform(350, 500))}
    stages = [
        *(source(r, "orders"), source(q, "clicks"), stage("bill", r * 1.2, 2, state=state)),
        *(stage("count", q * 1.3, 3), stage("sink", 4 * (r + q))),
    ]
    edges = [
        edge("orders", "bill", "hash", channel_weights=[1, 1]),
        edge("clicks", "count", "hash", channel_weights=shares),
        *(edge("bill", "sink"), edge("count", "sink")),
    ]
    made = scenario(stages, edges, options=checkpointed("unaligned"))
    planted = {("checkpoint", "bill", None), ("key_skew", "count", hot)}
    return made, planted, {"bill", "count"}


@planted
def far_source_and_slow_branch(rng: random.Random) -> Job:
    r, q = offered(rng), offered(rng)
    stages = [
        *(source(r, "far", placement=[1]), source(q, "near", placement=[0])),
        *(
            stage("parse", r * quick(rng), placement=[0]),
            stage("bill", q * slow(rng), placement=[0]),
        ),
        stage("sink", 3 * (r + q), placement=[0]),
    ]
    edges = [
        *(edge("far", "parse"), edge("near", "bill")),
        *(edge("parse", "sink"), edge("bill", "sink")),
    ]
    cluster = {"task_managers": 2, "network_latency_ms": far(rng, r, 100, 10)}
    planted = {("network", "parse", None), ("operator", "bill", None)}
    return scenario(stages, edges, cluster=cluster), planted, {"far->parse", "bill"}


@planted
def narrow_connection_and_slow_sink_later(rng: random.Random) -> Job:
    r = offered(rng)
    at = round(rng.uniform(2.5, 3.5), 1)
    part = slow(rng)
    rates = [{"at_s": 0, "rate": round(3 * r)}, {"at_s": at, "rate": round(r * part * 0.6)}]
    stages = [
        *(source(r, record_bytes=200, placement=[0]), stage("map", 2 * r, placement=[1])),
        {"name": "sink", "service_rate": rates, "placement": [1]},
    ]
    cluster = {"task_managers": 2, "bandwidth_bytes_per_s": round(200 * r * part)}
    planted = {("network", "map", None), ("operator", "sink", None)}
    made = scenario(stages, chain("source", "map", "sink"), cluster=cluster)
    return made, planted, {"source->map", "sink"}


@planted
def slow_disk_and_slow_branch(rng: random.Random) -> Job:
    r, q = offered(rng), offered(rng)
    stages = [
        *(source(r, "bulk", record_bytes=1000), source(q, "clicks")),
        *(stage("load", r * quick(rng), 2), stage("bill", q * slow(rng), 2)),
        stage("sink", 4 * (r + q)),
    ]
    edges = [
        edge("bulk", "load", partition_type="hybrid_full"),
        *(edge("clicks", "bill"), edge("load", "sink"), edge("bill", "sink")),
    ]
    cluster = {"task_managers": 2, "disk_bytes_per_s": round(1000 * r * slow(rng) * 0.8)}
    options = {"taskmanager.network.numberOfBuffers": 400}
    planted = {("disk", "load", None), ("operator", "bill", None)}
    made = scenario(stages, edges, cluster=cluster, options=options)
    return made, planted, {"bulk->load", "bill"}


@planted
def slow_reader_and_slow_branch(rng: random.Random) -> Job:
    r, q = offered(rng), offered(rng)
    stages = [
        *(source(r * slow(rng), "topic", arrival_rate=round(r)), source(q, "clicks")),
        *(stage("load", r * quick(rng), 2), stage("bill", q * slow(rng), 2)),
        stage("sink", 4 * (r + q)),
    ]
    edges = [
        *(edge("topic", "load"), edge("clicks", "bill")),
        *(edge("load", "sink"), edge("bill", "sink")),
    ]
    planted = {("source", "topic", None), ("operator", "bill", None)}
    return scenario(stages, edges), planted, {"topic", "bill"}


@planted
def uneven_channels_and_one_that_hangs(rng: random.Random) -> Job:
    r, q, hot = offered(rng), offered(rng), rng.randrange(4)
    shares = weights(rng, 4, hot, rng.uniform(0.45, 0.6))
    stages = [
        *(source(r, "orders"), source(q, "clicks"), stage("map", r * 1.3, 4)),
        *(stage("count", q * 1.5, 2, stalls=pauses(rng)), stage("sink", 4 * (r + q))),
    ]
    edges = [
        *(edge("orders", "map", "custom", channel_weights=shares), edge("clicks", "count")),
        *(edge("map", "sink"), edge("count", "sink")),
    ]
    planted = {("channel_skew", "map", hot), ("stall", "count", None)}
    return scenario(stages, edges), planted, {"map", "count"}


@planted
def full_cores_and_calls_outside(rng: random.Random) -> Job:
    r, q = offered(rng), offered(rng)
    stages = [
        *(source(r, "orders", placement=[0]), source(q, "clicks", placement=[0])),
        stage("bill", r * rng.uniform(1.5, 2), 4, placement=[1] * 4),
        stage("lookup", q * slow(rng), 2, placement=[2, 2], cpu=0.1),
        stage("sink", 4 * (r + q), placement=[0]),
    ]
    edges = [
        *(edge("orders", "bill"), edge("clicks", "lookup")),
        *(edge("bill", "sink"), edge("lookup", "sink")),
    ]
    cluster = {"task_managers": 3, "cores": round(2 * slow(rng), 2)}
    planted = {("cpu", "bill", None), ("external", "lookup", None)}
    return scenario(stages, edges, cluster=cluster), planted, {"bill", "lookup"}


@planted
def calls_outside_and_hot_key(rng: random.Random) -> Job:
    r, q, hot = offered(rng), offered(rng), rng.randrange(4)
    shares = weights(rng, 4, hot, rng.uniform(0.45, 0.6))
    stages = [
        *(source(r, "orders", placement=[0]), source(q, "clicks", placement=[0])),
        stage("lookup", r * slow(rng), 2, placement=[1, 1], cpu=0.1),
        stage("count", q * 1.3, 4, placement=[2] * 4),
        stage("sink", 4 * (r + q), placement=[0]),
    ]
    edges = [
        *(edge("orders", "lookup"), edge("clicks", "count", "hash", channel_weights=shares)),
        *(edge("lookup", "sink"), edge("count", "sink")),
    ]
    planted = {("external", "lookup", None), ("key_skew", "count", hot)}
    cluster = {"task_managers": 3, "cores": 4}
    return scenario(stages, edges, cluster=cluster), planted, {"lookup", "count"}
