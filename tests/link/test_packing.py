"""Rows into files and back: every type that Spark sends, the order of a channel, exact pieces."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.packing import CHANNEL, PIECES, PackRows, packed_rows, row_bytes
from flowcontrol.link.sealed_files import FileRows, LinkPartition, read_rows

_EXACT = Context(prec=60)

EVERY_TYPE = T.StructType(
    [
        T.StructField("boolean", T.BooleanType()),
        T.StructField("byte", T.ByteType()),
        T.StructField("short", T.ShortType()),
        T.StructField("int", T.IntegerType()),
        T.StructField("long", T.LongType()),
        T.StructField("float", T.FloatType()),
        T.StructField("double", T.DoubleType()),
        T.StructField("decimal", T.DecimalType(20, 4)),
        T.StructField("wide_decimal", T.DecimalType(38, 18)),
        T.StructField("text", T.StringType()),
        T.StructField("binary", T.BinaryType()),
        T.StructField("date", T.DateType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("timestamp_ntz", T.TimestampNTZType()),
        T.StructField("list", T.ArrayType(T.LongType())),
        T.StructField("list_of_lists", T.ArrayType(T.ArrayType(T.StringType()))),
        T.StructField(
            "struct",
            T.StructType([
                T.StructField("a", T.IntegerType()),
                T.StructField("b", T.StructType([T.StructField("c", T.StringType())])),
            ]),
        ),
        T.StructField("map", T.MapType(T.StringType(), T.DecimalType(10, 2))),
        T.StructField("map_of_structs", T.MapType(T.LongType(), T.StructType([
            T.StructField("when", T.TimestampType()), T.StructField("what", T.BinaryType()),
        ]))),
        T.StructField("list_of_maps", T.ArrayType(T.MapType(T.DateType(), T.BooleanType()))),
    ]
)  # fmt: skip


def pack(storage, table, channels, buffer_bytes=1 << 20, sender=0):
    """Write rows as a task does; return the file and what is said of it."""
    work = PackRows(storage, sender, buffer_bytes)
    report = work.write(table.append_column(CHANNEL, pa.array(channels, pa.int32())))
    return packed_rows([json.dumps({"task": 0, "number": 0, **report})])[0]


def part_of(file, *ranges):
    """Return a task that reads ranges of a file: first row, and how many."""
    extents = [FileRows(file.path, first, rows, file.nbytes, file.footer) for first, rows in ranges]
    return LinkPartition(0, sum(rows for _, rows in ranges), extents)


def read(storage, file, schema):
    """Return all rows of a file."""
    partition = part_of(file, (0, file.rows))
    return pa.Table.from_batches(read_rows(storage, partition, schema), schema=schema)


# ---------------------------------------------------------------------- types


def values_of(kind: pa.DataType) -> st.SearchStrategy:
    """Values of an Arrow type, null among them."""
    if pa.types.is_struct(kind):
        fields = {field.name: values_of(field.type) for field in kind}
        return st.none() | st.fixed_dictionaries(fields)
    if pa.types.is_map(kind):
        pairs = st.dictionaries(_plain(kind.key_type), values_of(kind.item_type), max_size=2)
        return st.none() | pairs.map(lambda found: list(found.items()))
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=2)
    return st.none() | _plain(kind)


def _plain(kind: pa.DataType) -> st.SearchStrategy:
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-kind.scale, _EXACT))
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return st.integers(-most, most - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False)
    if pa.types.is_timestamp(kind):
        times = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
        return times if kind.tz is None else times.map(lambda t: t.replace(tzinfo=dt.UTC))
    return {
        "bool": st.booleans(),
        "string": st.text(max_size=8),
        "binary": st.binary(max_size=8),
        "date32[day]": st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    }[str(kind)]


@given(
    fields=st.lists(st.sampled_from(EVERY_TYPE.fields), min_size=1, max_size=3, unique_by=id),
    count=st.integers(1, 6),
    data=st.data(),
)
def test_every_type_that_spark_sends_comes_back(tmp_path_factory, fields, count, data):
    """Sent in the session's time zone, read in UTC: the same moments."""
    columns_of = T.StructType(fields)
    sent = to_arrow_schema(columns_of, timezone="Europe/Berlin")
    columns = [
        pa.array(data.draw(st.lists(values_of(field.type), min_size=count, max_size=count)),
                 field.type)
        for field in sent
    ]  # fmt: skip
    table = pa.table(columns, schema=sent)
    channels = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    storage = Storage(tmp_path_factory.mktemp("log"))
    file = pack(storage, table, channels, buffer_bytes=data.draw(st.sampled_from([1024, 1 << 20])))
    schema = to_arrow_schema(columns_of, timezone="UTC")
    order = np.argsort(channels, kind="stable")
    assert read(storage, file, schema).equals(table.take(order).cast(schema))


def test_every_type_has_a_place_in_the_log(make):
    """The tables take them all, and Spark gets the columns back that it gave."""
    from flowcontrol.link.folder import make_tables
    from flowcontrol.link.settings import schema_of

    pipeline = make(schema=EVERY_TYPE)
    make_tables(pipeline.storage, pipeline.settings)
    assert schema_of(pipeline.settings.schema) == EVERY_TYPE
    assert from_arrow_schema(to_arrow_schema(EVERY_TYPE, timezone="UTC")) == EVERY_TYPE


def test_a_column_of_nulls_comes_back(tmp_path):
    schema = to_arrow_schema(EVERY_TYPE, timezone="UTC")
    table = pa.table([pa.nulls(5, field.type) for field in schema], schema=schema)
    storage = Storage(tmp_path)
    assert read(storage, pack(storage, table, [1, 0, 1, 0, 1]), schema).equals(table)


# ---------------------------------------------------------------------- order and pieces

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3000)), min_size=1, max_size=80)


@given(rows=ROWS, buffer_bytes=st.sampled_from([1024, 2000, 4096, 1 << 18, 1 << 20]))
def test_pieces_cover_the_rows_of_each_channel_in_order(tmp_path_factory, rows, buffer_bytes):
    storage = Storage(tmp_path_factory.mktemp("log"))
    table = pa.table({"number": list(range(len(rows))), "text": ["x" * size for _, size in rows]})
    file = pack(storage, table, [channel for channel, _ in rows], buffer_bytes)
    found = read(storage, file, table.schema).column("number").to_pylist()
    groups = pq.ParquetFile(f"{storage}/{file.path}").metadata
    assert [channel for channel, _ in file.channels] == sorted({channel for channel, _ in rows})
    sizes, at, pieces = row_bytes(table).tolist(), 0, 0
    limit = PackRows(storage, 0, buffer_bytes).piece_bytes
    assert limit <= buffer_bytes
    for channel, own in file.channels:
        numbers = [n for n, (other, _) in enumerate(rows) if other == channel]
        count = sum(rows_in for rows_in, _ in own)
        assert found[at : at + count] == numbers
        for number, (rows_in, nbytes) in enumerate(own):
            if number + 1 < len(own):  # cut only where it must be
                assert nbytes + sizes[found[at + rows_in]] > limit
            mine = [sizes[n] for n in found[at : at + rows_in]]
            assert nbytes == sum(mine)
            assert nbytes <= limit or rows_in == 1
            assert groups.row_group(pieces).num_rows == rows_in  # read without its neighbours
            at, pieces = at + rows_in, pieces + 1
    assert (at, pieces) == (file.rows, groups.num_row_groups)
    assert file.nbytes == storage.size(file.path)


@pytest.mark.parametrize(
    ("buffer_bytes", "piece"),
    [(1024, 1024), (64 << 10, 64 << 10), ((64 << 10) + 1, 64 << 10), (256 << 10, 64 << 10),
     (4 << 20, 1 << 20)],
)  # fmt: skip
def test_a_piece_is_a_quarter_of_a_message_or_worth_a_row_group(tmp_path, buffer_bytes, piece):
    assert PackRows(Storage(tmp_path), 0, buffer_bytes).piece_bytes == piece
    assert piece * PIECES >= buffer_bytes or piece == 64 << 10 or piece == buffer_bytes


def test_a_piece_is_as_full_as_its_rows_allow(tmp_path):
    storage = Storage(tmp_path)
    table = pa.table({"text": ["x" * 95] * 33})  # 100 bytes each: 4 of offset, 1 at least
    file = pack(storage, table, [0] * 33, 1024)
    assert row_bytes(table).tolist() == [100] * 33
    assert file.channels == [(0, [(10, 1000), (10, 1000), (10, 1000), (3, 300)])]


def test_rows_that_are_larger_than_a_message_stand_alone(tmp_path):
    storage = Storage(tmp_path)
    table = pa.table({"text": ["x" * size for size in (5000, 95, 95, 1019, 1020)]})
    file = pack(storage, table, [3] * 5, 1024)
    assert file.channels == [(3, [(1, 5005), (2, 200), (1, 1024), (1, 1025)])]


# ---------------------------------------------------------------------- a task


def test_a_task_writes_a_file_when_it_holds_enough(tmp_path):
    storage = Storage(tmp_path)
    work = PackRows(storage, 4, 1024, hold_bytes=3000)
    batch = pa.record_batch({"text": ["x" * 95] * 10, CHANNEL: pa.array([0, 1] * 5, pa.int32())})
    empty = batch.slice(0, 0)
    reports = [r.column(0)[0].as_py() for r in work(iter([empty, *[batch] * 7, empty]))]
    files = packed_rows(reversed(reports))
    assert [file.rows for file in files] == [30, 30, 10]
    assert all(file.path.startswith("link_sender=4/") for file in files)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.parquet")) == sorted(
        file.path for file in files
    )


@given(rows=st.integers(1, 40), channels=st.integers(1, 9))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_without_a_key_are_spread_evenly_and_stay_in_order(tmp_path, rows, channels):
    storage, table = Storage(tmp_path), pa.table({"n": range(rows)})
    work = PackRows(storage, 0, 1024, channels=channels)
    file = packed_rows([json.dumps({"task": 0, "number": 0, **work.write(table)})])[0]
    counts = [sum(count for count, _ in pieces) for _, pieces in file.channels]
    assert sum(counts) == rows
    assert max(counts) - min(counts) <= 1
    assert len(counts) == min(rows, channels)
    numbers = [channel for channel, _ in file.channels]
    assert numbers == sorted(set(numbers))
    assert max(numbers) < channels
    schema = T.StructType([T.StructField("n", T.LongType())])
    assert read(storage, file, to_arrow_schema(schema)).column("n").to_pylist() == list(range(rows))


def test_a_task_without_rows_writes_nothing(tmp_path):
    work = PackRows(Storage(tmp_path), 0, 1024)
    empty = pa.record_batch({"text": pa.array([], pa.string()), CHANNEL: pa.array([], pa.int32())})
    assert list(work(iter([empty]))) == list(work(iter([]))) == []
    assert list(tmp_path.rglob("*.parquet")) == []


def test_files_are_in_the_order_of_tasks_however_they_come_back():
    reports = [
        json.dumps({"task": task, "number": n, "path": f"{task}/{n}", "bytes": 1, "rows": 1,
                    "channels": [], "footer": [0, 0], "latest": []})
        for task, n in [(10, 0), (2, 1), (2, 0), (0, 10), (0, 9)]
    ]  # fmt: skip
    assert [file.path for file in packed_rows(reports)] == ["0/9", "0/10", "2/0", "2/1", "10/0"]


# ---------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("column", "sizes"),
    [
        (pa.array([1, None, 3], pa.int64()), [8, 8, 8]),
        (pa.array([1, 2, 3], pa.int8()), [1, 1, 1]),
        (pa.array([True, None, False]), [1, 1, 1]),
        (pa.array([Decimal(1)] * 3, pa.decimal128(10, 2)), [16, 16, 16]),
        (pa.array([0, 1, None], pa.date32()), [4, 4, 4]),
        (pa.array([0, 1, None], pa.timestamp("us", "UTC")), [8, 8, 8]),
        (pa.array(["", "abc", None]), [5, 8, 5]),
        (pa.array([b"", b"abc", None], pa.binary()), [5, 8, 5]),
        (pa.array(["", "äb", "abcd"], pa.large_string()), [5, 8, 9]),
    ],
)
def test_the_size_of_a_row_of_one_column(column, sizes):
    assert row_bytes(pa.table({"a": column})).tolist() == sizes


def test_the_size_of_a_row_is_the_sum_of_its_columns():
    table = pa.table({"a": [1, 2], "b": pa.array([1, 2], pa.int32()), "c": ["x", "yyy"]})
    assert row_bytes(table).tolist() == [8 + 4 + 5, 8 + 4 + 7]


def test_nested_columns_are_shared_out_evenly():
    column = pa.array([[1, 2, 3], [], None, [4]], pa.list_(pa.int64()))
    table = pa.table({"a": column})
    assert row_bytes(table).tolist() == [round(table.nbytes / 4)] * 4


@given(texts=st.lists(st.none() | st.text(max_size=50), min_size=1, max_size=50))
def test_sizes_add_up_to_about_what_arrow_takes(texts):
    table = pa.table({"n": list(range(len(texts))), "text": pa.array(texts, pa.string())})
    total = int(row_bytes(table).sum())
    # Arrow has one more offset, and a bit a row for null.
    assert table.nbytes - 4 - len(texts) / 8 - 1 <= total <= table.nbytes


def test_what_does_not_shrink_is_not_compressed(tmp_path):
    random, count = np.random.default_rng(1), 4000
    table = pa.table(
        {
            "id": range(count),
            "noise": [random.bytes(64) for _ in range(count)],
            "text": ["the same again " * 5] * count,
            "short": ["x"] * count,
            "none": pa.nulls(count, pa.string()),
            "a.b": [random.bytes(64) for _ in range(count)],
        }
    )
    storage = Storage(tmp_path)
    file = pack(storage, table, [row % 300 for row in range(count)])
    group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
    found = {
        group.column(place).path_in_schema: group.column(place).compression
        for place in range(group.num_columns)
    }
    plain = {name for name, codec in found.items() if codec == "UNCOMPRESSED"}
    assert plain == {"noise", "a.b"}


def test_rows_in_several_chunks_have_the_same_sizes_and_files(tmp_path):
    whole = pa.table({"n": list(range(40)), "text": ["x" * n for n in range(40)]})
    parts = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 0), whole.slice(7)])
    assert row_bytes(parts).tolist() == row_bytes(whole).tolist()
    channels = [n % 3 for n in range(40)]
    files = [pack(Storage(tmp_path), table, channels) for table in (whole, parts)]
    assert files[0].channels == files[1].channels


# ---------------------------------------------------------------------- reading ranges


@given(rows=ROWS, data=st.data())
@settings(max_examples=max(1, settings.default.max_examples // 3))
def test_any_range_of_rows_is_read(tmp_path_factory, rows, data):
    storage = Storage(tmp_path_factory.mktemp("log"))
    table = pa.table({"number": list(range(len(rows)))})
    file = pack(storage, table, [0] * len(rows), 1024)
    ranges = data.draw(
        st.lists(
            st.tuples(st.integers(0, len(rows) - 1), st.integers(1, len(rows))).map(
                lambda pair: (pair[0], min(pair[1], len(rows) - pair[0]))
            ),
            min_size=1,
            max_size=5,
        )
    )
    partition = part_of(file, *ranges)
    found = pa.Table.from_batches(read_rows(storage, partition, table.schema))
    expected = [n for first, count in ranges for n in range(first, first + count)]
    assert found.column("number").to_pylist() == expected


def test_large_reads_come_in_several_batches(tmp_path, monkeypatch):
    from flowcontrol.link import sealed_files as extents

    monkeypatch.setattr(extents, "YIELD_BYTES", 500)
    storage, table = Storage(tmp_path), pa.table({"text": ["x" * 95] * 40})
    file = pack(storage, table, [0] * 40, 1024)
    partition = part_of(file, (0, 40))
    batches = list(read_rows(storage, partition, table.schema))
    assert [batch.num_rows for batch in batches] == [10, 10, 10, 10]


def test_a_task_whose_files_are_not_what_the_offsets_say_reads_nothing(tmp_path):
    storage, table = Storage(tmp_path), pa.table({"text": ["x" * 95] * 40})
    part = part_of(pack(storage, table, [0] * 40), (0, 40))
    part.rows = 41
    with pytest.raises(LinkError, match="say 41 rows for its task 0, the log lists 40"):
        next(read_rows(storage, part, table.schema))


def test_a_column_that_cannot_become_what_it_should_be_says_so(tmp_path):
    storage, table = Storage(tmp_path), pa.table({"text": ["x"]})
    file = pack(storage, table, [0])
    with pytest.raises(LinkError, match=rf"{file.path} cannot be read: Failed to parse string"):
        read(storage, file, pa.schema([("text", pa.int64())]))


# ---------------------------------------------------------------------- event time


@pytest.mark.parametrize("is_keyed", [True, False])
def test_every_piece_has_the_latest_time_of_its_rows(tmp_path, is_keyed):
    random, count = np.random.default_rng(1), 500
    times = [None if n % 7 == 0 else int(t) for n, t in enumerate(random.integers(-99, 99, count))]
    table = pa.table({"n": range(count), "at": pa.array(times, pa.timestamp("ms", "UTC"))})
    work = PackRows(Storage(tmp_path), 0, 1024, channels=None if is_keyed else 3)
    work.event_time_column = "at"
    if is_keyed:
        table = table.append_column(CHANNEL, pa.array(random.integers(0, 3, count), pa.int32()))
    report = {"task": 0, "number": 0, **work.write(table)}
    file = packed_rows([json.dumps(report)])[0]
    written = pq.ParquetFile(tmp_path / file.path).read(["at"]).column("at").cast(pa.int64())
    row, wanted = 0, list[int | None]()
    for _, pieces in file.channels:
        for rows, _ in pieces:
            known = [one for one in written[row : row + rows].to_pylist() if one is not None]
            wanted.append(max(known, default=None))
            row += rows
    assert list(file.latest) == wanted
    assert len(wanted) > 6
    work.event_time_column = None
    assert work.write(table)["latest"] == []
