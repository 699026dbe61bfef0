"""Full disks, files that are gone or damaged, what a kill leaves: said clearly, nothing lost."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from flowcontrol.errors import DamagedError, FencedError, LinkError
from flowcontrol.ledger import link_ledger
from flowcontrol.ledger import link_log as link_files
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.link_index import ChannelLog
from flowcontrol.ledger.storage import Storage, writing
from flowcontrol.link.sender import LinkSender


@pytest.fixture
def pipeline(make, dry):
    """A link through which a batch has gone, and two more that are to go."""
    made = make()
    query = made.sender("a", dry.batches_of(1))
    made.receiver("main")
    made.drain()
    query.batches += dry.batches_of(3)[1:]
    return made


@contextmanager
def full_disk() -> Iterator[None]:
    """Let the operating system refuse every byte that this process writes to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def advance_all(pipeline, rounds=20):
    for _ in range(rounds):
        for query in pipeline.queries:
            query.advance()


# ---------------------------------------------------------------------- a full disk


@pytest.mark.parametrize(
    ("place", "what"),
    [
        (("a", "planned"), r"exchange: link_sender=0/\w+\.parquet cannot be written"),
        (("a", "before exchange"), r"exchange: batch 1 cannot be written"),
        (("a", "before-ledger"), r"ledger: commit \d+ of sender/a cannot be written"),
        (("a", "before ledger"), r"ledger: commit \d+ of sender/a cannot be written"),
        (("main", "before-ledger"), r"ledger: commit \d+ of receiver/main/0-1 cannot be written"),
        (("main", "before ledger"), r"ledger: commit \d+ of receiver/main/0-1 cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_full_disk_says_so_and_loses_nothing(pipeline, verify, monkeypatch, place, what):
    """Whatever is being written when it is full: with room again the same batch goes through."""
    pass_by, limits = pipeline.pass_by, []

    def until_here(who, point):
        if (who, point) == place and not limits:
            limits.append(full_disk())
            limits[0].__enter__()
        pass_by(who, point)

    monkeypatch.setattr(pipeline, "pass_by", until_here)
    try:
        with pytest.raises(LinkError, match=what) as caught:
            advance_all(pipeline)
    finally:
        for limit in limits:
            limit.__exit__(None, None, None)
    assert "File too large" in str(caught.value)
    assert "free space or repair the storage, and restart the query" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert pipeline.receivers[0].rows.num_rows == 60


def test_only_what_the_system_refuses_is_called_that():
    with pytest.raises(ValueError, match="another"), writing("place", "it"):
        raise ValueError("another")
    with pytest.raises(LinkError, match="place: it cannot be written: "), writing("place", "it"):
        raise OSError(28, "No space left on device")


# ---------------------------------------------------------------------- files


def files_of(pipeline) -> list[Path]:
    return sorted((Path(str(pipeline.storage)) / "exchange").rglob("link_sender=*/*.parquet"))


def planned(pipeline) -> Path:
    """Let a batch be written and planned, kill its receiver, and return the batch's file."""
    before = set(files_of(pipeline))
    pipeline.arm("main", "noted")
    while pipeline.is_armed:
        for query in pipeline.queries:
            query.advance()
    (found,) = set(files_of(pipeline)) - before
    return found


def test_a_missing_file_says_so_and_the_batch_is_read_when_it_is_back(pipeline, verify):
    file = planned(pipeline)
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(
        LinkError,
        match=rf"{file} is missing although a commit names it: it was "
        r"deleted by hand or by VACUUM; restore it",
    ):
        pipeline.receivers[0].advance()
    assert pipeline.receivers[0].done == 0
    file.write_bytes(content)
    pipeline.drain()
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize("damage", ["cut", "empty", "overwritten"])
def test_a_damaged_file_says_so(pipeline, damage):
    file = planned(pipeline)
    content = file.read_bytes()
    file.write_bytes({"cut": content[:-20], "empty": b"", "overwritten": b"x" * 999}[damage])
    with pytest.raises(DamagedError, match=rf"{file}, its footer is damaged: it has "):
        pipeline.receivers[0].advance()


def test_a_file_with_fewer_rows_than_its_commit_says_is_refused(pipeline, monkeypatch):
    file = planned(pipeline)
    found = ChannelLog.extents
    monkeypatch.setattr(
        ChannelLog,
        "extents",
        lambda *place: [e._replace(first_row=e.first_row + 1) for e in found(*place)],
    )
    with pytest.raises(LinkError, match=rf"{file} cannot be read: it holds 20 rows, the rows up"):
        pipeline.receivers[0].advance()


def test_a_batch_that_the_log_has_in_part_is_refused_with_both_numbers(pipeline, monkeypatch):
    planned(pipeline)
    found = ChannelLog.extents
    monkeypatch.setattr(ChannelLog, "extents", lambda *place: found(*place)[:-1])
    with pytest.raises(
        DamagedError,
        match="the records 10 to 20 of channel 0 of sender 0 are asked for, the log has them up to "
        "10 only",
    ):
        pipeline.receivers[0].advance()


# ---------------------------------------------------------------------- what a kill leaves


def test_files_that_no_commit_names_are_swept_by_age(pipeline, dry, verify):
    """Of this sender only, and not while they may be somebody's work."""
    pipeline.arm("a", "before exchange")
    advance_all(pipeline, 3)
    assert not pipeline.is_armed
    pipeline.arm("a", "before ledger")
    advance_all(pipeline, 3)
    root = Path(str(pipeline.storage))
    other = root / "exchange" / "link_sender=7" / "stray.parquet"
    other.parent.mkdir()
    other.write_bytes(b"of another sender")
    old = [other, *files_of(pipeline), *(root / "ledger").glob("*.parquet")]
    long_ago = time.time() - 2 * link_files.SWEEP_EVERY_S
    for path in old:
        os.utime(path, (long_ago, long_ago))
    pipeline.arm("a", "before exchange")
    advance_all(pipeline, 2)  # one that is young
    pipeline.drain()
    verify.check_pipeline(pipeline)
    pipeline.senders["a"].sender.files._swept_at = float("-inf")
    pipeline.senders["a"].batches.append(dry.batches_of(4)[3])
    pipeline.drain()
    verify.check_pipeline(pipeline)
    sender = pipeline.senders["a"].sender
    named = {str(root / "exchange" / path) for path in sender.files.log.files}
    stray = [path for path in files_of(pipeline) if str(path) not in named]
    young = [path for path in stray if path.stat().st_mtime > long_ago + 1]
    assert set(stray) - {other} == set(young)
    assert len(young) == 1
    assert other.exists()
    rows = {path.name for path in (root / "ledger").glob("*.parquet")}
    kept = {
        path
        for own in sender.ledger._files.values()
        for files in own.values()
        for _, _, path in files
    }
    assert rows == kept


@pytest.mark.parametrize("module", [link_ledger, link_files])
def test_who_is_held_up_deletes_no_file_of_its_successor(pipeline, verify, monkeypatch, module):
    """Two hours pass between its look at the log and its sweep; meanwhile the successor writes."""
    query, sweep, deleted = pipeline.senders["a"], module.sweep, []
    query.kill()

    def held_up(*given, **more):
        monkeypatch.undo()
        advance_all(pipeline, 6)  # this opens the sender again
        assert query.done > 0
        later = SimpleNamespace(time=lambda: time.time() + 2 * log_module.SWEEP_AGE_S)
        monkeypatch.setattr(log_module, "time", later)
        deleted.append(sweep(*given, **more))
        monkeypatch.undo()

    monkeypatch.setattr(module, "sweep", held_up)
    with pytest.raises(FencedError):
        LinkSender(pipeline.storage, pipeline.settings, "a", query.checkpoint, reset=False)
    assert deleted == [0]
    pipeline.drain()
    verify.check_pipeline(pipeline)


def test_the_sweep_of_a_member_leaves_a_namesake_alone(tmp_path):
    """Two names may look alike in a file's name."""
    storage = Storage(tmp_path / "ledger")
    link_ledger.create_ledger(storage)
    first, second = (link_ledger.LinkLedger(storage, f"sender/{name}") for name in ("a.b", "a_b"))
    state = {"n": 1}
    row = {"sender": 0, "receiver": 0}
    first.claim()
    first.commit([row], state)
    for path in Path(str(storage)).glob("*.parquet"):
        os.utime(path, (1, 1))
    stray = Path(str(storage)) / "sender_a_b.L0.0000000000-0000000000.00000000.parquet"
    stray.write_bytes(b"")
    os.utime(stray, (1, 1))
    second.refresh()
    second.claim()
    assert not stray.exists()
    assert len(first.last_rows("sender/a.b")) == 1
