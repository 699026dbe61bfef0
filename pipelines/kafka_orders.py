"""Orders from Kafka, through a link, into a Delta table, each exactly once: see ``docs/kafka.md``.

``./spark-submit.sh --jars "$(scripts/kafka.sh jars)" pipelines/kafka_orders.py --out DIR``
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import threading
import time
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flowcontrol import FlowControlError, Link

ORDER = StructType().add("order_id", "long").add("customer_id", "long").add("amount", "double")
"""What a message's value says, in JSON."""

ROW = StructType([*ORDER.fields]).add("partition", "integer").add("offset", "long")
"""An order, and its place in Kafka."""

FAILED, REFUSED = 1, 2


def read_orders(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return the stream of a topic's orders; how much a batch takes is not limited here."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.from_json(F.col("value").cast("string"), ORDER).alias("order")
    return messages.select("partition", "offset", order).select("order.*", "partition", "offset")


def write_orders(out: str, rate: float | None) -> Callable[[DataFrame, int], None]:
    """Return what writes a batch, exactly once, and takes its time if a rate is given."""

    def write(batch: DataFrame, batch_id: int) -> None:
        started = time.monotonic()
        rows = batch.count() if rate else 0
        (
            batch.withColumns({"batch": F.lit(batch_id), "place": F.monotonically_increasing_id()})
            .write.format("delta")
            .mode("append")
            # A batch that is run again after a crash is already in the table: Delta skips it.
            .option("txnAppId", "kafka_orders")
            .option("txnVersion", batch_id)
            .save(out)
        )
        if rate:
            time.sleep(max(0.0, rows / rate - (time.monotonic() - started)))

    return write


def run(options: argparse.Namespace) -> None:
    """Run both sides of the link, to the end or until one fails."""
    # Before Spark, which takes seconds: a setting that is refused is refused at once.
    link = Link(
        f"{options.out}/link",
        key="customer_id",
        schema=ROW,
        buffer_bytes=options.buffer_bytes,
        target_batch_s=options.target_batch_s,
    )
    spark = SparkSession.builder.getOrCreate()
    orders = read_orders(spark, options.bootstrap, options.topic)
    sending = orders.writeStream.foreachBatch(link.sender("orders"))
    sending = sending.option("checkpointLocation", f"{options.out}/sending")
    if options.available_now:
        sending = sending.trigger(availableNow=True)
    sending.start()
    receiving = (
        link.receive(spark)
        .writeStream.foreachBatch(write_orders(f"{options.out}/orders", options.rate))
        .option("checkpointLocation", f"{options.out}/receiving")
        .start()
    )
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    # True when the sender has handed everything over; what went wrong on either side is raised.
    while not interrupted.is_set() and not spark.streams.awaitAnyTermination(1):
        pass
    if not interrupted.is_set():
        receiving.processAllAvailable()
    for query in spark.streams.active:
        query.stop()


def positive(text: str) -> float:
    """Read a number above 0."""
    if not 0 < (value := float(text)) < math.inf:
        raise ValueError(text)
    return value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="Kafka's address")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--out", default="out/orders", help="folder of table, link and checkpoints")
    parser.add_argument("--rate", type=positive, help="rows a second that the sink takes at most")
    parser.add_argument("--buffer-bytes", default="4 MiB", help="size of the link's messages")
    parser.add_argument("--target-batch-s", type=positive, help="seconds of the sink's batches")
    parser.add_argument("--available-now", action="store_true", help="end with what is there now")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the pipeline; return the exit status."""
    try:
        run(parse())
    except FlowControlError as error:
        print(error, file=sys.stderr)
        return REFUSED
    except StreamingQueryException as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
