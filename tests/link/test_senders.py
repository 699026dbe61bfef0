"""The sender's end: who may send, what it waits for, what it trims, what it says."""

from __future__ import annotations

import threading
import time

import pytest

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.ledger.link_log import LinkFiles
from flowcontrol.link.folder import make_tables
from flowcontrol.link.members import senders_of
from flowcontrol.link.sender import LinkSender


def rows_of(dry, count=20, first=0, channels=2, sizes=100, name="a"):
    return dry.source_rows(name, first, [i % channels for i in range(count)], sizes)


# ---------------------------------------------------------------------- who may send


def test_a_new_checkpoint_is_refused_and_accepted_with_reset(make, dry, verify):
    pipeline = make()
    query = pipeline.sender("a", [rows_of(dry), rows_of(dry, first=20)])
    pipeline.receiver()
    pipeline.drain()
    query.kill()
    query.checkpoint, query.planned, query.done = "another", -1, -1
    query.batches = [rows_of(dry, first=40), rows_of(dry, first=60)]
    before = len(verify.ledger_rows(pipeline.storage))
    with pytest.raises(
        LinkError,
        match=r"sender 'a' belongs to the query checkpoint of a, this "
        r"one is another: .* or take the name over with",
    ):
        query.open()
    assert len(verify.ledger_rows(pipeline.storage)) == before
    query.reset = True
    pipeline.drain()
    sink = pipeline.receivers[0].rows
    assert sorted(sink.column("number").to_pylist()) == list(range(80))
    query.kill()
    query.reset = False  # from now on the name is its own
    query.batches.append(rows_of(dry, first=80))
    pipeline.drain()
    assert pipeline.receivers[0].rows.num_rows == 100
    verify.LedgerCheck(pipeline.settings).check(verify.ledger_rows(pipeline.storage))


def test_a_checkpoint_that_was_put_back_is_refused(make, dry):
    pipeline = make()
    query = pipeline.sender("a", [rows_of(dry, first=20 * n) for n in range(3)])
    pipeline.receiver()
    pipeline.drain()
    query.kill()
    query.planned = query.done = 0
    with pytest.raises(LinkError, match="runs batch 1 again, but batch 2 is in the link"):
        pipeline.drain()


def test_a_zombie_can_write_no_more(make, dry, verify):
    """A process that was thought dead: its commits are refused at either table."""
    pipeline = make()
    zombie = pipeline.sender("a", [rows_of(dry), rows_of(dry, first=20)])
    pipeline.receiver()
    pipeline.drain()
    heir = dry.SenderQuery(pipeline, "a", zombie.batches)
    heir.planned = heir.done = zombie.done
    heir.open()
    zombie.batches.append(rows_of(dry, first=40))
    with pytest.raises(FencedError, match=r"sender/a has been taken over \(epoch 2, this one is 1"):
        pipeline.drain()
    heir.advance()
    pipeline.senders["a"] = heir
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert pipeline.receivers[0].rows.num_rows == 60


def test_a_zombie_that_waits_is_refused_too(make, dry):
    pipeline = make()
    zombie = pipeline.sender("a", [rows_of(dry, count=200)])
    receiver = pipeline.receiver()
    while not receiver.advance():
        zombie.advance()
    heir = dry.SenderQuery(pipeline, "a", zombie.batches)
    heir.open()
    receiver.advance()
    receiver.advance()
    with pytest.raises(FencedError):
        zombie.sender.settle(lambda: False)


def test_two_senders_that_register_at_once_get_different_numbers(make, monkeypatch):
    """Each sees that the other has no number yet; one of them finds its number taken."""
    pipeline = make()
    storage, settings = pipeline.storage, pipeline.settings
    pipeline.sender("z").open()  # makes the tables, and takes number 0
    others: list[LinkSender] = []
    last_batch = commits.Writer.last_batch

    def meanwhile(writer):
        found = last_batch(writer)
        if writer.app_id == "senders" and not others:
            monkeypatch.setattr(commits.Writer, "last_batch", last_batch)
            others.append(LinkSender(storage, settings, "b", "of b", reset=False))
        return found

    monkeypatch.setattr(commits.Writer, "last_batch", meanwhile)
    others.append(LinkSender(storage, settings, "a", "of a", reset=False))
    numbers = {sender.name: sender.index for sender in others}
    assert numbers == {"b": 1, "a": 2}
    others[0].ledger.refresh()
    found = senders_of(others[0].ledger)
    assert [(sender.name, sender.number) for sender in found] == [("z", 0), ("b", 1), ("a", 2)]


def test_of_two_queries_with_one_name_that_start_at_once_one_is_refused(make, monkeypatch):
    """The second looks before the first has written anything, and claims after it."""
    pipeline = make()
    storage, settings = pipeline.storage, pipeline.settings
    pipeline.sender("z").open()
    claim, first = LinkLedger.claim, []

    def late(ledger):
        monkeypatch.setattr(LinkLedger, "claim", claim)
        first.append(LinkSender(storage, settings, "a", "the first", reset=False))
        return claim(ledger)

    monkeypatch.setattr(LinkLedger, "claim", late)
    with pytest.raises(LinkError, match="belongs to the query the first, this one is the second"):
        LinkSender(storage, settings, "a", "the second", reset=False)


# ---------------------------------------------------------------------- waiting


class Beat(Exception):
    """The test has seen enough."""


def test_a_sender_that_releases_bit_by_bit_still_hears_that_it_is_to_stop(make, dry, monkeypatch):
    """Progress is no reason not to ask: a huge batch may be released for hours."""
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0)
    sender = pipeline.sender("a").open()
    sender.write(
        0, dry.packed_rows(pipeline.senders["a"]._pack(rows_of(dry, 100, channels=1), sender))
    )
    steps = []

    def step():
        steps.append(1)
        if len(steps) > 20:
            raise Beat
        return True

    monkeypatch.setattr(sender, "step", step)
    assert not sender.settle(lambda: len(steps) >= 3)
    assert len(steps) == 3


def test_a_blocked_sender_returns_when_it_is_stopped_and_the_rest_comes_later(make, dry, verify):
    pipeline = make(channels=1, exclusive_buffers=2, floating_buffers=0)
    query = pipeline.sender("a", [rows_of(dry, 100, channels=1)])
    for _ in range(3):
        query.advance()
    assert query.sender.output.released == [2]
    assert not query.sender.settle(lambda: True)
    query.stop(is_noted=True)
    pipeline.receiver()
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_a_consumer_that_was_faster_than_the_senders_commit_is_not_overlooked(make, dry, verify):
    """What the receiver has said while the sender committed is acted on at the next look."""
    pipeline = make(exclusive_buffers=1, floating_buffers=0)
    query = pipeline.sender("a", [rows_of(dry, 80)])
    receivers = [pipeline.receiver("main", "0"), pipeline.receiver("main", "1")]
    for _ in range(3):
        query.advance()
    for receiver in [*receivers, receivers[0]]:
        receiver.advance()  # each reads a message, the first has consumed it
    commit = LinkLedger.commit

    def meanwhile(ledger, rows, state):
        if ledger is query.sender.ledger:
            receivers[1].advance()
        return commit(ledger, rows, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinkLedger, "commit", meanwhile)
        assert query.sender.step()
    assert query.sender.output.released == [2, 1]
    assert query.sender.step()
    assert query.sender.output.released == [2, 2]
    assert not query.sender.step()
    pipeline.drain()
    verify.check_pipeline(pipeline)


# ---------------------------------------------------------------------- spilling


def test_what_spills_is_released_in_the_background(make, dry, verify):
    """The batch ends while some of it waits; it must not wait for the next batch."""
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0, spill_bytes=1 << 20)
    pipeline._patches.undo()  # with the thread
    query = pipeline.sender("a")
    sender = query.open()
    sender.write(0, dry.packed_rows(query._pack(rows_of(dry, 60, channels=1), sender)))
    assert sender.waiting_bytes() > 0
    assert sender.settle(lambda: False)
    query.batches = [rows_of(dry, 60, channels=1)]
    receiver = pipeline.receiver()
    while receiver.rows.num_rows < 60:
        sender._background.raise_failure()  # else nobody would hear of it
        if not receiver.advance():
            time.sleep(0.01)  # the thread shall get on
    while sender._background.is_running:
        time.sleep(0.001)
    assert sender.waiting_bytes() == 0
    verify.check_rows(query.batches, [receiver.rows])
    verify.LedgerCheck(pipeline.settings).check(verify.ledger_rows(pipeline.storage))


def test_what_comes_while_the_background_thread_ends_does_not_wait_for_ever(make, dry, monkeypatch):
    """The thread has seen that nothing waits; before it is gone there is something again."""
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0, spill_bytes=1 << 20)
    pipeline._patches.undo()
    query = pipeline.sender("a")
    sender = query.open()
    seen, go_on = threading.Event(), threading.Event()
    waiting_bytes = sender.waiting_bytes

    def slow():
        found = waiting_bytes()
        if threading.current_thread().name == "flowcontrol-release" and not found:
            seen.set()
            go_on.wait(0.2)
        return found

    monkeypatch.setattr(sender, "waiting_bytes", slow)
    sender._background.start()  # nothing waits: it is about to end
    assert seen.wait(1800)
    packed = dry.packed_rows(query._pack(rows_of(dry, 60, channels=1), sender))
    sender.write(0, packed)
    assert sender.settle(lambda: False)
    go_on.set()
    receiver = pipeline.receiver()
    deadline = time.monotonic() + 1800
    while receiver.rows.num_rows < 60:
        assert time.monotonic() < deadline, "it waits for ever"
        receiver.advance()
        time.sleep(0.001)


def test_a_failure_in_the_background_is_said_with_the_next_batch(make, dry, monkeypatch):
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0, spill_bytes=1 << 20)
    pipeline._patches.undo()
    query = pipeline.sender("a")
    sender = query.open()
    sender.write(0, dry.packed_rows(query._pack(rows_of(dry, 60, channels=1), sender)))

    def broken():
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sender, "step", broken)
        assert sender.settle(lambda: False)
        while sender._background.is_running:
            time.sleep(0.001)
    packed = dry.packed_rows(query._pack(rows_of(dry, 20, first=60, channels=1), sender))
    with pytest.raises(OSError, match="No space left"):
        sender.write(1, packed)
    sender.write(1, packed)
    assert sender.is_written(1)


# ---------------------------------------------------------------------- several receivers


def test_files_that_a_receiver_has_just_begun_to_read_are_not_trimmed(make, dry, verify):
    """The sender has not looked since the receiver came: it looks before it trims."""
    pipeline = make()
    query = pipeline.sender("a", [rows_of(dry, 20)])
    pipeline.receiver("main")
    pipeline.drain()  # all of it is consumed, nothing trimmed yet
    late = pipeline.receiver("late")
    pipeline.arm("late", "noted")
    late.advance()  # knows what its first batch reads
    assert not pipeline.is_armed
    query.batches.append(rows_of(dry, 4, first=20))
    while query.done < 1:
        query.advance()
        pipeline.receivers[0].advance()
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert late.rows.num_rows == 24


def test_files_trimmed_while_a_receiver_registers_are_behind_it(make, dry, verify):
    """It saw them in the log, and the sender did not see it: it begins where the rest begins."""
    pipeline = make()
    query = pipeline.sender("a", [rows_of(dry, 20)])
    pipeline.receiver("main")
    pipeline.drain()
    late = pipeline.receiver("late")
    late.is_late = True
    commit = LinkLedger.commit

    def meanwhile(ledger, rows, state):
        if ledger.member.startswith("receiver/late") and ledger.latest is None:
            query.batches.append(rows_of(dry, 20, first=20))
            while query.done < 1:
                query.advance()
                pipeline.receivers[0].advance()
        return commit(ledger, rows, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinkLedger, "commit", meanwhile)
        late.advance()
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert sorted(late.rows.column("number").to_pylist()) == list(range(20, 40))


def test_a_late_receiver_takes_buffers_for_all_that_lies_before_it(make, dry, verify):
    """Nothing more is released until it has read as far as the buffers go."""
    pipeline = make(channels=1, exclusive_buffers=2, floating_buffers=1)
    query = pipeline.sender("a", [rows_of(dry, 100, channels=1)])
    first = pipeline.receiver("first")
    while query.done < 0:
        query.advance()
        first.advance()
    late = pipeline.receiver("late")
    late.open().initialOffset()  # at the oldest rows, which are all in one file still
    query.batches.append(rows_of(dry, 10, first=100, channels=1))
    released = list(query.sender.output.released)
    for _ in range(5):
        query.advance()
        first.advance()
    assert query.sender.output.released == released
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert late.rows.num_rows == 110


def test_a_receiver_that_was_there_before_any_sender_misses_nothing(make, dry, verify):
    """It looks again only when others have read, and the sender has trimmed what it could."""
    pipeline = make()
    early, main = pipeline.receiver("early"), pipeline.receiver("main")
    assert early.open().initialOffset() == {"cursors": {}}
    early.kill()
    query = pipeline.sender("a", [rows_of(dry, 4, first=4 * n) for n in range(4)])
    for _ in range(20):
        query.advance()
        main.advance()
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert early.rows.num_rows == 16


def test_the_slowest_receiver_holds_the_sender_up(make, dry, verify):
    pipeline = make(channels=1, exclusive_buffers=2, floating_buffers=1)
    query = pipeline.sender("a", [rows_of(dry, 100, channels=1)])
    fast, slow = pipeline.receiver("fast"), pipeline.receiver("slow")
    slow.open().initialOffset()
    for _ in range(10):
        query.advance()
        fast.advance()
    assert query.sender.output.released == [3]
    slow.advance()
    slow.advance()
    query.advance()
    assert query.sender.output.released[0] > 3
    pipeline.drain()
    verify.check_pipeline(pipeline)


# ---------------------------------------------------------------------- held up


def test_a_start_that_is_held_up_is_refused_and_leaves_its_successor_alone(make, dry, monkeypatch):
    """It has taken a number of its own, and the newest rows of the name are of another one."""
    pipeline = make()
    query = pipeline.sender("a", [rows_of(dry)])
    make_tables(pipeline.storage, pipeline.settings)
    claim, heirs = LinkLedger.claim, []

    def held_up(ledger):
        found = claim(ledger)
        monkeypatch.setattr(LinkLedger, "claim", claim)
        query.advance()  # another start
        query.advance()
        heirs.append(query.sender)
        return found

    monkeypatch.setattr(LinkLedger, "claim", held_up)
    arguments = pipeline.storage, pipeline.settings, "a", query.checkpoint
    with pytest.raises(FencedError, match=r"epoch 2, this one is 1"):
        LinkSender(*arguments, reset=False)
    assert heirs == [query.sender]
    pipeline.receiver()
    pipeline.drain()
    assert heirs == [query.sender]  # nobody has thrown it out
    assert pipeline.receivers[0].rows.num_rows == 20


def test_a_start_that_finds_its_successors_rows_does_not_call_them_damaged(make, dry, monkeypatch):
    pipeline = make()
    query = pipeline.sender("a", [rows_of(dry)])
    make_tables(pipeline.storage, pipeline.settings)
    claim = LinkFiles.claim

    def held_up(files):
        monkeypatch.setattr(LinkFiles, "claim", claim)
        query.advance()
        query.advance()
        files.sender = 7  # its own number, of which there are no rows
        return files.claim()

    monkeypatch.setattr(LinkFiles, "claim", held_up)
    arguments = pipeline.storage, pipeline.settings, "a", query.checkpoint
    with pytest.raises(FencedError, match=r"epoch 2, this one is 1"):
        LinkSender(*arguments, reset=False)


def test_a_batch_does_not_end_with_what_the_background_thread_could_not_commit(
    make, dry, monkeypatch
):
    """A step that fails has moved what is released, so that nothing seems to wait."""
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0, spill_bytes=1 << 20)
    query = pipeline.sender("a")
    sender = query.open()
    sender.write(0, dry.packed_rows(query._pack(rows_of(dry, 60, channels=1), sender)))

    def broken() -> None:
        sender.output.released = [log.end for log in sender.output.logs]
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sender._background, "_step", broken)
        assert sender._background.try_step() is None
    with pytest.raises(OSError, match="No space left"):
        sender.settle(lambda: False)
