"""Spark's hash of a key, over Arrow columns: where rows come without a channel, as into a sink.

``pyspark.sql.functions.hash`` is Murmur3 (x86, 32 bits) with two ways of its own: bytes that do not
fill a word are mixed one by one, as signed words, and a column's hash is the seed of the next one's
(``Murmur3HashFunction``, ``Murmur3_x86_32``). Both forms of a sender must route a key alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

Words = np.ndarray[Any, np.dtype[np.uint32]]

SEED = 42
"""Spark's seed of ``hash``."""

LONG_DIGITS = 18
"""Most digits of a decimal that Spark hashes as a long; wider ones are hashed as bytes."""


def channels_of(
    key: Sequence[pa.ChunkedArray], channels: int
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the channel of each row, ``pmod(hash(key), channels)``."""
    found: np.ndarray[Any, np.dtype[np.int32]] = np.mod(spark_hash(key), np.int32(channels))
    return found


def spark_hash(columns: Sequence[pa.ChunkedArray]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return ``hash(columns)`` of each row. Nulls leave the hash as it is."""
    found = np.full(len(columns[0]), SEED, np.uint32)
    for column in columns:
        found = _hashed(_whole(column), found)
    return found.view(np.int32)


def unhashed(kind: DataType) -> Iterator[str]:
    """Yield why Spark hashes a type in another way, or not at all."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, MapType):
        yield "Spark does not hash maps"
    elif isinstance(kind, ArrayType):
        yield from unhashed(kind.elementType)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from unhashed(field.dataType)
    elif isinstance(kind, StringType) and kind != StringType():
        yield "it has a collation"


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _hashed(values: pa.Array, seeds: Words) -> Words:
    """Return the hash of each value, with a seed each."""
    kind = values.type
    if pa.types.is_struct(kind):
        found = seeds
        for field in values.flatten():
            found = _hashed(field, found)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = _of_lists(values, seeds)
    elif pa.types.is_decimal(kind):
        found = _of_decimals(values, seeds)
    elif _is_bytes(kind):
        found = _of_bytes(*_bytes_of(values), seeds)
    else:
        found = _of_words(_words_of(values), seeds)
    if values.null_count == 0:
        return found
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), found, seeds)


def _is_bytes(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string)
    return any(is_kind(kind) for is_kind in (*kinds, pa.types.is_binary, pa.types.is_large_binary))


# --- What a value is made of: words of 32 bits.


def _words_of(values: pa.Array) -> list[Words]:
    """Return the words of values of fixed width, the lowest first."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    plain = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
    if plain.dtype.kind == "f":
        # Java has one NaN, and Spark one zero.
        plain = np.where(np.isnan(plain), np.array(np.nan, plain.dtype), plain + 0)
        return _split(plain)
    return _split(plain.astype(np.int64 if plain.dtype.itemsize == 8 else np.int32))


def _split(plain: np.ndarray[Any, Any]) -> list[Words]:
    """Cut numbers of 32 or 64 bits into words."""
    width = plain.dtype.itemsize // 4
    words = np.ascontiguousarray(plain).view("<u4").reshape(-1, width)
    return [np.ascontiguousarray(words[:, place]) for place in range(width)]


Pieces = tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""Bytes, where each value begins in them, and how many it has."""


def _bytes_of(values: pa.Array) -> Pieces:
    _, offsets, content = values.buffers()
    is_large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    width = np.int64 if is_large else np.int32
    count = values.offset + len(values) + 1
    ends = np.zeros(count, width) if offsets is None else np.frombuffer(offsets, width, count)
    ends = ends[values.offset :].astype(np.int64)
    raw = b"" if content is None else content
    return np.frombuffer(raw, np.uint8), ends[:-1], np.diff(ends)


def _of_decimals(values: pa.Array, seeds: Words) -> Words:
    """Hash by the unscaled number: a long, or the bytes of Java's ``BigInteger``."""
    _, content = values.buffers()
    count = len(values)
    raw = np.frombuffer(content, np.uint8, 16 * (values.offset + count))
    raw = raw[16 * values.offset :].reshape(count, 16)
    if values.type.precision <= LONG_DIGITS:
        return _of_words(_split(np.ascontiguousarray(raw[:, :8]).view(np.int64).ravel()), seeds)
    big = np.ascontiguousarray(raw[:, ::-1])
    sign = np.where(big[:, 0] >= 128, np.uint8(255), np.uint8(0))
    # Leading bytes that only repeat the sign, of which one stays if the next has another.
    odd = big != sign[:, None]
    first = np.where(odd.any(axis=1), odd.argmax(axis=1), 15)
    has_sign = (big[np.arange(count), first] >= 128) == (sign == 255)
    first = np.where(has_sign, first, first - 1)
    return _of_bytes(big.ravel(), 16 * np.arange(count) + first, 16 - first, seeds)


def _of_lists(values: pa.Array, seeds: Words) -> Words:
    """Hash element by element, each with the hash of those before it as its seed."""
    starts = values.offsets.to_numpy().astype(np.int64)
    counts = np.diff(starts)
    if values.null_count:
        counts = np.where(values.is_valid().to_numpy(zero_copy_only=False), counts, 0)
    found, place, active = seeds.copy(), 0, np.flatnonzero(counts)
    while len(active):
        elements = values.values.take(pa.array(starts[active] + place))
        found[active] = _hashed(elements, found[active])
        place += 1
        active = active[counts[active] > place]
    return found


# --- Murmur3.


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _mixed(found: Words, word: Words) -> Words:
    """Mix a word into each hash."""
    word = _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(found ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(found: Words, nbytes: Words) -> Words:
    found = found ^ nbytes
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return found ^ (found >> np.uint32(16))


def _of_words(words: Sequence[Words], seeds: Words) -> Words:
    found = seeds
    for word in words:
        found = _mixed(found, word)
    return _finished(found, np.full(len(seeds), 4 * len(words), np.uint32))


def _of_bytes(
    content: np.ndarray[Any, np.dtype[np.uint8]],
    starts: np.ndarray[Any, Any],
    counts: np.ndarray[Any, Any],
    seeds: Words,
) -> Words:
    """Hash whole words, then what is left byte by byte, each as a signed word."""
    found, place, active = seeds.copy(), 0, np.flatnonzero(counts >= 4)
    if len(active):
        # A word at each byte: the words of a value begin anywhere.
        words = np.ndarray(len(content) - 3, "<u4", content, strides=(1,))
        while len(active):
            found[active] = _mixed(found[active], words[starts[active] + place])
            place += 4
            active = active[counts[active] >= place + 4]
    rest = counts % 4
    for byte in range(3):
        active = np.flatnonzero(rest > byte)
        if len(active):
            at = starts[active] + counts[active] - rest[active] + byte
            signed = content[at].view(np.int8).astype(np.int32).view(np.uint32)
            found[active] = _mixed(found[active], signed)
    return _finished(found, counts.astype(np.uint32))
