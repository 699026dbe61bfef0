"""Small jobs, round by round, by hand: when barriers are where, what they block and persist.

A round is 100 ms. The coordinator triggers at the start of round 10; a message takes a round: the
source hears in round 11, its barrier reaches the next task in round 12, an acknowledgement of round
12 reaches the coordinator at the start of round 13.
"""

from __future__ import annotations

from itertools import takewhile
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.protocol.checkpoints.barriers import track_barrier, track_end_of_partition
from flowcontrol.state.network import AlignedChannel, Alignment, TrackedCheckpoint
from flowcontrol.state.queues import (
    ALIGNED_BARRIER,
    AT_LEAST_ONCE_BARRIER,
    CANCEL_MARKER,
    DATA,
    END_OF_DATA,
    END_OF_PARTITION,
    SAVEPOINT_BARRIER,
    TIMEOUTABLE_BARRIER,
    UNALIGNED_BARRIER,
    is_event,
    new_queue,
)
from modules import load

cuts = load("tests/job/checkpoints/cuts.py")

small = load("tests/job/checkpoints/small.py")


def run_of(cuts: ModuleType, made: Any) -> tuple[Any, list[Any]]:
    """A run, and the state after each of its rounds."""
    run = cuts.CheckpointRun(made)
    run.run()
    return run, run.states


def sent(states: list[Any], edge: str, kind: int) -> list[int]:
    """Rounds in which an event of a kind was sent on an edge."""
    return [
        state.number
        for state in states
        for name, out, _ in state.channels()
        if name.edge == edge
        for message in out.under_way
        if message.message.kind == kind
    ]


# ---- one channel


def test_a_barrier_takes_a_round_a_hop() -> None:
    """Nothing waits: trigger 1000, source 1100, map 1200, sink 1300, its answer 1400."""
    run, states = run_of(cuts, small.chain({"source": 100, "map": 500, "sink": 500}))
    assert small.rounds_of(run, 1) == {0: (11, 100, 0), 1: (12, 200, 0), 2: (13, 300, 0)}
    assert run.control.coordinator.statistics(1).end_to_end == 400_000
    assert sent(states, "source->map", ALIGNED_BARRIER)[0] == 11
    assert sent(states, "map->sink", ALIGNED_BARRIER)[0] == 12


def test_an_aligned_barrier_blocks_its_subpartition_until_consumption_resumes() -> None:
    """Sent in 11, read and resumed in 12, heard in 13: 11 and 12 end blocked, with backlog 0."""
    _, states = run_of(cuts, small.chain({"source": 100, "sink": 500}))
    for number, blocked, blocks, resumed in ((10, 0, 0, 0), (11, 1, 1, 0), (12, 1, 1, 0)):
        out, _ = states[number].channel("source->sink")
        assert (out.state.is_blocked, out.state.blocks, out.state.resumed) == (
            blocked,
            blocks,
            resumed,
        )
        assert out.backlog == 0 or not blocked
        assert states[number].task("sink").checkpoints.channels[0].resumed == int(number >= 12)
    out, _ = states[13].channel("source->sink")
    assert (out.state.is_blocked, out.state.blocks, out.state.resumed) == (0, 1, 1)
    assert [m.message.kind for m in states[12].channel("source->sink")[0].under_way] == []
    assert any(not is_event(m.message) for m in out.under_way)


def test_a_barrier_takes_no_segment_and_no_credit() -> None:
    """The same job without checkpoints uses the same buffers until the barrier has cut one."""
    made = small.chain({"source": 300, "sink": 100})
    _, with_barrier = run_of(cuts, made)
    without = [batch.state for batch in small.plain_rounds(made)]
    for state, plain in zip(with_barrier[:12], without[:12], strict=True):
        out, into = state.channel("source->sink")
        bare, other = plain.channel("source->sink")
        assert (out.state.sent, out.credit) == (bare.state.sent, bare.credit)
        assert state.task("source").partitions[0].pool == plain.task("source").partitions[0].pool
        assert into.state == other.state
    assert with_barrier[11].channel("source->sink")[0].state.events == 1  # behind the data


def test_a_barrier_cuts_the_open_buffer() -> None:
    """Without a flusher nothing goes but whole buffers, and what a barrier stands behind."""
    made = small.chain({"source": 30, "sink": 500}, {"execution.buffer-timeout.interval": -1})
    _, states = run_of(cuts, made)
    # 33 records of 400 bytes by the end of round 10: three buffers of 4096, and 912 in the fourth.
    before, _ = states[10].channel("source->sink")
    assert (before.state.is_open, before.state.sent, before.state.unread) == (1, 3, 912)
    out, _ = states[11].channel("source->sink")
    cut, barrier = (sent.message for sent in out.under_way)
    assert (cut.kind, cut.records, cut.nbytes) == (DATA, 3, 912)
    assert (barrier.kind, barrier.checkpoint, barrier.created) == (ALIGNED_BARRIER, 1, 10**6)
    assert (out.state.sent, out.state.written) == (4, 36)
    assert (out.state.is_open, out.state.unread) == (1, 1200)  # three records behind the barrier


def test_an_unaligned_barrier_overtakes_on_both_sides() -> None:
    """A sink of 100 records a second in front of which 60 kB wait takes it in round 12."""
    run, states = run_of(cuts, small.chain({"source": 400, "sink": 100}, small.UNALIGNED))
    assert small.rounds_of(run, 1) == {0: (11, 100, 0), 1: (12, 200, 0)}
    [written] = run.cuts[1].written.values()
    [processed] = run.cuts[1].processed.values()
    out, _ = states[11].channel("source->sink")
    _, into = states[12].channel("source->sink")
    assert out.under_way[0].message.kind == UNALIGNED_BARRIER  # before all that had waited
    persisted = states[12].task("sink").checkpoints.channels[0].persisted
    assert out.state.persisted > 0 < persisted
    assert written - processed == out.state.persisted + persisted
    assert (out.state.is_blocked, out.state.blocks) == (0, 0)
    assert UNALIGNED_BARRIER not in [message.kind for message in into.queue]


def test_a_timeoutable_barrier_turns_in_the_output_when_its_time_is_over() -> None:
    """Triggered at 1000, timeout 300: in round 13 it overtakes what it has waited behind."""
    run, states = run_of(cuts, small.chain({"source": 400, "sink": 100}, small.TIMEOUT))
    for number in (11, 12):
        assert states[number].task("source").checkpoints.state.waits_outputs == 1
        [kind] = [m.kind for m in states[number].channel("source->sink")[0].finished if is_event(m)]
        assert kind == TIMEOUTABLE_BARRIER
    assert sent(states, "source->sink", UNALIGNED_BARRIER)[0] == 13
    assert sent(states, "source->sink", TIMEOUTABLE_BARRIER) == []
    assert small.rounds_of(run, 1) == {0: (13, 100, 0), 1: (14, 400, 0)}
    assert states[13].channel("source->sink")[0].state.persisted > 0


def test_a_timeoutable_barrier_that_has_left_persists_nothing_of_the_output() -> None:
    """It is read in time: an aligned checkpoint, which blocks as one."""
    run, states = run_of(cuts, small.chain({"source": 100, "sink": 500}, small.TIMEOUT))
    assert sent(states, "source->sink", TIMEOUTABLE_BARRIER)[0] == 11
    assert small.rounds_of(run, 1) == {0: (11, 100, 0), 1: (12, 200, 0)}
    assert states[12].channel("source->sink")[0].state.is_blocked == 1
    assert run.control.coordinator.statistics(1).persisted == 0


def test_a_savepoint_waits_for_its_turn_in_every_exactly_once_mode() -> None:
    made = small.chain(
        {"source": 400, "sink": 100},
        {**small.UNALIGNED, f"{small.PREFIX}interval": "9s"},
        savepoints=[{"at_s": 1}],
        duration_s=8,
    )
    run, states = run_of(cuts, made)
    assert len(sent(states, "source->sink", SAVEPOINT_BARRIER)) == 1
    found = run.control.coordinator.statistics(1)
    assert (found.kind, found.status, found.persisted) == ("savepoint", "completed", 0)
    assert found.end_to_end > 1_000_000


# ---- several channels


def test_the_channel_that_has_delivered_is_blocked_until_the_other_has() -> None:
    """Left has little in flight, right fills its buffers: the sink waits for right's barrier."""
    run, states = run_of(cuts, small.two_inputs(100, 400, 200))
    blocked = [s.number for s in states[:22] if s.task("sink").checkpoints.channels[0].is_blocked]
    first, last = blocked[0], blocked[-1]
    ack, delay, alignment = small.rounds_of(run, 1)[2]
    assert blocked == list(range(first, last + 1))
    assert (ack, delay, alignment) == (last + 1, first * 100 - 1000, (last + 1 - first) * 100)
    left = [s.channel("left->sink")[1].state.processed for s in states]
    right = [s.channel("right->sink")[1].state.processed for s in states]
    assert left[first] == left[last] < left[ack + 3]  # nothing is taken of it meanwhile
    assert right[last] - right[first] == 20 * (last - first)  # the whole rate is the other's
    channels = states[ack].task("sink").checkpoints.channels
    assert [one.resumed for one in channels] == [1, 1]
    assert [one.is_blocked for one in channels] == [0, 0]


def test_at_least_once_blocks_nothing() -> None:
    run, states = run_of(cuts, small.two_inputs(100, 400, 200, small.AT_LEAST_ONCE))
    ack, delay, alignment = small.rounds_of(run, 1)[2]
    assert alignment > 0
    assert ack * 100 == 1000 + delay + alignment
    left = [s.channel("left->sink")[1].state.processed for s in states]
    assert left[ack] > left[(1000 + delay) // 100]
    assert len(sent(states, "left->sink", AT_LEAST_ONCE_BARRIER)) >= 2
    assert all(s.channel("left->sink")[0].state.blocks == 0 for s in states)


def test_the_first_barrier_triggers_an_unaligned_checkpoint_and_the_last_ends_it() -> None:
    """Left's barrier leaves in time, right's turns in its output: the sink switches at 1300."""
    run, states = run_of(cuts, small.two_inputs(100, 400, 200, small.TIMEOUT))
    # Left's barrier is announced at 1200; it counts as the first one when it is pulled forward.
    assert small.rounds_of(run, 1) == {0: (11, 100, 0), 1: (13, 100, 0), 2: (14, 300, 100)}
    waits = [s.number for s in states[:20] if s.task("sink").checkpoints.state.waits_inputs]
    assert waits == [13]
    assert states[13].task("sink").checkpoints.alignment.is_unaligned == 1
    # Left's barrier waited behind data too: it was pulled forward, and blocks until right's is in.
    for number, resumed in ((13, [0, 0]), (14, [1, 0])):
        channels = states[number].task("sink").checkpoints.channels
        assert [one.resumed for one in channels] == resumed
    assert run.cuts[1].persisted[next(n for n in run.cuts[1].persisted if "right" in n.edge)] > 0
    run.check_cut(1)


def test_one_pointwise_input_keeps_all_inputs_of_its_task_aligned() -> None:
    """And behind that task the barrier overtakes again."""
    stages = [
        {"name": "left", "emit_rate": 100, "placement": [0]},
        {"name": "right", "emit_rate": 100, "placement": [1]},
        {"name": "map", "service_rate": 500, "placement": [2]},
        {"name": "sink", "service_rate": 50, "placement": [3]},
    ]
    edges = [
        ("left", "map", "forward"),
        ("right", "map", "rebalance"),
        ("map", "sink", "rebalance"),
    ]
    run, states = run_of(cuts, small.job(stages, edges, small.UNALIGNED))
    for edge in ("left->map", "right->map"):
        assert sent(states, edge, ALIGNED_BARRIER)[0] == 11
        assert sent(states, edge, UNALIGNED_BARRIER) == []
    assert sent(states, "map->sink", ALIGNED_BARRIER) == []
    assert sent(states, "map->sink", UNALIGNED_BARRIER) != []
    for checkpoint in run.completed:
        run.check_cut(checkpoint)


ENDS = [{"at_s": 0, "rate": 100}, {"at_s": 1.2, "rate": 0}]


def test_an_end_counts_as_a_barrier() -> None:
    """Left ends at 1.2 s and finishes with checkpoint 2, so the third is that of the others."""
    run, _ = run_of(cuts, small.two_inputs(ENDS, 100, 400))
    assert sorted(small.rounds_of(run, 2)) == [0, 1, 2]
    assert sorted(small.rounds_of(run, 3)) == [1, 2]
    found = run.control.coordinator.statistics(3)
    assert (found.status, found.acknowledged, found.subtasks) == ("completed", 3, 3)


def test_a_task_finishes_with_a_checkpoint_taken_after_its_data_ended() -> None:
    """FLIP-147. Its data ends in round 11, checkpoint 2 is triggered in 20 and complete in 23.

    The end of the data goes in round 13, when the barrier of checkpoint 1 blocks no more. Both
    tasks hear in 24: the source finishes, and the sink when its end has come, in 25.
    """
    run, states = run_of(cuts, small.chain({"source": ENDS, "sink": 500}))
    assert sent(states, "source->sink", END_OF_DATA) == [13]
    for number, ended in ((10, [0, 0]), (11, [1, 0]), (13, [1, 0]), (14, [1, 1])):
        tasks = states[number].tasks
        assert [task.checkpoints.state.has_ended for task in tasks] == ended
    assert run.control.coordinator.statistics(2).ended == 2_300_000
    assert [task.checkpoints.state.final for task in states[22].tasks] == [2, 2]
    assert [task.checkpoints.state.finishes for task in states[23].tasks] == [24, 24]
    assert sent(states, "source->sink", END_OF_PARTITION) == [24]
    for number, finished in ((23, [0, 0]), (24, [1, 0]), (25, [1, 1])):
        assert [task.state.is_finished for task in states[number].tasks] == finished
    assert run.control.coordinator.ids == (1, 2)  # all have finished: no checkpoint any more


def test_without_checkpoints_after_tasks_finish_an_end_is_an_end() -> None:
    """The source finishes at once; from then on no checkpoint starts."""
    option = {f"{small.PREFIX}checkpoints-after-tasks-finish": False}
    run, states = run_of(cuts, small.two_inputs(ENDS, 100, 400, option))
    assert sent(states, "left->sink", END_OF_DATA) == []
    assert len(sent(states, "left->sink", END_OF_PARTITION)) == 1
    assert run.control.coordinator.ids == (1,)


def test_a_source_inside_a_record_waits_with_its_trigger() -> None:
    """Records larger than all buffers: the barrier waits for the rest of one to be written."""
    made = small.chain(
        {"source": 10, "sink": 1},
        {"taskmanager.network.memory.max-overdraft-buffers-per-gate": 0},
        duration_s=12,
    )
    made = small.chain_of_large(made)
    run, states = run_of(cuts, made)
    waiting = takewhile(lambda s: s.task("source").checkpoints.triggers, states[11:])
    waits = [state.task("source").partitions[0].left_bytes for state in waiting]
    assert len(waits) > 1
    assert all(left > 0 for left in waits)
    assert small.rounds_of(run, 1)[0][1] == 100 + 100 * len(waits)


def test_what_expires_before_its_barrier_is_cancelled_downstream() -> None:
    """The source is inside a record when checkpoint 1 expires: a marker goes in its place."""
    made = small.chain_of_large(
        small.chain(
            {"source": 10, "sink": 1},
            {
                "taskmanager.network.memory.max-overdraft-buffers-per-gate": 0,
                f"{small.PREFIX}interval": "1s",
                f"{small.PREFIX}timeout": "200ms",
                f"{small.PREFIX}tolerable-failed-checkpoints": 99,
            },
            duration_s=12,
        )
    )
    run, states = run_of(cuts, made)
    assert run.control.coordinator.statistics(1).status == "expired"
    assert len(sent(states, "source->sink", CANCEL_MARKER)) >= 1
    assert run.seen["declined 2"] >= 1


# ---- laws


@pytest.mark.parametrize("floating", [2, 8, 30])
@pytest.mark.parametrize("rate", [50, 100, 237])
def test_an_aligned_barrier_takes_as_long_as_what_is_ahead_of_it_takes_to_drain(
    rate: int, floating: int
) -> None:
    """Within a round a hop: trigger, data ahead of the barrier over the rate, and the answer."""
    options = {f"{small.NETMEM}floating-buffers-per-gate": floating}
    run, _ = run_of(cuts, small.chain({"source": 600, "sink": rate}, options, duration_s=12))
    assert len(run.completed) >= 1
    for checkpoint in run.completed:
        [written] = run.cuts[checkpoint].written.values()
        source, sink = small.rounds_of(run, checkpoint)[0], small.rounds_of(run, checkpoint)[1]
        before = small.processed_by(run, "sink", source[0])
        ahead = (written - before * 400) / 400
        assert ahead > 5
        assert abs((sink[0] - source[0]) * 100 - 1000 * ahead / rate) <= 200
        end_to_end = run.control.coordinator.statistics(checkpoint).end_to_end / 1000
        assert end_to_end == 1000 * sink[0] / 10 + 100 - run_triggered_ms(run, checkpoint)


def run_triggered_ms(run: Any, checkpoint: int) -> float:
    return run.control.coordinator.statistics(checkpoint).triggered / 1000


@pytest.mark.parametrize("rate", [20, 50, 100])
def test_an_unaligned_barrier_takes_a_round_a_hop_whatever_is_in_flight(rate: int) -> None:
    """And the rest of the record in hand."""
    made = small.chain({"source": 600, "map": 600, "sink": rate}, small.UNALIGNED)
    run, _ = run_of(cuts, made)
    assert len(run.completed) == 4
    record_ms = 1000 / rate
    for duration in small.durations(run).values():
        assert 400 <= duration <= 400 + record_ms + 100


def test_the_first_checkpoint_comes_at_the_interval_and_others_at_its_multiples() -> None:
    run, _ = run_of(cuts, small.chain({"source": 10, "sink": 100}))
    own = run.control.coordinator
    assert [own.statistics(id).triggered for id in own.ids] == [10**6 * n for n in (1, 2, 3, 4)]


def test_an_at_least_once_checkpoint_is_taken_with_its_own_time() -> None:
    """Although the barrier of a newer one has come in between, and where an end completes it."""
    own, channels = Alignment(mode=3, open_channels=2), [AlignedChannel(), AlignedChannel()]
    pending = new_queue(4, TrackedCheckpoint)
    for checkpoint in (1, 2):
        created = 1000 * checkpoint
        assert track_barrier(own, channels, pending, 1, created + 50, checkpoint, created) == 0
    track_barrier(own, channels, pending, 0, 2060, 1, 1000)  # completes 1
    assert (own.triggered_id, own.created) == (1, 1000)
    track_end_of_partition(own, channels, pending, 0, 2100)
    assert (own.triggered_id, own.created) == (2, 2000)


def test_what_expires_before_it_is_written_is_not_acknowledged() -> None:
    """The source takes checkpoint 1 in round 11; in 16 it hears that it has expired.

    Its barrier stands behind 60 kB then, and would overtake them at 3000.
    """
    options = {
        f"{small.PREFIX}unaligned": True,
        f"{small.PREFIX}aligned-checkpoint-timeout": "2s",
        f"{small.PREFIX}timeout": "500ms",
        f"{small.PREFIX}tolerable-failed-checkpoints": 99,
    }
    run, states = run_of(cuts, small.chain({"source": 400, "sink": 50}, options))
    assert run.control.coordinator.statistics(1).status == "expired"
    held = [state.task("source").checkpoints for state in states]
    assert [one.state.pending for one in held[10:13]] == [0, 1, 1]
    assert [one.checkpoint for one in held[15].aborted] == [1]
    assert [one.task for one in run.reports if one.checkpoint == 1 and one.kind == 1] == []
    assert run.cuts[1].written  # it was taken


def test_a_job_stops_with_a_savepoint() -> None:
    """Asked for at 1000: the source emits nothing from round 11 on; all have it at 1300.

    The source hears that in 14 and finishes, the sink when its input has ended.
    """
    made = small.chain(
        {"source": 100, "sink": 500},
        {f"{small.PREFIX}interval": "9s"},
        savepoints=[{"at_s": 1, "stop": True}],
    )
    run, states = run_of(cuts, made)
    found = run.control.coordinator.statistics(1)
    assert (found.kind, found.status, found.ended) == ("stop_savepoint", "completed", 1_300_000)
    taken = [state.task("source").state.taken for state in states]
    assert taken[9] < taken[10] == taken[11] == taken[-1]
    assert sent(states, "source->sink", SAVEPOINT_BARRIER) == [11]
    assert sent(states, "source->sink", END_OF_DATA) == []
    assert sent(states, "source->sink", END_OF_PARTITION) == [14]
    for number, finished in ((13, [0, 0]), (14, [1, 0]), (15, [1, 1])):
        assert [task.state.is_finished for task in states[number].tasks] == finished
    assert states[-1].records_in_flight == 0
    assert run.control.coordinator.ids == (1,)
    run.check_cut(1)
