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
    """

    version: str
    transport: str
    throttle: str
    meaning: str
    source: str
    transport_values: dict[str, float] = field(default_factory=dict)
    throttle_values: dict[str, float] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)


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
        "as flink, with the buffers that 2.0 has fixed, whatever a scenario states",
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
    ),
    "storm-1": Preset(
        "Storm 1.2.3, switched on", "unbounded", "global_hysteresis",
        "any queue above its high mark stops all spouts, through ZooKeeper",
        f"{_STORM_URL}/v1.2.3",
    ),
    "storm-2": Preset(
        "Storm 2.8.8", "hop_hysteresis", "none",
        "queues that block within a worker, a flag per task between workers",
        f"{_STORM_URL}/v2.8.8",
        transport_values={"slots": 32_768, "check_ms": 50},
    ),
    "jstorm-2.1": Preset(
        "JStorm 2.1.1", "unbounded", "stepwise_sleep",
        "bolts vote, the spouts sleep longer after every tuple",
        "https://github.com/alibaba/jstorm/tree/2.1.1",
    ),
    "jstorm-2.4": Preset(
        "JStorm 2.4.0", "hop_hysteresis", "none",
        "marks of each receiver's queue stop and release its senders",
        "https://github.com/alibaba/jstorm/tree/2.4.0",
        transport_values={"cache_bytes": 65_536},
    ),
    "heron": Preset(
        "Heron, last state of 2023", "unbounded", "global_hysteresis",
        "100 MB outstanding on a connection stop all spouts, 50 MB release them",
        "https://github.com/apache/incubator-heron",
        throttle_values={"high_bytes": 100 << 20, "low_bytes": 50 << 20, "consecutive": 4,
                         "check_ms": 0, "timeout_ms": 0},
    ),
    "spark-streaming": Preset(
        "Spark Streaming 4.x, switched on", "unbounded", "pid_rate",
        "the rate of receivers follows the speed of the batches that are done",
        f"{_SPARK_URL}/streaming",
    ),
    "structured-streaming": Preset(
        "Structured Streaming 4.2", "unbounded", "static_admission",
        "fixed limits per trigger; by default everything that waits",
        f"{_SPARK_URL}/sql",
    ),
    "hazelcast-jet": Preset(
        "Jet 4.5.4, the same in Hazelcast 5", "rate_window", "none",
        "three periods of what was lately worked off",
        "https://github.com/hazelcast/hazelcast-jet/tree/v4.5.4",
    ),
    "pulsar": Preset(
        "Pulsar's Java client of 2026", "half_return_credit", "none",
        "permits that come back once half of the queue is free",
        "https://github.com/apache/pulsar",
    ),
    "rabbitmq": Preset(
        "RabbitMQ 4, AMQP 1.0", "cumulative_credit", "none",
        "a limit of deliveries that only grows",
        "https://github.com/rabbitmq/rabbitmq-server",
    ),
    "risingwave": Preset(
        "RisingWave 3.0", "batched_credit", "none",
        "2048 permits in lots of 256, barriers on a lane of their own",
        "https://github.com/risingwavelabs/risingwave",
    ),
    "arroyo": Preset(
        "Arroyo 0.15", "blocking_queue", "none",
        "a queue of 8192 rows per edge that blocks",
        "https://github.com/ArroyoSystems/arroyo",
        transport_values={"slots": 8192},
    ),
    "kafka-streams": Preset(
        "Kafka Streams, trunk of 2024", "unbounded", "static_admission",
        "polls of up to 1000 records from a log, the next one when they are done",
        "https://github.com/apache/kafka",
        throttle_values={"max_records": 1000},
    ),
    "reactive-streams": Preset(
        "Reactive Streams 1.0.4 as Pekko does it", "half_return_credit", "none",
        "demand that adds up; half of 16 is asked for when half has been taken",
        "https://github.com/reactive-streams/reactive-streams-jvm",
        transport_values={"slots": 16},
    ),
    "unbounded": Preset(
        "no flow control", "unbounded", "none",
        "whatever comes is kept in memory, until there is none",
        "",
    ),
}  # fmt: skip

ALIASES: Final[dict[str, str]] = {"storm": "storm-1", "jstorm": "jstorm-2.1"}
"""Shorter names."""
