"""A link that is altered and moved between running queries keeps rows and their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flowcontrol import Link
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.link import folder as fencing
from flowcontrol.link.members import senders_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


def test_more_channels_and_another_folder(spark, events, sink, until, tmp_path, monkeypatch):
    monkeypatch.setattr(fencing, "ACTIVE_S", 0.0)
    link = Link(
        tmp_path / "link", key="customer_id", channels=2, floating_buffers=2, buffer_bytes=4096,
        schema=events.stream().schema,
    )  # fmt: skip

    def begin(own: Link) -> list[StreamingQuery]:
        up = events.stream().writeStream.foreachBatch(own.sender("events"))
        down = own.receive(spark).writeStream.foreachBatch(sink)
        named = ((up, "a"), (down, "b"))
        return [w.option("checkpointLocation", str(tmp_path / name)).start() for w, name in named]

    def end(queries: list[StreamingQuery]) -> None:
        for query in queries:
            query.stop()

    events.write(300, files=3)
    queries = begin(link)
    try:
        until(lambda: len(sink.rows) > 0, *queries)
        link.alter(channels=5, exclusive_buffers=1, floating_buffers=6, target_batch_s=1.0)
        events.write(300, files=3)
        until(lambda: len(sink.rows) == events.written, *queries)
        end(queries)
        queries = begin(link.move(tmp_path / "moved"))
        events.write(300, files=2)
        until(lambda: len(sink.rows) == events.written, *queries)
    finally:
        end(queries)
    sink.assert_exactly(events.written)
    view = LinkLedgerView(Link(tmp_path / "moved").storage.child("ledger"))
    view.refresh()
    (sender,) = senders_of(view)
    assert sender.channels == 5
    assert sum(count > 0 for count in sender.records) == 5
