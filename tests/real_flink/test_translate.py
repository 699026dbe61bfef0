"""A scenario becomes a job for Flink: rates, sizes, keys, options and places are the scenario's."""

from __future__ import annotations

from collections import Counter
from typing import Any

import placing
import pytest
import translate

from flowcontrol.layout.shares import stream_of, weights_of
from flowcontrol.protocol.network.partitioners import (
    channel_of_key,
    default_max_parallelism,
    smooth_round_robin,
)
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.given import as_scenario


def scenario(**changes: Any) -> Scenario:
    """Two sources, two maps, a sink, each stage on a task manager of its own; with changes."""
    stated: dict[str, Any] = {
        "schema": 1,
        "name": "lanes",
        "duration_s": 20,
        "cluster": {"task_managers": 3},
        "stages": [
            {"name": "read", "parallelism": 2, "emit_rate": 100, "record_bytes": 217},
            {"name": "map", "parallelism": 2, "service_rate": [80, 60], "record_bytes": 117},
            {"name": "sink", "service_rate": 90},
        ],
        "edges": [{"from": "read", "to": "map"}, {"from": "map", "to": "sink"}],
    }
    places = [[0, 0], [1, 1], [2]]
    for stage, place in zip(stated["stages"], places, strict=True):
        stage["placement"] = place
    return parse_scenario({**stated, **changes})


def test_each_job_has_its_stages_and_its_time() -> None:
    jobs = translate.flink_job(as_scenario("conf/two-jobs.yaml"))["jobs"]
    assert jobs[:2] == [
        {"stages": ["orders", "bill"], "start_s": 0, "stop_s": None},
        {"stages": ["events", "store"], "start_s": 20, "stop_s": 40},
    ]
    [only] = translate.flink_job(scenario())["jobs"]
    assert only == {"stages": ["read", "map", "sink"], "start_s": 0, "stop_s": None}


def stages_of(given: Scenario) -> dict[str, dict[str, Any]]:
    return {stage["name"]: stage for stage in translate.flink_job(given)["stages"]}


def changed(given: Scenario, name: str, **keys: Any) -> Scenario:
    """The scenario with other keys of one stage."""
    stated = given.canonical()
    for stage in stated["stages"]:
        if stage["name"] == name:
            stage.update(keys)
    return parse_scenario(stated)


def test_every_subtask_has_its_rate_and_every_record_its_size() -> None:
    job = stages_of(scenario())
    assert job["read"]["rates"] == [[[0, 100]], [[0, 100]]]
    assert job["map"]["rates"] == [[[0, 80]], [[0, 60]]]
    assert job["read"]["payload_bytes"] == 200
    assert job["map"]["payload_bytes"] == 100
    assert [stage["is_sink"] for stage in job.values()] == [False, False, True]
    assert job["map"]["selectivity"] == [1, 1]


def test_a_stage_without_a_rate_takes_no_time() -> None:
    assert stages_of(changed(scenario(), "sink", service_rate=None))["sink"]["rates"] is None


def test_a_schedule_and_a_stall_are_phases() -> None:
    rates = [{"at_s": 0, "rate": 90}, {"at_s": 10, "rate": 30}]
    given = changed(scenario(), "sink", service_rate=rates, stalls=[{"at_s": 4, "for_s": 2}])
    phases = [[0, 90], [4_000_000, 0], [6_000_000, 90], [10_000_000, 30]]
    assert stages_of(given)["sink"]["rates"] == [phases]


def test_a_stall_of_a_stage_without_a_rate_stops_it_too() -> None:
    given = changed(
        scenario(), "map", service_rate=None, stalls=[{"at_s": 1, "for_s": 1, "subtasks": [1]}]
    )
    at_once = [0, translate.AT_ONCE]
    stalled = [at_once, [1_000_000, 0], [2_000_000, translate.AT_ONCE]]
    assert stages_of(given)["map"]["rates"] == [[at_once], stalled]


def test_a_log_has_its_arrivals_beside_the_rate_at_which_it_is_read() -> None:
    given = changed(scenario(), "read", arrival_rate=50, latency_from="arrival")
    read = stages_of(given)["read"]
    assert read["arrivals"] == [[[0, 50]], [[0, 50]]]
    assert read["rates"] == [[[0, 100]], [[0, 100]]]
    assert read["latency_from"] == "arrival"


def test_a_selectivity_and_times_that_vary_are_exact() -> None:
    given = changed(
        scenario(), "map", selectivity=0.3, service_time="lognormal", service_time_cv=0.5
    )
    found = stages_of(given)["map"]
    assert found["selectivity"] == [3, 10]
    assert (found["service_time"], found["service_time_cv"]) == ("lognormal", 0.5)


@pytest.mark.parametrize(
    "partitioner", ["forward", "rebalance", "rescale", "shuffle", "broadcast", "global"]
)
def test_a_partitioner_keeps_its_name_and_needs_no_key(partitioner: str) -> None:
    given = scenario(
        edges=[
            {"from": "read", "to": "map", "partitioner": partitioner},
            {"from": "map", "to": "sink"},
        ]
    )
    job = translate.flink_job(given)
    assert job["edges"][0]["partitioner"] == partitioner
    assert job["stages"][0]["picks"] == []


def test_keys_are_those_of_the_scenario_with_their_weights() -> None:
    hashed = {"from": "read", "to": "map", "partitioner": "hash", "key_weights": {"a": 3, "b": 1}}
    job = translate.flink_job(scenario(edges=[hashed, {"from": "map", "to": "sink"}]))
    assert job["edges"][0]["keys"] == ["a", "b"]
    [picks] = job["stages"][0]["picks"]
    assert Counter(picks) == {0: 3, 1: 1}


def test_a_distribution_is_spelled_out_by_rank() -> None:
    hot = {"kind": "hot", "keys": 5, "share": 0.6}
    hashed = {"from": "read", "to": "map", "partitioner": "hash", "key_distribution": hot}
    job = translate.flink_job(scenario(edges=[hashed, {"from": "map", "to": "sink"}]))
    assert job["edges"][0]["keys"] == ["1", "2", "3", "4", "5"]
    [picks] = job["stages"][0]["picks"]
    assert Counter(picks) == {0: 12, 1: 2, 2: 2, 3: 2, 4: 2}


def test_keys_lead_records_where_the_emulation_does_and_share_a_channel_by_weight() -> None:
    """One of two channels has a key, the other three."""
    named = {"a": 2, "b": 1, "c": 3, "d": 2}
    edge = {"from": "read", "to": "map", "partitioner": "hash", "key_weights": named}
    given = scenario(edges=[edge, {"from": "map", "to": "sink"}])
    job, groups = translate.flink_job(given), default_max_parallelism(2)
    [picks], keys = job["stages"][0]["picks"], job["edges"][0]["keys"]
    weights = weights_of(given.edges[0], 2)
    assert min(weights) > 0
    went = [channel_of_key(keys[place], 2, groups) for place in picks]
    assert went == smooth_round_robin(sum(weights), weights)
    assert Counter(keys[place] for place in 3 * picks) == pytest.approx(
        {key: 3 * weight for key, weight in named.items()}, abs=1
    )


@pytest.mark.parametrize("partitioner", ["hash", "custom"])
def test_shares_of_subtasks_are_keys_that_lead_there(partitioner: str) -> None:
    edge = {"from": "read", "to": "map", "partitioner": partitioner, "channel_weights": [3, 1]}
    job = translate.flink_job(scenario(edges=[edge, {"from": "map", "to": "sink"}]))
    assert job["stages"][0]["picks"] == [[0, 0, 1, 0]]
    keys, groups = job["edges"][0]["keys"], default_max_parallelism(2)
    assert [channel_of_key(key, 2, groups) for key in keys] == [0, 1]


def test_each_edge_by_key_has_a_place_of_its_own_in_the_record() -> None:
    first = {"from": "read", "to": "map", "partitioner": "hash", "key_weights": {"a": 1}}
    second = {"from": "read", "to": "sink", "partitioner": "hash", "key_weights": {"b": 1, "c": 1}}
    edges = [first, {"from": "map", "to": "sink"}, second]
    job = translate.flink_job(scenario(edges=edges))
    assert [edge["key_place"] for edge in job["edges"]] == [0, 0, 1]
    assert [sorted(own) for own in job["stages"][0]["picks"]] == [[0], [0, 1]]


def test_each_subtask_draws_its_service_times_from_the_stream_of_the_emulation() -> None:
    own = stages_of(scenario())["map"]
    assert own["streams"] == [stream_of("service map/0"), stream_of("service map/1")]


def test_flink_gets_the_options_of_the_scenario_and_its_network_memory_in_bytes() -> None:
    given = scenario(
        options={
            "taskmanager.memory.segment-size": "8kb",
            "taskmanager.network.numberOfBuffers": 300,
            "taskmanager.network.memory.buffers-per-channel": 3,
            "execution.buffer-timeout.interval": "20ms",
            "execution.checkpointing.interval": "5s",
            "execution.checkpointing.unaligned.enabled": True,
        }
    )
    options = translate.flink_options(given)
    assert options["taskmanager.memory.segment-size"] == "8192b"
    assert options["taskmanager.memory.network.min"] == f"{300 * 8192}b"
    assert options["taskmanager.memory.network.max"] == f"{300 * 8192}b"
    assert options["taskmanager.network.memory.buffers-per-channel"] == "3"
    assert options["execution.buffer-timeout.interval"] == "20ms"
    assert options["execution.checkpointing.interval"] == "5000ms"
    assert options["execution.checkpointing.unaligned.enabled"] == "true"
    assert not [key for key in options if "numberOf" in key or key.startswith("restart")]


def test_without_a_flusher_flink_has_none() -> None:
    options = translate.flink_options(scenario(options={"execution.buffer-timeout.enabled": False}))
    assert options["execution.buffer-timeout.enabled"] == "false"


def test_stages_that_are_whole_on_a_task_manager_are_bound_to_it() -> None:
    found = placing.deployment(scenario())
    assert found.are_placed
    assert found.slots == (2, 2, 1)
    assert found.groups["map"] == placing.Group("map", 1)


def test_a_chained_stage_takes_no_slot_and_is_where_its_head_is() -> None:
    given = scenario(
        edges=[
            {"from": "read", "to": "map", "partitioner": "forward", "chain": True},
            {"from": "map", "to": "sink"},
        ],
        stages=[
            {"name": "read", "parallelism": 2, "emit_rate": 9, "placement": [0, 0]},
            {"name": "map", "parallelism": 2},
            {"name": "sink", "placement": [2]},
        ],
    )
    job = translate.flink_job(given)
    assert job["slots"] == [2, 1, 1]
    assert [stage["is_chained"] for stage in job["stages"]] == [False, True, False]
    assert [stage["slot_group"] for stage in job["stages"]] == ["read", "read", "sink"]


def test_subtasks_of_one_index_share_slots_as_flink_does_by_itself() -> None:
    given = as_scenario("conf/checkpoint-aligned.yaml")
    found = placing.deployment(given)
    assert not found.are_placed
    assert found.slots == (1, 1)
    assert {group.name for group in found.groups.values()} == {"default"}


def test_operators_have_the_slots_and_groups_of_their_file() -> None:
    found = placing.deployment(as_scenario("conf/word-count.yaml"))
    assert not found.are_placed
    assert found.slots == (2, 2)
    assert {group.name for group in found.groups.values()} == {"default"}


def test_what_flink_cannot_be_asked_for_is_left_to_it_with_enough_slots() -> None:
    given = as_scenario("conf/kafka-questions.yaml")
    found = placing.deployment(given)
    assert not found.are_placed
    assert sum(found.slots) >= sum(stage.parallelism for stage in given.stages)
