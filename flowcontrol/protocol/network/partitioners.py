"""Which channel a record goes to: Flink's hashes and patterns, and shares spread evenly.

Pure functions of integers and text (``streaming.runtime.partitioner`` and
``KeyGroupRangeAssignment``, reference section 12). Not here: random numbers. ``shuffle`` and the
random start of ``rebalance`` belong to the caller, which has the seed.
"""

from collections.abc import Iterable, MutableSequence, Sequence
from fractions import Fraction
from math import gcd, lcm

MASK = 0xFFFFFFFF
SIGN = 0x80000000

MIN_MAX_PARALLELISM = 128
"""Key groups at least (``KeyGroupRangeAssignment.DEFAULT_LOWER_BOUND_MAX_PARALLELISM``)."""

MAX_MAX_PARALLELISM = 1 << 15
"""Key groups at most (``KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM``)."""


def murmur(code: int) -> int:
    """Mix a 32-bit integer; never negative.

    ``MathUtils.murmurHash``: MurmurHash3 of one block, 32-bit arithmetic throughout; a
    negative result is negated, the smallest becomes 0. Without a branch, so that an array of
    64-bit integers is mixed element by element.

    ``code``: its lowest 32 bits are used, so that signed and unsigned forms are the same.

    Returns 0 to 2147483647.
    """
    code = (code & MASK) * 0xCC9E2D51 & MASK
    code = (code << 15 | code >> 17) & MASK
    code = code * 0x1B873593 & MASK
    code = (code << 13 | code >> 19) & MASK
    code = (code * 5 + 0xE6546B64) & MASK
    code ^= 4
    code = (code ^ code >> 16) * 0x85EBCA6B & MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & MASK
    code ^= code >> 16
    sign = code >> 31
    return (code ^ -sign) + sign & ~SIGN & MASK


def java_hash(text: str) -> int:
    """Hash text as ``java.lang.String.hashCode`` does, over UTF-16 code units.

    Returns a signed 32-bit integer; 0 for the empty text.
    """
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) & MASK
    return code - (1 << 32) if code & SIGN else code


def key_group(key_hash: int, max_parallelism: int) -> int:
    """Return the key group of a key.

    ``max_parallelism``: number of key groups, at least 1.

    Raises ValueError if ``max_parallelism`` is below 1.
    """
    if max_parallelism < 1:
        raise ValueError(f"max_parallelism is {max_parallelism}, must be at least 1")
    return murmur(key_hash) % max_parallelism


def channel_of_group(group: int, parallelism: int, max_parallelism: int) -> int:
    """Return the subtask that owns a key group: group x parallelism / max, rounded down."""
    return group * parallelism // max_parallelism


def channel_of_key(key: str, parallelism: int, max_parallelism: int) -> int:
    """Return the subtask that a text key is routed to (``KeyGroupStreamPartitioner``).

    Raises ValueError if ``parallelism`` is below 1 or above ``max_parallelism``.
    """
    check_parallelism(parallelism, max_parallelism)
    group = key_group(java_hash(key), max_parallelism)
    return channel_of_group(group, parallelism, max_parallelism)


def default_max_parallelism(parallelism: int) -> int:
    """Return the default number of key groups: 128 to 32768, a power of two.

    Raises ValueError if ``parallelism`` is below 1 or above 32768.
    """
    check_parallelism(parallelism, MAX_MAX_PARALLELISM)
    wanted = parallelism + parallelism // 2
    power = 1 << (wanted - 1).bit_length()
    return min(max(power, MIN_MAX_PARALLELISM), MAX_MAX_PARALLELISM)


def pointwise_channels(sender: int, senders: int, receivers: int) -> list[int]:
    """Receivers of a sender on a pointwise edge (forward, rescale), in order.

    ``VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise``.

    ``senders``, ``receivers``: parallelism of both stages, at least 1.

    At least one receiver; every receiver has at least one sender. Raises ValueError if a
    parallelism is below 1 or there is no such sender.
    """
    if senders < 1 or receivers < 1:
        raise ValueError(f"parallelism must be at least 1, but is {senders} to {receivers}")
    if not 0 <= sender < senders:
        raise ValueError(f"sender {sender} of {senders} does not exist")
    if senders >= receivers:
        return [((sender + 1) * receivers - 1) // senders]
    first = (sender * receivers + senders - 1) // senders
    after = ((sender + 1) * receivers + senders - 1) // senders
    return list(range(first, after))


def pointwise_senders(receiver: int, senders: int, receivers: int) -> range:
    """Senders of a receiver on a pointwise edge: the inverse of :func:`pointwise_channels`.

    ``VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise``.

    ``senders``, ``receivers``: parallelism of both stages, at least 1.

    At least one sender, in order. Raises ValueError if a parallelism is below 1 or there is no such
    receiver.
    """
    if senders < 1 or receivers < 1:
        raise ValueError(f"parallelism must be at least 1, but is {senders} to {receivers}")
    if not 0 <= receiver < receivers:
        raise ValueError(f"receiver {receiver} of {receivers} does not exist")
    first = receiver * senders // receivers
    return range(first, max(first + 1, (receiver + 1) * senders // receivers))


def pointwise_subpartition(receiver: int, senders: int, receivers: int) -> int:
    """Return which subpartition of its senders a receiver reads on a pointwise edge.

    ``receiver``, ``senders``, ``receivers``: as of :func:`pointwise_senders`.

    Returns 0 for senders with one receiver each. For a sender with n receivers it is the receiver's
    index modulo n, and not its place among them: 3 and 4, the receivers of the second of two
    senders to five, read 1 and 0. Raises ValueError as :func:`pointwise_senders`.
    """
    sender = pointwise_senders(receiver, senders, receivers).start
    return receiver % len(pointwise_channels(sender, senders, receivers))


def next_by_share(behind: Sequence[int], weights: Sequence[int]) -> int:
    """Return the channel whose share of the records is furthest behind; changes nothing.

    No channel is ever a whole record ahead of its share, and a channel of weight 0 gets none.

    - ``behind`` (shape (channels,)): how far each channel is behind its share, in parts of a
      record: weight x records so far - its own x sum of weights, as :func:`count_share` keeps it.
    - ``weights`` (shape (channels,)): its share of the whole; not all 0, none negative.

    Returns the channel of the next record: the lowest of those equally far behind.
    """
    best = 0
    furthest = behind[0] + weights[0]
    for i in range(1, len(weights)):
        after = behind[i] + weights[i]
        if after > furthest:
            best = i
            furthest = after
    return best


def count_share(
    behind: MutableSequence[int], weights: Sequence[int], total: int, channel: int
) -> int:
    """Count a record as routed to a channel; return that of the next record.

    All shares grow, and the channel has had one more. The next one is that of
    :func:`next_by_share`, which is found on the way.

    ``behind``, ``weights`` (shape (channels,)): as of :func:`next_by_share`.
    """
    behind[channel] -= total
    best = 0
    furthest = -total - total  # no channel is so far ahead
    for i in range(len(weights)):
        now = behind[i] + weights[i]
        behind[i] = now
        if now + weights[i] > furthest:
            best = i
            furthest = now + weights[i]
    return best


def smooth_round_robin(records: int, weights: Sequence[int]) -> list[int]:
    """Return the channels of the first records, with shares spread evenly over time.

    - ``records``: how many; 0 gives an empty list.
    - ``weights`` (shape (channels,)): share of each channel.

    Raises ValueError if ``records`` or a weight is negative, or no weight is positive.
    """
    if records < 0:
        raise ValueError(f"records is {records}, must not be negative")
    if not any(weights) or min(weights) < 0:
        raise ValueError(f"weights are {list(weights)}: none may be negative, one must be positive")
    behind, total = [0] * len(weights), sum(weights)
    channels, channel = list[int](), next_by_share(behind, weights)
    for _ in range(records):
        channels.append(channel)
        channel = count_share(behind, weights, total, channel)
    return channels


def integer_weights(weights: Iterable[Fraction | float]) -> list[int]:
    """Return the smallest integers in the same proportion as some weights.

    ``weights``: a float means the shortest decimal that reads back as it (0.1 is a tenth).

    Raises ValueError if there is none, one is negative or not finite, or none is positive.
    """
    exact = [Fraction(str(weight)) for weight in weights]
    if not any(exact) or min(exact) < 0:
        shown = ", ".join(str(weight) for weight in exact)
        raise ValueError(f"weights are [{shown}]: none may be negative, one must be positive")
    scale = lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    divisor = gcd(*whole)
    return [weight // divisor for weight in whole]


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Refuse a parallelism below 1 or above the number of key groups.

    Raises ValueError if it is one.
    """
    if not 1 <= parallelism <= max_parallelism:
        raise ValueError(
            f"parallelism is {parallelism}, must be at least 1 and at most {max_parallelism}"
        )
