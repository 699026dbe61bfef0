"""A link's ledger in a catalog table, appended through delta-spark.

A catalog may forbid what delta-rs does, write to a table behind its back. But a receiver decides in
a process that Spark keeps for its source, without a session; and a commit of delta-spark takes
30 times as long as one of delta-rs. So the link's own ledger stays in its folder, and this is
its second: whole, in order, each row once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import create_ledger, rows_since
from flowcontrol.records import LEDGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowcontrol.ledger.storage import Storage

OWN = ("link_id", "member")
"""Columns before the ledger's own: the link, and the member that wrote the row."""


def publish_ledger(spark: SparkSession, storage: Storage, link_id: str, table: str) -> int:
    """Append the rows of a link's ledger that a table lacks.

    Only one process at a time may publish a link: it reads which rows the table has and appends
    the others, as an application transaction numbered by the ledger's version, without MERGE.

    - ``link_id``: the link's; several links may share a table.
    - ``table``: name of the table, ``catalog.schema.table`` or shorter; it is made if it is not
      there.

    Raises LinkError if the table is there and is no such ledger.
    """
    from pyspark.sql import functions as F

    create_ledger(storage)
    names = [*OWN, *LEDGER.names]
    last: dict[str, int] = {}
    is_there = spark.catalog.tableExists(table)
    if is_there:
        there = spark.table(table)
        if there.columns != names:
            raise LinkError(
                f"{table} has the columns {', '.join(there.columns)}; the ledger of a link has "
                f"{', '.join(names)}: choose another name"
            )
        newest = there.where(F.col("link_id") == link_id).groupBy("member").agg(F.max("batch_id"))
        last = {row[0]: row[1] for row in newest.collect()}
    version, found = rows_since(storage, last)
    if is_there and not found:
        return 0
    empty = _with_names(link_id, "", LEDGER.arrow_schema().empty_table())
    own = [_with_names(link_id, member, rows) for member, rows in found.items()]
    rows = pa.concat_tables([empty, *own])
    writer = spark.createDataFrame(rows).coalesce(1).write.format("delta").mode("append")
    if found:
        writer = writer.option("txnAppId", f"flowcontrol/{link_id}").option("txnVersion", version)
    writer.saveAsTable(table)
    return int(rows.num_rows)


def _with_names(link_id: str, member: str, rows: pa.Table) -> pa.Table:
    fixed = [pa.repeat(pa.scalar(value), len(rows)) for value in (link_id, member)]
    return pa.table([*fixed, *rows.columns], names=[*OWN, *rows.column_names])
