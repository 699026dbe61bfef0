"""The words of the graphs: kinds of operators, chaining strategies, partitioners, results."""

from typing import Final, NamedTuple


class Kind(NamedTuple):
    """One kind of operator."""

    title: str  # Its name in a vertex, with ``{}`` for the plain one
    chaining: str = "always"  # Chaining strategy unless it states another
    # Whether no edge leads to it, and whether none leaves it.
    is_source: bool = False
    is_sink: bool = False


KINDS: Final = {
    "source": Kind("Source: {}", is_source=True),
    "legacy-source": Kind("Source: {}", "head", is_source=True),
    "operator": Kind("{}"),
    "sink": Kind("{}: Writer", is_sink=True),
    "classic-sink": Kind("Sink: {}", is_sink=True),
    "yielding": Kind("{}"),
}
"""A yielding operator gives its mailbox up while it waits: async wait, file reader."""

CHAINING: Final = ("always", "head", "head-with-sources", "never")
"""Chaining strategies (``ChainingStrategy``)."""


class Partitioner(NamedTuple):
    """One partitioner."""

    ship: str  # Flink's name of it in a plan
    is_pointwise: bool = False  # A subtask reaches only some subtasks of its receiver
    forces_alignment: bool = False  # No unaligned checkpoints on any input of its receiver


PARTITIONERS: Final = {
    "forward": Partitioner("FORWARD", is_pointwise=True, forces_alignment=True),
    "rebalance": Partitioner("REBALANCE"),
    "rescale": Partitioner("RESCALE", is_pointwise=True, forces_alignment=True),
    "shuffle": Partitioner("SHUFFLE"),
    "hash": Partitioner("HASH"),
    "broadcast": Partitioner("BROADCAST", forces_alignment=True),
    "global": Partitioner("GLOBAL"),
    "custom": Partitioner("CUSTOM"),
}


class PartitionType(NamedTuple):
    """One kind of result."""

    exchange: str  # ``ResultPartitionType`` of Flink
    is_batch_exchange: bool = False  # Stating it is the exchange mode BATCH, which is never chained
    # Edges with one partitioner to receivers of one parallelism read one result.
    is_shared: bool = False


PARTITION_TYPES: Final = {
    "pipelined": PartitionType("PIPELINED_BOUNDED"),
    "pipelined_bounded": PartitionType("PIPELINED_BOUNDED"),
    "pipelined_approximate": PartitionType("PIPELINED_APPROXIMATE"),
    "blocking": PartitionType("BLOCKING", is_batch_exchange=True, is_shared=True),
    "sort_merge": PartitionType("BLOCKING", is_batch_exchange=True, is_shared=True),
    "hybrid_full": PartitionType("HYBRID_FULL", is_shared=True),
    "hybrid_selective": PartitionType("HYBRID_SELECTIVE", is_shared=True),
}

JOINING: Final = frozenset({"PIPELINED", "PIPELINED_BOUNDED"})
"""Results that join the subtasks at their ends to one pipelined region."""
