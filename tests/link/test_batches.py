"""The function of foreachBatch: what it does in which order, and what a failure leaves."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link import batches as batches_module
from flowcontrol.link.batches import SenderBatch
from flowcontrol.link.folder import EXCHANGE
from flowcontrol.link.packing import CHANNEL, PackRows


class Rows:
    """What a data frame says of its query, and the rows themselves."""

    def __init__(self, table: pa.Table, query: str | None = "q", run: str | None = "r1") -> None:
        self.table, self.schema = table, from_arrow_schema(table.schema)
        self.sparkSession = self.sparkContext = self
        self._properties = {"sql.streaming.queryId": query, "spark.jobGroup.id": run}

    def count(self) -> int:
        return len(self.table)

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties[name]


@pytest.fixture
def stopped(monkeypatch):
    """A list; a query is stopped as long as there is something in it. Packing needs no Spark."""
    found: list[bool] = []

    def pack(batch, rows, sender):
        work = PackRows(batch.storage.child(EXCHANGE), sender.index, sender.settings.buffer_bytes)
        if not len(rows.table):
            return []
        table = rows.table.append_column(CHANNEL, rows.table.column("channel").cast(pa.int32()))
        return [json.dumps({"task": 0, "number": 0, **work.write(table)})]

    monkeypatch.setattr(SenderBatch, "_pack", pack)
    monkeypatch.setattr(batches_module, "is_stopped", lambda *_: bool(found))
    return found


@pytest.fixture
def pipeline(make):
    return make(channels=1, floating_buffers=8)


def rows_of(dry, first, count=6, **more):
    return Rows(dry.source_rows("a", first, [0] * count, 400), **more)


def drain(pipeline, receiver):
    for _ in range(20):
        receiver.advance()


def test_a_batch_that_fits_into_the_buffers_returns_at_once(pipeline, dry, stopped):
    send = pipeline.link.sender("a")
    send(rows_of(dry, 0, 4), 0)
    assert send._sender.output.released == [2]
    send(rows_of(dry, 0, 4), 0)  # Spark runs it again after a kill
    assert send._sender.files.log.channel(0, 0).end == 2
    send(rows_of(dry, 4, 0), 1)  # a batch without rows
    assert send._sender.files.log.channel(0, 0).end == 2


def test_a_stop_while_it_waits_leaves_the_rows_in_the_link(make, dry, stopped):
    pipeline = make(channels=1, exclusive_buffers=1, floating_buffers=1)
    send, receiver = pipeline.link.sender("a"), pipeline.receiver()
    stopped.append(True)
    send(rows_of(dry, 0), 0)  # returns: the rows are in the link, the next start releases them
    assert send._sender.waiting_bytes() > 0
    again = pipeline.link.sender("a")
    with pytest.raises(
        LinkError, match="sender 'a' was stopped before batch 1 was written; it is run again at"
    ):
        again(rows_of(dry, 6, 2), 1)
    stopped.clear()
    while receiver.rows.num_rows < 6:
        receiver.advance()
        query = pipeline.senders.get("a") or pipeline.sender("a")
        query.checkpoint = "q"
        query.open().step()
    again(rows_of(dry, 6, 2), 1)
    drain(pipeline, receiver)
    assert receiver.rows.column("number").to_pylist() == list(range(8))


def test_after_a_failure_the_next_batch_opens_the_sender_anew(pipeline, dry, stopped, monkeypatch):
    """In memory messages were released that the ledger does not know of."""
    send, receiver = pipeline.link.sender("a"), pipeline.receiver()
    commit, fails = LinkLedger.commit, []

    def once(ledger, rows, state):
        if fails and ledger.member == "sender/a":
            fails.pop()
            raise OSError(28, "No space left on device")
        return commit(ledger, rows, state)

    monkeypatch.setattr(LinkLedger, "commit", once)
    send(rows_of(dry, 0, 2), 0)
    fails.append(True)
    with pytest.raises(OSError, match="No space left"):
        send(rows_of(dry, 2, 2), 1)
    send(rows_of(dry, 2, 2, run="r2"), 1)  # Spark's next start, the same function
    drain(pipeline, receiver)
    assert receiver.rows.column("number").to_pylist() == list(range(4))


def test_a_new_start_of_the_query_looks_at_everything_again(pipeline, dry, stopped):
    send = pipeline.link.sender("a")
    send(rows_of(dry, 0, 2), 0)
    first = send._sender
    send(rows_of(dry, 2, 1), 1)
    assert send._sender is first
    wider = Rows(pa.table({"another": [1]}), run="r2")
    with pytest.raises(LinkError, match="carries other columns"):
        send(wider, 2)
    send(rows_of(dry, 3, 1, run="r2"), 2)
    assert send._sender is not first
    assert send._sender.epoch == 2


def test_another_query_with_the_same_function_is_refused(pipeline, dry, stopped):
    """Its first batch has the number of one that is in the link, and is not that one."""
    send = pipeline.link.sender("a")
    send(rows_of(dry, 0, 2), 0)
    with pytest.raises(LinkError, match="belongs to the query q, this one is another"):
        send(rows_of(dry, 2, 2, query="another"), 0)


def test_where_spark_does_not_tell_the_query_the_name_stands_for_it(pipeline, dry, stopped):
    send = pipeline.link.sender("a")
    send(rows_of(dry, 0, 2, query=None, run=None), 0)
    assert send._sender.query == "sender a"
    send(rows_of(dry, 2, 2, query=None, run=None), 1)
    assert send._sender.epoch == 1


def test_it_travels_without_what_it_has_opened(pipeline, dry, stopped):
    send = pipeline.link.sender("a", reset=True)
    send(rows_of(dry, 0, 2), 0)
    copy = pickle.loads(pickle.dumps(send))
    assert (copy.name, copy.reset, copy._sender) == ("a", True, None)
    copy(rows_of(dry, 2, 2), 1)
    assert copy._sender.epoch == 2


@pytest.mark.parametrize("name", ["", "a/b", "-a", ".", "x" * 65, None, 5, "ä", "a b"])
def test_a_name_that_is_none_is_refused(pipeline, name):
    with pytest.raises(LinkError, match=r"the sender is called .*: needs 1 to 64 letters, digits"):
        pipeline.link.sender(name)


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "9", "x" * 64])
def test_a_name_may_have_letters_digits_and_some_signs(pipeline, name):
    assert pipeline.link.sender(name).name == name
