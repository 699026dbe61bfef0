"""A link in use is drained, and its sender's query goes on without it, with its checkpoint."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import StreamingQueryException

from flowcontrol import Link

pytestmark = pytest.mark.spark


def test_a_pipeline_goes_on_without_its_link(spark, events, sink, until, tmp_path):
    link = Link(
        tmp_path / "link", key="customer_id", channels=2, exclusive_buffers=1, floating_buffers=0,
        buffer_bytes=1024, schema=events.stream().schema,
    )  # fmt: skip
    is_open, behind = threading.Event(), type(sink)()

    def slow(rows, batch_id):
        is_open.wait(600)
        sink(rows, batch_id)

    def upstream(function):
        query = events.stream().writeStream.foreachBatch(function)
        return query.option("checkpointLocation", str(tmp_path / "a")).start()

    events.write(300, files=2)
    receiver = link.receive(spark).writeStream.foreachBatch(slow)
    receiver = receiver.option("checkpointLocation", str(tmp_path / "b")).start()
    sender = upstream(link.sender("events"))
    try:
        # The first batch is in the link, waits for buffers, and Spark has not noted it.
        until(lambda: any(one["waiting_bytes"] for one in link.describe()["senders"]), sender)
        until(lambda: link.describe()["receivers"], receiver)
        draining = threading.Thread(target=link.drain)
        draining.start()
        with pytest.raises(StreamingQueryException, match="being drained, sender 'events' writes"):
            sender.awaitTermination()
        assert draining.is_alive()
        is_open.set()
        draining.join()
        receiver.stop()
        sink.assert_exactly(300)
        early = upstream(link.sender("events"))
        with pytest.raises(StreamingQueryException, match=r"link\.bypass\('events', function\)"):
            early.awaitTermination()
        without = upstream(link.bypass("events", behind))
        until(lambda: len(behind.rows) == 300, without)
        without.stop()
        assert len(behind.batches) == 1
        events.write(100)
        link.delete(force=True)
        plain = upstream(behind)
        until(lambda: len(behind.rows) == 400, plain)
        plain.stop()
    finally:
        is_open.set()
        for query in spark.streams.active:
            query.stop()
    everything = [row["event_id"] for row in (*sink.rows, *behind.rows)]
    assert sorted(everything) == list(range(events.written))
