"""What each system calls the parameters of its parts, in its own configuration's words.

A part serves several systems and describes its parameters in plain terms; here stands, by preset,
the option that a user of that system knows, or that the system has none. Names and defaults are
those of the version that the preset states.
"""

from __future__ import annotations

from typing import Final

SYSTEM_WORDS: Final[dict[str, dict[str, str]]] = {
    "flink-1.4": {
        "high_water_segments": "Netty's high water mark, in memory segments: a connection with "
        "more pending bytes is not written to",
        "low_water_segments": "Netty's low water mark: with at most so many pending bytes it is "
        "written to again",
        "kernel_bytes": "socket buffers of a connection's two ends, "
        "taskmanager.net.sendReceiveBufferSize",
    },
    "storm-1": {
        "heap_bytes": "heap of a worker",
        "slots": "topology.executor.receive.buffer.size",
        "high": "backpressure.disruptor.high.watermark: at it a queue claims pressure",
        "low": "backpressure.disruptor.low.watermark: at it the queue takes that back",
        "high_bytes": "Storm's marks are slots; 0: not used",
        "low_bytes": "Storm's marks are slots; 0: not used",
        "consecutive": "Storm's mark counts the first time",
        "check_ms": "between two looks of WorkerBackpressureThread",
        "update_ms": "backpressure.znode.update.freq.secs: a claim is written again",
        "timeout_ms": "backpressure.znode.timeout.secs: age of a claim",
        "delay_on_ms": "until ZooKeeper has told the spouts to stop, on top of the network",
        "delay_off_ms": "until ZooKeeper has told them to go on, on top of the network",
    },
    "storm-2": {
        "slots": "topology.executor.receive.buffer.size",
        "high": "not used: what counts is the overflow behind a full queue",
        "low": "not used: what counts is the overflow behind a full queue",
        "check_ms": "topology.backpressure.check.millis: a task's flag is cleared at such a look "
        "if its overflow is empty",
        "cache_bytes": "a task with a tuple for a flagged one holds it in its pending emits and "
        "waits",
    },
    "jstorm-2.1": {
        "heap_bytes": "heap of a worker",
        "slots": "topology.executor.receive.buffer.size",
        "high": "topology.backpressure.water.mark.high: above it a sample votes to start",
        "low": "topology.backpressure.water.mark.low: at or below it one votes to stop",
        "interval_ms": "topology.backpressure.check.interval",
        "samples": "topology.backpressure.trigger.sample.number",
        "sample_rate": "topology.backpressure.trigger.sample.rate",
        "trigger_ratio": "topology.backpressure.coordinator.trigger.ratio",
    },
    "jstorm-2.4": {
        "slots": "topology.executor.receive.buffer.size",
        "high": "topology.backpressure.water.mark.high: above it senders are stopped",
        "low": "topology.backpressure.water.mark.low: below it, with an empty cache, they go on",
        "check_ms": "not used: each tuple that is put in or taken out is a look",
        "cache_bytes": "a stopped sender's last batch; netty.client.flow.ctrl.cache.size is unset",
    },
    "heron": {
        "heap_bytes": "memory of a container",
        "slots": "Heron's marks are bytes; not used",
        "high": "Heron's marks are bytes; not used",
        "low": "Heron's marks are bytes; not used",
        "high_bytes": "heron.streammgr.network.backpressure.highwatermark.mb",
        "low_bytes": "heron.streammgr.network.backpressure.lowwatermark.mb: relief is below it",
        "consecutive": "more than heron.streammgr.network.backpressure.threshold, 3, in a row",
        "check_ms": "0: every round; Heron looks at each write",
        "update_ms": "not used: a stream manager's claim is not repeated",
        "timeout_ms": "0: a stream manager's claim does not age",
        "delay_on_ms": "until the stream managers have told each other, on top of the network",
        "delay_off_ms": "until the stream managers have told each other, on top of the network",
    },
    "spark-streaming": {
        "heap_bytes": "heap of an executor",
        "interval_ms": "batch interval of the StreamingContext",
        "proportional": "spark.streaming.backpressure.pid.proportional",
        "integral": "spark.streaming.backpressure.pid.integral",
        "derivative": "spark.streaming.backpressure.pid.derived (sic)",
        "min_rate": "spark.streaming.backpressure.pid.minRate",
        "max_rate": "spark.streaming.kafka.maxRatePerPartition, of a source subtask; 0: none",
        "initial_rate": "spark.streaming.backpressure.initialRate; 0: none",
    },
    "structured-streaming": {
        "heap_bytes": "heap of an executor",
        "interval_ms": "Trigger.ProcessingTime; 0: the default trigger, a batch as soon as the one "
        "before is done",
        "max_records": "maxOffsetsPerTrigger; 0: unset, all that waits",
        "min_records": "minOffsetsPerTrigger; 0: unset, any",
        "max_delay_ms": "maxTriggerDelay",
    },
    "hazelcast-jet": {
        "unit": "1 << ReceiverTasklet.COMPRESSED_SEQ_UNIT_LOG2",
        "initial_units": "ReceiverTasklet.INITIAL_RECEIVE_WINDOW_COMPRESSED",
        "multiplier": "EdgeConfig.receiveWindowMultiplier",
        "period_ms": "InstanceConfig.flowControlPeriodMs",
    },
    "pulsar": {
        "slots": "receiverQueueSize",
        "share": "of receiverQueueSize: with so many permits a consumer sends FLOW",
    },
    "rabbitmq": {
        "credit": "max_link_credit, of an AMQP 1.0 link",
        "mark": "half of max_link_credit: credit is topped up from here",
    },
    "risingwave": {
        "slots": "streaming.developer.exchange_initial_permits",
        "lot": "streaming.developer.exchange_batched_permits",
    },
    "arroyo": {"slots": "worker.queue-size, rows of an edge"},
    "kafka-streams": {
        "heap_bytes": "heap of an instance",
        "interval_ms": "none: the next poll follows when the records of this one are done; "
        "poll.ms, 100 ms, is only how long a poll of an empty log waits, until a record comes",
        "max_records": "max.poll.records, as Kafka Streams sets it for its consumer; no more than "
        "buffered.records.per.partition, so no partition is paused",
        "min_records": "fetch.min.bytes is 1: any record ends a poll",
        "max_delay_ms": "not used: no poll waits for a least number of records",
    },
    "reactive-streams": {
        "slots": "pekko.stream.materializer.max-input-buffer-size",
        "share": "of that buffer: so many elements taken make the next request",
    },
    "unbounded": {"heap_bytes": "heap of a task manager"},
}
"""By preset and parameter; a preset whose transport has no parameters needs none."""
