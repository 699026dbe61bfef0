"""A key's hash over Arrow columns: what Spark's own ``hash`` says of every type."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from flowcontrol.link.key_hash import channels_of, spark_hash, unhashed
from flowcontrol.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400

TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "abcdefg",
    "äöü",
    "日本語テキスト",
    "x" * 1001,
    "\0",
]
FLOATS = [0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"), 1e-40, -1e30]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(1900, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
TIMES += [dt.datetime(1970, 1, 1), dt.datetime(2300, 5, 6, 7, 8, 9, 10)]


def whole(bits: int) -> list[int]:
    most = 2 ** (bits - 1)
    return [0, 1, -1, most - 1, -most, most // 3]


def decimals(digits: int, scale: int) -> list[Decimal]:
    edges = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32769, 2**63, -(2**63) - 1]
    edges += [10**digits - 1, 1 - 10**digits, 2**71, -(2**71), 2**72 - 1]
    fitting = [edge for edge in edges if abs(edge) < 10**digits]
    return [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in fitting]


KINDS: list[tuple[T.DataType, list[Any]]] = [
    (T.BooleanType(), [True, False]),
    (T.ByteType(), whole(8)),
    (T.ShortType(), whole(16)),
    (T.IntegerType(), whole(32)),
    (T.LongType(), whole(64)),
    (T.FloatType(), FLOATS),
    (T.DoubleType(), FLOATS),
    (T.DecimalType(5, 2), decimals(5, 2)),
    (T.DecimalType(18, 0), decimals(18, 0)),
    (T.DecimalType(19, 4), decimals(19, 4)),
    (T.DecimalType(38, 18), decimals(38, 18)),
    (T.StringType(), TEXTS),
    (T.BinaryType(), [text.encode() for text in TEXTS] + [bytes(range(250, 256)) * 3]),
    (T.DateType(), DAYS),
    (T.TimestampType(), [time.replace(tzinfo=dt.UTC) for time in TIMES]),
    (T.TimestampNTZType(), TIMES),
    (T.ArrayType(T.LongType()), [[], [1], [1, None, 3], list(range(9))]),
    (T.ArrayType(T.ArrayType(T.StringType())), [[], [[]], [["a"], None, ["b", None, "cde"]]]),
    (
        T.StructType([
            T.StructField("a", T.IntegerType()),
            T.StructField("b", T.StructType([T.StructField("c", T.StringType())])),
        ]),
        [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, {"a": 5, "b": {"c": None}}],
    ),
    (
        T.ArrayType(T.StructType([T.StructField("d", T.DecimalType(20, 1))])),
        [[{"d": Decimal("1.5")}, None], [{"d": None}], []],
    ),
]  # fmt: skip


def table_of(first: int = 0) -> tuple[pa.Table, T.StructType]:
    """Return rows with a column of each type, every edge and some nulls among them."""
    chance = random.Random(17)
    schema = T.StructType([T.StructField(f"c{n}", kind) for n, (kind, _) in enumerate(KINDS)])
    columns = []
    for (_, edges), field in zip(KINDS, arrow_schema(schema), strict=True):
        values = [*edges, None, *(chance.choice([*edges, None]) for _ in range(ROWS))]
        columns.append(pa.array(values[:ROWS], field.type))
    return pa.table(columns, names=schema.names).slice(first), schema


@pytest.mark.spark
def test_every_type_is_hashed_as_spark_hashes_it(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    table, schema = table_of()
    frame = spark.createDataFrame(table.to_pylist(), schema).coalesce(1)
    names = schema.names
    both = [F.hash(names[n], names[-1 - n]).alias(f"two{n}") for n in range(len(names))]
    whole_key = F.hash(*names).alias("all")
    found = frame.select(*(F.hash(name).alias(name) for name in names), *both, whole_key).toArrow()
    for name in names:
        expected = found.column(name).to_numpy()
        assert np.array_equal(spark_hash([table.column(name)]), expected), schema[name].dataType
    for n in range(len(names)):
        own = spark_hash([table.column(n), table.column(len(names) - 1 - n)])
        assert np.array_equal(own, found.column(f"two{n}").to_numpy())
    assert np.array_equal(spark_hash(table.columns), found.column("all").to_numpy())


def test_rows_that_are_slices_or_come_in_chunks_hash_alike() -> None:
    table, _ = table_of()
    for name in table.column_names:
        expected = spark_hash([table.column(name)])
        assert np.array_equal(spark_hash([table.slice(13, 50).column(name)]), expected[13:63])
        chunks = pa.concat_tables([table.slice(0, 7), table.slice(7, 1), table.slice(8)])
        assert np.array_equal(spark_hash([chunks.column(name)]), expected)


def test_large_types_hash_as_small_ones_and_none_are_none() -> None:
    texts = pa.chunked_array([pa.array([*TEXTS, None])])
    for kind in (pa.large_string(), pa.large_binary(), pa.binary()):
        assert np.array_equal(spark_hash([texts.cast(kind)]), spark_hash([texts]))
    assert len(spark_hash([pa.chunked_array([], pa.string())])) == 0
    assert len(spark_hash([pa.chunked_array([], pa.list_(pa.int64()))])) == 0


def column(kind: pa.DataType, *values: Any) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def test_hashes_that_sparks_documentation_shows() -> None:
    abc, number = column(pa.string(), "ABC"), column(pa.int32(), 2)
    assert spark_hash([abc]).tolist() == [-757602832]
    assert spark_hash([abc, column(pa.string(), "DEF")]).tolist() == [599895104]
    key = [column(pa.string(), "Spark"), column(pa.list_(pa.int32()), [123]), number]
    assert spark_hash(key).tolist() == [-1321691492]
    assert channels_of(key, 8).tolist() == [-1321691492 % 8]
    assert spark_hash([column(pa.string(), None, None)]).tolist() == [42, 42]


def test_bytes_that_fill_no_word_are_signed() -> None:
    """Numbers of ``SELECT hash('ä')`` and of what follows it, in Spark 4.2."""
    found = spark_hash([column(pa.string(), "ä", "日本語")]).tolist()
    assert [*found, *spark_hash([column(pa.binary(), b"\xff")])] == [
        1085608887,
        -1143049834,
        1398487324,
    ]


def test_types_that_spark_hashes_otherwise_are_refused() -> None:
    of_maps = T.StructType([T.StructField("m", T.MapType(T.LongType(), T.LongType()))])
    assert [*unhashed(T.ArrayType(of_maps))] == ["Spark does not hash maps"]
    assert [*unhashed(T.StringType("UTF8_LCASE"))] == ["it has a collation"]
    assert [*unhashed(T.StringType())] == []
