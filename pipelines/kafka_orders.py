"""Orders from Kafka, through a link, into a Delta table, each exactly once: see docs/kafka.md."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flowcontrol import FlowControlError, Link
from flowcontrol.spark.session import get_session

ORDER = StructType().add("order_id", "long").add("customer_id", "long").add("amount", "double")
ROW = StructType([*ORDER]).add("partition", "integer").add("offset", "long")


def read_orders(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return a topic's orders, and their place in it; what a batch takes is not limited here."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.from_json(F.col("value").cast("string"), ORDER).alias("order")
    return messages.select("partition", "offset", order).select("order.*", "partition", "offset")


def write_orders(batch: DataFrame, batch_id: int, out: str, rate: float | None) -> None:
    """Append a batch to the table, exactly once; take as long as the rate says, if there is one."""
    started = time.monotonic()
    rows = batch.count() if rate else 0
    (
        batch.withColumns({"batch": F.lit(batch_id), "place": F.monotonically_increasing_id()})
        .write.format("delta")
        .mode("append")
        # A batch that runs again after a crash may be in the table already: Delta skips it then.
        .option("txnAppId", "kafka_orders")
        .option("txnVersion", batch_id)
        .save(out)
    )
    if rate:
        time.sleep(max(0.0, rows / rate - (time.monotonic() - started)))


def run(options: argparse.Namespace, link: Link) -> None:
    """Run both queries until the sender has handed everything over, one fails, or Ctrl-C."""
    spark, out = get_session("kafka_orders.py"), options.out
    orders = read_orders(spark, options.bootstrap, options.topic)
    sending = orders.writeStream.foreachBatch(link.sender("orders"))
    if options.available_now:
        sending = sending.trigger(availableNow=True)
    sending.option("checkpointLocation", f"{out}/sending").start()
    sink = partial(write_orders, out=f"{out}/orders", rate=options.rate)
    receiving = link.receive(spark).writeStream.foreachBatch(sink)
    sink_query = receiving.option("checkpointLocation", f"{out}/receiving").start()
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    while not interrupted.is_set() and not spark.streams.awaitAnyTermination(1):
        pass
    if not interrupted.is_set():
        sink_query.processAllAvailable()
    for query in spark.streams.active:
        query.stop()


def main() -> int:
    """Run the pipeline; return the exit status, 2 for settings that the link refuses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="Kafka's address")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--out", default="out/orders", help="folder of table, link and checkpoints")
    parser.add_argument("--rate", type=float, help="rows a second that the sink takes at most")
    parser.add_argument("--buffer-bytes", default="4 MiB", help="size of the link's messages")
    parser.add_argument("--target-batch-s", type=float, help="seconds of the sink's batches")
    parser.add_argument("--available-now", action="store_true", help="end with what is there now")
    options = parser.parse_args()
    try:
        # Before Spark, which takes seconds: what is refused is refused at once.
        sizes = {name: getattr(options, name) for name in ("buffer_bytes", "target_batch_s")}
        run(options, Link(f"{options.out}/link", key="customer_id", schema=ROW, **sizes))
    except FlowControlError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
