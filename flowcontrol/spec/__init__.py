"""An executable specification: objects with Flink's class names, on which its test cases replay.

No run uses them. They are thin shells over the rules of :mod:`flowcontrol.protocol`, which both
clocks run: they check arguments, keep the state that rules work on, and return what each call
caused. So Flink's own test cases, replayed on them, test the rules. Nothing waits, and time is an
argument. Of objects that runs use as well, what they need is in ``protocol``; here are subclasses
that check their arguments, say what they did, and have what only a user calls.

Source of every fact: Apache Flink 1.20 (``reference/flink-network.md``,
``reference/checkpoints-and-time.md``), and Spark 4.2 for :class:`SparkAggregation`.
"""

from flowcontrol.errors import InsufficientBuffersError, ProtocolError
from flowcontrol.protocol.checkpoints.requests import CheckpointRequest
from flowcontrol.protocol.commits.transactions import (
    DeliverySample,
    Guarantee,
    SinkState,
    TransactionStore,
)
from flowcontrol.protocol.network.partitioners import (
    default_max_parallelism,
    java_hash,
    key_group,
    murmur,
)
from flowcontrol.spec.aligner import BarrierAligner
from flowcontrol.spec.committer import END_OF_INPUT, Committer
from flowcontrol.spec.connection import ConnectionQueue, SequenceNumberingReader
from flowcontrol.spec.coordinator import CheckpointCoordinator
from flowcontrol.spec.event_time import (
    SourceAlignment,
    SplitWatermarks,
    WatermarkGenerator,
    WatermarkValve,
)
from flowcontrol.spec.functions import (
    RestartStrategy,
    checkpoint_plan,
    failover_tasks,
    gate_spec,
    key_group_range,
    partition_spec,
)
from flowcontrol.spec.gate import BufferDebloater, InputChannel, InputGate
from flowcontrol.spec.pools import Buffer, LocalBufferPool, NetworkBufferPool
from flowcontrol.spec.spark_aggregation import MicroBatches, SparkAggregation
from flowcontrol.spec.subpartition import Message, Subpartition
from flowcontrol.spec.two_phase import Delivery, Phase, TwoPhaseCommitSink
from flowcontrol.spec.window_operator import WindowOperator, window_start

__all__ = [
    "END_OF_INPUT",
    "BarrierAligner",
    "Buffer",
    "BufferDebloater",
    "CheckpointCoordinator",
    "CheckpointRequest",
    "Committer",
    "ConnectionQueue",
    "Delivery",
    "DeliverySample",
    "Guarantee",
    "InputChannel",
    "InputGate",
    "InsufficientBuffersError",
    "LocalBufferPool",
    "Message",
    "MicroBatches",
    "NetworkBufferPool",
    "Phase",
    "ProtocolError",
    "RestartStrategy",
    "SequenceNumberingReader",
    "SinkState",
    "SourceAlignment",
    "SparkAggregation",
    "SplitWatermarks",
    "Subpartition",
    "TransactionStore",
    "TwoPhaseCommitSink",
    "WatermarkGenerator",
    "WatermarkValve",
    "WindowOperator",
    "checkpoint_plan",
    "default_max_parallelism",
    "failover_tasks",
    "gate_spec",
    "java_hash",
    "key_group",
    "key_group_range",
    "murmur",
    "partition_spec",
    "window_start",
]
