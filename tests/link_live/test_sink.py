"""A link's sink by name, in Spark: failing tasks, twins, kills of its processes, odd batches."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from flowcontrol import Link
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.link.source import LinkSource
from flowcontrol.spark.session import register_source
from flowcontrol.spark.versions import has_read_limits
from jvm import java_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]

DDL = "id long, key long, text string, nested struct<a: array<long>, m: map<string, double>>"


class Source:
    """A folder of files, one a batch, whose rows come through a function that may fail."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.count = spark, folder, 0

    def write(self, rows: int, files: int = 1, parts: int = 2) -> None:
        """Put new files into the source, of so many row groups."""
        for _ in range(files):
            frame = self.spark.range(self.count, self.count + rows, 1, 1).selectExpr(
                "id",
                "if(id % 11 = 0, null, id % 7) AS key",
                "concat('row ', id) AS text",
                "if(id % 3 = 0, null, struct(array(id, null) AS a, map('x', id / 2) AS m)) "
                "AS nested",
            )
            size = -(-rows // parts)
            writer = frame.write.mode("append").option("maxRecordsPerFile", size)
            writer.parquet(str(self.folder / "in"))
            self.count += rows

    def rows(self) -> DataFrame:
        """Return the rows as a stream."""
        reader = self.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 2)
        return reader.parquet(str(self.folder / "in"))


class Sending:
    """A query into a link by name, and what the link holds then."""

    def __init__(self, source: Source, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.options = {"path": folder / "link", "name": "a", "key": "key", "channels": 3}
        self.options["checkpointLocation"] = folder / "up"
        register_source(source.spark, LinkSource)

    def writer(self, rows: DataFrame | None = None) -> Any:
        found = (self.source.rows() if rows is None else rows).writeStream.format("flowcontrol")
        return found.options(**{name: str(value) for name, value in self.options.items()})

    def run(self, rows: DataFrame | None = None) -> StreamingQuery:
        """Send what is there."""
        query: StreamingQuery = self.writer(rows).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def state(self) -> str:
        """Return whether the sender is blocked or idle; nothing if it is not there yet."""
        if not (self.folder / "link" / "ledger" / "_delta_log").exists():
            return ""
        return next((one["state"] for one in Link(self.folder / "link").describe()["senders"]), "")

    def received(self) -> list[Any]:
        """Receive what is there; return all rows that ever came."""
        spark, folder = self.source.spark, self.folder
        frame = Link(folder / "link").receive(spark)
        query = frame.writeStream.format("parquet").option("path", str(folder / "out"))
        query = query.option("checkpointLocation", str(folder / "down"))
        for _ in range(1 if has_read_limits() else 4):  # older Spark reads a batch and ends
            query.trigger(availableNow=True).start().awaitTermination()
        return spark.read.schema(DDL).parquet(str(folder / "out")).orderBy("id").collect()

    def assert_all_once(self) -> None:
        """Assert that the rows of the source came, once each and unchanged."""
        sent = self.source.spark.read.schema(DDL).parquet(str(self.source.folder / "in"))
        assert self.received() == sent.orderBy("id").collect()

    def orphans(self) -> set[str]:
        """Return the files that were written and that no commit names."""
        log = LinkLog(Link(self.folder / "link").storage.child("exchange"))
        log.refresh()
        folder = self.folder / "link" / "exchange"
        return {str(path.relative_to(folder)) for path in folder.glob("*/*.parquet")} - set(
            log.files
        )


@pytest.fixture
def sending(spark: SparkSession, tmp_path: Path) -> Sending:
    return Sending(Source(spark, tmp_path), tmp_path)


def test_rows_of_all_types_arrive_once_in_batches_with_and_without_rows(sending: Sending) -> None:
    sending.source.write(50, files=2)
    query = sending.run()
    assert query.exception() is None
    sending.source.write(0)  # a file without rows
    sending.source.write(30)
    sending.run()
    sending.assert_all_once()
    assert sending.orphans() == set()


def test_a_start_is_known_by_the_folders_that_spark_gives_its_processes(sending: Sending) -> None:
    """Not by the session of the machine, which is taken where Spark names none."""
    sending.source.write(10)
    sending.run()
    ledger = LinkLedgerView(Link(sending.folder / "link").storage.child("ledger"))
    ledger.refresh()
    own = f"session {os.getsid(0)}".encode()
    assert ledger.members["sender/a"].state["run"] != hashlib.sha256(own).hexdigest()[:16]


def test_columns_of_any_name_and_names_of_queries(sending: Sending) -> None:
    sending.source.write(20)
    rows = sending.source.rows().select(F.col("id").alias("a.b"), F.col("key").alias("c`d"), "text")
    del sending.options["name"]
    sending.options["key"] = '["a.b", "c`d"]'
    query = sending.writer(rows).queryName("by_its_name").trigger(availableNow=True).start()
    query.awaitTermination()
    link = Link(sending.folder / "link")
    assert [one["name"] for one in link.describe()["senders"]] == ["by_its_name"]
    assert link.settings.key == ("a.b", "c`d")
    frame = link.receive(sending.source.spark).writeStream.format("parquet")
    frame = frame.option("checkpointLocation", str(sending.folder / "down"))
    out = str(sending.folder / "out")
    frame.trigger(availableNow=True).start(out).awaitTermination()
    found = sending.source.spark.read.parquet(out).collect()
    assert sorted(row["a.b"] for row in found) == list(range(20))


def test_a_key_goes_to_the_channel_of_the_other_form(sending: Sending) -> None:
    """Both forms write into a link, and of each key all rows are in one channel."""
    sending.source.write(100)
    sending.run()
    link, spark = Link(sending.folder / "link"), sending.source.spark
    other = sending.source.rows().writeStream.foreachBatch(link.sender("b"))
    other = other.option("checkpointLocation", str(sending.folder / "other"))
    other.trigger(availableNow=True).start().awaitTermination()
    exchange = sending.folder / "link" / "exchange"
    log = LinkLog(link.storage.child("exchange"))
    log.refresh()
    records = [
        [log.channel(sender, channel).records for channel in range(3)] for sender in range(2)
    ]
    assert records[0] == records[1]
    assert sum(records[0]) == 100
    wanted = spark.read.parquet(str(sending.folder / "in")).select(
        F.pmod(F.hash("key"), F.lit(3)).alias("channel")
    )
    counts = {row["channel"]: row["count"] for row in wanted.groupBy("channel").count().collect()}
    assert records[0] == [counts.get(channel, 0) for channel in range(3)]
    assert exchange.exists()


@pytest.mark.slow
def test_attempts_and_twins_leave_orphans_that_no_commit_names(tmp_path: Path) -> None:
    """On executors, where a task that fails runs again and a slow one gets a speculative twin."""
    found = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "sink_attempts.py"), str(tmp_path)],
        cwd=tmp_path, env=own_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr[-4000:]
    for said in ("failed: 120 rows once, orphans", "twins: 240 rows once, orphans"):
        assert said in found.stdout, found.stdout


def own_environment() -> dict[str, str]:
    """Return the environment of a Spark of its own."""
    found = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    return found | {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONHASHSEED": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
        **java_environment(),
    }


def test_a_blocked_sink_goes_on_when_a_receiver_comes(
    sending: Sending, until: Callable[..., None], sink: Any
) -> None:
    sending.options |= {"buffer_bytes": 1024, "exclusive_buffers": 1, "floating_buffers": 2}
    sending.source.write(600, files=3)
    query = sending.writer().start()
    link = Link(sending.folder / "link")
    until(lambda: sending.state() == "blocked", query)
    down = link.receive(sending.source.spark).writeStream.foreachBatch(sink)
    down = down.option("checkpointLocation", str(sending.folder / "down")).start()
    try:
        until(lambda: len(sink.rows) == 1800, query, down)
        until(lambda: sending.state() == "idle", query, down)
    finally:
        query.stop()
        down.stop()
    assert sorted(row["id"] for row in sink.rows) == list(range(1800))


def test_a_sink_that_waits_too_long_says_so_and_its_next_start_goes_on(sending: Sending) -> None:
    small = {"buffer_bytes": 1024, "exclusive_buffers": 1, "floating_buffers": 0, "wait_s": 0.5}
    sending.options |= small
    sending.source.write(600)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="while no receiver took anything"):
            sending.run()
    sending.options["wait_s"] = "inf"
    query, link = sending.writer().start(), Link(sending.folder / "link")
    down = link.receive(sending.source.spark).writeStream.format("noop")
    down = down.option("checkpointLocation", str(sending.folder / "down")).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
        down.stop()
    [sender] = link.describe()["senders"]
    assert (sender["rows_written"], sender["waiting_bytes"]) == (600, 0)


@pytest.mark.parametrize("module", ["write_into_data_source", "python_streaming_sink_runner"])
def test_a_process_of_a_sink_that_is_killed_loses_and_doubles_nothing(
    sending: Sending, until: Callable[..., None], sink: Any, module: str
) -> None:
    """``kill -9`` while it waits: the query fails, and its next start goes on."""
    sending.options |= {"buffer_bytes": 1024, "exclusive_buffers": 1, "floating_buffers": 2}
    sending.source.write(400)
    query, link = sending.writer().start(), Link(sending.folder / "link")
    until(lambda: sending.state() == "blocked", query)
    killed = [pid for pid in workers(module) if not os.kill(pid, signal.SIGKILL)]
    assert killed
    if module == "write_into_data_source":  # it was idle: Spark starts another
        assert query.isActive
        assert query.exception() is None
    else:
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()
        query = sending.writer().start()
    sending.source.write(400)
    down = link.receive(sending.source.spark).writeStream.foreachBatch(sink)
    down = down.option("checkpointLocation", str(sending.folder / "down")).start()
    try:
        until(lambda: len(sink.rows) >= 800, query, down)
        query.processAllAvailable()
    finally:
        query.stop()
        down.stop()
    assert sorted(row["id"] for row in sink.rows) == list(range(800))


def workers(module: str) -> list[int]:
    """Return this Spark's Python processes of a module that were forked for work."""
    own = {pid for pid in all_pids() if module in command_of(pid)}
    return [pid for pid in own if parent_of(pid) in own]


def all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_two_queries_under_one_name_are_told(sending: Sending) -> None:
    sending.source.write(10)
    sending.run()
    sending.options["checkpointLocation"] = sending.folder / "second"
    with pytest.raises(StreamingQueryException, match="sender 'a' belongs to the query"):
        sending.run()
    sending.options["reset"] = True
    sending.run()
    sending.options["checkpointLocation"] = sending.folder / "up"
    sending.source.write(10)
    with pytest.raises(StreamingQueryException, match="was taken over from the query"):
        sending.run()
    received = sending.received()
    assert len(received) == 20  # the rows of the first ten twice, as the new checkpoint began anew
    assert len({row["id"] for row in received}) == 10


def test_a_checkpoint_that_is_only_a_setting_of_the_session_is_refused(sending: Sending) -> None:
    spark, name = sending.source.spark, "spark.sql.streaming.checkpointLocation"
    del sending.options["checkpointLocation"]
    sending.source.write(10)
    spark.conf.set(name, str(sending.folder / "of session"))
    try:
        with pytest.raises(StreamingQueryException, match="the query's checkpoint is not known"):
            sending.run()
    finally:
        spark.conf.unset(name)


def test_more_columns_and_no_rows(sending: Sending) -> None:
    sending.source.write(10)
    sending.run()
    sending.source.write(10)
    more = sending.source.rows().withColumn("more", F.lit(1))
    with pytest.raises(StreamingQueryException, match="carries other columns"):
        sending.run(more)
    sending.options["evolve_schema"] = "true"
    sending.run(more)
    sending.run(more)
    assert [row["id"] for row in sending.received()] == list(range(20))
