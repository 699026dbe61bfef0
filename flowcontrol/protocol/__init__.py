"""Flink's credit-based flow control as pure rules and state machines.

The package imports the standard library and our errors only: no clock, no randomness, no Spark, no
file. The rules (modules ``*_rules`` and :mod:`flowcontrol.protocol.sizing`) hold every formula
once; the objects exported here are thin shells that check arguments. Nothing ever waits: a request
that cannot be served returns None.

Source of every fact: Apache Flink 1.20's network stack (``reference/flink-network.md``).
"""

from flowcontrol.errors import InsufficientBuffersError, ProtocolError
from flowcontrol.protocol.checkpoints import (
    CheckpointCoordinator,
    CheckpointRequest,
    checkpoint_plan,
)
from flowcontrol.protocol.checkpoints.aligner import BarrierAligner
from flowcontrol.protocol.commits import (
    Committer,
    Delivery,
    DeliverySample,
    Guarantee,
    Phase,
    SinkState,
    TransactionStore,
    TwoPhaseCommitSink,
)
from flowcontrol.protocol.connection import ConnectionQueue, SequenceNumberingReader
from flowcontrol.protocol.debloating import BufferDebloater
from flowcontrol.protocol.event_time import (
    SourceAlignment,
    SplitWatermarks,
    WatermarkGenerator,
    WatermarkValve,
)
from flowcontrol.protocol.gate import InputChannel, InputGate
from flowcontrol.protocol.partitioners import (
    default_max_parallelism,
    java_hash,
    key_group,
    key_group_range,
    murmur,
)
from flowcontrol.protocol.pools import Buffer, LocalBufferPool, NetworkBufferPool
from flowcontrol.protocol.restarts import RestartStrategy, failover_tasks
from flowcontrol.protocol.sizing import gate_spec, partition_spec
from flowcontrol.protocol.subpartition import Message, Subpartition
from flowcontrol.protocol.windows import WindowOperator, window_start

__all__ = [
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
    "NetworkBufferPool",
    "Phase",
    "ProtocolError",
    "RestartStrategy",
    "SequenceNumberingReader",
    "SinkState",
    "SourceAlignment",
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
