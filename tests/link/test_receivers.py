"""The receiver's end: which checkpoint it serves, who else reads, what it says when it cannot."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from flowcontrol.errors import DetachedError, FencedError, LinkError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link import source as source_module
from modules import load

dry = load("tests/link/dry.py")
verify = load("tests/link/verify.py")


@pytest.fixture
def pipeline(make):
    """A link through which three batches have gone."""
    made = make()
    made.sender("a", dry.batches_of(3))
    made.receiver("main")
    made.drain()
    return made


def tidy(patch: pytest.MonkeyPatch, every: int = 5) -> None:
    """Checkpoint every few commits and keep no log behind a checkpoint."""
    patch.setattr(commits, "CHECKPOINT_EVERY", every)
    patch.setitem(commits.CONFIGURATION, "delta.logRetentionDuration", "interval 0 milliseconds")


# ---------------------------------------------------------------------- checkpoints


def test_a_new_checkpoint_is_refused_and_accepted_with_reset(pipeline):
    receiver = pipeline.receivers[0]
    receiver.forget_checkpoint()
    before = len(verify.ledger_rows(pipeline.storage))
    with pytest.raises(
        LinkError,
        match=r"receiver 'main' has read this link before, with another "
        r"checkpoint.*\.option\('reset', True\).*another txnAppId",
    ):
        receiver.advance()
    assert len(verify.ledger_rows(pipeline.storage)) == before
    receiver.options["reset"] = "true"
    pipeline.senders["a"].batches += dry.batches_of(5)[3:]
    pipeline.drain()
    verify.LedgerCheck(pipeline.settings).check(verify.ledger_rows(pipeline.storage))
    numbers = receiver.rows.column("number").to_pylist()
    assert set(range(60, 100)) <= set(numbers)
    assert len(set(numbers)) == len(numbers)


def test_after_a_reset_rows_of_the_last_batch_come_again_rather_than_never(make):
    """The old query was killed before its sink had the rows that its ledger says it took."""
    pipeline = make()
    pipeline.sender("a", dry.batches_of(2))
    receiver = pipeline.receiver("main", reset="true")
    while pipeline.senders["a"].done < 0:
        pipeline.senders["a"].advance()
    receiver.advance()
    while pipeline.senders["a"].done < 1:
        pipeline.senders["a"].advance()
        if pipeline.senders["a"].done < 1 and len(receiver.offsets) < 2:
            pipeline.arm("main", "read")
            receiver.advance()
    kept = dict(receiver.sink)
    receiver.forget_checkpoint()
    pipeline.drain()
    again = receiver.rows.column("number").to_pylist()
    seen = [number for table in kept.values() for number in table.column("number").to_pylist()]
    assert set(seen) | set(again) == set(range(40))


def test_the_initial_offset_is_the_same_until_the_first_batch_is_done(make):
    pipeline = make()
    pipeline.sender("a", dry.batches_of(1))
    receiver = pipeline.receiver("main")
    for _ in range(3):
        pipeline.senders["a"].advance()
    first = receiver.open().initialOffset()
    for point in ("before-ledger", "after-ledger", "noted", "read", "sunk"):
        pipeline.arm("main", point)
        receiver.advance()
        assert not pipeline.is_armed, point
        assert receiver.open().initialOffset() == first
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_a_checkpoint_of_an_earlier_time_is_refused(pipeline):
    receiver = pipeline.receivers[0]
    pipeline.senders["a"].batches += dry.batches_of(6)[3:]
    pipeline.drain()
    receiver.kill()
    receiver.done = 0
    receiver.offsets = receiver.offsets[:1]
    with pytest.raises(
        LinkError,
        match=r"asks for what comes after .* but the ledger has it "
        r"between .*: the checkpoint belongs to another time",
    ):
        receiver.advance()


def test_offsets_behind_trimmed_data_say_so(pipeline):
    """The old checkpoint has a batch to repeat of which the rows are gone."""
    receiver = pipeline.receivers[0]
    pipeline.senders["a"].batches += dry.batches_of(6)[3:]
    pipeline.drain()
    receiver.kill()
    receiver.done, receiver.offsets = 0, receiver.offsets[:2]
    with pytest.raises(
        LinkError,
        match=r"the records \d+ to \d+ of channel \d of sender 0 are "
        r"asked for, the log holds \d+ to 60: .* trimmed",
    ):
        receiver.advance()


# ---------------------------------------------------------------------- who reads


def test_a_zombie_is_refused(make):
    pipeline = make()
    pipeline.sender("a", dry.batches_of(3))
    zombie = pipeline.receiver("main")
    while not zombie.done >= 0:
        for query in pipeline.queries:
            query.advance()
    heir = dry.ReceiverQuery(pipeline, "main")
    heir.offsets, heir.done, heir.sink = list(zombie.offsets), zombie.done, dict(zombie.sink)
    heir.open()
    heir.reader._made()
    with pytest.raises(FencedError, match=r"receiver/main/0-1 has been taken over \(epoch 2"):
        for _ in range(10):
            for query in pipeline.queries:
                query.advance()
    pipeline.receivers[:] = [heir]
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_what_a_zombie_decided_last_is_known_to_who_takes_over(make, monkeypatch):
    """It commits once more between the look of the new one and its claim."""
    pipeline = make()
    query = pipeline.sender("a", dry.batches_of(3))
    zombie = pipeline.receiver("main")
    for _ in range(3):
        query.advance()
    zombie.open().initialOffset()
    heir = dry.ReceiverQuery(pipeline, "main")
    claim = LinkLedger.claim

    def late(ledger):
        monkeypatch.setattr(LinkLedger, "claim", claim)
        zombie.advance()
        query.advance()
        zombie.advance()
        return claim(ledger)

    heir.open()
    monkeypatch.setattr(LinkLedger, "claim", late)
    heir.reader._made()
    heir.offsets, heir.done, heir.sink = list(zombie.offsets), zombie.done, dict(zombie.sink)
    assert heir.done >= 0
    zombie.kill()
    pipeline.receivers[:] = [heir]
    pipeline.drain()
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize(
    ("first", "second", "shared"), [("", "0", "0"), ("0,1,2", "2,3", "2"), ("1,3", "", "1,3")]
)
def test_channels_that_another_of_the_same_name_reads_are_refused(make, first, second, shared):
    pipeline = make(channels=4)
    pipeline.sender("a", dry.batches_of(1, channels=4))
    pipeline.receiver("main", first)
    pipeline.drain()
    other = pipeline.receiver("main", second)
    with pytest.raises(
        LinkError,
        match=rf"shares {shared} with one that reads .*: give it "
        r"another name to read all rows again",
    ):
        other.advance()
    pipeline.receivers.pop()
    pipeline.receiver("other", second)
    pipeline.drain()
    assert pipeline.receivers[-1].rows.num_rows > 0


def test_a_receiver_that_lags_too_far_is_cut_off_and_the_sender_goes_on(make):
    pipeline = make(detach_after_bytes=6000)
    query = pipeline.sender("a", dry.batches_of(2))
    fast, slow = pipeline.receiver("fast"), pipeline.receiver("slow")
    for _ in range(4):
        query.advance()
        fast.advance()
        slow.advance()
    pipeline.receivers.remove(slow)
    query.batches += dry.batches_of(8)[2:]
    pipeline.drain()
    pipeline.receivers.append(slow)
    with pytest.raises(
        DetachedError,
        match=r"receiver 'slow' was cut off by sender 'a': it lagged "
        r"more than detach_after_bytes, 6000 bytes, behind",
    ):
        slow.advance()
    pipeline.receivers.remove(slow)
    verify.check_pipeline(pipeline)
    assert fast.rows.num_rows == 160
    again = pipeline.receiver("another")
    again.is_late = True
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_all_senders_give_up_whom_one_has_cut_off(make):
    """Found by the simulation's seed 2011467: the other waited for it when channels changed."""
    pipeline = make(detach_after_bytes=6000, key="number")
    a, b = pipeline.sender("a", dry.batches_of(2)), pipeline.sender("b", dry.batches_of(1))
    fast, slow = pipeline.receiver("fast"), pipeline.receiver("slow")
    for _ in range(4):
        for query in (a, b, fast, slow):
            query.advance()
    pipeline.receivers.remove(slow)
    a.batches += dry.batches_of(8)[2:]
    b.batches += dry.batches_of(2)[1:]
    pipeline.drain()
    assert a.sender.output.detached == b.sender.output.detached == ["slow"]
    pipeline.link.alter(channels=3)
    b.batches += dry.batches_of(3)[2:]
    pipeline.drain()
    assert (b.done, b.sender.channels) == (2, 3)


def test_who_was_cut_off_after_it_had_decided_is_told_so(make):
    """The rows of the batch that Spark has noted are gone: not because its checkpoint is old."""
    pipeline = make(channels=1, detach_after_bytes=2000, exclusive_buffers=4)
    query = pipeline.sender("a", dry.batches_of(1, channels=1))
    fast, slow = pipeline.receiver("fast"), pipeline.receiver("slow")
    query.open()
    slow.open().initialOffset()
    pipeline.arm("slow", "noted")
    while pipeline.is_armed:
        for one in (query, fast, slow):
            one.advance()
    pipeline.receivers.remove(slow)
    query.batches += dry.batches_of(8, channels=1)[1:]
    pipeline.drain()
    with pytest.raises(DetachedError, match="'slow' was cut off by sender 'a'"):
        slow.advance()


def test_who_was_cut_off_is_told_before_its_files_are_gone(make):
    """The ledger says so with the sender's next look, although nothing is released with it."""
    pipeline = make(channels=1, detach_after_bytes=3000, exclusive_buffers=2)
    query = pipeline.sender("a", dry.batches_of(1, rows=60, channels=1))
    fast, slow = pipeline.receiver("fast"), pipeline.receiver("slow")
    query.open()
    slow.open().initialOffset()
    for _ in range(20):
        query.advance()
        fast.advance()
        rows = verify.ledger_rows(pipeline.storage)
        told = [
            json.loads(row["task_state"])["detached"]
            for member, row in rows
            if member == "sender/a" and row["task_state"]
        ]
        lag = sum(row["bytes"] for member, row in rows if member == "receiver/fast/0")
        if lag > 6000:
            break
    assert told[-1] == ["slow"]
    with pytest.raises(DetachedError):
        slow.advance()


def test_within_its_lag_nobody_is_cut_off(make):
    pipeline = make(detach_after_bytes=1 << 20)
    query = pipeline.sender("a", dry.batches_of(5))
    fast, slow = pipeline.receiver("fast"), pipeline.receiver("slow")
    query.open()
    slow.open().initialOffset()
    pipeline.receivers.remove(slow)
    pipeline.drain()
    assert fast.rows.num_rows == 100
    pipeline.receivers.append(slow)
    pipeline.drain()
    verify.check_pipeline(pipeline)


# ---------------------------------------------------------------------- several senders


def test_a_sender_that_comes_later_is_read_from_its_beginning(make):
    pipeline = make()
    pipeline.sender("a", dry.batches_of(2))
    receiver = pipeline.receiver("main")
    pipeline.drain()
    offsets = len(receiver.offsets)
    pipeline.sender("b", dry.batches_of(2, name="b"))
    pipeline.drain()
    verify.check_pipeline(pipeline)
    cursors = json.loads(receiver.offsets[-1])["cursors"]
    assert cursors == {"0": [20, 20], "1": [20, 20]}
    assert json.loads(receiver.offsets[offsets - 1])["cursors"] == {"0": [20, 20]}
    receiver.kill()
    pipeline.senders["b"].batches += dry.batches_of(3, name="b")[2:]
    pipeline.drain()
    verify.check_pipeline(pipeline)


# ---------------------------------------------------------------------- logs that were cleaned


@pytest.mark.parametrize("who", ["main", "a", "both"])
def test_what_fell_behind_a_cleaned_log_goes_on_from_the_checkpoint(make, monkeypatch, who):
    """Others commit, checkpoint and clean while one of them looks away; it misses nothing."""
    tidy(monkeypatch)
    pipeline = make(floating_buffers=60)  # who looks away holds nobody up
    query = pipeline.sender("a", dry.batches_of(1))
    receiver = pipeline.receiver("main")
    pipeline.drain()
    asleep = {"main": [receiver], "a": [query], "both": [query, receiver]}[who]
    pipeline.sender("b", dry.batches_of(12, rows=4, name="b"))
    pipeline.receiver("other")
    awake = [q for q in pipeline.queries if q not in asleep]
    for _ in range(60):
        for q in awake:
            q.advance()
    logs = [
        storage / "_delta_log"
        for storage in (
            Path(str(pipeline.storage)) / "ledger",
            Path(str(pipeline.storage)) / "exchange",
        )
    ]
    assert all(not (log / f"{3:020d}.json").exists() for log in logs), "nothing was cleaned"
    query.batches += dry.batches_of(4)[1:]
    pipeline.receivers[1].is_late = True
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_the_numbers_go_on_when_all_is_trimmed_and_both_sides_start_again(make, monkeypatch):
    """Nothing in the exchange log says any more how many messages there were."""
    tidy(monkeypatch)
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(3))
    pipeline.sender("b", dry.batches_of(1, name="b"))
    receiver = pipeline.receiver("main")
    pipeline.drain()
    # Batches with rows of one channel only: the first announces that what the other channel had is
    # trimmed, the second trims it.
    a.batches += [dry.source_rows("a", number, [0] * 2, 100) for number in (60, 62)]
    pipeline.drain()
    files = a.sender.files.log.files.values()
    assert all(1 not in file.ends for file in files if file.sender == 0)
    for query in pipeline.queries:
        query.kill()
    a.batches += [dry.source_rows("a", 80, [1, 1, 0, 0], 100)]
    pipeline.senders["b"].batches += dry.batches_of(2, name="b")[1:]
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert json.loads(receiver.offsets[-1])["cursors"]["0"] == [36, 32]


def test_a_cleaned_log_in_the_middle_of_a_start_does_not_renumber_a_channel(make, monkeypatch):
    """A sender whose channel has no file left reads the log anew: it does not begin at 0."""
    tidy(monkeypatch)
    pipeline = make()
    a = pipeline.sender("a", [dry.source_rows("a", 0, [0, 1] * 5, 100)])
    b = pipeline.sender("b", dry.batches_of(10, rows=4, name="b"))
    pipeline.receiver("main")
    pipeline.drain()
    a.batches.append(dry.source_rows("a", 20, [0] * 4, 100))
    pipeline.drain()
    end = a.sender.files.log.channel(0, 1).end
    assert end > 0
    for n in range(10, 30):
        b.batches.append(dry.source_rows("b", n * 4, [0, 1, 0, 1], 100))
    pipeline.senders.pop("a")
    pipeline.drain()
    pipeline.senders["a"] = a
    a.sender.files.log.refresh()
    assert a.sender.files.log.channel(0, 1).end == end
    a.batches.append(dry.source_rows("a", 40, [0, 1] * 5, 100))
    pipeline.drain()
    verify.check_pipeline(pipeline)


# ---------------------------------------------------------------------- available now


def test_an_available_now_query_ends_with_what_was_there(make):
    pipeline = make()
    pipeline.sender("a", dry.batches_of(1))
    receiver = pipeline.receiver("main")
    while pipeline.senders["a"].done < 0:
        pipeline.senders["a"].advance()
        receiver.open()
    reader = receiver.open()
    reader.prepareForTriggerAvailableNow()
    assert not reader._is_over({})
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert reader._is_over(end["cursors"])


def available_now(receiver, more):
    """Run batches until there is none, as Spark does; do something after each."""
    receiver.open().prepareForTriggerAvailableNow()
    batches = 0
    while receiver.advance():
        batches += 1
        more(batches)
    return batches


def test_an_available_now_query_ends_although_its_sender_goes_on(make):
    pipeline = make()
    query = pipeline.sender("a", dry.batches_of(1, rows=4))
    receiver = pipeline.receiver("main")
    while query.done < 0:
        query.advance()

    def go_on(batches):
        query.batches.append(dry.source_rows("a", 4 * batches, [0, 1, 0, 1]))
        while query.done < batches:
            query.advance()

    assert available_now(receiver, go_on) == 1
    assert receiver.rows.num_rows == 4
    receiver.kill()
    pipeline.drain()
    assert receiver.rows.num_rows == 8


def more_than_fits(make, dry):
    """Return a pipeline whose sender has written more than it may release."""
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=0)
    query = pipeline.sender("a", dry.batches_of(1, rows=40, channels=1))
    for _ in range(4):
        query.advance()
    return pipeline, query


def test_an_available_now_query_waits_for_what_its_sender_releases_late(make, monkeypatch):
    """All was written when it began; the sender takes its time to see what is consumed."""
    pipeline, query = more_than_fits(make, dry)
    receiver = pipeline.receiver("main")
    receiver.open().initialOffset()
    monkeypatch.setattr(source_module, "LOOK_S", 0.01)
    over = threading.Event()

    def release():
        while not over.wait(0.05):
            query.sender.step()

    thread = threading.Thread(target=release)
    thread.start()
    assert available_now(receiver, lambda _: None) > 3
    over.set()
    thread.join()
    assert receiver.rows.num_rows == 40


def test_an_available_now_query_gives_a_dead_sender_up(make, monkeypatch):
    pipeline, query = more_than_fits(make, dry)
    query.kill()
    monkeypatch.setattr(source_module, "PATIENCE_S", 0.2)
    receiver = pipeline.receiver("main")
    began = time.monotonic()
    assert available_now(receiver, lambda _: None) == 1
    assert time.monotonic() - began >= 0.2
    assert 0 < receiver.rows.num_rows < 40
