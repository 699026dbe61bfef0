"""A link in declarative pipelines: what ``spark-pipelines run`` makes of it, kills included."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowcontrol.errors import LinkError
from flowcontrol.link.link import Link
from flowcontrol.spark.versions import spark_version
from jvm import java_environment

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]

LOOPBACK = "spark.connect.grpc.binding.address=127.0.0.1"

FILES, ROWS = 6, 50

SEND = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
options = {{"path": "{base}/link", "name": "orders", "key": "key", "wait_s": "600"}}
dp.create_sink("to_receivers", "flowcontrol", options)


@dp.append_flow(target="to_receivers", name="send")
def send():
    reader = spark.readStream.schema("id long, key long").option("maxFilesPerTrigger", 1)
    return reader.parquet("{base}/in")
"""

RECEIVE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
# Not a table: those of Spark's own catalog are forgotten with the run.
dp.create_sink("orders", "parquet", {{"path": "{base}/orders"}})


@dp.temporary_view
def received():
    return spark.readStream.format("flowcontrol").option("wait_s", "5").load("{base}/link")


@dp.append_flow(target="orders", name="receive")
def receive():
    return spark.readStream.table("received")
"""


class Project:
    """A pipeline's project.

    Attributes
    ----------
    runs : int
        How often it was run.
    """

    def __init__(self, base: Path, name: str, code: str) -> None:
        self.base, self.folder, self.runs = base, base / name, 0
        (self.folder / "flows").mkdir(parents=True)
        (self.folder / "flows" / "flow.py").write_text(code.format(base=base))
        (self.folder / "spark-pipeline.yml").write_text(
            f"name: {name}\nstorage: file://{base}/storage-{name}\n"
            "libraries:\n  - glob:\n      include: flows/**\n"
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a run, in a session of its own."""
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SPARK_", "PYSPARK_"))
        }
        environment |= {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONHASHSEED": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(home),
            "SPARK_TESTING": "1",  # any free port for its server
            **java_environment(),
        }
        self.runs += 1
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [str(home / "bin" / "spark-pipelines"), "--conf", LOOPBACK, "run", *arguments],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / f"run-{self.runs}.log"

    def run(self, *arguments: str) -> str:
        """Run to the end; return what it printed."""
        process = self.start(*arguments)
        try:
            process.wait()
        finally:
            kill(process)
        return self.log.read_text(errors="replace")

    def run_and_kill(self, is_due: Callable[[], bool]) -> None:
        """Run, and ``kill -9`` all of its processes when something holds."""
        process = self.start()
        try:
            while not is_due():
                assert process.poll() is None, self.log.read_text(errors="replace")[-3000:]
                time.sleep(0.05)
        finally:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of a session: Spark's daemons have groups of their own."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(folder.name)) == process.pid:
                os.kill(int(folder.name), signal.SIGKILL)
    process.wait()


def written(base: Path) -> int:
    """Return how many rows are in the link."""
    with suppress(LinkError):
        return sum(one["rows_written"] for one in Link(base / "link").describe()["senders"])
    return 0


def ids(folder: Path) -> list[int]:
    """Return the rows in a folder that Spark has written to, as its log of files has them."""
    names = set[str]()
    for log in sorted((folder / "_spark_metadata").glob("[0-9]*")):
        lines = log.read_text().splitlines()[1:]
        names |= {line.split('"path":"')[1].split('"')[0].rpartition("/")[2] for line in lines}
    tables = [pq.read_table(folder / name, partitioning=None) for name in names]
    return sorted(number for table in tables for number in table.column("id").to_pylist())


@pytest.mark.skipif(spark_version() < (4, 1), reason="there are no declarative pipelines")
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="pyspark[connect] is missing")
def test_pipelines_at_both_ends_of_a_link_through_kills_and_a_full_refresh(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()

    def feed(first: int, files: int) -> None:
        for file in range(first, first + files):
            numbers = pa.array(range(file * ROWS, (file + 1) * ROWS), pa.int64())
            keys = pa.array([n % 7 for n in range(ROWS)], pa.int64())
            pq.write_table(
                pa.table({"id": numbers, "key": keys}), tmp_path / "in" / f"{file:04d}.parquet"
            )

    feed(0, FILES)
    # It bounds what a run of the receivers gets, so that there are several batches to kill in.
    Link(tmp_path / "link", key="key", channels=2, schema=pa.schema(
        [("id", pa.int64()), ("key", pa.int64())]
    ))  # fmt: skip
    sender = Project(tmp_path, "sender", SEND)
    receiver = Project(tmp_path, "receiver", RECEIVE)

    sender.run_and_kill(lambda: written(tmp_path) >= 2 * ROWS)
    said = sender.run()
    assert "Run is COMPLETED" in said, said[-3000:]
    assert written(tmp_path) == FILES * ROWS

    planned = tmp_path / "storage-receiver"
    receiver.run_and_kill(lambda: any(planned.rglob("offsets/0")))
    for _ in range(3):  # Spark 4.1 reads a batch a run
        said = receiver.run()
        assert "Run is COMPLETED" in said, said[-3000:]
        if len(ids(tmp_path / "orders")) >= FILES * ROWS:
            break
    assert ids(tmp_path / "orders") == list(range(FILES * ROWS))

    refreshed = sender.run("--full-refresh-all")
    assert "was begun anew by a full refresh (--full-refresh, --full-refresh-all)" in refreshed
    assert written(tmp_path) == FILES * ROWS
    checkpoints = tmp_path / "storage-sender" / "_checkpoints" / "to_receivers" / "send"
    assert f"delete {checkpoints}/1" in refreshed
    subprocess.run(["rm", "-r", str(checkpoints / "1")], check=True)
    feed(FILES, 1)
    said = sender.run()
    assert "Run is COMPLETED" in said, said[-3000:]
    assert written(tmp_path) == (FILES + 1) * ROWS
