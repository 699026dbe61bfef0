"""The orders of bench/orders.py: how they are made, and whether a sink holds just these.

Every value follows from the order's number, so that what the sink should hold can be made again.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER = """
    id,
    named_struct('number', id % 997, 'name', concat('customer ', id % 997),
                 'address', named_struct('street', repeat('s', cast(id % 7 as int)),
                                         'zip', if(id % 11 = 0, null, cast(id % 99999 as int))))
        AS customer,
    transform(sequence(1, cast(1 + id % 3 as int)), n -> named_struct(
        'sku', concat('sku-', id % 1009, '-', n), 'quantity', n,
        'price', cast((id * 31 + n * 7) % 1000000 as decimal(12, 4)) / cast(100 as decimal(3, 0))))
        AS items,
    if(id % 13 = 0, null,
       map('channel', if(id % 2 = 0, 'web', 'shop'), 'day', cast(id % 31 as string))) AS tags,
    cast(if(id % 17 = 0, null, id * 1.2345) as decimal(38, 10)) AS total,
    timestamp_micros(1700000000000000 + id * 1000003) AS ordered_at,
    cast(timestamp_micros(1600000000000000 + id * 999983) as timestamp_ntz) AS local_time,
    date_add(date'1970-01-01', cast(id % 30000 - 9000 as int)) AS due,
    if(id % 5 = 0, null, cast(concat('photo', id) as binary)) AS photo,
    cast(id as double) / 3 AS rating,
    if(id % 3 = 0, null, concat('note ', id)) AS note
"""

COUPON = ", if(id % 4 = 0, null, concat('coupon ', id)) AS coupon"
"""The column that comes half way."""

CHUNK = 20_000
"""Orders that chispa compares at once: it collects them."""


def orders(spark: SparkSession, first: int, end: int, *, with_coupon: bool) -> DataFrame:
    """Return the orders of a range of numbers."""
    text = ORDER + (COUPON if with_coupon else "")
    return spark.range(first, end).selectExpr(f"inline(array(struct({text})))")


def write_files(
    spark: SparkSession, folder: Path, first: int, end: int, files: int, *, with_coupon: bool
) -> None:
    """Write orders as Parquet files, in the order in which Spark is to read them.

    Parameters
    ----------
    folder : Path
        Where they go.
    first, end : int
        The first order, and the one after the last.
    files : int
        How many: each is a source batch.
    with_coupon : bool
        Whether the orders have the later column.
    """
    made, folder = folder / f".made-{first}", folder
    rows = orders(spark, first, end, with_coupon=with_coupon)
    rows.repartitionByRange(files, "id").write.parquet(str(made))
    for number, file in enumerate(sorted(made.glob("part-*.parquet"))):
        target = folder / f"{first:012d}-{number:04d}.parquet"
        file.rename(target)
        moment = 1_700_000_000 + number + (files if with_coupon else 0)
        os.utime(target, (moment, moment))  # Spark reads the oldest file first
    shutil.rmtree(made)


def expected(spark: SparkSession, first: int, end: int, half: int) -> DataFrame:
    """Return what the sink should hold of a range of orders; from ``half`` on they have coupons."""
    middle = min(max(half, first), end)
    before = orders(spark, first, middle, with_coupon=False)
    before = before.selectExpr("*", "cast(null AS string) AS coupon")
    return before.union(orders(spark, middle, end, with_coupon=True))


def sink_rows(spark: SparkSession, table: Path) -> DataFrame:
    """Return the rows of the sink's table."""
    return spark.read.format("delta").load(str(table))


def differences(spark: SparkSession, table: Path, rows: int) -> dict[str, int]:
    """Return how many rows of the sink are missing, doubled, or not what they should be."""
    from pyspark.sql import functions as F

    found = sink_rows(spark, table)
    made = expected(spark, 0, rows, rows // 2).select(*found.columns)
    assert made.schema.simpleString() == found.schema.simpleString(), found.schema.simpleString()
    numbers = found.select("id").distinct().count()
    # Spark compares no maps: sorted entries say the same.
    plain = F.array_sort(F.map_entries("tags"))
    found, made = found.withColumn("tags", plain), made.withColumn("tags", plain)
    return {
        "missing": rows - numbers,
        "doubled": found.count() - numbers,
        "changed": made.exceptAll(found).count(),
    }


def assert_equal(spark: SparkSession, table: Path, rows: int, *, every: int = 1) -> int:
    """Compare every value with chispa, a chunk of orders after the other; return how many orders.

    Parameters
    ----------
    table : Path
        The sink's.
    rows : int
        Orders that were sent.
    every : int, default 1
        Of so many chunks one is compared.

    Raises
    ------
    chispa.DataFramesNotEqualError
        If a row or a value of it differs, with both tables side by side.
    """
    from chispa import assert_df_equality

    found, compared = sink_rows(spark, table), 0
    for first in range(0, rows, CHUNK * every):
        end = min(rows, first + CHUNK)
        made = expected(spark, first, end, rows // 2).select(*found.columns)
        own = found.where(f"id >= {first} AND id < {end}")
        assert_df_equality(
            made, own, ignore_nullable=True, transforms=[lambda frame: frame.sort("id")]
        )
        compared += end - first
    return compared
