"""Which channel a record goes to, and what writes it there: one edge of one sender subtask.

Shares are spread evenly over time, so a job needs no random numbers but for ``shuffle``,
whose numbers are a function of the seed, the edge, the subtask and the record's number.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from flowcontrol.job.graph import JobEdge
from flowcontrol.job.keys import shares_of_keys
from flowcontrol.operators.states import RecordWriter
from flowcontrol.protocol.partitioners import (
    channel_of_key,
    count_share,
    default_max_parallelism,
    integer_weights,
    next_by_share,
)
from flowcontrol.protocol.ratios import whole_shares
from flowcontrol.protocol.sides import Partition
from flowcontrol.scenario import Edge

_MASK = (1 << 64) - 1


def mix(seed: int, stream: int, number: int) -> int:
    """Return 64 well-mixed bits, a pure function of three integers (SplitMix64).

    Notes
    -----
    Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    z = (seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9 + number + 1) & _MASK
    z = (z * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def stream_of(name: str) -> int:
    """Return the number of the random stream that something of a name draws from."""
    return zlib.crc32(name.encode())


class Router:
    """Routes the records of one sender subtask over one edge, in order.

    Parameters
    ----------
    link : JobEdge
        The edge, laid out.
    sender : int
        Subtask that sends.
    seed : int
        Of the scenario; used by ``shuffle`` only.
    table : ndarray of int, shape (records,), optional
        Receiver of each record, for replayed rows routed by their key.

    Notes
    -----
    ``org.apache.flink.streaming.runtime.partitioner`` (reference section 12). Flink starts
    ``rebalance`` at a random channel; here sender *i* starts at channel *i* modulo their
    number, which spreads the senders as well and needs no random number.
    """

    def __init__(
        self, link: JobEdge, sender: int, seed: int, table: np.ndarray | None = None
    ) -> None:
        channels = link.outgoing(sender)
        self.width = len(channels)
        self.kind = link.edge.partitioner
        self.counts = [0] * self.width
        self._sender = sender
        self._seed = seed
        self._stream = stream_of(f"{link.name}/{sender}")
        self._table = table
        self._weights = weights_of(link.edge, self.width) or []
        self._total, self._behind = sum(self._weights), [0] * len(self._weights)

    def restore(self, counts: Sequence[int]) -> int:
        """Go on where a router with these counts per channel stood; return its records."""
        self.counts = list(counts)
        records = counts[0] if self.kind == "broadcast" else sum(counts)
        self._behind = [
            weight * records - count * self._total
            for weight, count in zip(self._weights, counts, strict=False)
        ]
        return records

    def next_channel(self, number: int) -> int:
        """Return the channel of the next record, which is record ``number`` of the edge."""
        if self._table is not None:
            return int(self._table[number])
        if self._weights:
            return next_by_share(self._behind, self._weights)
        if self.kind == "shuffle":
            return mix(self._seed, self._stream, number) % self.width
        if self.kind == "rebalance":
            return (self._sender + number) % self.width
        if self.kind == "rescale":
            return number % self.width
        return 0

    def advance(self, channel: int, records: int = 1) -> None:
        """Count records as routed to the channel of :meth:`next_channel`; a broadcast: to all."""
        for each in range(self.width) if self.kind == "broadcast" else (channel,):
            self.counts[each] += records
        for _ in range(records if self._weights and self.width > 1 else 0):
            count_share(self._behind, self._weights, self._total, channel)


@dataclass(slots=True, kw_only=True)
class Output(RecordWriter):
    """A writer with its partition, the router of its records, and what it did in a round.

    Attributes
    ----------
    partition : Partition
        The partition; its pool is the writer's.
    router : Router
        Chooses the channel of each record.
    pending : list[int]
        Queue of the channels of records that are routed and not written.
    routes : list[int]
        Channel of each record put out in the round, in order.
    parents : list[int]
        Which of the records taken up in the round each of them is made of.
    """

    partition: Partition
    router: Router
    pending: list[int]
    routes: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)


def weights_of(edge: Edge, width: int) -> list[int] | None:
    """Integer weights per channel of a partitioner that has shares; None for the others.

    Notes
    -----
    Weights of many digits, such as 1/7 or 1/13, are rounded
    (:func:`flowcontrol.protocol.ratios.whole_shares`).
    """
    if edge.channel_weights is not None:
        return whole_shares(integer_weights(edge.channel_weights))
    if edge.key_distribution is not None:
        return whole_shares(shares_of_keys(edge.key_distribution, width))
    if edge.key_weights is None:
        return None
    shares = [0] * width
    for key, weight in zip(
        edge.key_weights, integer_weights(edge.key_weights.values()), strict=True
    ):
        shares[channel_of_key(key, width, default_max_parallelism(width))] += weight
    return whole_shares(shares)


def hottest(edge: Edge, receivers: int) -> tuple[int, Fraction]:
    """Return the receiver that gets most records of an edge with shares, and its share of all.

    Parameters
    ----------
    edge : Edge
        Of a scenario that was read.
    receivers : int
        Subtasks of the receiving stage.

    Returns
    -------
    tuple of (int, Fraction)
        Its index, the lowest of those alike; an even share where the edge has no shares.
    """
    weights = weights_of(edge, receivers) or [1] * receivers
    most = max(weights)
    return weights.index(most), Fraction(most, sum(weights))
