"""Flink's credit-based flow control as pure rules and state machines.

The package imports the standard library, :mod:`flowcontrol.state` and our errors only: no clock, no
randomness, no Spark, no file. Its modules hold every formula once, each folder those of a subject;
the objects exported here are what runs use besides. Nothing ever waits: a request that cannot
be served returns None. What only replays Flink's test cases is in :mod:`flowcontrol.spec`.

Source of every fact: Apache Flink 1.20's network stack (``reference/flink-network.md``).
"""

from flowcontrol.errors import InsufficientBuffersError, ProtocolError
from flowcontrol.protocol.checkpoints.coordinator import CheckpointCoordinator
from flowcontrol.protocol.checkpoints.requests import CheckpointRequest, checkpoint_plan
from flowcontrol.protocol.commits.delivery import Delivery
from flowcontrol.protocol.commits.transactions import (
    DeliverySample,
    Guarantee,
    Phase,
    SinkState,
    TransactionStore,
)
from flowcontrol.protocol.commits.two_phase import TwoPhaseCommitSink
from flowcontrol.protocol.event_time.valve import WatermarkValve
from flowcontrol.protocol.network.partitioners import (
    default_max_parallelism,
    java_hash,
    key_group,
    murmur,
)
from flowcontrol.protocol.network.pools import Buffer, LocalBufferPool, NetworkBufferPool
from flowcontrol.protocol.restarts.recovery import failover_tasks
from flowcontrol.protocol.restarts.strategies import RestartStrategy

__all__ = [
    "Buffer",
    "CheckpointCoordinator",
    "CheckpointRequest",
    "Delivery",
    "DeliverySample",
    "Guarantee",
    "InsufficientBuffersError",
    "LocalBufferPool",
    "NetworkBufferPool",
    "Phase",
    "ProtocolError",
    "RestartStrategy",
    "SinkState",
    "TransactionStore",
    "TwoPhaseCommitSink",
    "WatermarkValve",
    "checkpoint_plan",
    "default_max_parallelism",
    "failover_tasks",
    "java_hash",
    "key_group",
    "murmur",
]
