"""What a link is: settings and columns that are refused, said twice, changed, read back."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.folder import make_tables
from flowcontrol.link.link import Link, open_link
from flowcontrol.link.settings import DEFAULTS, LinkSettings, read_settings, schema_json, schema_of

ROWS = T.StructType([T.StructField("id", T.LongType()), T.StructField("text", T.StringType())])
MORE = T.StructType([*ROWS.fields, T.StructField("price", T.DecimalType(10, 2))])
OTHER = T.StructType([T.StructField("id", T.StringType()), T.StructField("text", T.StringType())])

# ---------------------------------------------------------------------- refusals

WHOLE = "needs a whole number from "
MEMORY = "is not a size of memory: write a whole number and a unit"
NAMES = "needs the name of a column, or a list of some"
SECONDS = "needs seconds, from 0.05 to 3600"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("channels", 0, f"channels is 0: {WHOLE}1 to 1024"),
        ("channels", 1025, f"channels is 1025: {WHOLE}1 to 1024"),
        ("channels", -1, "channels is -1: "),
        ("channels", 2.5, "channels is 2.5: "),
        ("channels", True, "channels is True: "),
        ("channels", "8", "channels is '8': "),
        ("exclusive_buffers", 0, f"exclusive_buffers is 0: {WHOLE}1 to 1048576"),
        ("exclusive_buffers", (1 << 20) + 1, "exclusive_buffers is 1048577: "),
        ("floating_buffers", -1, f"floating_buffers is -1: {WHOLE}0 to 1048576"),
        ("floating_buffers", (1 << 20) + 1, "floating_buffers is 1048577: "),
        ("buffer_bytes", 1023, f"buffer_bytes is 1023: {WHOLE}1024 to 1073741824"),
        ("buffer_bytes", "2 GiB", f"buffer_bytes is 2147483648: {WHOLE}1024 to 1073741824"),
        ("buffer_bytes", "4 MX", "buffer_bytes: '4 MX' has the unknown unit 'mx': write"),
        ("buffer_bytes", float("nan"), f"buffer_bytes: nan {MEMORY}"),
        ("detach_after_bytes", 0, f"detach_after_bytes is 0: {WHOLE}1 to "),
        ("detach_after_bytes", "much", f"detach_after_bytes: 'much' {MEMORY}"),
        ("spill_bytes", -1, "spill_bytes: -1 "),
        ("spill_bytes", "-1kb", f"spill_bytes: '-1kb' {MEMORY}"),
        ("target_batch_s", 0, f"target_batch_s is 0: {SECONDS}"),
        ("target_batch_s", 0.049, f"target_batch_s is 0.049: {SECONDS}"),
        ("target_batch_s", 3600.1, f"target_batch_s is 3600.1: {SECONDS}"),
        ("target_batch_s", float("nan"), f"target_batch_s is nan: {SECONDS}"),
        ("target_batch_s", float("inf"), f"target_batch_s is inf: {SECONDS}"),
        ("target_batch_s", True, f"target_batch_s is True: {SECONDS}"),
        ("target_batch_s", "5", f"target_batch_s is '5': {SECONDS}"),
        ("watermark_delay_s", -1, "watermark_delay_s is -1: needs seconds, from 0 to 31622400"),
        ("watermark_delay_s", "5 seconds", "watermark_delay_s is '5 seconds': needs seconds"),
        ("idle_after_s", 0, "idle_after_s is 0: needs seconds, from 0.1 to 31622400"),
        ("align_s", -0.5, "align_s is -0.5: needs seconds, from 0 to 31622400"),
        ("align_s", float("nan"), "align_s is nan: needs seconds"),
        ("event_time_column", "", "event_time_column is '': needs the name of a column"),
        ("event_time_column", 3, "event_time_column is 3: needs the name of a column"),
        ("key", "", f"key is '': {NAMES}"),
        ("key", [], rf"key is \[\]: {NAMES}"),
        ("key", ["id", ""], rf"key is \['id', ''\]: {NAMES}"),
        ("key", ["id", "id"], rf"key is \['id', 'id'\]: {NAMES}"),
        ("key", 5, f"key is 5: {NAMES}"),
    ],
)
def test_a_bad_setting_is_refused_and_nothing_written(tmp_path, name, value, text):
    with pytest.raises(LinkError, match=rf"the link {tmp_path / 'link'} is refused: {text}"):
        Link(tmp_path / "link", schema=ROWS, **{name: value})
    assert not (tmp_path / "link").exists()


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("channels", 1, 1),
        ("channels", 1024, 1024),
        ("exclusive_buffers", 1, 1),
        ("floating_buffers", 0, 0),
        ("buffer_bytes", 1024, 1024),
        ("buffer_bytes", "1g", 1 << 30),
        ("buffer_bytes", "4 MiB", 4 << 20),
        ("buffer_bytes", "64kb", 64 << 10),
        ("detach_after_bytes", 1, 1),
        ("spill_bytes", 0, 0),
        ("spill_bytes", "1 GiB", 1 << 30),
        ("target_batch_s", 0.05, 0.05),
        ("target_batch_s", 3600, 3600),
        ("key", "id", ("id",)),
        ("key", ["id", "text"], ("id", "text")),
    ],
)
def test_a_setting_at_its_limit_is_kept(tmp_path, name, value, kept):
    link = Link(tmp_path / "link", schema=ROWS, **{name: value})
    assert getattr(link.settings, name) == kept
    assert read_settings(link.storage) == link.settings


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    with pytest.raises(LinkError, match=r"channels is 0.*; floating_buffers is -1.*; target_batch"):
        Link(tmp_path, channels=0, floating_buffers=-1, target_batch_s=0)


def one(kind: T.DataType, name: str = "a") -> T.StructType:
    return T.StructType([T.StructField("id", T.LongType()), T.StructField(name, kind)])


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (T.StructType([]), "they have no columns"),
        (one(T.LongType(), "ID"), "2 columns are called id, upper or lower case alike: rename"),
        (one(T.LongType(), "link_sender"), "called link_sender, which the link keeps for itself"),
        (one(T.LongType(), "_Link_Channel"), "called _link_channel, which the link keeps"),
        (one(T.NullType()), "column a has the type void, which its files do not keep: drop it, or"),
        (one(T.DayTimeIntervalType()), "column a has the type interval day to second"),
        (one(T.YearMonthIntervalType()), "column a has the type interval year to month"),
        (one(T.CalendarIntervalType()), "column a has the type interval"),
        (one(T.VariantType()), "column a has the type variant"),
        (one(T.StructType([])), "column a has the type struct<>"),
        (one(T.ArrayType(T.MapType(T.StringType(), T.NullType()))), "column a has the type void"),
    ],
)
def test_columns_that_files_do_not_keep_are_refused(tmp_path, schema, text):
    with pytest.raises(LinkError, match=f"the link {tmp_path / 'link'} cannot carry .*{text}"):
        Link(tmp_path / "link", schema=schema)
    assert not (tmp_path / "link").exists()


@pytest.mark.parametrize("name", ["sender", "_channel", "batch_id", "order id", "a,b;c{}", "größe"])
def test_a_column_may_have_almost_any_name(make, dry, verify, name):
    rows = pa.table({**dry.source_rows("a", 0, [0, 1, 0]).to_pydict(), name: [1, 2, 3]})
    pipeline = make(schema=rows.schema)
    pipeline.sender("a", [rows])
    receiver = pipeline.receiver()
    pipeline.drain()
    assert receiver.rows.sort_by("number").to_pylist() == rows.to_pylist()


def test_a_key_that_is_no_column_is_refused(tmp_path):
    with pytest.raises(LinkError, match="the key customer is not among the columns id, text"):
        Link(tmp_path / "link", key=["id", "customer"], schema=ROWS)
    assert not (tmp_path / "link").exists()
    link = Link(tmp_path / "link", key="customer")
    with pytest.raises(LinkError, match="the key customer is not among the columns id, text"):
        link.note_schema(ROWS)
    assert read_settings(link.storage).schema == ""


def test_a_schema_as_sql_writes_it_takes_a_session(tmp_path):
    """Spark's parser reads it, and it may not have been started."""
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        pytest.skip("another test has started Spark")
    with pytest.raises(LinkError, match=r"'id long' cannot be read: .* Start the Spark session"):
        Link(tmp_path / "link", schema="id long")


# ---------------------------------------------------------------------- said twice


def test_what_is_left_out_is_taken_from_the_link(tmp_path):
    made = Link(tmp_path, key="id", channels=4, buffer_bytes="64kb", schema=ROWS)
    again = Link(tmp_path)
    assert again.settings == made.settings
    assert Link(tmp_path, key=["id"], channels=4, schema=ROWS).settings == made.settings
    assert open_link(tmp_path).settings == made.settings
    assert pickle.loads(pickle.dumps(made)).settings == made.settings
    found = made.settings
    assert (found.exclusive_buffers, found.floating_buffers, found.spill_bytes) == (2, 8, 0)
    assert found.pool_size == 4 * 2 + 8
    assert {name: getattr(found, name) for name in DEFAULTS} == {
        **DEFAULTS, "key": ("id",), "channels": 4, "buffer_bytes": 65536,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"channels": 5}, "channels is 4 there, 5 here"),
        ({"key": "text"}, r"key is \('id',\) there, \('text',\) here"),
        ({"buffer_bytes": "1mb"}, "buffer_bytes is 65536 there, 1048576 here"),
        ({"target_batch_s": 2}, "target_batch_s is None there, 2 here"),
        ({"channels": 5, "spill_bytes": 9}, "channels is 4 there, 5 here; spill_bytes is 0 there"),
    ],
)
def test_other_settings_are_refused(tmp_path, other, text):
    made = Link(tmp_path, key="id", channels=4, buffer_bytes="64kb", schema=ROWS)
    with pytest.raises(
        LinkError,
        match=rf"the link {tmp_path} has other settings: {text}.*\. "
        "Leave them out to take the link's, or name another",
    ):
        Link(tmp_path, **other)
    assert read_settings(made.storage) == made.settings


def test_of_two_that_make_a_link_at_once_one_makes_it(tmp_path, monkeypatch):
    create, others = Storage.create, []

    def meanwhile(storage, name, content):
        monkeypatch.setattr(Storage, "create", create)
        others.append(Link(tmp_path, channels=3))
        return create(storage, name, content)

    monkeypatch.setattr(Storage, "create", meanwhile)
    link = Link(tmp_path, exclusive_buffers=2)
    assert link.settings == others[0].settings
    assert link.settings.channels == 3


def test_what_stands_there_counts_where_the_last_of_two_wins(tmp_path, monkeypatch):
    """An object store lets both believe that they have made it."""

    def both(storage, name, content):
        Path(str(storage)).mkdir(exist_ok=True)
        made = LinkSettings.from_json(content, "here")
        found = replace(made, link_id="another", channels=3)
        Path(str(storage), name).write_text(found.to_json())
        return True

    monkeypatch.setattr(Storage, "create", both)
    link = Link(tmp_path / "link", exclusive_buffers=2)
    assert (link.settings.link_id, link.settings.channels) == ("another", 3)
    with pytest.raises(LinkError, match="channels is 3 there, 5 here"):
        Link(tmp_path / "second", channels=5)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"format": 2}', "no json", '{"format": 2, "key": null, "channels": 8}'],
)
def test_a_file_that_no_link_wrote_is_refused(tmp_path, text):
    (tmp_path / "link.json").write_text(text)
    with pytest.raises(LinkError, match=rf"{tmp_path}/link.json is not a link's: "):
        Link(tmp_path)


def test_a_link_of_another_format_is_refused_by_name(tmp_path):
    """What an older version kept of messages that lie in several files was not enough."""
    (tmp_path / "link.json").write_text('{"format": 1, "key": null, "channels": 8}')
    with pytest.raises(LinkError, match="it has the format 1, this version reads 2 only: let rec"):
        Link(tmp_path)


def test_there_is_no_link_to_open(tmp_path):
    with pytest.raises(LinkError, match="there is no link here"):
        open_link(tmp_path)


def test_settings_come_back_from_their_text(tmp_path):
    made = Link(tmp_path, key=["id", "text"], schema=ROWS, target_batch_s=0.5).settings
    assert LinkSettings.from_json(made.to_json(), "here") == made
    assert json.loads(made.to_json())["format"] == 2


# ---------------------------------------------------------------------- columns that change


def test_other_columns_are_refused_and_both_are_named(tmp_path):
    link = Link(tmp_path, schema=ROWS)
    for schema in (MORE, OTHER):
        with pytest.raises(LinkError) as caught:
            link.note_schema(schema)
        assert "(id long, text string) there" in str(caught.value)
        assert "evolve_schema=True" in str(caught.value)
    assert "(id long, text string, price decimal(10,2)) here" not in str(caught.value)
    assert "(id string, text string) here" in str(caught.value)
    assert read_settings(link.storage).schema == schema_json(ROWS)


@pytest.mark.parametrize(
    "schema",
    [OTHER, T.StructType(ROWS.fields[:1]), one(T.LongType())],
    ids=["another type", "one less", "one for another"],
)
def test_evolution_drops_nothing_and_changes_no_type(tmp_path, schema):
    link = Link(tmp_path, schema=ROWS, evolve_schema=True)
    with pytest.raises(LinkError, match="a column cannot be dropped or change its type"):
        link.note_schema(schema)
    assert read_settings(link.storage).schema == schema_json(ROWS)


def test_evolution_adds_a_column_which_older_rows_have_as_null(make, dry, verify):
    pipeline = make()
    query = pipeline.sender("a", [dry.source_rows("a", 0, [0, 1] * 5)])
    receiver = pipeline.receiver()
    while query.done < 0:
        query.advance()
    wider = pa.schema([*dry.SCHEMA, ("price", pa.decimal128(10, 2))])
    new = dry.source_rows("a", 10, [0, 1]).append_column(
        "price", pa.array([1, 2], pa.decimal128(10, 2))
    )
    with pytest.raises(LinkError, match="carries other columns"):
        Link(str(pipeline.storage), schema=wider)
    pipeline.link = Link(str(pipeline.storage), schema=wider, evolve_schema=True)
    assert Link(str(pipeline.storage)).settings.schema == pipeline.settings.schema
    query.batches.append(new)
    pipeline.drain()
    prices = receiver.rows.sort_by("number").column("price").to_pylist()
    assert prices[:10] == [None] * 10
    assert [int(price) for price in prices[10:]] == [1, 2]
    verify.check_pipeline(pipeline)


def test_the_first_sender_brings_the_columns(tmp_path):
    link = Link(tmp_path)
    assert list(tmp_path.iterdir()) == []
    link.note_schema(ROWS)
    assert schema_of(read_settings(link.storage).schema) == ROWS
    make_tables(link.storage, link.settings)
    assert Path(tmp_path, "exchange", "_delta_log").exists()


def test_whether_a_column_may_be_null_makes_no_difference(tmp_path):
    """Files do not keep the mark."""
    strict = T.StructType([T.StructField(f.name, f.dataType, False) for f in ROWS])
    link = Link(tmp_path, schema=strict)
    link.note_schema(ROWS)
    arrow = pa.schema([("id", pa.int64()), ("text", pa.string())])
    assert schema_json(arrow) == schema_json(strict) == schema_json(ROWS)


def test_a_ledger_that_another_query_is_making_is_none_yet(tmp_path):
    """Its folder is there before its first commit; several receivers may start at one moment."""
    made = Link(tmp_path / "link", channels=2)
    log = tmp_path / "link" / "ledger" / "_delta_log"
    log.mkdir(parents=True)
    (log / "_commit_0.json.tmp").write_text("{}")
    assert read_settings(made.storage) == made.settings
    assert Link(tmp_path / "link").settings == made.settings


# ---------------------------------------------------------------------- event time

TIMED = T.StructType([*ROWS.fields, T.StructField("at", T.TimestampType())])
NO_COLUMN = "but there is no event_time_column: name the column with the event time of a row"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"align_s": 30}, f"align_s is 30, {NO_COLUMN}"),
        ({"align_s": 0}, f"align_s is 0, {NO_COLUMN}"),
        ({"watermark_delay_s": 1.5}, f"watermark_delay_s is 1.5, {NO_COLUMN}"),
        ({"idle_after_s": 5, "align_s": 1}, f"idle_after_s is 5, align_s is 1, {NO_COLUMN}"),
    ],
)
def test_what_goes_with_event_time_needs_it(tmp_path, given, text):
    with pytest.raises(LinkError, match=rf"the link {tmp_path} is refused: {text}"):
        Link(tmp_path, schema=TIMED, **given)
    assert list(tmp_path.iterdir()) == []
    link = Link(tmp_path, schema=TIMED)
    with pytest.raises(LinkError, match=text):
        link.alter(**given)
    assert read_settings(link.storage) == link.settings


def test_the_column_of_event_time_must_be_a_time_of_the_link(tmp_path):
    for column, text in (("when", "is not among the columns id, text, at"), ("text", "string: ")):
        with pytest.raises(LinkError, match=f"event_time_column '{column}' .*{text}"):
            Link(tmp_path, schema=TIMED, event_time_column=column)
    assert list(tmp_path.iterdir()) == []
    link = Link(tmp_path, event_time_column="at")  # its columns are not known yet
    with pytest.raises(LinkError, match="event_time_column 'at' is not among the columns id, text"):
        link.note_schema(ROWS)
    link.note_schema(TIMED)
    with pytest.raises(LinkError, match="event_time_column 'text' has the type string: needs a"):
        link.alter(event_time_column="text")
    assert link.alter(event_time_column="id", align_s=3).align_s == 3
    with pytest.raises(LinkError, match=f"align_s is 3, {NO_COLUMN}"):
        link.alter(event_time_column=None)
    assert link.alter(event_time_column=None, align_s=None).event_time_column is None


def test_a_link_without_event_time_can_be_read_by_versions_that_have_none(tmp_path):
    plain = Link(tmp_path / "plain", schema=ROWS).settings
    assert not {"event_time_column", "align_s"} & set(json.loads(plain.to_json()))
    timed = Link(tmp_path / "timed", schema=TIMED, event_time_column="at", align_s=5).settings
    for made in (plain, timed):
        assert LinkSettings.from_json(made.to_json(), "here") == made
    assert (timed.watermark_delay_s, timed.idle_after_s, timed.align_s) == (0.0, 60.0, 5)
