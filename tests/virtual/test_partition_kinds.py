"""Kinds of result partition in whole jobs: by hand, and what must always hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.kernel.disk import buffer_at, lane_of, spill_row
from flowcontrol.kernel.loop import advance
from flowcontrol.kernel.views import gate_of, partition_of, partition_row, wire_queue
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import SpilledBuffer, SpillingPartition
from flowcontrol.memory.places import FLAG_SPILLS
from flowcontrol.protocol.network.partition_kinds import ON_DISK, PIPELINED, WRITING
from flowcontrol.results.figures import partition_figures
from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.state.network import Message
from flowcontrol.state.queues import in_order, is_event
from flowcontrol.virtual import run_job

SEGMENT = 4096
DISK = 204_800
"""Bytes a second: 20 ms, two rounds, for a buffer."""

EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
KINDS = ["pipelined", "blocking", "sort_merge", "hybrid_full", "hybrid_selective"]


def job(
    kind: str,
    *,
    rate: Any = 100,
    until_s: float = 2,
    service: Any = None,
    disk: int = DISK,
    buffers: int = 100,
    sort_buffers: int = 4,
    widths: tuple[int, int] = (1, 1),
    rounds: int = 1000,
    record_bytes: int = 1024,
    **keys: Any,
) -> Job:
    """A source that ends, and a sink, rounds of 10 ms; by default 4 records fill a buffer."""
    sink: dict[str, Any] = {"name": "sink", "parallelism": widths[1]}
    if service is not None:
        sink["service_rate"] = service
    emission = [{"at_s": 0, "rate": rate}, {"at_s": until_s, "rate": 0}]
    mapping = {
        "schema": 1,
        "name": "kinds",
        "duration_s": rounds / 100,
        "round_ms": 10,
        "cluster": {"task_managers": 2, "disk_bytes_per_s": disk},
        "options": {
            "taskmanager.memory.segment-size": f"{SEGMENT}b",
            "taskmanager.network.numberOfBuffers": buffers,
            "taskmanager.network.sort-shuffle.min-buffers": sort_buffers,
            **keys.pop("options", {}),
        },
        "stages": [
            {
                "name": "source",
                "emit_rate": emission,
                "record_bytes": record_bytes,
                "parallelism": widths[0],
            },
            sink,
        ],
        "edges": [
            {"from": "source", "to": "sink", "partitioner": "rebalance", "partition_type": kind}
        ],
        **keys,
    }
    scenario = parse_scenario(mapping)
    assert check_clock(scenario, "virtual") == []
    return build_physical_graph(scenario, round_us=10_000)


def figures(one: Job) -> dict[str, Any]:
    """Figures of the job's edge, but for the words."""
    [found] = run_job(one).partitions.values()
    return {key: value for key, value in found.items() if key not in {"waits", "type"}}


def test_blocking_by_hand() -> None:
    """200 records, 50 buffers, one every 40 ms; the disk takes 20 ms for each.

    The last one fills in the round that ends at 2.00 s, in which the source ends too. The disk
    begins it at the start of that round, at 1.99 s, and is done at 2.01 s. That is when the
    partition is finished; a round later the consumer may start, at 2.02 s. Reading the first
    buffer takes until 2.04 s, when it is sent.
    """
    assert figures(job("blocking")) == {
        "bytes_spilled": 200 * 1024,
        "bytes_read": 200 * 1024,
        "regions": 0,
        "max_buffers": 2,  # one being filled, one being written
        "pool_buffers": 100,
        "max_read_buffers": 1,  # each is sent when the next one is begun
        "producers_finished_s": 2.01,
        "consumers_may_start_s": 2.02,
        "first_message_s": 2.04,
        "producers_waited_s": 0.0,
    }


def test_the_last_buffer_is_written_as_it_is() -> None:
    """201 records: the last one alone in its buffer, which takes the disk 5 ms, from 2.01 s on."""
    found = figures(job("blocking", until_s=2.01))
    assert found["bytes_spilled"] == found["bytes_read"] == 201 * 1024
    assert found["producers_finished_s"] == 2.02


def test_sort_merge_by_hand() -> None:
    """A sort buffer of 4 buffers holds 16 records; a region takes the disk 80 ms, 8 rounds.

    Record 17 falls due in round 16 and finds no room: the region is begun at 0.16 s and written
    at 0.24 s, the 17th record goes into the next one, the one that is in hand then at once, and the
    others that fell due between are lost. So a region is begun every 22 rounds, 9 of them by 2 s,
    the last at 1.92 s; the record that waits for it is the tenth: 9 x 16 + 1 = 145.
    """
    found = figures(job("sort_merge"))
    assert found.pop("max_read_buffers") <= 36
    assert found == {
        "bytes_spilled": 145 * 1024,
        "bytes_read": 145 * 1024,
        "regions": 10,
        "max_buffers": 4,
        "pool_buffers": 4,
        "producers_finished_s": 2.01,
        "consumers_may_start_s": 2.02,
        "first_message_s": 2.04,
        "producers_waited_s": 0.72,
    }


def test_a_region_may_end_inside_a_record() -> None:
    """Records of 5,000 bytes: 3.27 of them fill the 4 buffers, all bytes are written once."""
    found = figures(job("sort_merge", record_bytes=5000))
    assert found["bytes_spilled"] % 5000 == 0
    assert found["bytes_read"] == found["bytes_spilled"]
    assert found["regions"] == -(-found["bytes_spilled"] // (4 * SEGMENT))


def test_few_subpartitions_are_written_by_hash() -> None:
    options = {"taskmanager.network.sort-shuffle.min-parallelism": 2}
    assert figures(job("sort_merge", options=options)) == figures(job("blocking"))


def test_a_slow_disk_stops_the_producer() -> None:
    """A disk of 5 buffers/s for 25: 10 s of writing cannot be, the pool of 8 is what is ahead.

    The soft quota of 10 is not reached. Done by 2.00 s are 9 buffers (the first one is full at
    0.04 s, each takes 200 ms), one is being written: so at most 9 + 8 are filled.
    """
    found = figures(job("blocking", disk=DISK // 10, buffers=8))
    assert found["max_buffers"] == found["pool_buffers"] == 8
    assert 16 * SEGMENT <= found["bytes_spilled"] <= 17 * SEGMENT
    assert found["producers_waited_s"] > 1


def test_full_spills_everything_though_its_consumer_keeps_up() -> None:
    """Nothing is read back but the last buffer, which the end of the source takes from memory."""
    found = figures(job("hybrid_full", disk=10 * DISK))
    assert found["bytes_spilled"] == 200 * 1024
    assert found["bytes_read"] == SEGMENT
    assert found["consumers_may_start_s"] == 0
    assert found["first_message_s"] == 0.03  # the first buffer is full in the fourth round
    assert found["regions"] == 0


def test_selective_spills_nothing_while_its_consumer_keeps_up() -> None:
    """But for the last buffer again."""
    found = figures(job("hybrid_selective"))
    assert (found["bytes_spilled"], found["bytes_read"]) == (SEGMENT, SEGMENT)
    assert found["max_buffers"] == 1


def test_selective_by_hand() -> None:
    """A pool of 10 and a consumer without a rate: 2 buffers go, the others stay or are spilled.

    One credit is exclusive, one floating. Buffers 3 to 8 stay; when the seventh segment is
    taken, seven tenths, four are spilled: those that would be sent last. The disk takes a whole
    round for them, so by the next decision they are gone.
    """
    options = {
        "taskmanager.network.memory.buffers-per-channel": 1,
        "taskmanager.network.memory.floating-buffers-per-gate": 1,
        "taskmanager.network.memory.max-buffers-per-channel": 100,
    }
    stands = [{"at_s": 0, "rate": 0}, {"at_s": 5, "rate": 1000}]
    one = job(
        "hybrid_selective", buffers=10, service=stands, disk=100 * DISK, options=options, rounds=190
    )
    memory, _ = run(one)
    channel = memory.outs[0]
    assert channel["sent"] == 2
    own = spill_row(memory.head, partition_row(memory.head, 0))
    finished = 47  # 190 records
    kept = finished - 2 - own.bytes_written // SEGMENT
    assert own.bytes_written % SEGMENT == 0
    assert own.kept == kept
    assert 2 <= kept <= 6
    assert own.peak == 7
    on_disk = [entry.index for entry in buffers_of(memory, 0) if entry.spill == ON_DISK]
    in_memory = [entry.index for entry in buffers_of(memory, 0) if entry.is_held == 1]
    assert in_memory[:2] == [2, 3]  # what is sent next is kept
    assert sorted(on_disk + in_memory) == list(range(2, finished))


def test_pipelined_grows_up_to_the_pool() -> None:
    """Its pool is all that the task manager has; the quota is raised, so nothing else bounds."""
    quota = {"taskmanager.network.memory.max-buffers-per-channel": 1000}
    stands = [{"at_s": 0, "rate": 0}, {"at_s": 5, "rate": 1000}]
    bounded = job("pipelined_bounded", rate=1000, service=stands, options=quota)
    free = job("pipelined", rate=1000, service=stands, options=quota)
    assert bounded.sizes.partitions["source->sink", 0].size == 10
    assert free.sizes.partitions["source->sink", 0].size == 100
    assert run_job(bounded).partitions == {}
    found = figures(free)
    assert (found["max_buffers"], found["bytes_spilled"]) == (100, 0)
    assert found["producers_waited_s"] > 0


def test_pipelined_keeps_to_the_soft_quota() -> None:
    stands = [{"at_s": 0, "rate": 0}, {"at_s": 5, "rate": 1000}]
    assert figures(job("pipelined", rate=1000, service=stands))["max_buffers"] == 10


def test_who_waited_is_said() -> None:
    [found] = run_job(job("sort_merge")).partitions.values()
    assert found["type"] == "sort_merge"
    assert found["waits"] == [
        "sink waited 2.02 s for all of its blocking inputs to finish",
        "source waited 0.72 s for the disk",
    ]
    [found] = run_job(job("blocking", rounds=100)).partitions.values()
    assert found["consumers_may_start_s"] is None
    assert found["waits"] == ["sink never started: source had not finished by the end"]


def test_a_consumer_waits_for_all_that_blocks() -> None:
    """Of two blocking inputs the slower one decides, also behind a map."""
    one = job(
        "blocking",
        stages=[
            {"name": "fast", "emit_rate": [{"at_s": 0, "rate": 100}, {"at_s": 1, "rate": 0}]},
            {"name": "slow", "emit_rate": [{"at_s": 0, "rate": 100}, {"at_s": 3, "rate": 0}]},
            {"name": "map", "service_rate": 80},
            {"name": "join"},
        ],
        edges=[
            {"from": "slow", "to": "map"},
            {"from": "fast", "to": "join", "partition_type": "blocking"},
            {"from": "map", "to": "join", "partition_type": "sort_merge"},
        ],
    )
    found = run_job(one).partitions
    fast, slow = found["fast->join"], found["map->join"]
    assert fast["producers_finished_s"] < 1.1
    assert slow["producers_finished_s"] > 3
    start = fast["consumers_may_start_s"]
    assert start == slow["consumers_may_start_s"]
    assert start == pytest.approx(slow["producers_finished_s"] + 0.01)
    rows = run_job(one).tables["stages"].to_pylist()
    last = {row["stage"]: row for row in rows}
    assert last["join"]["records_in"] == last["fast"]["records_out"] + last["map"]["records_out"]
    assert last["map"]["records_out"] == last["slow"]["records_out"]
    assert all(
        row["records_in"] == 0 for row in rows if row["stage"] == "join" and row["t_s"] <= start
    )


# ---- what must always hold


def run(one: Job, spills: int = 4096) -> tuple[Memory, int]:
    """Run a job to its end; return its memory and the flags."""
    memory = fill(one, LogSizes(16, 16, spills), track=False)
    return memory, int(advance(memory.cells, one.rounds))


def buffers_of(memory: Memory, channel: int) -> list[SpilledBuffer]:
    """Buffers of a channel that have not been sent, in their order."""
    out = memory.outs[channel]
    sp = spill_row(memory.head, partition_row(memory.head, int(out["partition"])))
    pointer = lane_of(memory.head, sp, out["place"]).next
    found = []
    while pointer > 0:
        found.append(buffer_at(memory.head, pointer))
        pointer = found[-1].next
    return found


def test_states_of_all_partitions_are_one_table() -> None:
    memory = fill(job("blocking"), LogSizes(16, 16, 4))
    kept = memory.states(memory.partitions["spill"], SpillingPartition)
    assert kept["number"].tolist() == list(range(len(memory.partitions)))
    assert {name: kept[name][0] for name in ("turn", "first", "done_at", "since")} == {
        "turn": -1, "first": -1, "done_at": -1, "since": -1,
    }  # fmt: skip


@pytest.mark.parametrize("pointer", [0, 5])
def test_a_pointer_to_no_buffer_is_refused_where_the_kernel_is_interpreted(pointer: int) -> None:
    memory = fill(job("blocking"), LogSizes(16, 16, 4))
    with pytest.raises(IndexError, match="SpilledBuffer"):
        buffer_at(memory.head, pointer)


def is_data(message: Message) -> bool:
    return is_event(message) == 0


def check_channel(memory: Memory, channel: int) -> None:
    """Records written = taken up + at the receiver + under way + in memory or on disk."""
    out = memory.outs[channel]
    into = memory.ins[out["input"]]
    p = memory.partitions[out["partition"]]
    partition, gate = (
        partition_of(memory.head, int(out["partition"])),
        gate_of(memory.head, int(out["gate"])),
    )
    queue = in_order(partition.queues[int(out["place"])])
    filled = [one.records for one in queue if is_data(one)]
    queued = [one.records for one in in_order(gate.queues[int(out["index"])])]
    task = memory.tasks[out["receiver"]]
    in_hand = task["left"] if task["channel"] == out["index"] else 0
    wire = wire_queue(memory.head, int(out["input"]))
    under_way = sum(message.records for message in in_order(wire))
    waiting = [*filled, int(out["tail"])]
    if p["kind"] > PIPELINED:
        unsent = buffers_of(memory, channel)
        waiting += [own.records for own in unsent]
        assert out["buffers"] == len(unsent) + len(filled) + out["is_open"]
    assert out["written"] == (into["processed"] + in_hand + sum(queued) + under_way + sum(waiting))


def check_partition(memory: Memory, number: int) -> None:
    """Memory is never above the pool, and all of it is somebody's."""
    p = partition_row(memory.head, number)
    in_use, size = p.pool.in_use, p.pool.size
    assert 0 <= in_use <= size + p.pool.max_overdraft
    if p.kind <= PIPELINED:
        return
    own = spill_row(memory.head, p)
    channels = memory.outs[p.first_channel :][: p.channels]
    held = 0
    for place, channel in enumerate(channels):
        lane = lane_of(memory.head, own, place)
        pointer, readable = lane.head, 0
        while pointer > 0:
            entry = buffer_at(memory.head, pointer)
            held += entry.is_held
            is_unsent = entry.index >= channel["sent"]
            readable += int(is_unsent and (entry.is_gone == 0 or entry.loaded == 2))
            assert entry.is_held == 1 or entry.spill == ON_DISK or not is_unsent
            assert entry.is_held == 1 or entry.spill != WRITING
            pointer = entry.next
        assert lane.readable == readable
        held += sum(map(is_data, in_order(partition_of(memory.head, number).queues[place])))
        held += int(channel["is_open"])
    assert in_use == held
    assert own.peak <= size
    assert own.loaded >= 0
    assert own.bytes_read <= own.bytes_written


def check_disks(one: Job, memory: Memory, rounds: int) -> None:
    """No disk has done more than its rate allows."""
    done: dict[int, int] = {}
    for number in range(memory.head.partitions):
        p = partition_row(memory.head, number)
        if p.kind > PIPELINED:
            own = spill_row(memory.head, p)
            moved = own.bytes_written + own.bytes_read
            done[own.disk] = done.get(own.disk, 0) + moved
    rate = one.scenario.cluster.disk_bytes_per_s or 0
    assert all(moved <= rate * one.time_s(rounds) for moved in done.values())


@settings(max_examples=settings.default.max_examples // 4)
@given(
    kind=st.sampled_from(KINDS),
    rate=st.sampled_from([20, 100, 333, 2000]),
    service=st.sampled_from([None, 5, 90, 400]),
    disk=st.sampled_from([DISK // 20, DISK, 20 * DISK]),
    buffers=st.integers(60, 120),
    sort_buffers=st.integers(8, 20),
    record_bytes=st.sampled_from([10, 999, 4096, 9000]),
    widths=st.sampled_from([(1, 1), (2, 1), (1, 3), (3, 2)]),
    exclusive=st.sampled_from([2, 0]),
)
def test_nothing_is_lost_and_nothing_is_exceeded(
    kind: str, rate: int, disk: int, widths: tuple[int, int], exclusive: int, **more: Any
) -> None:
    options = {EXCLUSIVE: exclusive}
    one = job(kind, rate=rate, disk=disk, widths=widths, rounds=400, options=options, **more)
    memory = fill(one, LogSizes(16, 16, 20_000), track=False)
    for rounds in [*range(1, 60), *range(60, 401, 20)]:
        assert advance(memory.cells, rounds) == 0
        for channel in range(len(memory.outs)):
            check_channel(memory, channel)
        for number in range(len(memory.partitions)):
            check_partition(memory, number)
        check_disks(one, memory, rounds)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("widths", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("exclusive", [2, 0])
def test_all_arrives_in_the_end_and_all_memory_is_free(
    kind: str, widths: tuple[int, int], exclusive: int
) -> None:
    """Also without exclusive buffers, when each backlog has to be announced."""
    one = job(kind, widths=widths, service=150, rounds=3000, options={EXCLUSIVE: exclusive})
    memory, flags = run(one)
    assert flags == 0
    written = memory.outs["written"].sum()
    assert memory.ins["processed"].sum() == written > 0
    assert memory.partitions["pool"]["in_use"].sum() == 0
    [found] = partition_figures(one, memory).values()
    total = int(written) * 1024
    if kind != "hybrid_selective":
        assert found["bytes_spilled"] == total
    if kind in {"blocking", "sort_merge"}:
        assert found["bytes_read"] == total
    assert found["bytes_read"] <= found["bytes_spilled"] <= total


def test_a_run_whose_memory_of_buffers_is_full_begins_again() -> None:
    one = job("blocking", rounds=400)
    _, flags = run(one, spills=8)
    assert flags == FLAG_SPILLS
    assert run(one)[1] == 0


def test_rounds_between_samples_do_not_matter() -> None:
    """However a run is cut, it ends in the same state."""
    one = job("hybrid_selective", service=50, widths=(2, 2), rounds=300)
    whole, _ = run(one)
    cut = fill(one, LogSizes(16, 16, 4096), track=False)
    for rounds in range(1, 301):
        assert advance(cut.cells, rounds) == 0
    assert partition_figures(one, cut) == partition_figures(one, whole)
    assert (cut.outs == whole.outs).all()
    assert (cut.ins == whole.ins).all()
