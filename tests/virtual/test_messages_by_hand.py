"""Messages that random jobs seldom or never send, in jobs made for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.results.running import step
from flowcontrol.scenario import parse_scenario
from flowcontrol.trace.message_table import Window
from flowcontrol.trace.messages import Message
from flowcontrol.virtual import run_job
from flowcontrol.virtual.clock import record

NETMEM = "taskmanager.network.memory."
STAGES = [
    {"name": "source", "emit_rate": 1000, "record_bytes": 1000, "placement": [0]},
    {"name": "sink", "service_rate": 100, "placement": [1]},
]


def laid_out(**keys: Any) -> Job:
    """A source and a sink that is too slow for it, on two task managers; 4 s in rounds of 10 ms."""
    mapping = {
        "schema": 1,
        "name": "by-hand",
        "duration_s": 4,
        "round_ms": 10,
        "stages": STAGES,
        "edges": [{"from": "source", "to": "sink"}],
    }
    return build_physical_graph(parse_scenario(mapping | keys))


def messages(job: Job) -> list[Message]:
    """All messages of a run."""
    return record(job, Window(0, job.rounds * job.round_us))


@pytest.mark.parametrize("latency_ms", [0, 35])
def test_debloating_announces_sizes_that_the_sender_adopts(latency_ms: float) -> None:
    """Each announcement is one message; behind its latency it is what the sender wishes for."""
    job = laid_out(
        options={NETMEM + "buffer-debloat.enabled": True},
        cluster={"network_latency_ms": latency_ms},
    )
    sizes = [(one.t_s, one.bytes) for one in messages(job) if one.name == "NewBufferSize"]
    trip_us = max(1, -(-int(latency_ms * 1000) // job.round_us)) * job.round_us
    adopted, last = [], 0
    for state in step(job):
        size = state.channel("source->sink")[0].state.desired_buffer_size
        if size != last:
            adopted.append((round((state.end_us - trip_us) / 1e6, 6), size))
            last = size
    assert len(adopted) >= 3
    assert sizes[: len(adopted)] == adopted
    assert all(t_s > 4 - 2 * trip_us / 1e6 for t_s, _ in sizes[len(adopted) :])


@pytest.mark.parametrize("kind", ["pipelined", "blocking", "hybrid_full"])
def test_partitions_on_disk_send_the_same_messages(kind: str) -> None:
    source = {**STAGES[0], "emit_rate": [{"at_s": 0, "rate": 1000}, {"at_s": 1, "rate": 0}]}
    edge = {"from": "source", "to": "sink", "partition_type": kind}
    options: dict[str, Any] = {}
    if kind != "pipelined":
        options["execution.buffer-timeout.interval"] = -1
    job = laid_out(
        stages=[source, {**STAGES[1], "service_rate": 5000}],
        edges=[edge],
        options=options,
        cluster={"disk_bytes_per_s": 100_000_000},
    )
    found = messages(job)
    data = [one for one in found if one.name == "BufferResponse"]
    assert [one.sequence_number for one in data] == list(range(len(data)))
    assert sum(one.bytes or 0 for one in data if one.credit == 1) == 1000 * 1000
    assert [one.name for one in found][-1] == "CancelPartitionRequest"
    assert run_job(job).tables["channels"].to_pylist()[-1]["sent"] == len(data) - 1


def test_a_job_that_comes_and_goes_has_connections_of_its_own() -> None:
    """The second job is submitted at 1 s and cancelled at 2 s: it says so to its senders."""
    stages = [[{**stage, "name": f"{stage['name']}-{n}"} for stage in STAGES] for n in (1, 2)]
    jobs = [
        {
            "name": f"job-{n}",
            "stages": own,
            "edges": [{"from": own[0]["name"], "to": own[1]["name"]}],
            **({"start_at_s": 1, "stop_at_s": 2} if n == 2 else {}),
        }
        for n, own in enumerate(stages, 1)
    ]
    mapping = {"schema": 1, "name": "two", "duration_s": 3, "round_ms": 10, "jobs": jobs}
    job = build_physical_graph(parse_scenario(mapping))
    first, second = (link.name for link in job.links)
    found = messages(job)
    own = [one for one in found if one.edge == second]
    assert (own[0].name, own[0].t_s) == ("PartitionRequest", 1.0)
    assert (own[-1].name, own[-1].t_s) == ("CancelPartitionRequest", 2.0)
    names = Counter(one.name for one in found if one.edge == first)
    assert names["PartitionRequest"] == 1
    assert names["CancelPartitionRequest"] == 0


FAILING = {
    "options": {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "500ms",
    }
}


def around(job: Job) -> list[tuple[float, str, str]]:
    """What is said besides data and credit, from the failure on."""
    usual = {"BufferResponse", "AddCredit"}
    return [
        (one.t_s, one.direction, one.name)
        for one in messages(job)
        if one.name not in usual and one.t_s > 0
    ]


def test_a_task_that_fails_says_so_and_its_receiver_cancels() -> None:
    """At 1 s; noticed a round later, cancelled a round later; the new attempt requests again."""
    failures = [{"at_s": 1, "stage": "source", "subtask": 0}]
    found = around(laid_out(**FAILING, failures=failures))
    assert found[:2] == [
        (1.0, "forward", "ErrorResponse"),
        (1.02, "backward", "CancelPartitionRequest"),
    ]
    assert [name for _, _, name in found[2:]] == ["PartitionRequest"]
    assert 1.51 <= found[2][0] <= 1.6


def test_a_receiver_that_fails_cancels_at_once() -> None:
    failures = [{"at_s": 1, "stage": "sink", "subtask": 0}]
    names = [(t_s, name) for t_s, _, name in around(laid_out(**FAILING, failures=failures))]
    assert names[0] == (1.0, "CancelPartitionRequest")
    assert [name for _, name in names[1:]] == ["PartitionRequest"]


@pytest.mark.parametrize(("manager", "expected"), [(0, ["PartitionRequest"]), (1, [])])
def test_a_task_manager_that_dies_says_nothing(manager: int, expected: list[str]) -> None:
    """The sink sees its connection break; that the sink's is gone only a heartbeat would show."""
    failures = [{"at_s": 1, "task_manager": manager}]
    names = [name for _, _, name in around(laid_out(**FAILING, failures=failures))]
    assert names == expected


def test_barriers_have_sequence_numbers_among_the_data() -> None:
    """They use no credit, block the sender, and each is answered when it is aligned."""
    stages = [STAGES[0], {**STAGES[1], "service_rate": 2000}]
    job = laid_out(stages=stages, options={"execution.checkpointing.interval": "500ms"})
    found = messages(job)
    sent = [one for one in found if one.name == "BufferResponse"]
    assert [one.sequence_number for one in sent] == list(range(len(sent)))
    barriers = [place for place, one in enumerate(sent) if one.credit == 0]
    assert [(sent[place].bytes, sent[place].backlog) for place in barriers] == [(38, 0)] * len(
        barriers
    )
    assert len(barriers) >= 2
    assert barriers[-1] < len(sent) - 1
    resumed = sum(one.name == "ResumeConsumption" for one in found)
    assert len(barriers) - 1 <= resumed <= len(barriers)
