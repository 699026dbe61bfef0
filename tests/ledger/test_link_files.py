"""The exchange log of a link: rows become messages, are found again, and are trimmed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger import link_log as link_files
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.link_index import Extent
from flowcontrol.ledger.link_log import LinkFiles, LinkLog, PackedRows, create_log
from flowcontrol.ledger.storage import Storage

SIZE = 1000
"""Of a message, bytes."""

Pieces = Sequence[tuple[int, int]]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return made(tmp_path)


def made(folder: Path) -> Storage:
    storage = Storage(folder / "exchange")
    create_log(storage, pa.schema([("number", pa.int64())]))
    return storage


def a_file(storage: Storage, name: str, *channels: tuple[int, Pieces]) -> PackedRows:
    """Return a file with these pieces; what is in it does not matter here."""
    path = Path(str(storage)) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * 10)
    rows = sum(count for _, pieces in channels for count, _ in pieces)
    return PackedRows(name, 10, rows, channels)


def opened(storage: Storage, sender: int = 0) -> LinkFiles:
    return LinkFiles(storage, f"sender/{sender}", sender, SIZE)


def messages(log: LinkLog, channel: int = 0, sender: int = 0) -> list[tuple[int, int]]:
    """Rows and bytes of each message that is there."""
    found, start = [], log.channel(sender, channel).start
    for message in log.channel(sender, channel).messages:
        found.append((message.end - start, message.nbytes))
        start = message.end
    return found


# ---------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([(1, 1)], [(1, 1)]),
        ([(3, 999), (1, 1)], [(4, 1000)]),
        ([(3, 999), (1, 2)], [(3, 999), (1, 2)]),
        ([(2, 250)] * 5, [(8, 1000), (2, 250)]),
        ([(1, 400)] * 5, [(2, 800), (2, 800), (1, 400)]),
        ([(1, 1000)], [(1, 1000)]),
        ([(1, 1001)], [(0, 1000), (1, 1)]),
        ([(1, 3000)], [(0, 1000), (0, 1000), (1, 1000)]),
        ([(1, 10), (1, 2500), (1, 400), (2, 200)], [(1, 10), (0, 1000), (0, 1000), (2, 900),
                                                    (2, 200)]),
    ],
)  # fmt: skip
def test_pieces_are_joined_as_long_as_they_fit(storage, pieces, expected):
    files = opened(storage)
    assert files.commit(0, [a_file(storage, "a", (0, pieces))], {})
    assert messages(files.log) == expected
    fresh = LinkLog(storage)
    fresh.refresh()
    assert messages(fresh) == expected


def test_a_message_goes_on_in_the_next_file_of_a_commit_but_not_in_the_next_commit(storage):
    files = opened(storage)
    files.commit(
        0,
        [a_file(storage, "a", (0, [(2, 600)]), (1, [(1, 100)])),
         a_file(storage, "b", (0, [(1, 300), (1, 300)]))],
        {},
    )  # fmt: skip
    files.commit(1, [a_file(storage, "c", (0, [(1, 10)]), (1, [(1, 100)]))], {})
    assert messages(files.log, 0) == [(3, 900), (1, 300), (1, 10)]
    assert messages(files.log, 1) == [(1, 100), (1, 100)]
    assert files.log.extents(0, 0, 0, 5) == [
        Extent("a", 0, 0, 2),
        Extent("b", 2, 0, 2),
        Extent("c", 4, 0, 1),
    ]
    assert files.log.extents(0, 0, 1, 3) == [Extent("a", 1, 1, 1), Extent("b", 2, 0, 1)]
    assert files.log.extents(0, 1, 0, 2) == [Extent("a", 0, 2, 1), Extent("c", 1, 1, 1)]
    assert files.log.extents(0, 1, 1, 1) == []


@pytest.mark.parametrize(("start", "end"), [(0, 3), (3, 4), (-1, 1)])
def test_records_that_are_not_there_are_refused(storage, start, end):
    files = opened(storage)
    files.commit(0, [a_file(storage, "a", (0, [(2, 600)]))], {})
    with pytest.raises(LinkError, match=f"the records {start} to {end} of channel 0 of sender 0 "):
        files.log.extents(0, 0, start, end)


def test_senders_do_not_mix(storage):
    both = [opened(storage, number) for number in (0, 3)]
    for files in both:
        files.commit(0, [a_file(storage, f"f{files.sender}", (0, [(2, 600)]))], {})
    both[0].log.refresh()
    for number in (0, 3):
        assert both[0].log.extents(number, 0, 0, 2) == [Extent(f"f{number}", 0, 0, 2)]
    assert both[0].log.channel(1, 0).end == 0


def test_a_batch_is_committed_once(storage):
    files = opened(storage)
    assert files.last_batch() == -1
    assert files.commit(4, [a_file(storage, "a", (0, [(1, 1)]))], {})
    assert not files.commit(4, [a_file(storage, "b", (0, [(1, 1)]))], {})
    assert files.last_batch() == opened(storage).last_batch() == 4
    assert messages(files.log) == [(1, 1)]


def test_who_was_taken_over_commits_no_more(storage):
    zombie = opened(storage)
    assert zombie.claim() == 1
    heir = opened(storage)
    assert heir.claim() == 2
    with pytest.raises(FencedError):
        zombie.commit(0, [a_file(storage, "a", (0, [(1, 1)]))], {})
    assert heir.commit(0, [a_file(storage, "b", (0, [(1, 1)]))], {})
    heir.log.refresh()
    assert list(heir.log.files) == ["b"]


# ---------------------------------------------------------------------- trimming


def test_a_file_is_trimmed_when_all_of_its_messages_are_consumed(storage):
    files, root = opened(storage), Path(str(storage))
    files.commit(0, [a_file(storage, "a", (0, [(1, 900), (1, 900)]), (1, [(1, 900)]))], {})
    for number, consumed, there in [
        (1, {0: 1, 1: 1}, ["a", "f1"]),
        (2, {0: 2, 1: 0}, ["a", "f1", "f2"]),
        (3, {0: 2}, ["a", "f1", "f2", "f3"]),
        (4, {0: 2, 1: 1}, ["f1", "f2", "f3", "f4"]),
        (5, {0: 5, 1: 1}, ["f4", "f5"]),
    ]:
        files.commit(number, [a_file(storage, f"f{number}", (0, [(1, 900)]))], consumed)
        assert sorted(path.name for path in root.iterdir() if path.is_file()) == there
        assert sorted(files.log.files) == there
    fresh = LinkLog(storage)
    fresh.refresh()
    assert (fresh.channel(0, 0).first, fresh.channel(0, 0).end) == (5, 7)
    assert (fresh.channel(0, 1).first, fresh.channel(0, 1).end) == (1, 1)


def test_a_commit_trims_so_many_files_and_the_next_ones_the_rest(storage, monkeypatch):
    monkeypatch.setattr(link_files, "MOST_REMOVES", 3)
    files = opened(storage)
    names = [f"f{n}" for n in range(8)]
    files.commit(0, [a_file(storage, name, (0, [(1, 900)])) for name in names], {})
    left = []
    for number in range(1, 4):
        files.commit(number, [a_file(storage, f"g{number}", (1, [(1, 1)]))], {0: 8})
        left.append(len([name for name in files.log.files if name.startswith("f")]))
    assert left == [5, 2, 0]


def test_another_senders_files_are_left_alone(storage):
    first, second = opened(storage, 0), opened(storage, 1)
    first.commit(0, [a_file(storage, "a", (0, [(1, 1)]))], {})
    second.commit(0, [a_file(storage, "b", (0, [(1, 1)]))], {0: 99})
    second.commit(1, [a_file(storage, "c", (0, [(1, 1)]))], {0: 99})
    assert sorted(second.log.files) == ["a", "c"]


def test_a_follower_forgets_messages_with_their_files(storage):
    """Also those that it does not read: another sender's, other channels."""
    files, follower = opened(storage), LinkLog(storage)
    for number in range(40):
        files.commit(
            number,
            [a_file(storage, f"f{number}", (0, [(1, 900)]), (5, [(1, 900)]))],
            {0: number, 5: number},
        )
        follower.refresh()
    kept = {place: len(log.messages) for place, log in follower.channels.items()}
    assert max(kept.values()) <= 2
    assert follower.channel(0, 5).end == 40


# ---------------------------------------------------------------------- against a model

PIECES = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 9), st.integers(9, SIZE)),
        st.tuples(st.just(1), st.integers(SIZE + 1, 3 * SIZE + 1)),
    ),
    min_size=1,
    max_size=4,
)
FILE = st.dictionaries(st.integers(0, 2), PIECES, min_size=1, max_size=3)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),  # sender
        st.lists(FILE, min_size=1, max_size=3),
        st.floats(0, 1),  # how much of what is there is consumed by then
        st.booleans(),  # whether the follower looks
        st.booleans(),  # whether the sender starts again
    ),
    max_size=12,
)


@settings(max_examples=max(1, settings.default.max_examples // 3))
@given(steps=STEPS, is_cleaned=st.booleans(), data=st.data())
def test_every_record_is_found_where_it_was_written(tmp_path_factory, steps, is_cleaned, data):
    """Any files, any trimming, anybody starting again or falling behind the log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "CHECK_EVERY_S", 0.0)
        if is_cleaned:
            patch.setattr(commits, "CHECKPOINT_EVERY", 3)
            patch.setitem(commits.CONFIGURATION, "delta.logRetentionDuration",
                          "interval 0 milliseconds")  # fmt: skip
        storage = made(tmp_path_factory.mktemp("link"))
        senders = {number: opened(storage, number) for number in (0, 1)}
        follower = LinkLog(storage)
        where: dict[tuple[int, int], list[tuple[str, int]]] = {}
        ends: dict[tuple[int, int], tuple[int, int]] = {}
        for number, (sender, packed, share, looks, restarts) in enumerate(steps):
            own = senders[sender]
            if restarts:
                own = senders[sender] = opened(storage, sender)
                own.claim()
            consumed = {
                channel: int(share * own.log.channel(sender, channel).end) for channel in range(3)
            }
            files = []
            for place, channels in enumerate(packed):
                path, row = f"{sender}-{number}-{place}", 0
                files.append(a_file(storage, path, *channels.items()))
                for channel, pieces in channels.items():
                    for rows, _ in pieces:
                        found = where.setdefault((sender, channel), [])
                        found += [(path, row + i) for i in range(rows)]
                        row += rows
            assert own.commit(number, files, consumed)
            for channel in range(3):
                log = own.log.channel(sender, channel)
                ends[sender, channel] = log.end, log.records
            if looks:
                follower.refresh()
        follower.refresh()
        for (sender, channel), records in where.items():
            for log in (follower, senders[sender].log):
                own = log.channel(sender, channel)
                assert (own.end, own.records) == ends[sender, channel]
                assert own.records == len(records)
                check_messages(own)
                start = data.draw(st.integers(own.start, len(records)))
                end = data.draw(st.integers(start, len(records)))
                rows = [
                    (extent.path, extent.first_row + i)
                    for extent in log.extents(sender, channel, start, end)
                    for i in range(extent.rows)
                ]
                assert rows == records[start:end]


def check_messages(channel) -> None:
    """No message is larger than a buffer; weights are those of the rows that end in them."""
    start, begun = channel.start, 0
    for message in channel.messages:
        rows = sum(extent.rows for extent in message.extents)
        assert message.end - start == rows
        assert 0 < message.nbytes <= SIZE
        weight = message.nbytes + begun if rows else 0
        assert message.weight == weight
        begun = 0 if rows else begun + message.nbytes
        start = message.end
    assert channel.begun == begun == 0
