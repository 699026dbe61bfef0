"""Stepping: the whole state after each round, by hand, beside the tables, and on both clocks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given, note, settings
from hypothesis import strategies as st

import flowcontrol
from flowcontrol import RoundState, RunError, Scenario, ScenarioError, load_scenario
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.results import running
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.network import Message
from flowcontrol.state.queues import BACKLOG_ANNOUNCEMENT, is_event
from flowcontrol.trace.channel_state import (
    AddCredit,
    BufferKind,
    InputChannelState,
    MessageUnderWay,
    NewBufferSize,
    SubpartitionState,
)
from flowcontrol.trace.round_state import TaskState
from flowcontrol.virtual import simulate

EXAMPLES = settings.default.max_examples // 2
CONF = Path(__file__).resolve().parents[2] / "conf"
SHORTENED = {
    "experiment": (200, "duration_s=30"),
    "skew": (200, "duration_s=6"),
    "three-stages": (200, "duration_s=6", "stages.sink.service_rate=20"),
    "shared-producer": (10, "duration_s=3"),
    "head-of-line": (10, "duration_s=3", "sample_interval_s=0.5"),
    "partition-types": (50, "duration_s=6"),
    "two-jobs": (200,),
}
"""Scenarios of conf/: milliseconds of a round, and what makes them short."""


def conf(name: str, *overrides: str) -> Scenario:
    round_ms, *short = SHORTENED[name]
    changes = (f"round_ms={round_ms}", *short, *overrides)
    return load_scenario(CONF / f"{name}.yaml", overrides=changes)


def small(jobs: ModuleType, **keys: Any) -> Scenario:
    """A source of 5 records a round, each of a whole buffer; a sink that takes 2 of them up."""
    stages = [jobs.source(50, record_bytes=4096), jobs.sink(20)]
    options = {jobs.FLOATING: 3, jobs.OVERDRAFT: 0}
    edges = [("source", "sink", "forward")]
    scenario: Scenario = jobs.job(stages, edges, options, duration_s=1.2, **keys).scenario
    return scenario


def steps(scenario: Scenario, **keys: Any) -> Iterator[RoundState]:
    return flowcontrol.rounds(scenario, round_us=scenario.live_round_us, **keys)


# ---------------------------------------------------------------- by hand


def test_credit_backlog_and_buffers_of_the_first_rounds(jobs: ModuleType) -> None:
    """2 exclusive buffers, 3 floating ones, and 5 at the sender."""
    states = list(islice(steps(small(jobs)), 4))
    assert [(s.number, s.start_us, s.end_us) for s in states] == [
        (n, n * 100_000, (n + 1) * 100_000) for n in range(4)
    ]
    outs, ins = zip(*(state.channel("source->sink") for state in states), strict=True)
    sources, sinks = zip(*(state.tasks for state in states), strict=True)
    # Round 0: 5 records fill the pool, and the initial credit is 2.
    assert [task.taken for task in sources] == [5, 2, 0, 5]
    assert [message.records for message in outs[0].finished] == [1, 1, 1]
    sent = [(m.message.records, m.message.backlog, m.arrives) for m in outs[0].under_way]
    assert sent == [(1, 4, 1), (1, 3, 1)]
    # Round 1: both arrive and are taken up; a backlog of 3 gets the 3 floating buffers.
    assert [task.taken for task in sinks] == [0, 2, 0, 2]
    assert (ins[1].state.arrived, ins[1].queue) == (2, ())
    assert (ins[1].state.exclusive, ins[1].state.floating) == (2, 3)
    assert ins[1].under_way == (AddCredit(7, 2),)
    assert (outs[1].state.sent, outs[1].state.announced, outs[1].ready) == (2, 2, 5)
    # Round 2: the sender hears of 5 more credits, and sends all it has.
    assert [sent.message.backlog for sent in outs[2].under_way] == [4, 3, 2, 1, 0]
    assert (outs[2].state.announced, outs[2].ready, ins[2].under_way) == (7, 0, ())
    # Round 3: 5 arrive, exclusive buffers first, and 2 are taken up.
    kinds = [BufferKind.FLOATING, BufferKind.EXCLUSIVE, BufferKind.EXCLUSIVE]
    assert [(message.records, message.buffer) for message in ins[3].queue] == [
        (1, kind) for kind in kinds
    ]
    assert [part.pool.in_use for task in sources for part in task.partitions] == [3, 5, 0, 5]
    assert [gate.pool.in_use for task in sinks for gate in task.gates] == [0, 3, 3, 3]
    assert [state.records_in_flight for state in states] == [5, 5, 5, 8]


def test_what_a_task_did_in_a_round(jobs: ModuleType) -> None:
    """The sink takes 50 ms for a record; the source is blocked for its share of what fell due."""
    states = list(islice(steps(small(jobs)), 4))
    assert [s.task("sink").busy_us for s in states] == [0, 100_000, 0, 100_000]
    assert [s.task("source").backpressured_us for s in states] == [0, 60_000, 100_000, 0]
    for state in states:
        for task in state.tasks:
            assert task.busy_us + task.idle_us + task.backpressured_us == 100_000
    assert [s.task("sink").task_manager for s in states] == [1] * 4
    with pytest.raises(KeyError):
        states[0].task("sink", 1)
    with pytest.raises(KeyError):
        states[0].channel("sink->source")


def test_messages_and_credits_take_the_networks_latency(jobs: ModuleType) -> None:
    """Three rounds there, three back."""
    scenario = small(jobs)
    cluster = scenario.cluster.model_copy(update={"network_latency_ms": 300})
    states = list(islice(steps(scenario.model_copy(update={"cluster": cluster})), 7))
    found = [state.channel("source->sink") for state in states]
    assert [[m.arrives for m in out.under_way] for out, _ in found[:4]] == [[3, 3]] * 3 + [[]]
    assert [list(into.under_way) for _, into in found[3:]] == [[AddCredit(7, 6)]] * 3 + [[]]
    assert [out.state.announced for out, _ in found] == [2] * 6 + [7]


def test_a_backlog_is_announced_to_a_gate_without_exclusive_buffers(jobs: ModuleType) -> None:
    stages = [jobs.source(50, record_bytes=4096), jobs.sink(20)]
    options = {jobs.EXCLUSIVE: 0, jobs.FLOATING: 3}
    made = jobs.job(stages, [("source", "sink", "forward")], options)
    state = next(steps(made.scenario))
    first = state.channel("source->sink")[0]
    announced = Message(kind=BACKLOG_ANNOUNCEMENT, backlog=first.backlog)
    assert first.under_way == (MessageUnderWay(announced, 1),)
    assert first.ready == first.backlog > 0
    assert '"kind":"backlog_announcement"' in state.to_json()


def test_a_buffer_size_is_under_way_for_a_round(jobs: ModuleType) -> None:
    stages = [jobs.source(500), jobs.sink(50)]
    made = jobs.job(stages, [("source", "sink", "forward")], duration_s=4).scenario
    mapping = plain(made)
    mapping["options"]["taskmanager.network.memory.buffer-debloat.enabled"] = True
    states = list(steps(parse_scenario(mapping)))
    told = [
        (state.number, message.nbytes)
        for state in states[:-1]
        for message in state.channel("source->sink")[1].under_way
        if isinstance(message, NewBufferSize)
    ]
    assert told
    for number, nbytes in told:
        assert states[number + 1].channel("source->sink")[0].state.desired_buffer_size == nbytes


def plain(scenario: Scenario) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(scenario.to_yaml())
    return found


# ---------------------------------------------------------------- what it is beside


def test_states_are_equal_on_both_clocks(random_jobs: ModuleType, draw_until: Any) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(random_jobs.LIVE))
        note(scenario.to_yaml())
        random_jobs.laid_out(scenario)  # or another one
        live, virtual = (list(steps(scenario, clock=clock)) for clock in ("live", "virtual"))
        assert [state.number for state in virtual] == list(range(len(virtual)))
        for one, other in zip(live, virtual, strict=True):
            assert one == other, f"after round {one.number}"
            for _, out, into in one.channels():
                seen.update({"messages": len(out.under_way), "credits": len(into.under_way)})

    hard = ("messages", "credits")
    draw_until(look, lambda: min(seen[name] for name in hard) > 0, 5)
    assert min(seen[name] for name in hard) > 0


@pytest.mark.parametrize("name", SHORTENED)
def test_a_state_holds_what_the_tables_say(name: str) -> None:
    scenario = conf(name)
    round_us = scenario.live_round_us
    run = simulate(scenario, round_us=round_us)
    states = list(steps(scenario))
    assert len(states) == run.rounds > 20
    assert channels_of(run.job, states) == tables_of(run.tables["channels"])
    assert stages_of(run.job, states) == busy_of(run)


COLUMNS = ["written", "sent", "consumed", "backlog", "credit", "queued", "in_flight_records"]


def tables_of(table: Any) -> dict[tuple[Any, ...], list[int]]:
    rows = table.to_pandas().set_index(["t_s", "edge", "sender", "receiver"])[COLUMNS]
    return dict(zip(rows.index, rows.to_numpy().tolist(), strict=True))


def channels_of(job: Job, states: list[RoundState]) -> dict[tuple[Any, ...], list[int]]:
    found = {}
    for t_s, _, last in job.samples(len(states)):
        for name, out, into in states[last].channels():
            is_running = states[last].task(job.stage(name.edge.split("->")[0]).name, 0).is_running
            flying = out.state.written - into.state.processed
            levels = [out.backlog, out.credit, len(into.queue), flying]
            written = out.state.sent + out.ready
            cursors = [written, out.state.sent, into.state.consumed]
            found[t_s, *name] = cursors + (levels if is_running else [0] * 4)
    return found


def busy_of(run: Any) -> dict[tuple[Any, ...], list[int]]:
    heads = [plan.name for plan in run.job.stages]
    rows = run.tables["stages"].to_pandas()
    rows = rows[rows.stage.isin(heads)].set_index(["t_s", "stage", "subtask"])
    return {key: [int(r.records_in), *times_of(r)] for key, r in rows.iterrows()}


def times_of(row: pd.Series) -> list[int]:
    names = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
    return [round(row[name]) for name in names]


def stages_of(job: Job, states: list[RoundState]) -> dict[tuple[Any, ...], list[int]]:
    found = {}
    for t_s, first, last in job.samples(len(states)):
        seconds = (last + 1 - first) * job.round_us / 1e6
        for place, task in enumerate(states[last].tasks):
            own = [state.tasks[place] for state in states[first : last + 1]]
            times = [
                round(sum(getattr(each, name) for each in own) / seconds / 1000)
                for name in ("busy_us", "idle_us", "backpressured_us")
            ]
            taken = 0 if job.stage(task.stage).is_source else task.state.taken
            found[t_s, task.stage, task.subtask] = [taken, *times]
    return found


# ---------------------------------------------------------------- conservation

SYSTEMS: dict[str, Any] = {
    "credit": "flink",
    "tcp": "flink-1.4",
    "half_return_credit": {"transport": "half_return_credit"},
    "hop_hysteresis": {"transport": "hop_hysteresis"},
    "pid": {"transport": "unbounded", "throttle": {"name": "pid_rate", "min_rate": 20}},
}
"""Credit, connections without it, records that are counted, and a throttled source."""


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("partitioner", ["hash", "broadcast"])
def test_records_are_somewhere(jobs: ModuleType, system: str, partitioner: str) -> None:
    shares = {"channel_weights": [3, 1, 2]} if partitioner == "hash" else {}
    stages = [
        jobs.source(300, parallelism=2, record_bytes=1500, placement=[0, 1]),
        {"name": "map", "parallelism": 3, "service_rate": [90, 300, 60], "record_bytes": 700,
         "selectivity": 1.5, "placement": [0, 1, 1]},
        jobs.sink(200, placement=[0]),
    ]  # fmt: skip
    counts = system not in {"credit", "tcp"}
    bandwidth = {} if counts else {"bandwidth_bytes_per_s": 4e5}
    mapping = {
        **jobs.BASE,
        "duration_s": 6,
        "round_ms": 20,
        "system": SYSTEMS[system],
        "cluster": {"task_managers": 2, "network_latency_ms": 45, **bandwidth},
        "stages": stages,
        "edges": [
            {"from": "source", "to": "map", "partitioner": partitioner, **shares},
            {"from": "map", "to": "sink", "partitioner": "rebalance"},
        ],
    }
    check_conservation(parse_scenario(mapping), counts=counts)


def test_records_of_spilling_partitions_are_somewhere() -> None:
    check_conservation(conf("partition-types"), counts=False)


def check_conservation(scenario: Scenario, *, counts: bool) -> None:
    """Routed is taken, in hand, queued, under way, or waits at the sender; to the record."""
    moved: Counter[str] = Counter()
    for state in steps(scenario):
        for name, out, into in state.channels():
            where = places(state, out, into, name, counts)
            moved.update({place: int(count > 0) for place, count in where.items()})
            assert sum(where.values()) == out.routed, (state.number, name, where)
            data = [sent.message for sent in out.under_way if not is_event(sent.message)]
            carried = sum(message.records for message in data) if counts else len(data)
            assert out.state.sent == into.state.arrived + carried, (state.number, name)
    assert min(moved[place] for place in ("taken", "queued", "under way", "pending")) > 0, moved


def places(
    state: RoundState, out: SubpartitionState, into: InputChannelState, name: Any, counts: bool
) -> dict[str, int]:
    """Where the records of a channel are, by place."""
    sender, receiver = ends(state, name)
    [part] = [part for part in sender.partitions if part.edge == name.edge]
    place = part.subpartitions.index(out)
    gate_number = [gate.edge for gate in receiver.gates].index(name.edge)
    number = receiver.gates[gate_number].channels.index(into)
    reading = (receiver.state.gate, receiver.state.channel) == (gate_number, number)
    is_broadcast = (
        len({one.routed for one in part.subpartitions}) == 1 and name.edge[:6] == "source"
    )
    unsent = [b.records for b in out.spilled if b.index >= out.state.sent]
    return {
        "taken": into.state.processed,
        "in hand": receiver.state.left if reading else 0,
        "queued": sum(buffer.records for buffer in into.queue),
        "under way": sum(sent.message.records for sent in out.under_way),
        "waiting": out.state.buffers
        if counts
        else sum(message.records for message in out.finished) + out.state.tail + sum(unsent),
        "pending": len(part.pending) if is_broadcast else part.pending.count(place),
    }


def ends(state: RoundState, name: Any) -> tuple[TaskState, TaskState]:
    by_edge = {
        "sender": {part.edge: task.stage for task in state.tasks for part in task.partitions},
        "receiver": {gate.edge: task.stage for task in state.tasks for gate in task.gates},
    }
    return tuple(  # type: ignore[return-value]
        state.task(by_edge[side][name.edge], getattr(name, side)) for side in by_edge
    )


# ---------------------------------------------------------------- copies, laziness, errors


def test_a_later_round_changes_no_earlier_state(jobs: ModuleType) -> None:
    for clock in ("virtual", "live"):
        kept = [(state, state.to_json()) for state in steps(small(jobs), clock=clock)]
        assert len({text for _, text in kept}) == len(kept) == 12
        assert [state.to_json() for state, _ in kept] == [text for _, text in kept]


def leaves(value: Any) -> Iterator[Any]:
    if is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@pytest.mark.parametrize("name", ["partition-types", "head-of-line"])
def test_a_state_is_plain_python_and_json(name: str) -> None:
    state = list(islice(steps(conf(name)), 100))[-1]
    kinds = {type(leaf) for leaf in leaves(state) if not isinstance(leaf, IntEnum)}
    assert kinds <= {int, str, bool, type(None)}
    read = json.loads(state.to_json())
    assert read == state.to_dict()
    assert read["number"] == 99
    assert read["records_in_flight"] == state.records_in_flight
    assert [task["stage"] for task in read["tasks"]] == [task.stage for task in state.tasks]


def test_messages_and_kinds_go_by_their_names(jobs: ModuleType) -> None:
    found = [state.to_dict() for state in islice(steps(small(jobs)), 4)]
    [channel] = found[1]["tasks"][1]["gates"][0]["channels"]
    assert channel["under_way"] == [{"name": "AddCredit", "announced": 7, "arrives": 2}]
    [channel] = found[3]["tasks"][1]["gates"][0]["channels"]
    assert [message["buffer"] for message in channel["queue"]] == [
        "floating",
        "exclusive",
        "exclusive",
    ]
    [subpartition] = found[0]["tasks"][0]["partitions"][0]["subpartitions"]
    assert subpartition["under_way"][0] == {
        "message": {
            "kind": "data",
            "records": 1,
            "nbytes": 4096,
            "backlog": 4,
            "checkpoint": 0,
            "created": 0,
            "marks": 0,
        },
        "arrives": 1,
    }


def test_a_round_is_run_when_it_is_asked_for(
    jobs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    advance = running.advance

    def noted(cells: Any, end: int) -> int:
        asked.append(end)
        return advance(cells, end)

    monkeypatch.setattr(running, "advance", noted)
    states = steps(small(jobs))
    assert asked == []
    next(states)
    assert asked == [1]
    next(states)
    assert asked == [1, 2]


def test_a_full_log_is_made_larger_and_no_round_is_told_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = [state.to_json() for state in islice(steps(conf("partition-types")), 80)]
    monkeypatch.setattr(LogSizes, "first", classmethod(lambda cls, *_: cls(16, 1 << 10, 4)))
    again = [state.to_json() for state in islice(steps(conf("partition-types")), 80)]
    assert again == whole


def test_a_scenario_that_is_refused_is_refused_at_once(jobs: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no-such"):
        flowcontrol.rounds(tmp_path / "no-such.yaml")
    with pytest.raises(ScenarioError, match="on the live clock"):
        flowcontrol.rounds(MANY, clock="live")
    next(flowcontrol.rounds(parse_scenario(plain(small(jobs)) | {"system": AIMD})))


MANY = load_scenario(CONF / "experiment.yaml", overrides={"stages.consumer.parallelism": 65})
"""More channels than the live clock has on an edge."""
AIMD = {"transport": "unbounded", "throttle": {"name": "aimd_rate"}}


def test_it_fails_as_a_run_does() -> None:
    """No job has the segments that it needs."""
    few = "options={taskmanager.memory.segment-size: 4kb, taskmanager.network.numberOfBuffers: 3}"
    scenario = conf("two-jobs", few)
    with pytest.raises(RunError) as simulated:
        simulate(scenario, round_us=scenario.live_round_us)
    states = steps(scenario)
    with pytest.raises(RunError) as stepped:
        list(states)
    assert str(stepped.value) == str(simulated.value)


def test_the_default_round_is_the_clocks_own(jobs: ModuleType) -> None:
    scenario = small(jobs)
    assert next(flowcontrol.rounds(scenario)).end_us == simulate(scenario).round_us
    assert (
        next(flowcontrol.rounds(scenario, clock="live")).end_us
        == build_physical_graph(scenario).round_us
    )


@pytest.mark.parametrize("clock", ["virtual", "live"])
@pytest.mark.parametrize("odd", [0, -5, 1.5, "x"])
def test_a_round_of_no_whole_length_is_refused(clock: Any, odd: Any) -> None:
    with pytest.raises(ValueError, match=f"round_us is {odd!r}: state whole microseconds"):
        flowcontrol.rounds("conf/experiment.yaml", round_us=odd, clock=clock)


def test_an_unknown_task_or_channel_is_refused_with_those_there_are() -> None:
    state = next(flowcontrol.rounds("conf/experiment.yaml"))
    with pytest.raises(KeyError, match="no subtask 0 of nope: there are producer, consumer"):
        state.task("nope")
    with pytest.raises(KeyError, match="no channel 0 to 7 of producer->consumer"):
        state.channel("producer->consumer", 0, 7)
