"""Columns that change while a link is in use: none is lost, and who does not know one is told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flowcontrol.errors import LinkError
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.link.link import Link
from flowcontrol.link.schema import Columns, columns_of
from flowcontrol.link.settings import schema_json, schema_of
from flowcontrol.link.source import read_options


def wider(dry, *names: str) -> pa.Schema:
    return pa.schema([*dry.SCHEMA, *((name, pa.int64()) for name in names)])


def names_of(link: Link) -> list[str]:
    return schema_of(Link(str(link.storage)).settings.schema).fieldNames()


def rows_with(dry, first: int, *names: str, source: str = "a") -> pa.Table:
    rows = dry.source_rows(source, first, [0, 1])
    for name in names:
        rows = rows.append_column(name, pa.array([first, first + 1], pa.int64()))
    return rows


# ---------------------------------------------------------------------- two at once


def test_of_two_that_add_columns_at_once_neither_loses_its_own(tmp_path, dry, monkeypatch):
    """The second comes between the first one's look and its write."""
    link = Link(tmp_path / "link", schema=dry.SCHEMA)
    before, come = Writer.commit, []

    def other() -> None:
        if not come:
            come.append(True)
            Link(str(link.storage), schema=wider(dry, "tax"), evolve_schema=True)

    def commit(*arguments: object) -> bool:
        other()
        return before(*arguments)

    monkeypatch.setattr(Writer, "commit", commit)
    mine = Link(str(link.storage), schema=wider(dry, "price"), evolve_schema=True)
    assert come
    expected = [*dry.SCHEMA.names, "tax", "price"]
    assert names_of(link) == expected == schema_of(mine.settings.schema).fieldNames()


def test_of_two_that_add_a_column_with_other_types_one_is_refused(tmp_path, dry):
    link = Link(tmp_path / "link", schema=dry.SCHEMA)
    Link(str(link.storage), schema=wider(dry, "price"), evolve_schema=True)
    text = pa.schema([*dry.SCHEMA, ("price", pa.string())])
    with pytest.raises(LinkError, match=r"price long.* there, .*price string.* here"):
        Link(str(link.storage), schema=text, evolve_schema=True)
    assert names_of(link) == [*dry.SCHEMA.names, "price"]


def test_of_two_that_bring_the_first_columns_the_second_is_refused(tmp_path, dry):
    """The first one's are those that all rows have."""
    for name in ("price", "tax"):
        link = Link(tmp_path / "link", channels=2, evolve_schema=True)
        schema = schema_of(schema_json(wider(dry, name)))
        if name == "price":
            link.note_schema(schema)
            continue
        with pytest.raises(LinkError, match=r"carries other columns: .*price long"):
            link.note_schema(schema)
    assert names_of(link) == [*dry.SCHEMA.names, "price"]


# ---------------------------------------------------------------------- senders


def test_a_sender_with_fewer_columns_goes_on_and_its_rows_lack_them(make, dry, verify):
    """With or without evolve_schema; its rows are of the version that has their columns."""
    pipeline = make()
    old = pipeline.sender("a", [rows_with(dry, 0)])
    old.open()
    pipeline.link = Link(
        str(pipeline.storage), schema=wider(dry, "price", "tax"), evolve_schema=True
    )
    new = pipeline.sender("b", [rows_with(dry, 0, "price", "tax", source="b")])
    receiver = pipeline.receiver()
    pipeline.drain()
    old.kill()
    for evolve in (False, True):
        own = Link(str(pipeline.storage), schema=dry.SCHEMA, evolve_schema=evolve)
        assert own.settings.schema == pipeline.settings.schema
    old.batches.append(rows_with(dry, 2))
    new.batches.append(rows_with(dry, 2, "price", "tax", source="b"))
    pipeline.drain()
    found = {(row["source"], row["number"]): row["tax"] for row in receiver.rows.to_pylist()}
    assert found == {("a", n): None for n in range(4)} | {("b", n): n for n in range(4)}
    versions = {file.schema for file in old.sender.files.log.files.values() if file.sender == 0}
    assert versions == {0}


# ---------------------------------------------------------------------- receivers


@pytest.fixture
def grown(make, dry):
    """A link with a receiver that has read, and a batch with a column that it does not know."""
    pipeline = make()
    query = pipeline.sender("a", [rows_with(dry, 0)])
    receiver = pipeline.receiver()
    pipeline.drain()
    query.kill()
    pipeline.link = Link(str(pipeline.storage), schema=wider(dry, "price"), evolve_schema=True)
    query.batches.append(rows_with(dry, 2, "price"))
    for _ in range(10):
        query.advance()
    return pipeline, receiver


def test_a_receiver_stops_at_a_column_that_it_does_not_know(grown, dry, verify):
    """Started again it has the column, with the same checkpoint."""
    pipeline, receiver = grown
    with pytest.raises(
        LinkError, match=r"columns that receiver 'main' does not know: price long\. They were added"
    ):
        receiver.advance()
    assert receiver.rows.num_rows == 2
    receiver.sink = {
        n: table.append_column("price", pa.nulls(len(table), pa.int64()))
        for n, table in receiver.sink.items()
    }
    pipeline.drain()
    assert sorted(receiver.rows.column("price").to_pylist(), key=str) == [2, 3, None, None]
    verify.check_pipeline(pipeline)


def test_a_receiver_may_go_on_without_new_columns(make, dry, verify):
    pipeline = make()
    query = pipeline.sender("a", [rows_with(dry, 0)])
    receiver = pipeline.receiver(new_columns="ignore")
    pipeline.drain()
    pipeline.link = Link(str(pipeline.storage), schema=wider(dry, "price"), evolve_schema=True)
    query.kill()
    query.batches.append(rows_with(dry, 2, "price"))
    pipeline.drain()
    assert receiver.rows.column_names == dry.SCHEMA.names
    verify.check_pipeline(pipeline)


def test_what_to_do_with_new_columns_is_one_of_two():
    assert not read_options({"path": "/l"}).ignores_new_columns
    assert read_options({"path": "/l", "new_columns": "Ignore"}).ignores_new_columns
    with pytest.raises(LinkError, match="new_columns is 'drop': needs refuse or ignore"):
        read_options({"path": "/l", "new_columns": "drop"})


# ---------------------------------------------------------------------- versions


def test_a_version_is_the_first_that_has_all_columns(tmp_path, dry):
    link = Link(tmp_path / "link", schema=dry.SCHEMA)
    for names in (("tax",), ("price",)):
        Link(str(link.storage), schema=wider(dry, *names), evolve_schema=True)
    view = LinkLedgerView(link.storage.child("ledger"))
    view.refresh()
    columns = columns_of(link.settings.schema, view)
    base = dry.SCHEMA.names
    assert columns.names(2) == [*base, "tax", "price"]
    assert [columns.version_with([*base, *more]) for more in ([], ["tax"], ["price"])] == [0, 1, 2]
    assert Columns().version_with(["any"]) == 0
