"""The listener: what it writes, what it costs, and that nothing that goes wrong reaches Spark."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from flowcontrol.link.monitoring import listener as progress_module
from flowcontrol.link.monitoring.listener import LinkListener, LinkReads, ProgressTable
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.records import QUERY_PROGRESS

PATIENCE_S = 1800.0


def progress_event(batch=0, run="run-1", name="enrich", ends=(), **changes):
    """What Spark hands to a listener, as far as it is looked at."""
    progress = SimpleNamespace(
        id="id-1",
        runId=run,
        name=name,
        timestamp="2026-11-21T18:00:00.250Z",
        batchId=batch,
        numInputRows=100,
        inputRowsPerSecond=50.0,
        processedRowsPerSecond=200.0,
        durationMs={
            "triggerExecution": 500,
            "addBatch": 400,
            "latestOffset": 20,
            "queryPlanning": 10,
            "walCommit": 30,
            "commitOffsets": 12,
        },
        sources=[SimpleNamespace(endOffset=end) for end in ends],
        sink=SimpleNamespace(numOutputRows=-1),
    )
    progress.__dict__.update(changes)
    return SimpleNamespace(progress=progress)


def state_event(**values):
    return SimpleNamespace(id="id-1", runId="run-1", **values)


def wait_for(is_so):
    """Wait until something is so, for as long as a busy machine may take; whether it is."""
    until = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < until:
        time.sleep(0.02)
    return is_so()


def table_of(path):
    try:
        table = DeltaTable(str(path))
    except TableNotFoundError:
        return []
    return table.to_pyarrow_table().sort_by([("at", "ascending")]).to_pylist()


@pytest.fixture
def metrics(tmp_path):
    return tmp_path / "metrics"


@pytest.fixture
def listener(metrics):
    made = LinkListener(metrics, flush_s=3600)
    yield made
    made.close()


# ---------------------------------------------------------------------- the table


def test_every_column_is_described():
    for column in QUERY_PROGRESS.columns:
        assert column.meaning.endswith("."), column.name
        assert len(column.meaning) > 15, column.name
        for ending, unit in (("_ms", "ms"), ("_per_s", "records/s"), ("_age_s", "s")):
            if column.name.endswith(ending):
                assert column.unit == unit, column.name
    assert pa.types.is_timestamp(QUERY_PROGRESS.arrow_schema().field("at").type)


def test_a_progress_is_a_row(listener, metrics):
    listener.onQueryProgress(progress_event(batch=7))
    listener.flush()
    (row,) = table_of(metrics)
    assert row == {
        "at": datetime(2026, 11, 21, 18, 0, 0, 250_000, UTC),
        "event": "progress",
        "query": "enrich",
        "query_id": "id-1",
        "run_id": "run-1",
        "batch_id": 7,
        "rows": 100,
        "rows_written": None,
        "rows_in_per_s": 50.0,
        "rows_out_per_s": 200.0,
        "batch_ms": 500.0,
        "add_batch_ms": 400.0,
        "latest_offset_ms": 20.0,
        "planning_ms": 10.0,
        "commit_ms": 42.0,
        "links": None,
        "backlog_rows": None,
        "backlog_bytes": None,
        "backlog_age_s": None,
        "error": None,
    }
    assert tuple(row) == QUERY_PROGRESS.names


def test_what_spark_cannot_say_is_null(listener, metrics):
    event = progress_event(
        name=None,
        inputRowsPerSecond=float("nan"),
        processedRowsPerSecond=None,
        durationMs={},
        sink=SimpleNamespace(numOutputRows=12),
        ends=[None, "no json", "17"],
    )
    listener.onQueryProgress(event)
    listener.flush()
    (row,) = table_of(metrics)
    assert (row["query"], row["rows_written"]) == ("id-1", 12)
    assert {row[name] for name in ("rows_in_per_s", "rows_out_per_s", "batch_ms", "commit_ms")} == {
        None
    }


def test_starts_and_ends_are_rows_and_an_end_is_written_at_once(listener, metrics):
    listener.onQueryStarted(state_event(name="enrich"))
    listener.onQueryIdle(state_event())
    listener.onQueryTerminated(state_event(exception="it broke"))
    assert wait_for(lambda: table_of(metrics))
    rows = table_of(metrics)
    assert [(r["event"], r["query"], r["error"]) for r in rows] == [
        ("started", "enrich", None),
        ("terminated", "enrich", "it broke"),
    ]
    assert all(abs((datetime.now(UTC) - row["at"]).total_seconds()) < 600 for row in rows)


def test_rows_are_written_together(metrics):
    listener = LinkListener(metrics, flush_s=3600)
    for batch in range(50):
        listener.onQueryProgress(progress_event(batch))
    listener.close()
    assert [row["batch_id"] for row in table_of(metrics)] == list(range(50))
    assert len(DeltaTable(str(metrics)).file_uris()) == 1


def test_rows_are_written_after_a_while(metrics):
    listener = LinkListener(metrics, flush_s=0.05)
    listener.onQueryProgress(progress_event())
    assert wait_for(lambda: table_of(metrics))
    listener.close()
    assert len(table_of(metrics)) == 1


def test_it_goes_on_after_it_was_closed(metrics):
    listener = LinkListener(metrics, flush_s=3600)
    listener.flush()
    listener.close()
    assert not metrics.exists()
    for batch in range(2):
        listener.onQueryProgress(progress_event(batch))
        listener.close()
    assert len(table_of(metrics)) == 2


def test_small_files_are_put_together(metrics, monkeypatch):
    monkeypatch.setattr(progress_module, "COMPACT_EVERY", 5)
    table = ProgressTable(LinkListener(metrics)._table.storage)
    for number in range(12):
        table.append([{"event": "progress", "query": "q", "batch_id": number}])
    assert len(DeltaTable(str(metrics)).file_uris()) == 1 + 2
    assert sorted(
        row["batch_id"] for row in DeltaTable(str(metrics)).to_pyarrow_table().to_pylist()
    ) == list(range(12))


# ---------------------------------------------------------------------- what goes wrong


def test_spark_never_hears_of_an_error(tmp_path, caplog):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    listener = LinkListener(blocked / "metrics", [tmp_path / "no link"], flush_s=3600)
    with caplog.at_level(logging.WARNING, "flowcontrol.listener"):
        listener.onQueryProgress(SimpleNamespace())  # no progress in it
        listener.onQueryProgress(progress_event(ends=['{"cursors": {"0": [5]}}']))
        listener.flush()
    assert "an event of a query was lost" in caplog.text
    (waiting,) = (r for r in caplog.records if "wait for the next try" in r.getMessage())
    assert "1 rows wait for the next try: " in waiting.getMessage()
    assert waiting.exc_info is None  # it is tried again: no traceback
    blocked.unlink()
    listener.close()
    assert len(table_of(blocked / "metrics")) == 1  # written by the next try


def test_a_full_queue_drops_events_and_does_not_wait(metrics, monkeypatch, caplog):
    monkeypatch.setattr("flowcontrol.link.monitoring.listener.MOST_ROWS", 3)
    listener, gate = LinkListener(metrics, flush_s=3600), threading.Event()
    monkeypatch.setattr(listener._table, "append", lambda rows: gate.wait())
    listener.onQueryTerminated(state_event(exception=None))
    assert wait_for(lambda: not listener._queue.qsize())
    with caplog.at_level(logging.ERROR, "flowcontrol.listener"):
        for batch in range(5):
            listener.onQueryProgress(progress_event(batch))
    assert caplog.text.count("was lost") == 2
    gate.set()
    listener.close()


def test_it_can_be_pickled(metrics):
    first = LinkListener(metrics, ["/lake/orders"], flush_s=7.0, storage_options={"a": "b"})
    first.onQueryProgress(progress_event())
    second = pickle.loads(pickle.dumps(first))
    first.close()
    assert (second.path, second.links, second.flush_s) == (str(metrics), ["/lake/orders"], 7.0)
    assert second.storage_options == {"a": "b"}
    assert not second._rows and second._thread is None


# ---------------------------------------------------------------------- who reads which link


@pytest.fixture
def chain(make_link, clock, monkeypatch):
    """Two links with a receiver each, the second one read by two."""
    fake = SimpleNamespace(time=lambda: clock.now)
    monkeypatch.setattr("flowcontrol.link.monitoring.monitor.time", fake)
    monkeypatch.setattr("flowcontrol.link.monitoring.listener.time", fake)
    first, second = make_link("orders"), make_link("enriched")
    for link, rows in ((first, 40), (second, 70)):
        link.sender().write({0: rows, 1: rows})
    return (
        LinkReads([str(first.path), str(second.path)]),
        first.receiver(),
        second.receiver("main"),
        second.receiver("audit"),
    )


def test_a_query_is_the_receiver_whose_offsets_it_reports(chain, clock):
    reads, orders, main, _ = chain
    orders.take(), main.take()
    assert reads.backlog("run-1", [{"cursors": orders.at}]) == {
        "links": "orders",
        "backlog_rows": 80,
        "backlog_bytes": 8000,
        "backlog_age_s": 0.0,
    }
    clock.forward(2)
    found = reads.backlog("run-2", [{"cursors": main.at}])
    assert (found["links"], found["backlog_rows"]) == ("enriched", 140)
    assert found["backlog_age_s"] == 2.0
    both = reads.backlog("run-3", [{"cursors": orders.at}, 17, {"cursors": main.at}])
    assert (both["links"], both["backlog_rows"]) == ("orders,enriched", 80 + 140)


def test_receivers_that_are_alike_are_told_apart_later(chain, clock):
    reads, _, main, audit = chain
    assert main.take() == audit.take() > 0
    assert reads.backlog("run-1", [{"cursors": main.at}]) == {}
    clock.forward(1)
    main.take()
    clock.forward(1)
    found = reads.backlog("run-1", [{"cursors": main.at}])
    assert found["links"] == "enriched"
    taken = sum(map(sum, audit.at.values()))
    assert found["backlog_rows"] == 140 - taken < 140


def test_once_known_a_look_a_second_is_enough(chain, clock, monkeypatch):
    reads, orders, _, _ = chain
    orders.take()
    reads.backlog("run-1", [{"cursors": orders.at}])
    snapshots = []
    real = LinkMonitor.snapshot
    monkeypatch.setattr(LinkMonitor, "snapshot", lambda self: snapshots.append(self) or real(self))
    for _ in range(10):
        clock.forward(0.5)
        found = reads.backlog("run-1", [{"cursors": {"0": [999, 999]}}])
        assert found["links"] == "orders"
    assert len(snapshots) == 2 * 3


def test_before_the_first_row_nobody_is_known(chain):
    reads = chain[0]
    assert reads.backlog("run-1", [{"cursors": {"0": [0, 0]}}]) == {}
    assert reads.backlog("run-1", [{"cursors": {}}, {"other": 1}, None]) == {}
    assert reads.backlog("run-1", []) == {}


def test_a_link_that_comes_later_is_found(make_link, clock, tmp_path):
    reads = LinkReads([str(tmp_path / "orders")])
    assert reads.backlog("run-1", [{"cursors": {"0": [5, 0]}}]) == {}
    link = make_link("orders")
    link.sender().write({0: 40})
    receiver = link.receiver()
    receiver.take()
    assert reads.backlog("run-1", [{"cursors": receiver.at}])["links"] == "orders"


# ---------------------------------------------------------------------- with Spark


def ends_in(metrics):
    return [row for row in table_of(metrics) if row["event"] == "terminated"]


@pytest.mark.spark
def test_queries_of_a_session_are_written(spark, metrics, tmp_path):
    from pyspark.sql import functions as F

    from flowcontrol import Link

    link = Link(tmp_path / "link", channels=2, schema="value long")
    listener = LinkListener(metrics, [tmp_path / "link"], flush_s=3600)
    spark.streams.addListener(listener)
    try:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
        up = (
            source.select(F.col("value"))
            .writeStream.queryName("up")
            .foreachBatch(link.sender("events"))
            .option("checkpointLocation", str(tmp_path / "up"))
            .start()
        )
        down = (
            link.receive(spark)
            .writeStream.queryName("down")
            .foreachBatch(lambda rows, _: rows.count())
            .option("checkpointLocation", str(tmp_path / "down"))
            .start()
        )
        assert wait_for(lambda: down.lastProgress is not None and down.lastProgress.batchId >= 3)
        up.stop(), down.stop()
        assert (up.exception(), down.exception()) == (None, None)
        assert wait_for(lambda: len(ends_in(metrics)) == 2)
    finally:
        spark.streams.removeListener(listener)
        listener.close()
    rows = table_of(metrics)
    assert {r["query"] for r in rows} == {"up", "down"}
    assert {r["event"] for r in rows} == {"started", "progress", "terminated"}
    reading = [r for r in rows if r["query"] == "down" and r["event"] == "progress" and r["rows"]]
    assert len(reading) >= 3
    assert all(r["batch_ms"] > 0 and r["rows_out_per_s"] > 0 for r in reading)
    assert {r["links"] for r in reading[1:]} == {"link"}
    assert all(r["backlog_bytes"] >= r["backlog_rows"] >= 0 for r in reading[1:])
    assert {r["links"] for r in rows if r["query"] == "up"} == {None}
