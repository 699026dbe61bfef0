"""A receiver that starts from a Delta checkpoint of the exchange log reads what was sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from deltalake import DeltaTable

from flowcontrol.ledger import commit as commits
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.link_log import LinkLog


def checkpoint(pipeline) -> None:
    """Write a checkpoint of the exchange log: a reader that starts reads it, not the commits."""
    DeltaTable(str(pipeline.storage.child("exchange"))).create_checkpoint()


def numbers(table, channel: int) -> list[int]:
    rows = table.to_pylist()
    return [row["number"] for row in rows if row["channel"] == channel]


def turn(query, rounds: int = 8) -> None:
    for _ in range(rounds):
        query.advance()


@pytest.mark.parametrize(
    "files",
    [
        [[0, 0, 1], [0, 0]],  # the first piece stays, the last is trimmed
        [[0, 0], [0, 0, 1]],  # the last stays, the first is trimmed
        [[0, 0], [0, 0, 1], [0, 0]],
        [[0, 0, 1], [0, 0], [0, 0, 1]],
    ],
    ids=["first", "last", "middle", "ends"],
)
def test_a_message_that_is_trimmed_in_part_moves_no_row(make, dry, verify, files):
    """A message of channel 0 lies in several files; channel 1 holds some of them back."""
    pipeline = make(floating_buffers=8)
    first = [channel for own in files for channel in own]
    source = pipeline.sender("a", [dry.source_rows("a", 0, first, 10)], cuts=sizes(files))
    ahead, behind = pipeline.receiver("main", "0"), pipeline.receiver("main", "1")
    turn(source)
    turn(ahead)
    for number in (100, 200):  # one says what is trimmed, the next one trims it
        source.batches.append(dry.source_rows("a", number, [0] * 5, 10))
        turn(source)
    log = LinkLog(pipeline.storage.child("exchange"))
    log.refresh()
    assert 0 < len(log.files) - 2 < len(files)  # of the first batch some, not all
    checkpoint(pipeline)
    ahead.kill()
    pipeline.drain()
    assert behind.rows.num_rows == first.count(1)
    verify.check_pipeline(pipeline)


def sizes(files: Sequence[Sequence[int]]) -> list[int]:
    return [len(own) for own in files]


def test_a_log_that_was_just_cleaned_in_front_of_a_reader_is_no_damage(make, dry, monkeypatch):
    """The reader has looked less than a second ago, so it does not ask by itself."""
    monkeypatch.setitem(
        commits.CONFIGURATION, "delta.logRetentionDuration", "interval 0 milliseconds"
    )
    pipeline = make(channels=1, floating_buffers=40)
    monkeypatch.setattr(log_module, "CHECK_EVERY_S", 1e9)
    sender = pipeline.sender("a")
    batches = [dry.source_rows("a", 2 * number, [0, 0], 20) for number in range(12)]
    sender.batches.append(batches[0])
    turn(sender)
    log = LinkLog(pipeline.storage.child("exchange"))
    log.refresh()
    log.refresh()
    seen = log.channel(0, 0).end
    sender.batches += batches[1:]
    turn(sender, 80)
    table = DeltaTable(str(pipeline.storage.child("exchange")))
    table.create_checkpoint()
    table.cleanup_metadata()
    log.refresh()
    whole = LinkLog(pipeline.storage.child("exchange"))
    whole.refresh()
    end, records = whole.channel(0, 0).end, whole.channel(0, 0).records
    assert log.channel(0, 0).end == seen < end  # cut off, and does not know
    log.check_holds(0, 0, end, records)
    assert log.channel(0, 0).end == end
