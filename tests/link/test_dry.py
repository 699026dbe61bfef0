"""The link's two ends against each other, without Spark: everything arrives, within the limits."""

from __future__ import annotations

import pytest


def batches(dry, name, count, rows=20, channels=2, sizes=100):
    """Source batches of one sender, their rows dealt out to the channels in turn."""
    return [
        dry.source_rows(name, n * rows, [i % channels for i in range(rows)], sizes)
        for n in range(count)
    ]


def test_rows_go_through(make, dry, verify):
    pipeline = make()
    pipeline.sender("a", batches(dry, "a", 5))
    pipeline.receiver()
    pipeline.drain()
    assert pipeline.receivers[0].rows.num_rows == 100
    verify.check_pipeline(pipeline)


@pytest.mark.parametrize(("exclusive", "floating"), [(1, 0), (1, 1), (2, 0), (2, 3)])
def test_a_row_larger_than_all_buffers_gets_through(make, dry, verify, exclusive, floating):
    """A buffer in which no record ends is recycled on arrival, else nothing would ever move."""
    pipeline = make(channels=1, exclusive_buffers=exclusive, floating_buffers=floating)
    sizes = [9000, 10, 10, 5000, 1100, 20]
    pipeline.sender("a", [dry.source_rows("a", n * 6, [0] * 6, sizes) for n in range(2)])
    receiver = pipeline.receiver()
    pipeline.drain()
    verify.check_pipeline(pipeline)
    written = sum(
        row["bytes"]
        for member, row in verify.ledger_rows(pipeline.storage)
        if member.startswith("sender/")
    )
    read = sum(
        row["bytes"]
        for member, row in verify.ledger_rows(pipeline.storage)
        if member.startswith("receiver/")
    )
    assert written == read > 2 * sum(sizes)
    assert receiver.rows.num_rows == 12
