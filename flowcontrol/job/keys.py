"""Which share of the records each subtask gets of a key distribution.

A key is the decimal text of its rank. Flink hashes it as a Java string and maps the hash to a key
group; all keys are placed at once in arrays, by the same rules that place a single one.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import fsum
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from flowcontrol.protocol.partitioners import (
    MASK,
    channel_of_group,
    default_max_parallelism,
    key_group,
)
from flowcontrol.protocol.ratios import MOST_SHARES
from flowcontrol.scenario.key_distribution import KeyDistribution

Numbers = npt.NDArray[np.int64]

_AT_A_TIME: Final = 1 << 14
"""Keys of an array, so that ten million take no more memory than these."""

_LN2: Final = 0.6931471805599453
_TERMS: Final = 18
"""Terms of a series: the last one is below the precision of a double."""


@lru_cache(maxsize=64)
def shares_of_keys(distribution: KeyDistribution, width: int) -> tuple[int, ...]:
    """Return the weight of each channel: the sum of the weights of the keys that go there.

    Parameters
    ----------
    distribution : KeyDistribution
        How often each key comes up.
    width : int
        Channels: subtasks of the receiver.

    Returns
    -------
    tuple of int
        One for each channel, not all 0. Exact for ``uniform`` and ``hot``; of ``zipf`` each key is
        rounded to 2**-56 of the whole, and has at least that.

    Notes
    -----
    The same integers on every machine: see :func:`_powers`. A million keys take a quarter of a
    second, once in a process, for all senders of an edge.
    """
    shares = [0] * width
    if distribution.exponent is not None:
        for numbers, weights in _zipf_weights(distribution.keys, float(distribution.exponent)):
            found = np.zeros(width, np.int64)
            np.add.at(found, channels_of_keys(numbers, width), weights)
            shares = [share + int(more) for share, more in zip(shares, found, strict=True)]
        return tuple(shares)
    for numbers in _numbers(distribution.keys):
        counts = np.bincount(channels_of_keys(numbers, width), minlength=width)
        shares = [share + int(more) for share, more in zip(shares, counts, strict=True)]
    if distribution.share is None:
        return tuple(shares)
    # In parts of 1 / (denominator x other keys): what key 1 has, and what each other key has.
    hot, rest = distribution.share.numerator, distribution.share.denominator
    home = int(channels_of_keys(np.array([1]), width)[0])
    shares[home] -= 1
    shares = [(rest - hot) * count for count in shares]
    shares[home] += hot * (distribution.keys - 1)
    return tuple(shares)


def weights_of_keys(distribution: KeyDistribution) -> list[int]:
    """Return the weight of each key, by rank."""
    keys = distribution.keys
    if distribution.exponent is not None:
        parts = _zipf_weights(keys, float(distribution.exponent))
        return [weight for _, weights in parts for weight in weights.tolist()]
    if distribution.share is None:
        return [1] * keys
    hot, whole = distribution.share.numerator, distribution.share.denominator
    return [hot * (keys - 1), *[whole - hot] * (keys - 1)]


@lru_cache(maxsize=64)
def keys_of_channels(keys: int, width: int) -> tuple[int, ...]:
    """Return how many of the keys 1 to ``keys`` each channel has."""
    counts = np.zeros(width, np.int64)
    for numbers in _numbers(keys):
        counts += np.bincount(channels_of_keys(numbers, width), minlength=width)
    return tuple(counts.tolist())


def channels_of_keys(numbers: Numbers, width: int) -> Numbers:
    """Return the channels of the keys that are the decimal texts of some numbers, at least 1."""
    groups = default_max_parallelism(width)
    # The rules are arithmetic of integers, which arrays of them do element by element.
    codes = cast("int", _java_hashes(numbers))
    found = channel_of_group(key_group(codes, groups), width, groups)
    return cast("Numbers", found)


def _java_hashes(numbers: Numbers) -> Numbers:
    """Return the lowest 32 bits of ``String.hashCode`` of the numbers' decimal texts."""
    codes = np.zeros_like(numbers)
    for place in reversed(range(len(str(int(numbers.max()))))):
        leading = numbers // 10**place
        is_there = leading > 0
        codes = np.where(is_there, 31 * codes + ord("0") + leading % 10, codes) & MASK
    return codes


def _numbers(keys: int) -> Iterator[Numbers]:
    """Yield 1 to ``keys`` in arrays of bounded size."""
    for first in range(1, keys + 1, _AT_A_TIME):
        yield np.arange(first, min(first + _AT_A_TIME, keys + 1), dtype=np.int64)


def _zipf_weights(keys: int, exponent: float) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield keys and their weights k**-exponent as integers, about 2**56 in all."""
    whole = fsum(fsum(_powers(numbers, exponent)) for numbers in _numbers(keys))
    for numbers in _numbers(keys):
        weights = np.rint(_powers(numbers, exponent) * (MOST_SHARES / whole))
        yield numbers, np.maximum(1, weights).astype(np.int64)


def _powers(ranks: Numbers, exponent: float) -> npt.NDArray[np.float64]:
    """Return ranks**-exponent, equal on every machine.

    ``pow`` of a C library or of numpy differs in its last bits between processors, and a run must
    not. Here are only operations that IEEE 754 rounds exactly: + - x / and scaling by powers of 2.
    With ln of m x 2**e as 2 artanh((m - 1) / (m + 1)) + e ln 2, and exp by its own series.
    """
    mantissas, exponents = np.frexp(ranks.astype(np.float64))
    ratios = (mantissas - 1.0) / (mantissas + 1.0)
    squares = ratios * ratios
    logs = np.zeros_like(ratios)
    for k in reversed(range(_TERMS)):
        logs = logs * squares + 1.0 / (2 * k + 1)
    logs = 2.0 * ratios * logs + exponents * _LN2
    wanted = -exponent * logs
    whole = np.rint(wanted / _LN2)
    rest = wanted - whole * _LN2
    found = np.ones_like(ratios)
    for k in reversed(range(1, _TERMS)):
        found = found * rest / k + 1.0
    return np.ldexp(found, whole.astype(np.int64))
