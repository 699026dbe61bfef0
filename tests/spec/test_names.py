"""What the specification exports: all objects that can be stepped through, from one place."""

from __future__ import annotations

from flowcontrol import spec

ALSO_IN_RUNS = """
Buffer CheckpointCoordinator CheckpointRequest Delivery DeliverySample Guarantee
InsufficientBuffersError LocalBufferPool NetworkBufferPool Phase ProtocolError RestartStrategy
SinkState TransactionStore TwoPhaseCommitSink WatermarkValve checkpoint_plan
default_max_parallelism failover_tasks java_hash key_group murmur
"""
"""What runs have as well, most of it without what only a user calls."""


def test_it_has_what_runs_have_too() -> None:
    assert set(ALSO_IN_RUNS.split()) < set(spec.__all__)


def test_each_name_is_there_once() -> None:
    assert all(hasattr(spec, name) for name in spec.__all__)
    assert len(set(spec.__all__)) == len(spec.__all__)
