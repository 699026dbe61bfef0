"""The figures of a look, on links whose every commit has a known time."""

from __future__ import annotations

import json
import time
from dataclasses import fields

import pytest

from flowcontrol.analysis.bottleneck import Pressure
from flowcontrol.errors import LinkError
from flowcontrol.link.monitoring.bottleneck import describe_bottleneck
from flowcontrol.link.monitoring.monitor import LinkMonitor


def snapshot(link, clock):
    """Return what somebody sees who looks for the first time."""
    return LinkMonitor(link.path).snapshot(clock.now)


def total(channels, name):
    return sum(getattr(channel, name) for channel in channels)


# ---------------------------------------------------------------------- what there is to see


def test_a_folder_without_a_link_is_refused(tmp_path):
    with pytest.raises(LinkError, match=r"there is no link here .* Link\(\.\.\.\)"):
        LinkMonitor(tmp_path)


def test_a_link_that_nobody_has_used(link, clock):
    found = snapshot(link, clock)
    assert (found.senders, found.receivers, found.channels) == ((), (), ())
    assert (found.label, found.path, found.window_s) == ("orders", str(link.path), 0.0)
    assert found.backpressure_level is Pressure.OK
    link.make_tables()
    assert snapshot(link, clock).channels == ()


def test_a_receiver_alone(link, clock):
    link.receiver().take()
    found = snapshot(link, clock)
    assert [(r.name, r.rows_read, r.running_s) for r in found.receivers] == [("main", 0, None)]
    assert (found.senders, found.channels) == ((), ())


def test_a_sender_alone_waits_for_a_receiver(link, clock):
    sender = link.sender()
    clock.forward(1)
    sender.write({0: 100, 1: 10})
    clock.forward(3)
    found = snapshot(link, clock)
    (own,) = found.senders
    assert (own.name, own.rows_written, own.pool_used, own.pool_size) == ("events", 110, 7, 8)
    assert (own.waiting_bytes, own.silent_s) == (4000, 3.0)
    assert (own.blocked_ratio, own.backpressure_level) == (0.75, Pressure.HIGH)  # 3 s of 4
    first, second = found.channels
    assert (first.receiver, first.written, first.released, first.consumed) == ("", 10, 6, 0)
    assert (first.in_flight, first.waiting, first.waiting_bytes, first.credit) == (6, 4, 4000, 0)
    assert (first.backlog_rows, first.backlog_bytes, first.age_s) == (100, 10_000, 3.0)
    assert (first.drain_s, first.rows_out_per_s) == (None, 0.0)
    assert (first.blocked_ratio, second.blocked_ratio) == (0.75, 0.0)
    assert (second.backlog_rows, second.backlog_bytes, second.waiting) == (10, 1000, 0)


# ---------------------------------------------------------------------- rates and times


def next_batch(sender, receiver):
    """Ask for a batch as Spark does when one has ended; return its rows."""
    rows = receiver.take()  # nothing, if all that was released was in the batch before
    sender.step()
    return rows or receiver.take()


def test_figures_of_a_run(link, clock):
    sender, receiver = link.sender(), link.receiver()
    clock.forward(1)
    sender.write({0: 200, 1: 20})
    taken = [next_batch(sender, receiver)]
    for _ in range(2):
        clock.forward(2)
        taken.append(next_batch(sender, receiver))
    clock.forward(1)  # 6 s in all; the third batch has run for 1 s
    found = snapshot(link, clock)
    assert taken == [80, 60, 60]  # two exclusive buffers each and four floating ones
    (reader,) = found.receivers
    assert (reader.name, reader.channels, reader.rows_read) == ("main", (0, 1), 140)
    assert (reader.batch_s, reader.running_s, reader.target_s) == (2.0, 1.0, None)
    assert reader.rows_per_s == pytest.approx(140 / 4)
    assert reader.bytes_per_s == pytest.approx(14_000 / 4)
    assert reader.busy_ratio == pytest.approx(5 / 6)
    assert (reader.pool_size, reader.silent_s, reader.is_detached) == (4, 1.0, False)
    (writer,) = found.senders
    assert writer.rows_per_s == pytest.approx(220 / (1 + 4))  # the next batch is 4 s late
    assert writer.blocked_ratio == pytest.approx(5 / 6)
    first, second = found.channels
    assert (first.backlog_rows, first.backlog_bytes, first.age_s) == (80, 8000, 5.0)
    assert first.drain_s == pytest.approx(8000 / (12_000 / 4))
    assert (second.backlog_rows, second.backlog_bytes, second.drain_s) == (0, 0, 0.0)
    assert (first.written, first.released, first.sent, first.consumed) == (20, 18, 18, 12)


def test_nothing_left_to_do(link, clock):
    sender, receiver = link.sender(), link.receiver()
    clock.forward(1)
    sender.write({0: 20})
    assert receiver.take() == 20
    clock.forward(1)
    assert receiver.take() == 0  # an empty decision: the batch before is consumed
    clock.forward(30)
    found = snapshot(link, clock)
    assert found.backpressure_level is Pressure.OK
    assert [c.drain_s for c in found.channels] == [0.0, 0.0]
    assert [c.age_s for c in found.channels] == [0.0, 0.0]
    assert [c.rows_in_per_s for c in found.channels] == [0.0, 0.0]
    assert [c.rows_out_per_s for c in found.channels] == [0.0, 0.0]
    (reader,) = found.receivers
    assert (reader.batch_s, reader.running_s, reader.busy_ratio) == (1.0, None, 0.0)
    assert (found.senders[0].pool_used, found.window_s) == (0, 10.0)


def test_a_sink_that_hangs_drains_ever_more_slowly(link, clock):
    sender, receiver = link.sender(), link.receiver()
    clock.forward(1)
    sender.write({0: 400})
    next_batch(sender, receiver)
    clock.forward(1)
    next_batch(sender, receiver)
    clock.forward(1)
    before = snapshot(link, clock).channels[0].drain_s
    clock.forward(60)
    found = snapshot(link, clock)
    assert found.channels[0].drain_s > 10 * before
    assert found.channels[0].rows_out_per_s == 0.0
    assert found.receivers[0].running_s == 61.0
    assert found.receivers[0].busy_ratio == 1.0
    assert found.senders[0].blocked_ratio == 1.0


def test_a_target_and_its_batches_are_shown(link, clock):
    sender, receiver = link.sender(), link.receiver(target=0.5)
    sender.write({0: 60, 1: 60})
    for _ in range(3):
        receiver.take()
        clock.forward(0.5)
        sender.step()
    (reader,) = snapshot(link, clock).receivers
    assert (reader.target_s, reader.batch_s) == (0.5, 0.5)


def test_the_part_of_a_message_that_was_read_is_no_backlog(link, clock):
    sender, receiver = link.sender(), link.receiver(target=1.0)
    sender.write({0: 10})
    taken = receiver.take()  # what fits into the time, by a first guess
    assert 0 < taken < 10
    clock.forward(1)
    assert receiver.take() > 0
    first = snapshot(link, clock).channels[0]
    assert (first.consumed, first.backlog_rows) == (0, 10 - taken)
    assert first.backlog_bytes == 100 * (10 - taken)
    assert first.age_s == 1.0


# ---------------------------------------------------------------------- several members


def test_of_several_receivers_the_slowest_holds(link, clock):
    sender = link.sender()
    fast, slow = link.receiver("fast"), link.receiver("slow")
    clock.forward(1)
    sender.write({0: 100})
    for _ in range(8):
        fast.take()
        clock.forward(1)
        sender.step()
    slow.take()
    found = {c.receiver: c for c in snapshot(link, clock).channels if c.channel == 0}
    assert (found["fast"].is_holding, found["slow"].is_holding) == (False, True)
    assert (found["fast"].backpressure_level, found["slow"].backpressure_level) == (
        Pressure.OK,
        Pressure.HIGH,
    )
    assert found["fast"].blocked_ratio == found["slow"].blocked_ratio > 0.5
    assert (found["fast"].backlog_rows, found["slow"].backlog_rows) == (40, 100)


def test_with_a_limit_the_fastest_holds_and_the_other_is_cut_off(make_link, clock):
    link = make_link(floating_buffers=4, detach_after_bytes=8000)
    sender = link.sender()
    fast, slow = link.receiver("fast"), link.receiver("slow")
    sender.write({0: 200})
    slow.take()
    seen = []
    for _ in range(6):
        fast.take()
        clock.forward(1)
        sender.step()
        seen.append(snapshot(link, clock))
    found = {c.receiver: c for c in seen[1].channels if c.channel == 0}
    assert (found["fast"].is_holding, found["slow"].is_holding) == (True, False)
    assert [r.is_detached for r in seen[0].receivers] == [False, False]
    assert [r.is_detached for r in seen[-1].receivers] == [False, True]


def test_receivers_that_share_the_channels(link, clock):
    sender = link.sender()
    left, right = link.receiver(channels=[0]), link.receiver(channels=[1])
    sender.write({0: 20, 1: 20})
    left.take(), right.take()
    clock.forward(1)
    left.take()
    found = snapshot(link, clock)
    assert [(r.name, r.channels) for r in found.receivers] == [("main", (0,)), ("main", (1,))]
    assert [(c.channel, c.backlog_rows) for c in found.channels] == [(0, 0), (1, 20)]


def test_a_channel_that_no_receiver_reads(link, clock):
    sender = link.sender()
    receiver = link.receiver(channels=[0])
    sender.write({0: 20, 1: 100})
    receiver.take()
    clock.forward(1)
    receiver.take()
    clock.forward(9)
    first, second = snapshot(link, clock).channels
    assert (first.backlog_rows, second.backlog_rows) == (0, 100)
    assert (second.credit, second.sent, second.drain_s) == (0, 0, None)
    assert (second.backpressure_level, second.is_holding, second.age_s) == (
        Pressure.HIGH,
        True,
        10.0,
    )


def test_several_senders(link, clock):
    one, two = link.sender("one"), link.sender("two", query="other")
    receiver = link.receiver()
    clock.forward(1)
    one.write({0: 30})
    two.write({0: 50, 1: 50})
    receiver.take()
    clock.forward(1)
    found = snapshot(link, clock)
    assert [(s.name, s.rows_written) for s in found.senders] == [("one", 30), ("two", 100)]
    assert [(c.sender, c.channel, c.written) for c in found.channels] == [
        ("one", 0, 3),
        ("one", 1, 0),
        ("two", 0, 5),
        ("two", 1, 5),
    ]


# ---------------------------------------------------------------------- restarts, time, upkeep


def test_a_batch_that_was_killed_is_no_measurement(link, clock):
    sender, receiver = link.sender(), link.receiver()
    sender.write({0: 100})
    receiver.take()
    clock.forward(1)
    receiver.take()
    clock.forward(50)  # killed in its second batch
    second = link_receiver_again(link, receiver)
    second.take()  # the same rows again, without a commit
    clock.forward(1)
    second.take()
    clock.forward(1)
    (reader,) = snapshot(link, clock).receivers
    assert reader.batch_s == 1.0


def date_claims_back(link, seconds):
    """Have all claims so far been made earlier: delta-rs notes the real time of a commit."""
    for file in (link.path / "ledger" / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] -= 1000 * seconds
        file.write_text("\n".join(map(json.dumps, actions)))


def test_silence_counts_from_a_restart_and_so_does_the_batch_that_runs_again(link, clock):
    clock.now = time.time() - 456
    sender, receiver = link.sender(), link.receiver()
    sender.write({0: 100})
    receiver.take()
    date_claims_back(link, 456)
    (before,) = LinkMonitor(link.path).snapshot(time.time()).receivers
    assert before.silent_s == pytest.approx(456, abs=60)
    assert before.running_s == before.silent_s
    link_receiver_again(link, receiver).take()  # the same rows again, without a commit
    seen = LinkMonitor(link.path).snapshot(time.time())
    (reader,) = seen.receivers
    assert max(reader.silent_s, reader.running_s) < 60
    assert reader.busy_ratio > 0
    assert "no commit for" not in describe_bottleneck([seen])
    assert seen.senders[0].silent_s == pytest.approx(456, abs=60)  # that one was not restarted


def link_receiver_again(link, before):
    """Start a receiver again from the checkpoint of one that was killed."""
    from flowcontrol.link.receiver import LinkReceiver

    own = before.own
    second = object.__new__(type(before))
    second.own = LinkReceiver(link.storage, link.settings, own.group, own.input.channels, None)
    second.at = own.input.begin
    return second


def test_a_source_that_stood_still_between_two_starts_has_no_slow_batch(link, clock):
    sender, receiver = link.sender(), link.receiver()
    clock.forward(1)
    sender.write({0: 10})
    clock.forward(1000)
    receiver.take()
    second = link.sender()
    second.batch = sender.batch
    clock.forward(2)
    second.write({0: 10})
    assert snapshot(link, clock).senders[0].rows_per_s == pytest.approx(5.0)


def drive(link, clock, rounds):
    """Let a sender and a receiver run; yield after each round."""
    sender, receiver = link.sender(), link.receiver()
    for number in range(rounds):
        sender.write({0: 20, 1: 10 + number % 7})
        next_batch(sender, receiver)
        clock.forward(0.5)
        yield


def same(one, other):
    """Two looks find the same; times of packed commits are finer than those in the log."""
    for name in ("senders", "receivers", "channels"):
        for left, right in zip(getattr(one, name), getattr(other, name), strict=True):
            for field in fields(left):
                expected = getattr(right, field.name)
                if isinstance(expected, float):
                    expected = pytest.approx(expected, rel=0.01, abs=0.01)
                assert getattr(left, field.name) == expected, field.name


def test_who_comes_late_sees_what_a_follower_sees(link, clock):
    follower, compared = LinkMonitor(link.path), 0
    for number, _ in enumerate(drive(link, clock, 110)):  # checkpoints, packed files, trimmed rows
        if number % 3 == 0:
            seen = follower.snapshot(clock.now)
        if number % 15 == 0:
            late = snapshot(link, clock)
            same(late, seen)
            compared += 1
    assert compared == 8


def test_a_follower_remembers_no_more_than_its_window(link, clock):
    monitor, sizes = LinkMonitor(link.path), []
    for number, _ in enumerate(drive(link, clock, 90)):
        monitor.snapshot(clock.now)
        if number in (45, 89):
            steps = {member: len(own) for member, own in monitor._ledger.steps.items()}
            messages = sum(len(c.messages) for c in monitor._log.channels.values())
            sizes.append((steps, messages, len(monitor._log._added)))
    assert sizes[0][0] == sizes[1][0]
    assert sizes[1][1] <= sizes[0][1] + 8
    assert sizes[1][2] <= sizes[0][2] + 8


def test_a_link_that_was_made_anew_is_looked_at_anew(make_link, clock):
    import shutil

    link = make_link()
    link.sender().write({0: 100})
    monitor = LinkMonitor(link.path)
    assert total(monitor.snapshot(clock.now).channels, "backlog_rows") == 100
    shutil.rmtree(link.path)
    with pytest.raises(LinkError, match="there is no link here"):
        monitor.snapshot(clock.now)
    make_link().sender().write({0: 10})
    assert total(monitor.snapshot(clock.now).channels, "backlog_rows") == 10


def test_a_clock_that_is_behind_gives_no_negative_times(link, clock):
    sender, receiver = link.sender(), link.receiver()
    sender.write({0: 100})
    receiver.take()
    found = LinkMonitor(link.path).snapshot(clock.now - 5)
    assert found.channels[0].age_s == 0.0
    assert found.senders[0].silent_s == 0.0
    assert found.receivers[0].running_s == 0.0
    assert 0.0 <= found.blocked_ratio <= 1.0


def test_a_link_that_was_altered_is_shown(link, clock):
    """What was altered is a commit to the ledger as well, of nobody's micro-batch."""
    from flowcontrol.link.altering import alter

    sender, receiver = link.sender(), link.receiver()
    monitor = LinkMonitor(link.path)
    sender.write({0: 30})
    receiver.take()
    monitor.snapshot(clock.now)
    alter(link.storage, link.settings, {"channels": 3, "floating_buffers": 9})
    clock.forward(1)
    for found in (monitor.snapshot(clock.now), LinkMonitor(link.path).snapshot(clock.now)):
        assert [channel.backlog_rows for channel in found.channels] == [30, 0, 0]
        assert found.senders[0].pool_size == 2 * 2 + 9
