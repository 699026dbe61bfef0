"""A link's ledger in a catalog table: whole, once, in order."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from chispa import assert_df_equality

from flowcontrol.errors import LinkError
from flowcontrol.ledger import link_ledger
from flowcontrol.ledger.link_ledger import rows_since
from flowcontrol.link.link import open_link

pytestmark = pytest.mark.spark

TURNS = 2


@pytest.fixture
def table(spark, tmp_path):
    """Return the name of a table that is not there yet."""
    database = f"published_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {database} LOCATION '{tmp_path / 'warehouse'}'")
    yield f"spark_catalog.{database}.flow_ledger"
    spark.sql(f"DROP DATABASE {database} CASCADE")


def check(spark, table, *links):
    """Compare the table with the ledgers, whole."""
    expected = []
    for link in links:
        for member, rows in rows_since(link.storage.child("ledger"), {})[1].items():
            fixed = {"link_id": link.settings.link_id, "member": member}
            expected += [{**fixed, **row} for row in rows.to_pylist()]
    found = spark.table(table)
    wanted = spark.createDataFrame(expected, found.schema)
    order = [*found.columns[:3], "sender", "receiver", "batch_id"]
    assert_df_equality(found.orderBy(order), wanted.orderBy(order), ignore_nullable=True)
    return len(expected)


def test_every_row_arrives_once_also_after_packing(spark, make_link, table, monkeypatch):
    monkeypatch.setattr(link_ledger, "PACK", 4)
    link, other = make_link("orders"), make_link("clicks")
    handles = [open_link(link.path), open_link(other.path)]
    assert handles[0].publish(spark, table) == 0
    assert spark.table(table).count() == 0
    sender, receiver = link.sender(), link.receiver()
    second = other.sender()
    total = 0
    for _ in range(TURNS):
        for _ in range(5):
            sender.write({0: 30, 1: 10})
            receiver.take(), receiver.take()
            sender.step()
        second.write({0: 5})
        total += sum(handle.publish(spark, table) for handle in handles)
    assert check(spark, table, link, other) == total
    assert handles[0].publish(spark, table) == 0
    versions = (
        spark.sql(f"DESCRIBE HISTORY {table}")
        .where("operation like '%WRITE%' or operation like '%TABLE%'")
        .count()
    )
    assert versions == 1 + 2 * TURNS  # the table, and one commit a call that had rows
    idle = make_link("idle")
    idle.make_tables()
    newest = spark.sql(f"DESCRIBE HISTORY {table}").agg({"version": "max"}).first()
    assert open_link(idle.path).publish(spark, table) == 0  # beside the rows of other links
    assert spark.sql(f"DESCRIBE HISTORY {table}").agg({"version": "max"}).first() == newest


def test_a_table_of_another_kind_is_refused(spark, make_link, table):
    link = make_link()
    link.make_tables()
    spark.createDataFrame(pa.table({"id": [1]})).write.format("delta").saveAsTable(table)
    with pytest.raises(
        LinkError, match="has the columns id; the ledger of a link has link_id, mem"
    ):
        open_link(link.path).publish(spark, table)
    assert spark.table(table).count() == 1
