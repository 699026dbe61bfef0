"""A sink on executors whose tasks fail or are slow; ``test_sink.py`` runs it as its own process.

Spark gives a slow task a twin on another host only: a worker each on two addresses of the loopback.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from flowcontrol import Link
from flowcontrol.ledger.link_log import LinkLog

HOSTS = ("127.0.0.2", "127.0.0.3")

SPARK = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.4",
    "spark.sql.files.openCostInBytes": str(1 << 30),  # a task a file
}

FILES, ROWS = 3, 40


def work_of(folder: Path, after: Callable[[Path, int, int], None]) -> Any:
    """Return a function over Arrow that does something behind the rows of an attempt."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        after(folder, context.partitionId(), context.attemptNumber())

    return work


def fail_first(folder: Path, partition: int, attempt: int) -> None:
    """Fail at each first attempt, when the sink has all of its rows."""
    (folder / f"{partition}-{attempt}").touch()
    if attempt == 0:
        raise ValueError("planted")


def wait_for_twin(folder: Path, partition: int, attempt: int) -> None:
    """Have the first attempt at task 0 wait until its twin has as many rows, or end together."""
    (folder / f"{partition}-{attempt}").touch()
    until = time.monotonic() + 60
    while partition == 0 and attempt == 0 and time.monotonic() < until:
        if (folder / "0-1").exists():
            return
        time.sleep(0.05)


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Have a master, and a worker on each host; its address."""
    import pyspark

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    master, deploy = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)]]
    for host in HOSTS:
        own = [f"{deploy}.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g"]
        commands.append([*own, "--work-dir", str(folder / host)])
    with ExitStack() as stack:
        for number, command in enumerate(commands):
            out = stack.enter_context((folder / f"cluster-{number}.log").open("wb"))
            process = subprocess.Popen(
                [f"{Path(pyspark.__file__).parent}/bin/spark-class", *command, "--webui-port", "0",
                 *([master] if number else [])],
                env={**os.environ, "SPARK_LOCAL_IP": command[2]}, stdout=out,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield master


def main(base: Path) -> None:
    """Start a cluster, and send through it."""
    with cluster(base) as master:
        run(base, master)


def run(base: Path, master: str) -> None:
    """Send with failing tasks, then with twins; print what the link holds and what it ignores."""
    builder = SparkSession.builder.master(master)
    for name, value in SPARK.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    schema = "id long, key long"

    def send(after: Callable[[Path, int, int], None], name: str) -> str:
        marks = base / name
        marks.mkdir()
        count = len(list((base / "in").glob("*.parquet"))) * ROWS if (base / "in").exists() else 0
        frame = spark.range(count, count + FILES * ROWS, 1, FILES)
        frame.selectExpr("id", "id % 5 AS key").write.mode("append").parquet(str(base / "in"))
        rows = spark.readStream.schema(schema).parquet(str(base / "in"))
        rows = rows.mapInArrow(work_of(marks, after), schema)
        writer = rows.writeStream.format("flowcontrol").option("path", str(base / "link"))
        writer = writer.option("name", "a").option("key", "key")
        writer = writer.option("checkpointLocation", str(base / "up"))
        writer.trigger(availableNow=True).start().awaitTermination()
        link = Link(base / "link")
        out, checkpoint = str(base / "out"), str(base / "down")
        down = link.receive(spark).writeStream.format("parquet").option("path", out)
        down = down.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        down.start().awaitTermination()
        ids = [row["id"] for row in spark.read.schema(schema).parquet(out).collect()]
        assert sorted(ids) == list(range(count + FILES * ROWS)), (name, len(ids))
        log = LinkLog(link.storage.child("exchange"))
        log.refresh()
        written = (base / "link" / "exchange").glob("*/*.parquet")
        orphans = {path.name for path in written} - {name.split("/")[1] for name in log.files}
        attempts = sorted(path.name for path in marks.iterdir())
        assert [one for one in attempts if not one.endswith("-0")], attempts
        return f"{name}: {len(ids)} rows once, orphans: {len(orphans)}, attempts: {attempts}"

    print(send(fail_first, "failed"), flush=True)
    print(send(wait_for_twin, "twins"), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
