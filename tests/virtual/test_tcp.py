"""Connections without credits, as Flink had them up to 1.4: rates, single rounds, properties."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario, check_clock, load_scenario, parse_scenario
from flowcontrol.scenario.system import SystemSpec
from flowcontrol.systems import tcp as t
from flowcontrol.virtual import simulate
from modules import load
from staged_runs import RoundRows

accounts = load("tests/virtual/accounts.py")
clocks = load("tests/virtual/clocks.py")
random_jobs = load("tests/job/random_jobs.py")
wire_accounts = load("tests/virtual/wire_accounts.py")

CONF = Path(__file__).resolve().parents[2] / "conf"
NETMEM = "taskmanager.network.memory."
SEGMENT = 4096
MESSAGE = SEGMENT + t.HEADER_BYTES
EXAMPLES = settings.default.max_examples * 3 // 5
FILLED = settings.default.max_examples * (2 if settings.default.max_examples >= 100 else 1)
"""Jobs of which some fill their connections."""


# ---------------------------------------------------------------- what the scenarios show


def rates(run: Run, stage: str) -> list[float]:
    """Records/s that each subtask took up, or a source emitted, in the second half."""
    frame = run.tables["stages"].to_pandas()
    own = frame[frame.stage == stage]
    column = "records_out" if own.records_in.max() == 0 else "records_in"
    counts = own.set_index(["t_s", "subtask"])[column].unstack()
    end = counts.index.max()
    grown = (counts.loc[end] - counts.loc[end / 2]) / (end / 2)
    return [float(rate) for rate in grown]


def shown(name: str, system: str) -> tuple[list[float], Run]:
    run = simulate(load_scenario(CONF / f"{name}.yaml", overrides=[f"system={system}"]))
    return rates(run, "B"), run


@pytest.mark.holds("credit", "virtual", "each other on `conf/head-of-line.yaml`: who slows whom")
@pytest.mark.holds("tcp", "virtual", "each other on `conf/head-of-line.yaml`: who slows whom")
def test_head_of_line() -> None:
    """One slow channel slows the other one on its connection; under credits it does not."""
    (fast, slow), _ = shown("head-of-line", "flink")
    assert slow == pytest.approx(200, rel=0.01)
    assert fast >= 0.95 * 1000
    (fast, slow), run = shown("head-of-line", "flink-1.4")
    assert slow == pytest.approx(200, rel=0.01)
    assert fast == pytest.approx(slow, rel=0.1)
    blocked = run.tables["stages"].to_pandas().query("stage == 'A' and t_s > 30")
    means = blocked.groupby("subtask").backpressured_ms_per_s.mean()
    assert means.tolist() == pytest.approx([800, 800], abs=25)  # also the source of B.3
    assert blocked.backpressured_ms_per_s.min() > 600  # a second has nine to eleven flushes


def test_shared_producer() -> None:
    """A producer that feeds both blocks for both, with credits or without."""
    for system in ("flink", "flink-1.4"):
        (fast, slow), _ = shown("shared-producer", system)
        assert slow == pytest.approx(200, rel=0.01), system
        assert fast == pytest.approx(slow, rel=0.1), system


# ---------------------------------------------------------------- single rounds


def scenario(
    stages: list[dict[str, Any]], edges: list[tuple[Any, ...]], *, rounds: int = 60, **keys: Any
) -> Scenario:
    """Records of a segment each, in rounds of a millisecond; an edge as in other tests."""
    transport = {"name": "tcp", **keys.pop("transport", {})}
    mapping = {
        "schema": 1,
        "name": "tcp",
        "duration_s": rounds / 1000,
        "round_ms": 1,
        "sample_interval_s": rounds / 2000,
        "system": {"transport": transport},
        "stages": [{"record_bytes": SEGMENT, **stage} for stage in stages],
        "edges": [
            {"from": edge[0], "to": edge[1], "partitioner": edge[2], **dict(*edge[3:])}
            for edge in edges
        ],
        **keys,
        "options": {
            "taskmanager.memory.segment-size": SEGMENT,
            "taskmanager.network.numberOfBuffers": 200,
            "execution.buffer-timeout.interval": -1,
            NETMEM + "buffers-per-channel": 1,
            NETMEM + "floating-buffers-per-gate": 1,
            **keys.get("options", {}),
        },
    }
    return parse_scenario(mapping)


def pair(rate: Any, service: Any, **keys: Any) -> Scenario:
    """One remote channel; gate and partition have two buffers each."""
    stages = [{"name": "A", "emit_rate": rate}, {"name": "B", "service_rate": service}]
    return scenario(stages, [("A", "B", "forward")], **keys)


# What a step shows: A, written, entered, read, delivered, freed, auto-read, writable, in use, B.


def step(wires: Any) -> tuple[int, ...]:
    """Run a round; return where its one connection and its one gate stand."""
    wires.run()
    wire, [gate], tasks = wires.wire(wires.numbers[0]), wires.memory.gates, wires.memory.tasks
    values = [tasks["taken"][0], wire.written, wire.entered, wire.read, wire.delivered, wire.freed]
    values += [wire.auto_read, wire.is_writable]
    values += [gate["pool"]["in_use"], tasks["taken"][1]]
    return tuple(int(value) for value in values)


BY_HAND = {  # round: what stands after it
    0: (1, 1, 1, 1, 1, 0, 1, 1, 1, 0),
    1: (2, 2, 2, 2, 2, 0, 1, 1, 2, 0),  # the gate's two buffers are taken
    2: (3, 3, 3, 3, 2, 1, 0, 1, 2, 0),  # the third message is staged; the first one's room is heard
    3: (4, 4, 4, 3, 2, 2, 0, 1, 2, 0),  # what comes stays in the kernel
    4: (5, 5, 5, 3, 2, 3, 0, 1, 2, 0),  # which is full now
    5: (6, 6, 5, 3, 2, 3, 0, 1, 2, 0),  # one page is pending: writable
    6: (7, 7, 5, 3, 2, 3, 0, 0, 2, 0),  # two: not writable
    8: (9, 7, 5, 3, 2, 3, 0, 0, 2, 0),  # two fill the partition's pool
    9: (10, 7, 5, 3, 2, 3, 0, 0, 2, 0),  # A is blocked inside its tenth record
    10: (10, 7, 5, 3, 2, 3, 0, 0, 2, 0),
    19: (10, 7, 5, 3, 2, 3, 0, 0, 2, 0),
    20: (10, 7, 5, 5, 3, 3, 0, 0, 2, 1),  # B reads: the third is in, two more read, one is staged
    21: (10, 7, 5, 5, 4, 3, 0, 0, 2, 2),
    22: (10, 9, 7, 7, 5, 5, 0, 0, 2, 3),  # the room is heard: two enter, two are written
    23: (10, 9, 7, 7, 6, 5, 0, 0, 2, 4),  # A goes on
    24: (10, 11, 9, 9, 7, 7, 0, 1, 2, 5),  # below the low mark in between: the end is written too
    26: (10, 11, 11, 11, 9, 9, 0, 1, 2, 7),
    27: (10, 11, 11, 11, 11, 9, 1, 1, 2, 8),  # the end needs no buffer; nothing is staged: read on
    28: (10, 11, 11, 11, 11, 9, 1, 1, 1, 9),
    29: (10, 11, 11, 11, 11, 9, 1, 1, 0, 10),
}


def test_a_message_is_staged_and_reading_goes_on() -> None:
    """B stands still until 20 ms. The kernel has room for two messages, the marks are 2 and 1."""
    stop = [{"at_s": 0, "rate": 0}, {"at_s": 0.02, "rate": 1000}]
    emits = [{"at_s": 0, "rate": 1000}, {"at_s": 0.011, "rate": 0}]
    made = pair(emits, stop, transport={"kernel_bytes": 2 * MESSAGE})
    wires = wire_accounts.Wires(build_physical_graph(made))
    found = {i: step(wires) for i in range(max(BY_HAND) + 1)}
    assert {i: found[i] for i in BY_HAND} == BY_HAND


def test_who_waits_for_one_gate_holds_up_all_channels() -> None:
    """B.1 never reads, B.0 does: it gets what came before the message that is staged."""
    stages = [
        {"name": "A", "parallelism": 2, "emit_rate": 1000, "placement": [0, 0]},
        {"name": "B", "parallelism": 2, "service_rate": [5000, 0], "placement": [1, 1]},
    ]
    made = scenario(stages, [("A", "B", "forward")], transport={"kernel_bytes": 4 * MESSAGE})
    wires = wire_accounts.Wires(build_physical_graph(made))
    wires.run(40)
    tasks, [number] = wires.memory.tasks, wires.numbers
    assert [int(task["taken"]) for task in tasks[2:4]] == [3, 0]  # turn by turn: 0 1 0 1 0 1
    assert wires.wire(number).auto_read == 0
    channels = [m.channel for m in wires.messages(number, "delivered", "written")]
    assert channels[0] == 1  # staged: the gate of B.1 has two
    assert {0, 1} == set(channels[1:])


def test_connections_are_served_in_the_order_of_waiting() -> None:
    """Three senders on machines of their own want the four buffers of one gate: turn by turn."""
    stages = [
        {"name": "A", "parallelism": 3, "emit_rate": 1000, "placement": [0, 1, 2]},
        {"name": "B", "service_rate": 100, "placement": [3]},
    ]
    cluster = {"task_managers": 4}
    made = scenario(stages, [("A", "B", "rebalance")], cluster=cluster, rounds=400)
    wires = wire_accounts.Wires(build_physical_graph(made))
    wires.run(100)
    before = [wires.wire(n).delivered for n in wires.numbers]
    wires.run(300)
    after = [wires.wire(n).delivered for n in wires.numbers]
    assert len(after) == 3
    assert [b - a for a, b in zip(before, after, strict=True)] == [10, 10, 10]


def test_a_flush_closes_the_buffer() -> None:
    """A record of 100 bytes a round, flushed: small messages, each in a buffer of its own."""
    stages = [
        {"name": "A", "emit_rate": 1000, "record_bytes": 100},
        {"name": "B", "service_rate": 0},
    ]
    flush = {"execution.buffer-timeout.interval": 0}
    made = scenario(stages, [("A", "B", "forward")], options=flush, transport={"kernel_bytes": 0})
    wires = wire_accounts.Wires(build_physical_graph(made))
    wires.run(5)
    sizes = [m.wire_bytes for m in wires.messages(wires.numbers[0], "delivered", "written")]
    assert set(sizes) == {100 + t.HEADER_BYTES}
    gate = wires.memory.gates[0]
    assert gate["pool"]["in_use"] == gate["pool"]["size"] == 2


# ---------------------------------------------------------------- odd sizes


def total(run: Run, stage: str) -> int:
    frame = run.tables["stages"].to_pandas()
    last = frame[(frame.stage == stage) & (frame.t_s == frame.t_s.max())]
    return int(last[["records_in", "records_out"]].sum().max())


@pytest.mark.parametrize("kernel_bytes", [0, 1, MESSAGE - 1, MESSAGE, MESSAGE + 1, 1 << 20])
@pytest.mark.parametrize("record_bytes", [1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 7])
def test_a_channel_with_one_buffer_passes_everything(kernel_bytes: int, record_bytes: int) -> None:
    emits = [{"at_s": 0, "rate": 100}, {"at_s": 0.1005, "rate": 0}]
    stages = [
        {"name": "A", "emit_rate": emits, "record_bytes": record_bytes},
        {"name": "B", "service_rate": 1000},
    ]
    options = {"taskmanager.network.numberOfBuffers": 1, "execution.buffer-timeout.interval": 0}
    made = scenario(
        stages,
        [("A", "B", "forward")],
        rounds=300,
        options=options,
        transport={"kernel_bytes": kernel_bytes},
    )
    sizes = build_physical_graph(made).sizes
    assert [(s.size, s.overdraft) for s in sizes.partitions.values()] == [(1, 0)]
    assert [(s.floating, s.exclusive) for s in sizes.gates.values()] == [(1, 0)]
    run = simulate(made)
    assert total(run, "A") == total(run, "B") == 10
    assert int(run.tables["latency"].to_pandas()["count"].sum()) == 10


def test_pools_of_the_old_sizes() -> None:
    stages = [
        {"name": "A", "parallelism": 2, "emit_rate": 1, "placement": [0, 1]},
        {"name": "B", "parallelism": 3, "service_rate": 1, "placement": [1, 1, 1]},
    ]
    options = {NETMEM + "buffers-per-channel": 2, NETMEM + "floating-buffers-per-gate": 8}
    sizes = build_physical_graph(scenario(stages, [("A", "B", "rebalance")], options=options)).sizes
    assert {(s.size, s.overdraft) for s in sizes.partitions.values()} == {(2 * 3 + 8, 0)}
    assert {(s.floating, s.exclusive) for s in sizes.gates.values()} == {(2 * 2 + 8, 0)}


def test_too_few_buffers_are_refused() -> None:
    made = pair(1, 1, options={"taskmanager.network.numberOfBuffers": 1})
    with pytest.raises(ScenarioError, match="Insufficient number of network buffers"):
        build_physical_graph(
            made.model_copy(
                update={
                    "stages": tuple(s.model_copy(update={"placement": (0,)}) for s in made.stages)
                }
            )
        )


# ---------------------------------------------------------------- places and networks


def test_all_is_local() -> None:
    """No connection; a subtask that is slow holds up nobody but its producer."""
    stages = [
        {"name": "A", "parallelism": 2, "emit_rate": 1000, "placement": [0, 0]},
        {"name": "B", "parallelism": 2, "service_rate": [2000, 100], "placement": [0, 0]},
    ]
    options = {NETMEM + "floating-buffers-per-gate": 8}
    made = scenario(stages, [("A", "B", "forward")], rounds=2000, options=options)
    assert wire_accounts.Wires(build_physical_graph(made)).numbers == []
    found = rates(simulate(made), "B")
    assert found == pytest.approx([1000, 100], rel=0.01)
    credit = made.model_copy(update={"system": SystemSpec()})
    assert found == pytest.approx(rates(simulate(credit), "B"), rel=0.01)


@pytest.mark.parametrize("latency_ms", [0, 1, 5])
def test_bandwidth_limits_all_edges_between_two_machines(latency_ms: float) -> None:
    """Two edges have two connections and one wire: together they get its bandwidth."""
    stages = [
        {"name": name, **rate, "placement": [place]}
        for name, rate, place in (
            ("A", {"emit_rate": 900}, 0),
            ("B", {"service_rate": 5000}, 1),
            ("C", {"emit_rate": 900}, 0),
            ("D", {"service_rate": 5000}, 1),
        )
    ]
    network = {"bandwidth_bytes_per_s": 600 * MESSAGE, "network_latency_ms": latency_ms}
    made = scenario(
        stages,
        [("A", "B", "forward"), ("C", "D", "forward")],
        rounds=4000,
        cluster={"task_managers": 2, **network},
        transport={"kernel_bytes": 40 * MESSAGE},
        options={NETMEM + "floating-buffers-per-gate": 8},
    )
    run = simulate(made)
    assert rates(run, "B")[0] + rates(run, "D")[0] == pytest.approx(600, rel=0.01)
    assert rates(run, "B")[0] == pytest.approx(300, rel=0.05)


def test_a_window_over_a_long_way() -> None:
    """The sockets' bytes over a round trip, 20 rounds, are the most that a connection carries."""
    found = []
    for messages in (10, 20):
        made = pair(
            3000,
            9000,
            rounds=2000,
            cluster={"network_latency_ms": 10},
            transport={"kernel_bytes": messages * MESSAGE},
            options={NETMEM + "floating-buffers-per-gate": 60},
        )
        found += rates(simulate(made), "B")
    assert found == pytest.approx([10 / 0.020, 20 / 0.020], rel=0.01)


def test_there_and_back_and_there_again() -> None:
    """A connection an edge: one for both edges there would wait for itself."""
    stages = [
        {"name": "s0", "emit_rate": 1000, "placement": [0]},
        {"name": "s1", "placement": [1]},
        {"name": "s2", "placement": [0]},
        {"name": "s3", "service_rate": 300, "placement": [1]},
    ]
    edges = [(f"s{i}", f"s{i + 1}", "forward") for i in range(3)]
    made = scenario(stages, edges, rounds=2000, transport={"kernel_bytes": 0})
    assert rates(simulate(made), "s3")[0] == pytest.approx(300, rel=0.02)


def test_clocks_say_what_they_do_not_do() -> None:
    made = pair(1, 1)
    assert check_clock(made, "virtual") == check_clock(made, "live") == []
    debloat = {"taskmanager.network.memory.buffer-debloat.enabled": True}
    [problem] = check_clock(pair(1, 1, options=debloat), "virtual")
    assert "buffer-debloat" in problem.place


# ---------------------------------------------------------------- properties


def wide(drawn: Scenario) -> Scenario:
    """The same without chains, each stage on a machine of its own: all channels are remote."""
    edges = tuple(edge.model_copy(update={"chain": False}) for edge in drawn.edges)
    stages = tuple(
        stage.model_copy(update={"placement": (i % 3,) * stage.parallelism})
        for i, stage in enumerate(drawn.stages)
    )
    return drawn.model_copy(update={"edges": edges, "stages": stages})


def drawn_parts(draw: Any, drawn: Scenario) -> Scenario:
    """The same over old connections with little room, over a network that may be slow."""
    if draw(st.sampled_from([True, True, False])):
        drawn = wide(drawn)
    options, round_us = drawn.options, drawn.live_round_us
    segment = options.segment_bytes
    values = {
        "high_water_segments": float(draw(st.integers(1, 3))),
        "low_water_segments": float(draw(st.integers(0, 3))),
        "kernel_bytes": float(draw(st.sampled_from([0, 1, segment, 3 * segment, 40 * segment]))),
    }
    system = drawn.system.model_copy(update={"transport": "tcp", "transport_values": values})
    cluster: dict[str, Any] = {
        "network_latency_ms": draw(st.sampled_from([0, 0, 1, 3])) * round_us / 1000
    }
    if rounds := draw(st.sampled_from([0, 0, 0.2, 1, 7])):  # that a buffer takes on the wire
        cluster["bandwidth_bytes_per_s"] = round(segment / (rounds * round_us / 1e6), 3)
    buffers = {"floating_buffers": draw(st.sampled_from([0, 1, 2, options.floating_buffers]))}
    return drawn.model_copy(
        update={
            "system": system,
            "cluster": drawn.cluster.model_copy(update=cluster),
            "options": options.model_copy(update=buffers),
        }
    )


@pytest.mark.holds("tcp", "virtual", "its rules after every round, random jobs")
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_random_jobs_keep_the_rules(data: Any) -> None:
    """Records, pools, bytes, marks and order after every round, also on slow networks."""
    made = drawn_parts(
        data.draw, data.draw(random_jobs.scenarios(random_jobs.Shape(is_virtual=True)))
    )
    note(made.to_yaml())
    wires = wire_accounts.Wires(random_jobs.laid_out(made))
    for _ in range(wires.job.rounds):
        wires.run()
        found = list(wires.violations(accounts, clocks.read, RoundRows))
        assert found == [], f"after round {wires.done - 1}"


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_everything_arrives(data: Any) -> None:
    """Once the sources have stopped all records get through, however little room there is."""
    made = drained(data.draw, random_jobs)
    note(made.to_yaml())
    wires = wire_accounts.Wires(random_jobs.laid_out(made))
    wires.run(wires.job.rounds)
    wires.finish(200_000)
    assert wires.left() == [0] * len(wires.memory.outs)


def drained(draw: Any, random_jobs: ModuleType) -> Scenario:
    """A job whose sources stop, and whose other stages take all that they are given."""
    shape = random_jobs.Shape(rounds=(30, 60), is_drained=True, is_virtual=True)
    made = drawn_parts(draw, draw(random_jobs.scenarios(shape)))
    flush = draw(st.sampled_from([0, made.live_round_us, 3 * made.live_round_us]))
    options = made.options.model_copy(update={"flush_interval_us": flush})
    fast = tuple(
        stage
        if stage.is_source
        else stage.model_copy(update={"service_rate": None, "service_time": "constant"})
        for stage in made.stages
    )
    return made.model_copy(update={"options": options, "stages": fast})


def test_random_jobs_fill_their_connections(draw_until: Any) -> None:
    """The strategies reach what they are meant to reach."""
    seen: Counter[str] = Counter()
    hard = ("remote", "staged", "others wait", "not writable", "end queued")

    @settings(max_examples=FILLED, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def look(data: Any) -> None:
        made = drawn_parts(
            data.draw, data.draw(random_jobs.scenarios(random_jobs.Shape(is_virtual=True)))
        )
        wires = wire_accounts.Wires(random_jobs.laid_out(made))
        for _ in range(wires.job.rounds):
            wires.run()
            list(wires.violations(accounts, clocks.read, RoundRows))
        seen["remote"] += int(any(wires.written.values()))
        seen.update(wires.seen)

    draw_until(look, lambda: min(seen[name] for name in hard) >= FILLED // 20, 8)
    print(dict(seen))
    for name in hard:
        assert seen[name] >= FILLED // 20, name


def test_random_jobs_that_drain_use_their_connections() -> None:
    """What has to arrive does travel, and the end behind it; drawn alike each time."""
    used, ended = [], []

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def look(data: Any) -> None:
        wires = wire_accounts.Wires(random_jobs.laid_out(drained(data.draw, random_jobs)))
        for _ in range(wires.job.rounds):
            wires.run()
            found = list(wires.violations(accounts, clocks.read, RoundRows))
            assert found == [], f"after round {wires.done - 1}"
        used.append(any(wires.written.values()))
        ended.append("end queued" in wires.seen)

    look()
    assert sum(used) > EXAMPLES // 3
    assert sum(ended) > EXAMPLES // 10
