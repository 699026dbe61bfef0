"""Which changes are tried, and that each says the scenario otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.advise.result import Change, Seen, Subject
from flowcontrol.experiments.advise.rules import changes_of
from flowcontrol.scenario.given import as_base

CONF = Path(__file__).resolve().parents[3] / "conf"

CHAIN: dict[str, Any] = {
    "schema": 1,
    "name": "chain",
    "duration_s": 10,
    "cluster": {"task_managers": 2},
    "stages": [
        {"name": "source", "emit_rate": 1000},
        {"name": "map", "parallelism": 2, "service_rate": 1000},
        {"name": "sink", "parallelism": 2, "service_rate": 300},
    ],
    "edges": [
        {"from": "source", "to": "map", "partitioner": "rebalance"},
        {"from": "map", "to": "sink", "partitioner": "forward"},
    ],
}


def changes(scenario: Any, seen: Seen) -> list[Change]:
    base = as_base(scenario)
    return changes_of(Subject(base.scenario(), base.mapping, seen))


def with_stage(number: int, **keys: Any) -> dict[str, Any]:
    stages = [dict(stage) for stage in CHAIN["stages"]]
    stages[number] |= keys
    return {**CHAIN, "stages": stages}


SLOW_SINK = Seen("sink", {"source": 0.0, "map": 0.3, "sink": 1.0}, 0.6)


def documents(found: list[Change], kind: str) -> list[dict[str, Any]]:
    return [change.document for change in found if change.kind == kind]


def test_more_subtasks_where_it_limits_and_fewer_where_it_idles() -> None:
    """2 x busy 1 / 0.8 / (1 - 0.6): 7 would do; map is busy 2 x 0.3 / 0.7 of one."""
    found = documents(changes(CHAIN, SLOW_SINK), "parallelism")
    forward = {"edges[1].partitioner": "rebalance"}
    assert found == [
        {"stages.map.parallelism": 1, **forward},
        {"stages.sink.parallelism": 3, **forward},
        {"stages.sink.parallelism": 4, **forward},
        {"stages.sink.parallelism": 7, **forward},
    ]


def test_a_rate_of_each_subtask_goes_on_with_the_most_frequent() -> None:
    mixed = with_stage(2, parallelism=3, service_rate=[100, 300, 300])
    mixed["edges"] = [*CHAIN["edges"][:1], {**CHAIN["edges"][1], "partitioner": "rebalance"}]
    found = documents(changes(mixed, SLOW_SINK), "parallelism")
    assert {"stages.sink.parallelism": 4, "stages.sink.service_rate": [100, 300, 300, 300]} in found
    idle = Seen(None, {"source": 0.0, "map": 0.5, "sink": 0.2}, 0.0)
    fewer = documents(changes(mixed, idle), "parallelism")
    assert fewer == [{"stages.sink.parallelism": 1, "stages.sink.service_rate": [100]}]


@pytest.mark.parametrize(
    ("total", "expected"), [(600, 900), ([{"at_s": 0, "rate": 600}], [{"at_s": 0, "rate": 900}])]
)
def test_a_total_rate_grows_with_the_subtasks(total: Any, expected: Any) -> None:
    chain = with_stage(2, total_rate=total)
    del chain["stages"][2]["service_rate"]
    found = [c for c in changes(chain, SLOW_SINK) if c.kind == "parallelism"]
    change = next(c for c in found if c.document.get("stages.sink.parallelism") == 3)
    assert change.document["stages.sink.total_rate"] == expected
    assert change.caution == "Each subtask is taken to be as fast as now."


def test_joined_changes_give_each_caution_once() -> None:
    """Also where one of them has another besides: sink is keyed, map is not."""
    chain = with_stage(2, total_rate=600)
    del chain["stages"][2]["service_rate"]
    chain["edges"] = [
        *chain["edges"][:1],
        {**chain["edges"][1], "partitioner": "hash", "key_weights": {"a": 1, "b": 1}},
    ]
    keyed = next(c for c in changes(chain, SLOW_SINK) if "stages.sink.parallelism" in c.document)
    other = replace(keyed, kind="other", cautions=("Each subtask is taken to be as fast as now.",))
    both = "A hot key stays on one subtask. Each subtask is taken to be as fast as now."
    assert keyed.caution == both
    assert keyed.joined(other, "each helps alone").caution == both


def test_an_external_service_is_not_given_more_subtasks() -> None:
    chain = with_stage(2, total_rate=600, external=True)
    del chain["stages"][2]["service_rate"]
    found = documents(changes(chain, SLOW_SINK), "parallelism")
    assert found == [{"stages.map.parallelism": 1, "edges[1].partitioner": "rebalance"}]


def test_places_go_on_in_turn() -> None:
    found = documents(changes(with_stage(2, placement=[1, 1]), SLOW_SINK), "parallelism")
    three = next(one for one in found if one.get("stages.sink.parallelism") == 3)
    assert three["stages.sink.placement"] == [1, 1, 1]


def test_batches_grow_and_shrink_where_a_source_has_a_most_of_them() -> None:
    throttle = {"name": "static_admission", "max_records": 1000, "overhead_ms": 500}
    batched = {**CHAIN, "system": {"transport": "unbounded", "throttle": throttle}}
    found = documents(changes(batched, SLOW_SINK), "batches")
    assert [one["system.throttle.max_records"] for one in found] == [2000, 4000, 500]
    assert not documents(changes(CHAIN, SLOW_SINK), "batches")


def test_a_hash_is_left_where_state_or_windows_need_it() -> None:
    keyed = {"partitioner": "hash", "key_weights": {"a": 1, "b": 3}}
    edges = [{**CHAIN["edges"][0], **keyed}, CHAIN["edges"][1]]
    plain = documents(changes({**CHAIN, "edges": edges}, SLOW_SINK), "partitioner")
    assert {"edges[0].partitioner": "rebalance", "edges[0].key_weights": None} in plain
    stateful = with_stage(1, state={"bytes": 1000})
    found = documents(changes({**stateful, "edges": edges}, SLOW_SINK), "partitioner")
    assert all("edges[0].partitioner" not in one for one in found)


def test_each_change_is_read_and_means_something_else() -> None:
    """Of every scenario of conf/: a change is accepted and differs, or is refused with a reason."""
    accepted = refused = 0
    for file in sorted(CONF.glob("*.yaml")):
        base = as_base(file)
        if "jobs" in base.mapping:
            continue
        scenario = base.scenario()
        busy = {stage.name: 1.0 for stage in scenario.stages}
        seen = Seen(scenario.sinks[0].name, busy, 0.5)
        found = changes_of(Subject(scenario, base.mapping, seen))
        assert len({change.text for change in found}) == len(found)
        for change in found:
            try:
                changed = base.scenario(change.keys)
            except ScenarioError as error:
                assert error.problems
                refused += 1
            else:
                assert changed.canonical() != scenario.canonical(), (file.name, change.name)
                accepted += 1
    assert accepted > 300
    assert refused < accepted / 5


def test_a_buffer_timeout_is_named_as_it_is_written() -> None:
    """Whole milliseconds: a tenth of 25 ms is 2 ms."""
    chain = {**CHAIN, "options": {"execution.buffer-timeout.interval": "25ms"}}
    found = [one for one in changes(chain, SLOW_SINK) if one.kind == "timeout"]
    assert [one.name.partition(" instead")[0] for one in found] == [
        "a buffer timeout of 2 ms", "a buffer timeout of 250 ms",
    ]  # fmt: skip
    values = [list(one.document.values()) for one in found]
    assert values == [["2ms"], ["250ms"]]


SINK = Seen("sink", {"source": 0.0, "map": 0.3, "sink": 1.0}, 0.6)


def sink_changes(**keys: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the changes of the chain's sink with some keys, by kind; each is a scenario."""
    stage = with_stage(2, **keys)
    found = changes(stage, SINK)
    base = as_base(stage)
    kinds: dict[str, list[dict[str, Any]]] = {}
    for change in found:
        if any("requests" in key or "commit" in key for key in change.document):
            assert base.scenario(change.keys).canonical() != base.scenario().canonical()
            kinds.setdefault(change.kind, []).append(change.document)
    return kinds


def test_an_asynchronous_sink_is_given_more_in_flight_and_larger_requests() -> None:
    requests = {"like": "kinesis", "latency_ms": 20, "limit": {"records_per_s": 100}}
    at = "stages.sink.requests."
    assert sink_changes(requests=requests) == {
        "requests in flight": [{at + "in_flight": count} for count in (200, 100, 25)],
        "rate limiting": [
            {at + "rate_limiting": {"decrease": 0.5}},
            {at + "rate_limiting": {"records_per_s": 50, "burst_s": 10}},
        ],
        "batches": [
            {at + "batch_records": 1000},
            {at + "batch_records": 4000, at + "buffered": 16000},
        ],
    }


def test_a_blocking_sink_is_given_larger_batches_or_made_asynchronous() -> None:
    requests = {"like": "jdbc-sql", "latency_ms": 20, "per_record_ms": 0.5, "buffer_s": 2}
    found = sink_changes(requests=requests)
    assert set(found) == {"batches", "asynchronous"}
    assert found["batches"][0] == {"stages.sink.requests.batch_records": 200}
    [other] = found["asynchronous"]
    assert other["stages.sink.requests"] == {
        "style": "async",
        "latency_ms": 20,
        "per_record_ms": 0.5,
        "in_flight": 10,
        "batch_records": 100,
        "buffered": 400,
        "buffer_s": 1,
    }


def test_an_operator_is_given_more_calls_in_any_order_or_need_not_wait() -> None:
    seen, at = Seen("map", {"source": 0.0, "map": 1.0, "sink": 0.1}, 0.6), "stages.map.requests."
    calls = {"style": "await", "latency_ms": 20}
    for requests, expected in (
        (
            calls,
            {
                "calls in flight": [{at + "in_flight": n} for n in (200, 400)],
                "order": [{at + "ordered": False}],
            },
        ),
        (
            {**calls, "style": "lookup", "retry": {"attempts": 2}},
            {"asynchronous": [{"stages.map.requests": calls}]},
        ),
    ):
        scenario = with_stage(1, requests=requests)
        kinds: dict[str, list[dict[str, Any]]] = {}
        for change in changes(scenario, seen):
            if any("requests" in key for key in change.document):
                assert as_base(scenario).scenario(change.keys)
                kinds.setdefault(change.kind, []).append(change.document)
        assert kinds == expected


def test_commits_are_given_fewer_files_and_a_committer() -> None:
    scenario = with_stage(
        2, guarantee="exactly-once", commit={"fixed_ms": 100, "per_file_ms": 20, "files": 8}
    )
    scenario["options"] = {"execution.checkpointing.interval": "5s"}
    found = changes(scenario, SINK)
    assert documents(found, "files") == [{"stages.sink.commit.files": 4}]
    assert documents(found, "committer") == [{"stages.sink.commit.shared": True}]
    assert not documents(changes(CHAIN, SINK), "files")
