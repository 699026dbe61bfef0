"""A receiver that starts from a Delta checkpoint of the exchange log reads what was sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from deltalake import DeltaTable

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
