"""Settings that change while a link is in use, and those that cannot."""

from __future__ import annotations

import pytest

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link.link import Link
from flowcontrol.link.settings import read_made, read_settings


def test_a_running_sender_sees_that_it_may_cut_a_receiver_off(make, dry, verify):
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(8))
    pipeline.receiver("main")
    slow = pipeline.receiver("slow")
    pipeline.lose(slow)
    pipeline.drain()
    assert a.done < 7
    sender = a.sender
    assert pipeline.link.alter(detach_after_bytes="4kb").detach_after_bytes == 4096
    pipeline.drain()
    assert a.done == 7
    assert a.sender is sender
    assert sender.output.detached == ["slow"]
    assert pipeline.receivers[0].rows.num_rows == 160


def test_a_running_sender_sees_what_may_wait_on_disk(make, dry):
    pipeline = make()
    a = pipeline.sender("a", [dry.source_rows("a", 0, [0, 1] * 40, 100)])
    pipeline.receiver("main", "")
    for _ in range(20):
        a.advance()
    assert a.done < 0
    pipeline.link.alter(spill_bytes="1mb")
    for _ in range(5):
        a.advance()
    assert a.done == 0


def test_a_running_receiver_takes_a_target_at_its_next_batch(make, dry):
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(1))
    receiver, stated = pipeline.receiver("main"), pipeline.receiver("own", target_batch_s=1)
    pipeline.drain()
    own = receiver.reader._made()
    for target in (2.5, 4.0, None):
        pipeline.link.alter(target_batch_s=target)
        a.batches += dry.batches_of(len(a.batches) + 1, first=len(a.batches))
        pipeline.drain()
        assert receiver.reader._made() is own
        assert (own._budget and own._budget.target_s) == target
        assert stated.reader._made()._budget.target_s == 1
    receiver.kill()
    pipeline.link.alter(target_batch_s=2.5)
    receiver.advance()
    assert receiver.reader._made()._budget.target_s == 2.5


@pytest.mark.parametrize(
    ("before", "after"), [((2, 3), (4, 8)), ((2, 3), (1, 0)), ((1, 0), (3, 1)), ((4, 8), (1, 9))]
)
def test_running_members_take_other_numbers_of_buffers(make, dry, verify, before, after):
    """While a batch is in flight, with a kill of each side behind it."""
    pipeline = make(exclusive_buffers=before[0], floating_buffers=before[1])
    a = pipeline.sender("a", dry.batches_of(6, rows=60))
    receiver, made = pipeline.receiver("main"), pipeline.settings
    while receiver.done < 0:
        a.advance(), receiver.advance()
    pipeline.link.alter(exclusive_buffers=after[0], floating_buffers=after[1])
    a.advance(), receiver.advance()
    a.kill(), receiver.kill()
    pipeline.drain()
    assert a.sender.output._pool.size == 2 * after[0] + after[1]
    gate = receiver.reader._made().input._gate
    assert (gate.exclusive, gate.floating) == after
    assert [gate.exclusive_held(number) for number in range(2)] == [after[0]] * 2
    assert receiver.rows.num_rows == 360
    verify.check_pipeline(pipeline, before=[made])


def test_what_was_altered_is_what_the_link_says_from_then_on(tmp_path):
    link = Link(tmp_path / "link", channels=4, detach_after_bytes="1gb")
    assert link.alter(detach_after_bytes=None, spill_bytes="2kb").detach_after_bytes is None
    link.alter(target_batch_s=3)
    again = Link(tmp_path / "link")
    assert again.settings == link.settings == read_settings(link.storage)
    assert (again.settings.spill_bytes, again.settings.target_batch_s) == (2048, 3)
    assert read_made(link.storage).detach_after_bytes == 1 << 30
    assert Link(tmp_path / "link", spill_bytes="2kb").settings == link.settings
    with pytest.raises(
        LinkError, match=r"spill_bytes is 2048 there, 0 here.*can be changed with link\.alter"
    ):
        Link(tmp_path / "link", spill_bytes=0)
    assert link.alter(spill_bytes=None).spill_bytes == 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"channels": 1}, "channels is 1, it has 2, and there can only be more: .* another"),
        ({"buffer_bytes": 4096}, "buffer_bytes cannot change once a link .*more floating_buffers"),
        ({"key": "id"}, "key cannot change once a link is made: rows of one key would be in two"),
        ({"exclusive_buffers": 0}, "exclusive_buffers is 0: needs a whole number from 1"),
        ({"floating_buffers": -1}, "floating_buffers is -1: needs a whole number from 0"),
        ({"buffer_bytes": "1mb"}, "buffer_bytes cannot change"),
        ({"schema": "a int"}, r"schema is not altered here: .*evolve_schema=True"),
        ({"detach": 4}, "detach is not a setting: align_s, channels, detach_after_bytes, event"),
        ({}, "say what to change: align_s, channels, detach_after"),
        ({"detach_after_bytes": 0}, "detach_after_bytes is 0: needs a whole number from 1"),
        ({"target_batch_s": 0.01}, "target_batch_s is 0.01: needs seconds"),
        ({"spill_bytes": 1, "key": "x"}, "key cannot change"),
    ],
)
def test_what_cannot_change_says_what_to_do_instead(tmp_path, given, text):
    link = Link(tmp_path / "link", channels=2)
    with pytest.raises(LinkError, match=text):
        link.alter(**given)
    assert not (tmp_path / "link" / "ledger").exists()
    assert read_settings(link.storage) == link.settings


def test_of_two_that_alter_at_once_one_is_told(tmp_path, monkeypatch):
    link, claim = Link(tmp_path / "link", channels=2), LinkLedger.claim

    def then(ledger):
        epoch = claim(ledger)
        monkeypatch.setattr(LinkLedger, "claim", claim)
        Link(tmp_path / "link").alter(spill_bytes=7)
        return epoch

    monkeypatch.setattr(LinkLedger, "claim", then)
    with pytest.raises(LinkError, match="another process is altering it"):
        link.alter(target_batch_s=4)
    settings = read_settings(link.storage)
    assert (settings.spill_bytes, settings.target_batch_s) == (7, None)


# ---------------------------------------------------------------------- more channels

KEYS = 8


def keyed(dry, number, channels, rows=24):
    """A source batch whose rows go by key, as the link's hash sends them: key modulo channels."""
    first = number * rows
    into = [(first + row) % KEYS % channels for row in range(rows)]
    return dry.source_rows("a", first, into, 100)


class Routed:
    """Cuts the batches of a sender for the channels that it has when it writes them."""

    def __init__(self, dry, query):
        self.dry, self.query, self.pack = dry, query, query._pack
        query._pack = self

    def __call__(self, table, sender):
        number = table.column("number")[0].as_py() // 24
        return self.pack(keyed(self.dry, number, sender.channels), sender)


def check_order(receiver, rows=None):
    """Each row once, and those of a key in the order in which they were written."""
    numbers = receiver.rows.column("number").to_pylist()
    assert len(set(numbers)) == len(numbers)
    if rows is not None:
        assert sorted(numbers) == list(range(rows))
    last = {}
    for number in numbers:
        assert number > last.get(number % KEYS, -1), f"{number} comes behind {last}"
        last[number % KEYS] = number


@pytest.fixture
def routed(make, dry):
    """A keyed link of two channels that got more while rows were in flight."""
    pipeline = make(key="number")
    a = pipeline.sender("a", [keyed(dry, number, 2) for number in range(8)])
    Routed(dry, a)
    pipeline.made = pipeline.settings
    return pipeline


def test_a_receiver_that_is_held_up_finds_channels_that_came_meanwhile(routed, monkeypatch):
    """It has looked at the ledger before its claim; until then another start takes them over."""
    main = routed.receiver("main")
    routed.drain()
    main.kill()
    claim = LinkLedger.claim

    def held_up(ledger):
        monkeypatch.setattr(LinkLedger, "claim", claim)
        routed.link.alter(channels=4)
        other = type(main)(routed, "main")
        other.offsets, other.done = list(main.offsets), main.done
        other.advance()
        assert other.reader._made().input.channels == [0, 1, 2, 3]
        other.kill()
        return claim(ledger)

    monkeypatch.setattr(LinkLedger, "claim", held_up)
    assert main.open()._made().input.channels == [0, 1, 2, 3]


def test_a_link_gets_more_channels_and_keys_stay_in_order(routed, verify):
    a, receiver = routed.senders["a"], routed.receiver("main")
    while receiver.done < 0:
        a.advance(), receiver.advance()
    assert routed.link.alter(channels=4).channels == 4
    routed.drain()
    assert a.sender.channels == 4
    own = receiver.reader._made()
    assert (own.input.channels, own.member) == ([0, 1, 2, 3], "receiver/main/0-1")
    assert all(log.records for log in a.sender.output.logs)
    check_order(receiver, 192)
    receiver.kill(), a.kill()
    routed.drain()
    check_order(receiver, 192)


KILLS = [
    ("a", "before ledger"), ("a", "after ledger"), ("a", "before exchange"),
    ("a", "after exchange"), ("a", "planned"), ("main", "before ledger"),
    ("main", "after ledger"), ("main", "noted"), ("main", "sunk"), ("main", "read"),
]  # fmt: skip
LATER = range(0, 12, 3)


@pytest.mark.parametrize(
    ("kill", "later"),
    [
        # The quick form has every other point once, at each of the moments in turn.
        pytest.param(
            kill,
            later,
            marks=[pytest.mark.long] * (row % 2 == 0 or row // 2 % len(LATER) != column),
            id=f"{later}-{kill[0]} {kill[1]}",
        )
        for row, kill in enumerate(KILLS)
        for column, later in enumerate(LATER)
    ],
)
def test_kills_while_channels_and_buffers_change(routed, kill, later):
    """Altered in the middle of a batch, a member killed, files trimmed, both started again."""
    a, receiver = routed.senders["a"], routed.receiver("main")
    while receiver.done < 0:
        a.advance(), receiver.advance()
    routed.link.alter(channels=4, floating_buffers=1, target_batch_s=1)
    for _ in range(later):
        a.advance(), receiver.advance()
    routed.arm(*kill)
    routed.drain()
    a.kill(), receiver.kill()
    late = routed.receiver("late")
    late.is_late = True
    routed.link.alter(channels=5, exclusive_buffers=1)
    routed.drain()
    check_order(receiver, 192)
    check_order(late)
    assert a.done == 7


@pytest.mark.parametrize(
    "after",
    [pytest.param(after, marks=[pytest.mark.long] * (after % 6 > 0)) for after in range(12)],
)
def test_a_receiver_that_comes_while_channels_change_reads_keys_in_order(routed, after):
    a, receiver = routed.senders["a"], routed.receiver("main")
    for _ in range(4):
        a.advance(), receiver.advance()
    routed.link.alter(channels=4)
    for _ in range(after):
        a.advance(), receiver.advance()
    late = routed.receiver("late")
    late.advance()
    late.kill()  # between its registration and its first batch
    for _ in range(3):
        a.advance(), receiver.advance()
    a.kill()
    routed.drain()
    check_order(receiver, 192)
    check_order(late)
    assert (a.done, a.sender.channels) == (7, 4)


def test_a_receiver_that_is_held_up_begins_behind_what_was_trimmed_of_new_channels(
    routed, dry, monkeypatch
):
    """Found by the simulation's seed 2010156: it registered with the channels of before."""
    a, receiver, late = routed.senders["a"], routed.receiver("main"), routed.receiver("late")
    routed.receivers.remove(late)
    claim = LinkLedger.claim

    def held_up(ledger):
        monkeypatch.setattr(LinkLedger, "claim", claim)
        receiver.open()
        routed.link.alter(channels=4)
        routed.drain()
        return claim(ledger)

    monkeypatch.setattr(LinkLedger, "claim", held_up)
    late.open().initialOffset()
    begin = late.reader._made().input.begin["0"]
    assert min(begin) > 0
    assert len(begin) == 4
    routed.receivers.append(late)
    a.batches += [keyed(dry, number, 4) for number in range(8, 12)]
    routed.drain()
    check_order(receiver, 288)
    check_order(late)


def test_channels_that_are_named_need_a_query_for_the_new_ones(routed):
    a = routed.senders["a"]
    one, two = routed.receiver("main", "0"), routed.receiver("main", "1")
    while min(one.done, two.done) < 0:
        a.advance(), one.advance(), two.advance()
    routed.link.alter(channels=4)
    routed.drain()
    assert a.done < 7
    more = routed.receiver("main", "2,3")
    routed.drain()
    assert a.done == 7
    numbers = [n for query in (one, two, more) for n in query.rows.column("number").to_pylist()]
    assert sorted(numbers) == list(range(192))


def test_without_a_key_nobody_waits(make, dry):
    pipeline = make()
    a = pipeline.sender("a", dry.batches_of(2, rows=4))
    a.advance(), a.advance(), a.advance()
    pipeline.link.alter(channels=4)
    for _ in range(12):
        a.advance()
    assert a.sender.channels == 4
    receiver = pipeline.receiver("main")
    pipeline.drain()
    assert receiver.rows.num_rows == 8
