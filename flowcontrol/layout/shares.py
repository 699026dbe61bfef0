"""Shares of records: of keys, of channels, and results of a window per record."""

import zlib
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import fsum
from typing import Final, cast

import numpy as np
from numpy import typing as npt

from flowcontrol.protocol.network.partitioners import (
    MASK,
    channel_of_group,
    channel_of_key,
    default_max_parallelism,
    integer_weights,
    key_group,
)
from flowcontrol.protocol.service import MOST_SHARES, ratio_of, whole_shares
from flowcontrol.scenario import Edge, Scenario, Stage
from flowcontrol.scenario.key_distribution import KeyDistribution
from flowcontrol.scenario.windows import WindowPlan

# --- Which share of the records each subtask gets of a key distribution.
#
# A key is the decimal text of its rank. Flink hashes it as a Java string and maps the hash to
# a key group; all keys are placed at once in arrays, by the same rules that place a single
# one.


Numbers = npt.NDArray[np.int64]

_AT_A_TIME: Final = 1 << 14
"""Keys of an array, so that ten million take no more memory than these."""

_LN2: Final = 0.6931471805599453
_TERMS: Final = 18
"""Terms of a series: the last one is below the precision of a double."""


@lru_cache(maxsize=64)
def shares_of_keys(distribution: KeyDistribution, width: int) -> tuple[int, ...]:
    """Return the weight of each channel: the sum of the weights of the keys that go there.

    The same integers on every machine: see :func:`_powers`. A million keys take a quarter of a
    second, once in a process, for all senders of an edge.

    Returns one for each channel, not all 0. Exact for ``uniform`` and ``hot``; of ``zipf`` each key
    is rounded to 2**-56 of the whole, and has at least that.
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


# --- Shares and random numbers by which records find their channels.
#
# Shares are spread evenly over time, so a job needs no random numbers but for `shuffle`,
# whose numbers are a function of the seed, the edge, the subtask and the record's number.
# Flink starts `rebalance` at a random channel; here sender *i* starts at channel *i* modulo
# their number, which spreads the senders as well and needs no random number
# (`org.apache.flink.streaming.runtime.partitioner`, reference section 12).


_MASK = (1 << 64) - 1


def mix(seed: int, stream: int, number: int) -> int:
    """Return 64 well-mixed bits, a pure function of three integers (SplitMix64).

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

    Weights of many digits, such as 1/7 or 1/13, are rounded
    (:func:`flowcontrol.protocol.service.whole_shares`).
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

    Returns its index, the lowest of equal ones; an even share if the edge has no shares.
    """
    weights = weights_of(edge, receivers) or [1] * receivers
    most = max(weights)
    return weights.index(most), Fraction(most, sum(weights))


# --- How many results a window has per record in the long run, worked out before a run.
#
# An estimate, from the rate at which records come, their keys and the sizes of windows: rates
# of chains, warnings and limits ask for it. Rates are means over the run, and keys alike.


_MS = 1000


def window_ratio(scenario: Scenario, stage: Stage) -> Fraction | None:
    """Return the results per record of a stage's window; None: it has none."""
    window = scenario.window_of(stage.name)
    if window is None:
        return None
    return _ratio(scenario, window, _rate_into(scenario, stage))


def results_per_record(window: WindowPlan, rate: Fraction, duration_s: Fraction) -> Fraction:
    """Return the results per record of a window.

    An event-time or processing-time trigger fires once for each window of a key that has a record:
    for each of its windows a record, or for each key a slide, whichever is less. A count fires once
    every n records of a window, a continuous trigger once an interval too.

    ``rate``: records/s of all keys together, above 0.
    """
    keys = window.keys or 1
    per_key = rate / keys  # records/s
    windows, length_s = _windows_of_record(window, duration_s)
    records = max(Fraction(1), per_key * length_s)  # of a window that has one
    if window.kind == "session":
        # A record ends a session if none follows within the gap: exp(-x) <= 1 / (1 + x + x^2/2).
        expected = per_key * Fraction(window.gap_ms, _MS)
        records = 1 + expected + expected**2 / 2
    if window.trigger == "count":
        return windows / window.every
    firings = Fraction(1)
    if window.trigger == "continuous":
        firings += length_s * _MS / window.every
    return windows * firings / records


def _windows_of_record(window: WindowPlan, duration_s: Fraction) -> tuple[Fraction, Fraction]:
    """Return how many windows a record is in on average, and how long one is, s."""
    if window.kind in {"tumbling", "sliding"}:
        return Fraction(window.size_ms, window.slide_ms), Fraction(window.size_ms, _MS)
    if window.kind == "session":
        return Fraction(1), Fraction(window.gap_ms, _MS)
    return Fraction(1), duration_s


def _ratio(scenario: Scenario, window: WindowPlan, rate: Fraction) -> Fraction:
    if rate <= 0:
        return Fraction(1)
    duration_s = Fraction(scenario.duration_us, 1_000_000)
    return ratio_of(results_per_record(window, rate, duration_s))


def _rate_into(scenario: Scenario, stage: Stage) -> Fraction:
    """Records/s that reach a stage in the mean over the run, if nothing holds them up."""
    found = Fraction(0)
    for edge in scenario.inputs(stage.name):
        sender = scenario.stage(edge.sender)
        copies = stage.parallelism if edge.partitioner == "broadcast" else 1
        found += _rate_out_of(scenario, sender) * copies
    return found


def _rate_out_of(scenario: Scenario, stage: Stage) -> Fraction:
    """Records/s that a stage puts out, likewise."""
    own = _own_rate(scenario, stage)
    if stage.is_source:
        rate = own or Fraction(0)
    else:
        rate = _rate_into(scenario, stage)
        rate = rate if own is None else min(rate, own)
        window = scenario.window_of(stage.name)
        if window is not None:
            return rate * _ratio(scenario, window, rate)
    return rate * stage.selectivity_exact


def _own_rate(scenario: Scenario, stage: Stage) -> Fraction | None:
    """Records/s that a stage's subtasks emit or serve together; None: any number."""
    duration_us, total = scenario.duration_us, Fraction(0)
    schedules = [stage.rates(index) for index in range(stage.parallelism)]
    arrivals = stage.arrival_rate or (None,) * stage.parallelism
    for schedule, arrival in zip(schedules, arrivals, strict=True):
        known = [one.records_until(duration_us) for one in (schedule, arrival) if one is not None]
        if not known:
            return None
        total += Fraction(min(known) * 1_000_000, duration_us)
    return total
