"""Two streaming queries and a link: blocked, stopped in mid-batch, with a sink that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowcontrol import Link
from flowcontrol.ledger.link_ledger import member_rows
from flowcontrol.link.batches import is_stopped
from flowcontrol.link.members import Receiver, receivers_of, senders_of, view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


class Pipeline:
    """A source, a link with little room, a sink; each query can be started and stopped."""

    def __init__(self, spark: SparkSession, folder: Path, events: Any) -> None:
        self.spark, self.folder, self.events = spark, folder, events
        self.link = Link(
            folder / "link", key="customer_id", channels=4, exclusive_buffers=1,
            floating_buffers=2, buffer_bytes=4096, schema=events.stream().schema,
        )  # fmt: skip
        self.running: list[StreamingQuery] = []

    def send(self) -> StreamingQuery:
        """Start the upstream query."""
        work = self.events.stream().writeStream.foreachBatch(self.link.sender("events"))
        return self._started(work, "a")

    def receive(self, sink: Any, **options: Any) -> StreamingQuery:
        """Start the downstream query."""
        work = self.link.receive(self.spark, **options).writeStream.foreachBatch(sink)
        return self._started(work, f"b-{options.get('name', 'main')}-{options.get('channels')}")

    def _started(self, work: Any, checkpoint: str) -> StreamingQuery:
        query: StreamingQuery = work.option(
            "checkpointLocation", str(self.folder / checkpoint)
        ).start()
        self.running.append(query)
        return query

    def cursors(self) -> tuple[int, int, int]:
        """Messages written, released, and consumed by the slowest, over all channels."""
        from flowcontrol.ledger.link_ledger import LinkLedgerView

        view = LinkLedgerView(self.link.storage.child("ledger"))
        view.refresh()
        [sender] = senders_of(view)
        groups: dict[str, int] = {}
        for receiver in receivers_of(view):
            done = sum(receiver.consumed.get(0, []))
            groups[receiver.group] = groups.get(receiver.group, 0) + done
        return sum(sender.written), sum(sender.released), min(groups.values(), default=0)

    def receivers(self) -> list[Receiver]:
        """Receivers that have come."""
        return receivers_of(view_of(self.link.storage))

    def assert_bounded(self) -> None:
        """Assert that no row of the ledger holds more than the pool."""
        rows = member_rows(self.link.storage.child("ledger")).to_pylist()
        senders = [row for row in rows if row["side"] == "sender"]
        assert max(row["pool_used"] for row in senders) <= self.link.settings.pool_size == 6
        assert len(senders) > 4

    def has_begun(self) -> bool:
        """Whether a sender has committed anything."""
        try:
            return self.cursors()[0] > 0
        except (ValueError, FileNotFoundError, Exception):
            return False


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path, events: Any) -> Any:
    """Return a pipeline whose queries are stopped after the test."""
    made = Pipeline(spark, tmp_path, events)
    yield made
    for query in made.running:
        query.stop()


def test_a_sender_waits_for_its_receiver_and_loses_nothing(
    pipeline: Pipeline,
    events: Any,
    sink: Any,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when it has asked several times whether its query was stopped, which it was not."""
    answers: list[bool] = []

    def ask(rows: DataFrame, query: str) -> bool:
        answers.append(is_stopped(rows, query))
        return answers[-1]

    monkeypatch.setattr("flowcontrol.link.batches.is_stopped", ask)
    events.write(1200, files=3)
    up = pipeline.send()
    until(pipeline.has_begun, up)
    until(lambda: len(answers) >= 3, up)
    assert not any(answers)
    written, released, consumed = pipeline.cursors()
    assert (released, consumed) == (6, 0)
    assert written > 7
    assert up.lastProgress is None or up.lastProgress.batchId <= 0  # the second batch must wait
    down = pipeline.receive(sink)
    until(lambda: len(sink.rows) >= 3600, up, down)
    sink.assert_exactly(3600)
    pipeline.assert_bounded()


def test_a_sender_that_is_stopped_in_mid_batch_goes_on(
    pipeline: Pipeline, events: Any, sink: Any, until: Callable[..., None]
) -> None:
    events.write(2000, files=2)
    up = pipeline.send()
    until(pipeline.has_begun, up)
    up.stop()
    assert not up.isActive
    written, released, _ = pipeline.cursors()
    assert released == 6 < written
    again, down = pipeline.send(), pipeline.receive(sink)
    until(lambda: len(sink.rows) >= 4000, again, down)
    sink.assert_exactly(4000)
    pipeline.assert_bounded()


def test_a_receiver_that_is_stopped_in_mid_batch_goes_on(
    pipeline: Pipeline, events: Any, sink: Any, until: Callable[..., None]
) -> None:
    events.write(1000, files=3)
    entered, leave = threading.Event(), threading.Event()

    def hang(frame: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            entered.set()
            leave.wait()
        sink(frame, batch_id)

    up, down = pipeline.send(), pipeline.receive(hang)
    until(entered.is_set, up, down)
    stopper = threading.Thread(target=down.stop)
    stopper.start()
    until(lambda: not down.isActive, up)
    leave.set()
    stopper.join()
    assert not down.isActive
    again = pipeline.receive(sink)
    until(lambda: len(sink.rows) >= 3000, up, again)
    sink.assert_exactly(3000)


def test_a_sink_that_fails_once_gets_the_same_batch_again(
    pipeline: Pipeline, events: Any, sink: Any, until: Callable[..., None]
) -> None:
    events.write(1000, files=2)
    failed: list[list[Any]] = []

    def fail_once(frame: DataFrame, batch_id: int) -> None:
        if batch_id == 1 and not failed:
            failed.append(frame.collect())
            raise ValueError("the sink is away")
        sink(frame, batch_id)

    up, down = pipeline.send(), pipeline.receive(fail_once)
    until(lambda: not down.isActive, up)
    assert "the sink is away" in str(down.exception())
    again = pipeline.receive(fail_once)
    until(lambda: len(sink.rows) >= 2000, up, again)
    sink.assert_exactly(2000)
    assert sorted(sink.batches[1]) == sorted(failed[0])


def test_a_sink_that_always_fails_stops_the_source_at_the_buffers(
    pipeline: Pipeline, events: Any, until: Callable[..., None]
) -> None:
    events.write(2000, files=4)

    def fail(frame: DataFrame, batch_id: int) -> None:
        raise ValueError("the sink is gone")

    up = pipeline.send()
    for _ in range(2):
        down = pipeline.receive(fail)
        until(lambda query=down: not query.isActive, up)
        assert "the sink is gone" in str(down.exception())
    until(lambda: pipeline.cursors()[1] >= 6, up)  # a receiver may fail before that
    assert up.isActive
    written, released, consumed = pipeline.cursors()
    assert consumed == 0
    assert released == 6 < written
    pipeline.assert_bounded()


@pytest.mark.long  # without Spark: tests/link/test_crashes.py has these receivers
def test_two_receivers_of_a_name_share_the_channels_and_another_reads_all(
    pipeline: Pipeline, events: Any, sink: Any, until: Callable[..., None]
) -> None:
    whole = type(sink)()
    halves = [type(sink)(), type(sink)()]
    queries = [
        pipeline.send(),
        pipeline.receive(whole, name="audit"),
        pipeline.receive(halves[0], channels=[0, 2]),
        pipeline.receive(halves[1], channels=[1, 3]),
    ]
    # One that comes when another has read begins behind what is gone.
    until(lambda: len(pipeline.receivers()) == 3, *queries)
    events.write(1000, files=2)
    until(lambda: len(whole.rows) >= 2000, *queries)
    until(lambda: sum(len(half.rows) for half in halves) >= 2000, *queries)
    whole.assert_exactly(2000)
    keys = [{row["customer_id"] for row in half.rows} for half in halves]
    assert keys[0].isdisjoint(keys[1])
    assert all(keys)
    sink.batches = {i: half.rows for i, half in enumerate(halves)}
    sink.assert_exactly(2000)
