"""Shares and random numbers by which records find their channels.

Shares are spread evenly over time, so a job needs no random numbers but for ``shuffle``,
whose numbers are a function of the seed, the edge, the subtask and the record's number. Flink
starts ``rebalance`` at a random channel; here sender *i* starts at channel *i* modulo their number,
which spreads the senders as well and needs no random number
(``org.apache.flink.streaming.runtime.partitioner``, reference section 12).
"""

import zlib
from fractions import Fraction

from flowcontrol.job.keys import shares_of_keys
from flowcontrol.protocol.partitioners import (
    channel_of_key,
    default_max_parallelism,
    integer_weights,
)
from flowcontrol.protocol.ratios import whole_shares
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
