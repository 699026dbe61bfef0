"""Whole systems by name: a transport and a throttle with the defaults of one version.

A preset states what differs from the defaults of its parts (``parts_table``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Preset:
    """A system.

    Attributes
    ----------
    version : str
        Whose defaults these are.
    transport, throttle : str
        Names of parts.
    meaning : str
        One sentence.
    source : str
        Where the rules and the defaults are from.
    transport_values, throttle_values : dict of str to float
        Parameters that differ from the parts' defaults.
    options : dict of str to str
        Flink's own options that are fixed there.
    words : dict of str to str
        By parameter, its name in the system's own configuration, or that it has none: a part serves
        several systems and describes its parameters in plain terms.
    """

    version: str
    transport: str
    throttle: str
    meaning: str
    source: str
    transport_values: dict[str, float] = field(default_factory=dict)
    throttle_values: dict[str, float] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


_STORM_URL = "https://github.com/apache/storm/tree"
_SPARK_URL = "https://github.com/apache/spark/tree/master"

PRESETS: Final[dict[str, Preset]] = {
    "flink": Preset(
        "Flink 1.20", "credit", "none",
        "credits per channel, exclusive and floating buffers",
        "https://github.com/apache/flink/tree/release-1.20",
    ),
    "flink-2": Preset(
        "Flink 2.x", "credit", "none",
        "as flink, with the buffer counts fixed in 2.0, which no scenario can change",
        "https://github.com/apache/flink",
        options={
            "taskmanager.network.memory.buffers-per-channel": "2",
            "taskmanager.network.memory.floating-buffers-per-gate": "8",
            "taskmanager.network.memory.max-buffers-per-channel": "10",
            "taskmanager.network.memory.max-overdraft-buffers-per-gate": "20",
        },
    ),
    "flink-1.4": Preset(
        "Flink 1.4.2", "tcp", "none",
        "channels share a connection, which is not read while a gate has no buffer",
        "https://github.com/apache/flink/tree/release-1.4.2",
        words={
            "high_water_segments": "Netty's high water mark, in memory segments: a connection with "
            "more pending bytes is not written to",
            "low_water_segments": "Netty's low water mark: with at most this many pending bytes it "
            "is written to again",
            "kernel_bytes": "socket buffers of a connection's two ends, "
            "taskmanager.net.sendReceiveBufferSize",
        },
    ),
    "storm-1": Preset(
        "Storm 1.2.3, switched on", "unbounded", "global_hysteresis",
        "any queue above its high mark stops all spouts, through ZooKeeper",
        f"{_STORM_URL}/v1.2.3",
        words={
            "heap_bytes": "heap of a worker",
            "slots": "topology.executor.receive.buffer.size",
            "high": "backpressure.disruptor.high.watermark: at it a queue claims pressure",
            "low": "backpressure.disruptor.low.watermark: at it the queue takes that back",
            "high_bytes": "Storm's marks are slots; 0: not used",
            "low_bytes": "Storm's marks are slots; 0: not used",
            "consecutive": "Storm's mark counts the first time",
            "check_ms": "polling interval of WorkerBackpressureThread",
            "update_ms": "backpressure.znode.update.freq.secs: a claim is written again",
            "timeout_ms": "backpressure.znode.timeout.secs: age of a claim",
            "delay_on_ms": "ZooKeeper passes the flag to the spouts; added to the network",
            "delay_off_ms": "ZooKeeper passes its removal; added to the network",
        },
    ),
    "storm-2": Preset(
        "Storm 2.8.8", "hop_hysteresis", "none",
        "queues that block within a worker, a flag per task between workers",
        f"{_STORM_URL}/v2.8.8",
        transport_values={"slots": 32_768, "check_ms": 50},
        words={
            "slots": "topology.executor.receive.buffer.size",
            "high": "not used: what counts is the overflow behind a full queue",
            "low": "not used: what counts is the overflow behind a full queue",
            "check_ms": "topology.backpressure.check.millis: interval of the check that clears "
            "a task's flag if its overflow is empty",
            "cache_bytes": "a task with a tuple for a flagged one holds it in its pending emits "
            "and waits",
        },
    ),
    "jstorm-2.1": Preset(
        "JStorm 2.1.1", "unbounded", "stepwise_sleep",
        "bolts vote, the spouts sleep longer after every tuple",
        "https://github.com/alibaba/jstorm/tree/2.1.1",
        words={
            "heap_bytes": "heap of a worker",
            "slots": "topology.executor.receive.buffer.size",
            "high": "topology.backpressure.water.mark.high: above it a sample votes to start",
            "low": "topology.backpressure.water.mark.low: at or below it one votes to stop",
            "interval_ms": "topology.backpressure.check.interval",
            "samples": "topology.backpressure.trigger.sample.number",
            "sample_rate": "topology.backpressure.trigger.sample.rate",
            "trigger_ratio": "topology.backpressure.coordinator.trigger.ratio",
        },
    ),
    "jstorm-2.4": Preset(
        "JStorm 2.4.0", "hop_hysteresis", "none",
        "marks of each receiver's queue stop and release its senders",
        "https://github.com/alibaba/jstorm/tree/2.4.0",
        transport_values={"cache_bytes": 65_536},
        words={
            "slots": "topology.executor.receive.buffer.size",
            "high": "topology.backpressure.water.mark.high: above it senders are stopped",
            "low": "topology.backpressure.water.mark.low: below it, with an empty cache, they go "
            "on",
            "check_ms": "not used: each tuple put in or taken out triggers a check",
            "cache_bytes": "a stopped sender's last batch; netty.client.flow.ctrl.cache.size is "
            "unset",
        },
    ),
    "heron": Preset(
        "Heron, last state of 2023", "unbounded", "global_hysteresis",
        "100 MB outstanding on a connection stop all spouts, 50 MB release them",
        "https://github.com/apache/incubator-heron",
        throttle_values={"high_bytes": 100 << 20, "low_bytes": 50 << 20, "consecutive": 4,
                         "check_ms": 0, "timeout_ms": 0},
        words={
            "heap_bytes": "memory of a container",
            "slots": "Heron's marks are bytes; not used",
            "high": "Heron's marks are bytes; not used",
            "low": "Heron's marks are bytes; not used",
            "high_bytes": "heron.streammgr.network.backpressure.highwatermark.mb",
            "low_bytes": "heron.streammgr.network.backpressure.lowwatermark.mb: relief is below it",
            "consecutive": "more than heron.streammgr.network.backpressure.threshold, 3, in a row",
            "check_ms": "0: every round; Heron checks at each write",
            "update_ms": "not used: a stream manager's claim is not repeated",
            "timeout_ms": "0: a stream manager's claim does not age",
            "delay_on_ms": "until the stream managers have told each other, on top of the network",
            "delay_off_ms": "until the stream managers have told each other, on top of the network",
        },
    ),
    "spark-streaming": Preset(
        "Spark Streaming 4.x, switched on", "unbounded", "pid_rate",
        "the rate of receivers follows the speed of the batches that are done",
        f"{_SPARK_URL}/streaming",
        words={
            "heap_bytes": "heap of an executor",
            "interval_ms": "batch interval of the StreamingContext",
            "proportional": "spark.streaming.backpressure.pid.proportional",
            "integral": "spark.streaming.backpressure.pid.integral",
            "derivative": "spark.streaming.backpressure.pid.derived (sic)",
            "min_rate": "spark.streaming.backpressure.pid.minRate",
            "max_rate": "spark.streaming.kafka.maxRatePerPartition, of a source subtask; 0: none",
            "initial_rate": "spark.streaming.backpressure.initialRate; 0: none",
        },
    ),
    "structured-streaming": Preset(
        "Structured Streaming 4.2", "unbounded", "static_admission",
        "fixed limits per trigger; by default all waiting records",
        f"{_SPARK_URL}/sql",
        words={
            "heap_bytes": "heap of an executor",
            "interval_ms": "Trigger.ProcessingTime; 0: the default trigger, a batch as soon as the "
            "one before is done",
            "max_records": "maxOffsetsPerTrigger; 0: unset, all waiting records",
            "min_records": "minOffsetsPerTrigger; 0: unset, any",
            "max_delay_ms": "maxTriggerDelay",
        },
    ),
    "hazelcast-jet": Preset(
        "Jet 4.5.4, the same in Hazelcast 5", "rate_window", "none",
        "three periods of the recent processing rate",
        "https://github.com/hazelcast/hazelcast-jet/tree/v4.5.4",
        words={
            "unit": "1 << ReceiverTasklet.COMPRESSED_SEQ_UNIT_LOG2",
            "initial_units": "ReceiverTasklet.INITIAL_RECEIVE_WINDOW_COMPRESSED",
            "multiplier": "EdgeConfig.receiveWindowMultiplier",
            "period_ms": "InstanceConfig.flowControlPeriodMs",
        },
    ),
    "pulsar": Preset(
        "Pulsar's Java client of 2026", "half_return_credit", "none",
        "permits that come back once half of the queue is free",
        "https://github.com/apache/pulsar",
        words={
            "slots": "receiverQueueSize",
            "share": "of receiverQueueSize: permits with which a consumer sends FLOW",
        },
    ),
    "rabbitmq": Preset(
        "RabbitMQ 4, AMQP 1.0", "cumulative_credit", "none",
        "a limit of deliveries that only grows",
        "https://github.com/rabbitmq/rabbitmq-server",
        words={
            "credit": "max_link_credit, of an AMQP 1.0 link",
            "mark": "half of max_link_credit: credit is topped up from here",
        },
    ),
    "risingwave": Preset(
        "RisingWave 3.0", "batched_credit", "none",
        "2048 permits in lots of 256, barriers on a lane of their own",
        "https://github.com/risingwavelabs/risingwave",
        words={
            "slots": "streaming.developer.exchange_initial_permits",
            "lot": "streaming.developer.exchange_batched_permits",
        },
    ),
    "arroyo": Preset(
        "Arroyo 0.15", "blocking_queue", "none",
        "a queue of 8192 rows per edge that blocks",
        "https://github.com/ArroyoSystems/arroyo",
        transport_values={"slots": 8192},
        words={"slots": "worker.queue-size, rows of an edge"},
    ),
    "kafka-streams": Preset(
        "Kafka Streams, trunk of 2024", "unbounded", "static_admission",
        "polls of up to 1000 records from a log, the next one when they are done",
        "https://github.com/apache/kafka",
        throttle_values={"max_records": 1000},
        words={
            "heap_bytes": "heap of an instance",
            "interval_ms": "none: the next poll follows when the records of this one are done; "
            "poll.ms, 100 ms, is only how long a poll of an empty log waits, until a record comes",
            "max_records": "max.poll.records, as Kafka Streams sets it for its consumer; no more "
            "than buffered.records.per.partition, so no partition is paused",
            "min_records": "fetch.min.bytes is 1: any record ends a poll",
            "max_delay_ms": "not used: no poll waits for a least number of records",
        },
    ),
    "reactive-streams": Preset(
        "Reactive Streams 1.0.4 as Pekko does it", "half_return_credit", "none",
        "demand that adds up; half of 16 is requested when half has been processed",
        "https://github.com/reactive-streams/reactive-streams-jvm",
        transport_values={"slots": 16},
        words={
            "slots": "pekko.stream.materializer.max-input-buffer-size",
            "share": "of that buffer: elements processed before the next request",
        },
    ),
    "unbounded": Preset(
        "no flow control", "unbounded", "none",
        "all records are kept in memory until it is full",
        "",
        words={"heap_bytes": "heap of a task manager"},
    ),
}  # fmt: skip

ALIASES: Final[dict[str, str]] = {"storm": "storm-1", "jstorm": "jstorm-2.1"}
"""Shorter names."""
