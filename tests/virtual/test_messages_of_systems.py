"""Messages of other systems than today's Flink: each has names, or is refused; and they add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.results.running import step
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.system import THROTTLE_PARTS, TRANSPORT_PARTS, SystemSpec
from flowcontrol.trace.message_table import Window
from flowcontrol.trace.messages import Message
from flowcontrol.virtual import run_job
from flowcontrol.virtual.clock import record
from modules import load

random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_jobs = load("tests/job/random_jobs.py")
random_systems = load("tests/job/random_systems.py")

EXAMPLES = max(2, settings.default.max_examples // 5)
TCP = SystemSpec(
    transport="tcp",
    transport_values={
        "high_water_segments": 2.0,
        "low_water_segments": 1.0,
        "kernel_bytes": 9_000.0,
    },
)


def whole(job: Job) -> Window:
    """The window that is the whole run."""
    return Window(0, job.rounds * job.round_us)


def channels(job: Job, *, remote: bool) -> set[tuple[str, int, int]]:
    """The channels between task managers, or within one."""
    return {
        (link.name, one.sender, one.receiver)
        for link in job.links
        for one in link.channels
        if one.is_local != remote
    }


NAMED = [name for name, part in TRANSPORT_PARTS.items() if part.messages]


def test_every_transport_has_names_or_a_reason() -> None:
    for name, part in TRANSPORT_PARTS.items():
        assert bool(part.messages) + bool(part.no_messages) == (name not in {"credit", "tcp"}), name


@pytest.mark.parametrize("transport", NAMED)
def test_records_and_grants_add_up(whole_kernel: None, transport: str) -> None:
    shape = random_jobs.Shape(is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(shape))
        system = data.draw(random_systems.systems(transport, scenario.round_ms))
        scenario = scenario.model_copy(update={"system": system})
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        assume(job.links)
        messages, run = record(job, whole(job)), run_job(job)
        names, remote = TRANSPORT_PARTS[transport].messages, channels(job, remote=True)
        sent, more = Counter[Any](), Counter[Any]()
        for one in messages:
            name = one.edge, one.sender, one.receiver
            assert one.name in {*names.values(), "End"}
            assert name in remote
            if one.direction == "forward":
                sent[name] += one.credit or 0
            else:
                more[name] += 1
        last = run.tables["channels"].to_pylist()[-sum(len(one.channels) for one in job.links) :]
        for row in last:
            name = row["edge"], row["sender"], row["receiver"]
            assert sent[name] == (row["sent"] if name in remote else 0)
        if not channels(job, remote=False):
            assert sum(more.values()) == run.control_messages

    look()


@pytest.mark.parametrize("throttle", [name for name in THROTTLE_PARTS if name != "none"])
def test_a_throttle_s_words_are_as_many_as_it_counts(whole_kernel: None, throttle: str) -> None:
    shape = random_jobs.Shape(is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(shape))
        system = data.draw(random_systems.throttled(throttle, scenario.round_ms))
        assume(system.transport != "blocking_queue")
        job = random_jobs.laid_out(scenario.model_copy(update={"system": system}))
        note(job.scenario.to_yaml())
        assume(job.links)
        said = [one for one in record(job, whole(job)) if "->" not in one.edge]
        counted = [
            task.controller["messages"]
            for state in step(job)
            for task in state.tasks
            if task.source
        ]
        assert len(said) == (counted[-1] if counted else 0)
        sources = {plan.name for plan in job.stages if plan.is_source}
        for one in said:
            assert (one.sender is None) == (one.edge not in sources)
            assert (one.receiver is None) == (one.edge in sources)

    look()


def test_connections_without_credits(whole_kernel: None, draw_until: Any) -> None:
    """Sequence numbers without gaps, as many messages as each connection has written."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(is_virtual=True)
    shapes = st.sampled_from([shape, replace(shape, is_tight=True)])  # whose sources end

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(data.draw(shapes)))
        keys = {"taskmanager.network.memory.buffers-per-channel": 2}
        mapping = scenario.canonical()
        mapping["options"] |= keys
        scenario = parse_scenario(mapping).model_copy(update={"system": TCP})
        job = random_jobs.laid_out(scenario)
        if data.draw(st.booleans()):
            settings_of = random_checkpoints.settings_of(job.round_us, job.rounds, modes=(4,))
            job = random_checkpoints.with_checkpoints(job, data.draw(settings_of))
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        messages = record(job, whole(job))
        check_tcp(job, messages)
        seen.update(one.name for one in messages)
        seen["event"] += any(one.credit == 0 for one in messages)

    wanted = {"PartitionRequest", "BufferResponse", "CancelPartitionRequest", "CloseRequest"}
    draw_until(look, lambda: set(+seen) >= wanted | {"event"}, 48)
    assert set(+seen) == wanted | {"event"}


def check_tcp(job: Job, messages: list[Message]) -> None:
    """Compare the trace of connections without credits with what these have counted."""
    expected, written = Counter[Any](), Counter[Any]()
    places = {
        member.stage.name: plan.stage.placement for plan in job.stages for member in plan.members
    }
    closed = set[Any]()
    for one in messages:
        name = one.edge, one.sender, one.receiver
        sender, receiver = one.edge.split("->")
        wire = places[sender][one.sender or 0], places[receiver][one.receiver or 0], one.edge
        assert one.backlog is None
        if one.sequence_number is not None:
            assert one.sequence_number == expected[name]
            expected[name] += 1
            written[wire] += 1
            assert wire not in closed
            assert one.header_bytes == 34
        if one.name == "CloseRequest":
            closed.add(wire)
    *_, last = step(job)
    for found in last.connections:
        assert found.tcp is not None
        wire = found.sender_manager, found.receiver_manager, found.edge
        assert found.tcp.written == written[wire]
    assert set(written) <= {
        (c.sender_manager, c.receiver_manager, c.edge) for c in last.connections
    }


def storm(system: Any) -> list[Message]:
    """The messages of a job whose sink is too slow, under a system that stops the source."""
    mapping = {
        "schema": 1,
        "name": "storm",
        "duration_s": 6,
        "round_ms": 100,
        "system": system,
        "stages": [
            {"name": "spout", "emit_rate": 1000, "placement": [0]},
            {"name": "bolt", "service_rate": 100, "placement": [1]},
        ],
        "edges": [{"from": "spout", "to": "bolt"}],
    }
    job = build_physical_graph(parse_scenario(mapping))
    found = record(job, whole(job))
    return [replace(one, t_s=round(one.t_s, 6)) for one in found if one.edge in {"spout", "bolt"}]


def test_storm_writes_to_zookeeper_and_its_spouts_watch() -> None:
    """From the second round on 90 records more wait after each: 921 are passed in the twelfth."""
    first, second, *_ = storm("storm-1")
    assert first == Message(1.2, "bolt", None, 0, "backward", "ZooKeeper setData")
    assert second == Message(1.2, "spout", 0, None, "backward", "ZooKeeper watch: on")


def test_jstorm_s_topology_master_commands_the_spouts() -> None:
    names = [one.name for one in storm("jstorm-2.1")]
    assert names[:2] == ["TopologyMaster: start event", "TopologyMaster: start command"]


def test_heron_s_stream_managers_tell_one_another() -> None:
    system = {
        "transport": "unbounded",
        "throttle": {"name": "global_hysteresis", "high_bytes": 50_000, "low_bytes": 20_000},
    }
    names = [one.name for one in storm(system)]
    assert names[:2] == ["Pressure", "StartBackPressureMessage"]
