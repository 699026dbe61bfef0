"""The view for SQL shows the figures of a snapshot."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from flowcontrol.errors import LinkError
from flowcontrol.link.altering import remove_receiver
from flowcontrol.link.link import Link, open_link
from flowcontrol.link.monitoring.figures import ChannelSnapshot
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.view import COLUMNS, FiguresSource, create_view
from flowcontrol.spark.session import register_source


def compare(spark, link, clock):
    """Compare the view with a snapshot, both of now; return its rows."""
    create_view(spark, "orders_link", link.storage, now=clock.now)
    frame = spark.table("orders_link")
    assert dict(frame.dtypes) == COLUMNS
    rows = frame.collect()
    snapshot = LinkMonitor(link.path).snapshot(clock.now)
    names = [field.name for field in fields(ChannelSnapshot)]
    found = [{name: row[name] for name in names} for row in rows]
    assert found == [asdict(channel) for channel in snapshot.channels]
    assert [row.verdict for row in rows] == [c.backpressure_level.value for c in snapshot.channels]
    pools = {sender.name: sender.pool_used for sender in snapshot.senders}
    assert all(row.pool_used == pools[row.sender] for row in rows)
    times = {
        (reader.name, channel): (reader.batch_s, reader.running_s, reader.target_s)
        for reader in snapshot.receivers
        for channel in reader.channels
    }
    for row in rows:
        expected = times.get((row.receiver, row.channel), (None, None, None))
        assert (row.batch_s, row.running_s, row.target_s) == pytest.approx(expected, abs=0.01)
    return rows


@pytest.mark.spark
def test_the_view_equals_the_snapshot(spark, link, clock):
    sender, other = link.sender("events"), link.sender("more", query="another")
    fast, slow = link.receiver("fast"), link.receiver("slow.one")
    half = link.receiver("half", channels=[1])
    compared = 0
    for number in range(60):
        clock.forward(0.4)
        if number == 30:  # killed and started again
            batch = sender.batch
            clock.forward(3)
            sender = link.sender("events")
            sender.batch = batch
        if number % 3 == 0:
            sender.write({0: 10 * (number % 4 + 1), 1: 15})
        if number % 7 == 0:
            other.write({1: 10})
        fast.take()
        if number % 5 == 0:
            slow.take()
        half.take()
        clock.forward(0.2)
        sender.step(), other.step()
        if number in (31, 59):
            rows = compare(spark, link, clock)
            compared += len(rows)
    assert compared == 2 * 2 * 3 * 2
    assert {row.verdict for row in rows} == {"OK", "HIGH"}


@pytest.mark.spark
def test_who_is_cut_off_and_who_paces(spark, make_link, clock):
    link = make_link(floating_buffers=4, detach_after_bytes=8000)
    sender = link.sender()
    fast, slow = link.receiver("fast", target=0.5), link.receiver("slow")
    sender.write({0: 200})
    slow.take()
    for _ in range(30):  # a batch of any size takes longer than the target: it takes little
        fast.take()
        clock.forward(1)
        sender.step()
    assert LinkMonitor(link.path).snapshot(clock.now).receivers[1].is_detached
    rows = compare(spark, link, clock)
    assert {row.receiver: row.is_holding for row in rows} == {"fast": True, "slow": False}


def documented():
    """Return the queries of docs/monitoring.md."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text()
    blocks = re.findall(r"```sql\n(.*?)```", text, re.S)
    return [query for block in blocks for query in block.split(";") if query.strip()]


@pytest.mark.spark
@pytest.mark.long
def test_the_view_follows_the_link(spark, live_link):
    link = open_link(live_link.path)
    link.create_view(spark, "live_orders")
    assert spark.table("live_orders").count() == 0
    sender = live_link.sender()
    sender.write({0: 100, 1: 10})
    query = (
        "SELECT receiver, sum(backlog_rows) AS rows, max(age_s) AS age FROM live_orders GROUP BY 1"
    )
    (before,) = spark.sql(query).collect()
    assert (before.receiver, before.rows) == ("", 110)
    receiver = live_link.receiver()
    receiver.take(), receiver.take()
    (after,) = spark.sql(query).collect()
    assert (after.receiver, after.rows) == ("main", 110 - 70)
    assert after.age > before.age > 0
    spark.table("live_orders").createOrReplaceTempView("orders_link")
    shown = [query for query in documented() if "orders_link" in query]
    found = [spark.sql(query).collect() for query in shown]
    assert [len(rows) for rows in found] == [1, 1]  # channel 0 is blocked; one receiver


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a.b", "a b", "`a`", "v; DROP TABLE x"])
def test_what_is_no_name_of_a_view_is_refused(link, name):
    with pytest.raises(LinkError, match=r"needs letters, digits and '_'"):
        create_view(None, name, link.storage)
    assert not (link.path / "ledger").exists()


@pytest.mark.spark
def test_sql_alone_creates_a_view(spark, make_link):
    link = make_link("o`dd li'nk")
    register_source(spark, FiguresSource)
    place = str(link.path).replace("'", "\\'")
    spark.sql(
        "CREATE GLOBAL TEMPORARY VIEW figures_by_sql USING flowcontrol_figures "
        f"OPTIONS (link '{place}', window_s '60')"
    )
    try:
        view = spark.table("global_temp.figures_by_sql")
        assert view.count() == 0
        link.sender().write({0: 10})
        (row,) = view.where("backlog_rows > 0").collect()
        assert (row.channel, row.backlog_rows, row.backlog_bytes) == (0, 10, 1000)
    finally:
        spark.sql("DROP VIEW global_temp.figures_by_sql")


def test_spark_finds_the_source_by_itself():
    from pyspark_flowcontrol_figures import DefaultSource

    assert DefaultSource.name() == "flowcontrol_figures"


def test_a_view_of_no_link_is_refused(tmp_path):
    with pytest.raises(LinkError, match="there is no link yet"):
        Link(tmp_path / "none").create_view(None, "none")


def test_a_source_without_a_link_is_refused():
    with pytest.raises(LinkError, match=r"option\('link', ...\)"):
        FiguresSource({}).reader(struct(COLUMNS))


@pytest.mark.spark
def test_a_removed_receiver_is_shown_by_neither(spark, link, clock):
    sender, fast, gone = link.sender("events"), link.receiver("fast"), link.receiver("gone")
    for _ in range(6):
        clock.forward(0.5)
        sender.write({0: 10, 1: 5})
        sender.step()
        fast.take()
        gone.take()
    snapshot = LinkMonitor(link.path).snapshot(clock.now)
    assert {channel.receiver for channel in snapshot.channels} == {"fast", "gone"}
    remove_receiver(link.storage, "gone", force=True)
    clock.forward(0.5)
    sender.step()
    fast.take()
    rows = compare(spark, link, clock)
    assert {row.receiver for row in rows} == {"fast"}
    assert len(rows) == link.settings.channels


WINDOW = "window_s is {}: needs seconds, from 1 to 3600"
ODD_OPTIONS = {
    "window_s": [("nan", "window_s is 'nan': needs a number"), ("abc", "window_s is 'abc': needs"),
                 ("-5", WINDOW.format("-5")), ("0", WINDOW.format("0")),
                 ("inf", WINDOW.format("inf"))],
    "now": [("nan", "now is 'nan': needs a number"), ("0", "now is 0: needs Unix time")],
    "windows_s": [("5", "windows_s is not an option: there are link, window_s, now")],
    "storage_options": [("oops", "storage_options is 'oops': needs JSON"),
                        ("[1]", "storage_options is '[1]': needs JSON")],
}  # fmt: skip


def struct(columns: dict[str, str]) -> StructType:
    kinds = {
        kind().simpleString(): kind()
        for kind in (StringType, LongType, BooleanType, DoubleType, IntegerType)
    }
    return StructType([StructField(name, kinds[kind]) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [(key, value, text) for key, rows in ODD_OPTIONS.items() for value, text in rows],
)
def test_odd_options_of_the_figures_are_refused(key: str, value: str, text: str) -> None:
    source = FiguresSource({"path": "orders", key: value})
    with pytest.raises(LinkError) as refused:
        source.reader(struct(COLUMNS))
    assert str(refused.value).startswith(f"the figures of orders are refused: {text}")


def test_the_figures_have_their_own_columns() -> None:
    with pytest.raises(LinkError, match=r"leave out schema\(...\)"):
        FiguresSource({"path": "orders"}).reader(struct({"a": "int"}))


@pytest.mark.spark
def test_a_view_with_an_odd_window_is_refused_when_it_is_made(spark, link) -> None:
    with pytest.raises(LinkError, match="window_s is 0: needs seconds, from 1 to 3600"):
        create_view(spark, "odd_window", link.storage, window_s=0)
    assert not spark.catalog.tableExists("odd_window")
