"""A sink's options, and the columns that it takes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link import writer as writer_module
from flowcontrol.link.key_hash import channels_of
from flowcontrol.link.link import Link
from flowcontrol.link.members import senders_of
from flowcontrol.link.writer import prepare, read_sink_options
from modules import load

sinks = load("tests/link/sinks.py")
Query, arrived, state_of = sinks.Query, sinks.arrived, sinks.state_of
pipeline, query, rows_of = sinks.pipeline, sinks.query, sinks.rows_of


def test_options_are_texts(tmp_path):
    found = read_sink_options(
        {"path": str(tmp_path), "queryName": "q", "checkpointLocation": "/c", "key": '["a,b", "c"]',
         "channels": "4", "buffer_bytes": "1 MiB", "align_s": "none", "Target_Batch_S": "2.5",
         "RESET": "True", "maxfiles": "1"}
    )  # fmt: skip
    assert (found.name, found.checkpoint, found.reset, found.wait_s) == (
        "q",
        "/c",
        True,
        float("inf"),
    )
    assert found.given == {
        "key": ["a,b", "c"], "channels": 4, "buffer_bytes": "1 MiB", "align_s": None,
        "target_batch_s": 2.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"a sender's name is missing: \.option\('name'"),
        ({"name": "a b"}, "the sender is called 'a b'"),
        ({"name": "a"}, "the query's checkpoint is not known"),
        ({"name": "a", "wait_s": "-1"}, "wait_s is -1: needs seconds"),
        ({"name": "a", "wait_s": "soon"}, "wait_s is 'soon': needs a number"),
        ({"name": "a", "reset": "yes"}, "reset is 'yes': needs true or false"),
        ({"name": "a", "chanels": "4"}, r"chanels is not an option: did you mean channels\?"),
        ({"name": "a", "storage_options": "[]"}, "storage_options is .*: needs JSON"),
    ],
)
def test_options_that_are_wrong_are_named(tmp_path, options, said):
    with pytest.raises(LinkError, match=f"the sink of {tmp_path} is refused: .*{said}"):
        read_sink_options({"path": str(tmp_path), **options})


def test_a_sink_without_a_path_is_refused():
    with pytest.raises(LinkError, match="a link's path is missing"):
        read_sink_options({"name": "a", "checkpointLocation": "/c"})


def test_a_folder_that_is_no_checkpoint_is_refused(pipeline, query, rows_of, tmp_path):
    query.options["checkpointLocation"] = str(tmp_path / "other")
    with pytest.raises(LinkError, match=f"finds no file metadata in {tmp_path}/other"):
        query.write(rows_of(0))


def test_a_sink_makes_its_link_and_routes_by_its_key(pipeline, tmp_path, rows_of):
    path = tmp_path / "made"
    query = Query(pipeline, tmp_path / "c", path=path, key="text,number", channels=5)
    query.run(rows_of(0))
    settings = Link(path).settings
    assert (settings.key, settings.channels) == (("text", "number"), 5)
    rows = rows_of(0)
    wanted = channels_of([rows.column("text"), rows.column("number")], 5).tolist()
    ledger = LinkLedger(Link(path).storage.child("ledger"), "sender/a")
    ledger.close()
    assert senders_of(ledger)[0].records == [wanted.count(channel) for channel in range(5)]


def test_other_columns_and_keys_that_cannot_be_hashed_are_refused(pipeline, query, tmp_path):
    query.parts = 1
    with pytest.raises(LinkError, match="carries other columns"):
        query.write(pa.table({"another": [1]}))
    maps = pa.table({"m": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64()))})
    keyed = Query(pipeline, tmp_path / "d", path=tmp_path / "keyed", key="m")
    with pytest.raises(LinkError, match=r"key 'm' is of the type map<.*Spark does not hash maps"):
        keyed.write(maps)


def test_columns_are_added_if_the_sink_may(pipeline, query, rows_of):
    query.run(rows_of(0))
    more = rows_of(20).append_column("more", pa.array(range(20)))
    with pytest.raises(LinkError, match="carries other columns"):
        query.write(more)
    query.options["evolve_schema"] = "true"
    query.run(more)
    receiver = pipeline.receiver()
    while receiver.advance():
        pass
    assert sorted(receiver.rows.column("number").to_pylist()) == list(range(40))


def test_nothing_is_opened_twice_for_a_batch_that_can_be_written(query, rows_of, monkeypatch):
    """The usual batch reads the ledger before its tasks, and no more."""
    query.run(rows_of(0))

    def refuse(*_: Any) -> Any:
        raise AssertionError("opened")

    monkeypatch.setattr(writer_module, "_opened", refuse)
    query.run(rows_of(20), rows_of(40))
    ticket = prepare(read_sink_options(query.options), from_arrow_schema(rows_of(0).schema))
    assert ticket.epoch == 1
