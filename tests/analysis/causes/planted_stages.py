"""Jobs with one slow operator, in many shapes, and with skew."""

from __future__ import annotations

import random
from typing import Any

from modules import load

BUILD = load("tests/analysis/causes/planting.py")
Job = Any
HOT = BUILD.HOT
chain = BUILD.chain
checkpointed = BUILD.checkpointed
edge = BUILD.edge
event_time = BUILD.event_time
offered = BUILD.offered
planted = BUILD.planted
quick = BUILD.quick
scenario = BUILD.scenario
slow = BUILD.slow
source = BUILD.source
stage = BUILD.stage
weights = BUILD.weights


# ---- one slow operator, in jobs of many shapes


@planted
def slow_sink(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r), stage("map", r * quick(rng)), stage("sink", r * slow(rng))]
    return scenario(stages, chain("source", "map", "sink")), {("operator", "sink", None)}, {"sink"}


@planted
def slow_map_of_several_subtasks(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r), stage("map", r * slow(rng), 3), stage("sink", r * quick(rng), 2)]
    return scenario(stages, chain("source", "map", "sink")), {("operator", "map", None)}, {"map"}


@planted
def slow_fourth_of_five(rng: random.Random) -> Job:
    r = offered(rng)
    names = ("source", "parse", "join", "count", "sink")
    rates = {name: r * quick(rng) for name in names[1:]} | {"count": r * slow(rng)}
    stages = [source(r), *(stage(name, rate, 2) for name, rate in rates.items())]
    made = scenario(stages, chain(*names), cluster={"task_managers": 3})
    return made, {("operator", "count", None)}, {"count"}


@planted
def slow_branch_of_a_diamond(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        *(source(r), stage("left", r * quick(rng), 2), stage("right", r * slow(rng), 2)),
        stage("sink", 2 * r * quick(rng)),
    ]
    edges = [
        *(edge("source", "left"), edge("source", "right")),
        *(edge("left", "sink"), edge("right", "sink")),
    ]
    return scenario(stages, edges), {("operator", "right", None)}, {"right"}


@planted
def slow_one_of_three_sinks(rng: random.Random) -> Job:
    r = offered(rng)
    rates = {"store": r * quick(rng), "index": r * slow(rng), "alert": r * quick(rng)}
    stages = [source(r), *(stage(name, rate) for name, rate in rates.items())]
    edges = [edge("source", name) for name in rates]
    return scenario(stages, edges), {("operator", "index", None)}, {"index"}


@planted
def slow_sink_of_three_sources(rng: random.Random) -> Job:
    rates = [offered(rng) for _ in range(3)]
    sources = [source(rate, f"source{i}") for i, rate in enumerate(rates)]
    stages = [*sources, stage("sink", sum(rates) * slow(rng), 2)]
    edges = [edge(one["name"], "sink") for one in sources]
    return scenario(stages, edges), {("operator", "sink", None)}, {"sink"}


@planted
def slow_slot(rng: random.Random) -> Job:
    r, which = offered(rng), rng.randrange(4)
    rates = [round(r * quick(rng) / 4) for _ in range(4)]
    rates[which] = round(r / 4 * slow(rng))
    stages = [source(r), {"name": "map", "parallelism": 4, "service_rate": rates}, stage("sink")]
    made = scenario(stages, chain("source", "map", "sink"))
    return made, {("operator", "map", which)}, {"map"}


@planted
def slow_join_of_logs(rng: random.Random) -> Job:
    r = offered(rng)
    logs = [
        source(r * 3, name, arrival_rate=round(r), latency_from="arrival")
        for name in ("left", "right")
    ]
    stages = [*logs, stage("join", 2 * r * slow(rng), 2), stage("sink", 2 * r * quick(rng))]
    edges = [edge("left", "join"), edge("right", "join"), edge("join", "sink")]
    return scenario(stages, edges), {("operator", "join", None)}, {"join"}


@planted
def slow_for_some_time(rng: random.Random) -> Job:
    r = offered(rng)
    at, length = rng.uniform(1, 2), rng.uniform(2, 3)
    rates = [
        {"at_s": 0, "rate": round(r * 1.8)},
        {"at_s": round(at, 1), "rate": round(r * slow(rng))},
        {"at_s": round(at + length, 1), "rate": round(r * 1.8)},
    ]
    stages = [source(r), stage("map", r * quick(rng), 2), {"name": "sink", "service_rate": rates}]
    return scenario(stages, chain("source", "map", "sink")), {("operator", "sink", None)}, {"sink"}


@planted
def slow_sink_of_random_times(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        *(source(r, service_time="exponential"), stage("map", r * quick(rng), 2)),
        stage("sink", r * slow(rng), 2, service_time="exponential"),
    ]
    return scenario(stages, chain("source", "map", "sink")), {("operator", "sink", None)}, {"sink"}


@planted
def slow_sink_with_aligned_checkpoints(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r, parallelism=2),
        stage("map", 2 * r * quick(rng), 2),
        stage("sink", 2 * r * slow(rng), 2, state={"bytes": "1mb"}),
    ]
    made = scenario(stages, chain("source", "map", "sink"), options=checkpointed("aligned"))
    return made, {("operator", "sink", None)}, {"sink"}


@planted
def slow_sink_with_unaligned_checkpoints(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [
        source(r, parallelism=2),
        stage("map", 2 * r * quick(rng), 2),
        stage("sink", 2 * r * slow(rng), 2, state={"bytes": "1mb"}),
    ]
    made = scenario(stages, chain("source", "map", "sink"), options=checkpointed("unaligned"))
    return made, {("operator", "sink", None)}, {"sink"}


@planted
def slow_window(rng: random.Random) -> Job:
    r = offered(rng)
    window = {"kind": "tumbling", "size_s": 1, "bytes_per_key": 100}
    stages = [
        *(source(r, **event_time()), stage("count", r * slow(rng), 2, window=window)),
        stage("sink", 4 * r),
    ]
    edges = [
        edge("source", "count", "hash", key_distribution={"kind": "uniform", "keys": 500}),
        edge("count", "sink"),
    ]
    return scenario(stages, edges), {("operator", "count", None)}, {"count"}


@planted
def slow_sink_before_flink_had_credits(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r), stage("map", r * quick(rng), 2), stage("sink", r * slow(rng), 2)]
    made = scenario(
        stages, chain("source", "map", "sink"), system="flink-1.4", cluster={"task_managers": 3}
    )
    return made, {("operator", "sink", None)}, {"sink"}


@planted
def slow_bolt_of_storm(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r), stage("bolt", r * slow(rng), 2), stage("sink", r * quick(rng))]
    made = scenario(stages, chain("source", "bolt", "sink"), system="storm-2")
    return made, {("operator", "bolt", None)}, {"bolt"}


@planted
def slow_sink_that_nothing_holds_up(rng: random.Random) -> Job:
    r = offered(rng)
    stages = [source(r), stage("map", r * quick(rng), 2), stage("sink", r * slow(rng), 2)]
    made = scenario(stages, chain("source", "map", "sink"), system="unbounded")
    return made, {("operator", "sink", None)}, {"sink"}


# ---- skew


@planted
def hot_key(rng: random.Random) -> Job:
    r, share = offered(rng), rng.uniform(0.4, 0.6)
    keys = {"hot": share, **{f"k{i}": (1 - share) / 400 for i in range(400)}}
    stages = [
        source(r),
        stage("count", r * rng.uniform(1.2, 1.5), 4),
        stage("sink", r * quick(rng)),
    ]
    edges = [edge("source", "count", "hash", key_weights=keys), edge("count", "sink")]
    return scenario(stages, edges), {("key_skew", "count", HOT)}, {"count"}


@planted
def zipf_keys(rng: random.Random) -> Job:
    r = offered(rng)
    keys = {"kind": "zipf", "keys": 1000, "exponent": round(rng.uniform(1.2, 1.5), 2)}
    stages = [source(r, parallelism=2), stage("count", 2 * r * 1.2, 4), stage("sink", 3 * r)]
    edges = [edge("source", "count", "hash", key_distribution=keys), edge("count", "sink")]
    return scenario(stages, edges), {("key_skew", "count", HOT)}, {"count"}


@planted
def hot_key_with_a_large_state(rng: random.Random) -> Job:
    r, hot = offered(rng), rng.randrange(3)
    shares = weights(rng, 3, hot, rng.uniform(0.55, 0.7))
    state = {"bytes_per_record": 10, "bytes": "10kb"}
    stages = [
        source(r),
        stage("count", r * rng.uniform(1.25, 1.5), 3, state=state),
        stage("sink", 3 * r),
    ]
    edges = [edge("source", "count", "hash", channel_weights=shares), edge("count", "sink")]
    made = scenario(stages, edges, options=checkpointed("aligned"))
    return made, {("key_skew", "count", hot)}, {"count"}


@planted
def hot_key_behind_a_forward(rng: random.Random) -> Job:
    r, hot = offered(rng), rng.randrange(4)
    shares = weights(rng, 4, hot, rng.uniform(0.45, 0.6))
    stages = [source(r), stage("parse", r * 4, 4), stage("count", r * 1.3, 4), stage("sink", 3 * r)]
    edges = [
        edge("source", "parse", "hash", channel_weights=shares),
        *(edge("parse", "count", "forward"), edge("count", "sink")),
    ]
    return scenario(stages, edges), {("key_skew", "count", hot)}, {"count"}


@planted
def hot_key_of_an_event_time_window(rng: random.Random) -> Job:
    r = offered(rng)
    keys = {"kind": "hot", "keys": 400, "share": round(rng.uniform(0.45, 0.6), 2)}
    window = {"kind": "tumbling", "size_s": 1, "bytes_per_key": 100}
    stages = [
        source(r, **event_time()),
        stage("count", r * rng.uniform(1.2, 1.4), 4, window=window),
        stage("sink", r),
    ]
    edges = [edge("source", "count", "hash", key_distribution=keys), edge("count", "sink")]
    return scenario(stages, edges), {("key_skew", "count", HOT)}, {"count"}


@planted
def uneven_channels(rng: random.Random) -> Job:
    r, hot = offered(rng), rng.randrange(4)
    shares = weights(rng, 4, hot, rng.uniform(0.45, 0.6))
    stages = [source(r, parallelism=2), stage("map", 2 * r * 1.3, 4), stage("sink", 4 * r, 2)]
    edges = [edge("source", "map", "custom", channel_weights=shares), edge("map", "sink")]
    return scenario(stages, edges), {("channel_skew", "map", hot)}, {"map"}


@planted
def uneven_partitions_of_a_topic(rng: random.Random) -> Job:
    r, hot = offered(rng), rng.randrange(3)
    rates = [round(r * rng.uniform(0.4, 0.6)) for _ in range(3)]
    rates[hot] = round(r * rng.uniform(1.5, 1.9))
    stages = [
        {**source(r), "parallelism": 3, "emit_rate": rates},
        stage("map", 3 * r * rng.uniform(0.8, 1.1), 3),
        stage("sink", 4 * r, 2),
    ]
    edges = [edge("source", "map", "forward"), edge("map", "sink")]
    return scenario(stages, edges), {("channel_skew", "map", hot)}, {"map"}
