"""What executors do with rows: make, replay, pack by channel, and read back. No JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import RunError
from flowcontrol.ledger.exchange import Span
from flowcontrol.live.file_orders import joined as together
from flowcontrol.live.rows import (
    RESULT,
    ROUND,
    SUBTASK,
    EdgeOrder,
    SubtaskOrder,
    TakePartition,
    joined,
    rows_of,
    work_of,
)

COLUMNS = ["source", "source_subtask", "number", ROUND, SUBTASK]
SUBTASK_NUMBER = 2


def taken(count: int, first: int = 0, rounds: list[int] | None = None) -> list[pa.RecordBatch]:
    """Rows as a subtask takes them up, in two batches."""
    partition = TakePartition(SUBTASK_NUMBER, [], ("source", first, count), [(7, count)])
    [batch] = rows_of(partition, COLUMNS)
    if rounds is not None:
        place = batch.schema.get_field_index(ROUND)
        batch = batch.set_column(place, ROUND, pa.array(rounds, pa.int64()))
    return [batch.slice(0, count // 3), batch.slice(count // 3)]


def edge(root: Path, routes: list[int], parents: list[int], **more: Any) -> EdgeOrder:
    options: dict[str, Any] = {
        "folder": "batch_id=4/sender=2",
        "receivers": (5, 6, 9),
        "first": (100, 200, 300),
        "group_rows": 4,
        **more,
    }
    return EdgeOrder(
        root=str(root),
        routes=np.array(routes, np.int64),
        parents=np.array(parents, np.int64),
        **options,
    )


def work(rows: list[pa.RecordBatch], *edges: EdgeOrder) -> dict[str, Any]:
    count = sum(batch.num_rows for batch in rows)
    [result] = work_of(SubtaskOrder(count, edges), iter(rows))
    [text] = result.column(RESULT).to_pylist()
    report: dict[str, Any] = json.loads(text)
    return report


def read_back(root: Path, file: dict[str, Any], receiver: int) -> list[int]:
    """Numbers of the rows that a receiver reads of a file, by its index."""
    [(_, _, row, count)] = [entry for entry in file["index"] if entry[0] == receiver]
    partition = TakePartition(receiver, [Span(str(root / file["path"]), row, count)])
    batches = list(rows_of(partition, COLUMNS))
    assert all(set(batch.column(SUBTASK).to_pylist()) == {receiver} for batch in batches)
    return [number for batch in batches for number in batch.column("number").to_pylist()]


# ---------------------------------------------------------------------- taking up


def test_made_rows_are_numbered() -> None:
    partition = TakePartition(1, [], ("clicks", 10, 3), [(4, 3)])
    [batch] = rows_of(partition, COLUMNS)
    assert batch.schema.names == COLUMNS
    assert batch.to_pylist() == [
        {"source": "clicks", "source_subtask": 1, "number": n, ROUND: 4, SUBTASK: 1}
        for n in (10, 11, 12)
    ]


def test_replayed_rows_carry_their_round(tmp_path: Path) -> None:
    table = pa.table({"name": [f"row {i}" for i in range(20)], "value": range(20)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=6)
    span = Span(str(tmp_path / "rows.parquet"), 4, 10)
    partition = TakePartition(3, [span], ("flights", 4, 10), [(8, 10)])
    batches = list(rows_of(partition, ["name", "value", ROUND, SUBTASK]))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"name": f"row {i}", "value": i, ROUND: 8, SUBTASK: 3} for i in range(4, 14)]


def test_only_the_row_groups_of_a_span_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    real = pq.ParquetFile.read_row_group

    def noted(self: Any, group: int, **options: Any) -> Any:
        groups.append(group)
        return real(self, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    pq.write_table(pa.table({"value": range(40)}), tmp_path / "rows.parquet", row_group_size=10)
    span = Span(str(tmp_path / "rows.parquet"), 19, 2)
    partition = TakePartition(0, [span], ("s", 19, 2), [(0, 2)])
    batches = list(rows_of(partition, ["value", ROUND, SUBTASK]))
    assert [v for batch in batches for v in batch.column("value").to_pylist()] == [19, 20]
    assert groups == [1, 2]


def test_rows_of_several_rounds_are_taken_up_together() -> None:
    own = ("clicks", 10, 3), [(4, 3)]
    later = ("clicks", 13, 2), [(2, 1), (5, 1)]  # of which one had come to a log before
    [batch] = rows_of(joined([TakePartition(1, [], *own), TakePartition(1, [], *later)]), COLUMNS)
    assert batch.column("number").to_pylist() == [10, 11, 12, 13, 14]
    assert batch.column(ROUND).to_pylist() == [4, 4, 4, 2, 5]


def test_spans_that_follow_each_other_are_one() -> None:
    spans = [
        Span("a", 0, 3),
        Span("b", 3, 1),
        Span("b", 4, 2),
        Span("b", 7, 1),
        Span("b", 8, 1, -3),
    ]
    parts = [TakePartition(0, spans[:2]), TakePartition(0, spans[2:])]
    assert joined(parts).spans == [
        Span("a", 0, 3),
        Span("b", 3, 3),
        Span("b", 7, 1),
        Span("b", 8, 1, -3),
    ]


def test_orders_of_several_rounds_are_one(tmp_path: Path) -> None:
    """Each channel has its records round by round."""
    rounds = [([0, 2, 0], [0, 1, 1]), ([], []), ([2, 0, 1], [0, 0, 1])]
    orders = [
        SubtaskOrder(rows, (edge(tmp_path, routes, parents),))
        for rows, (routes, parents) in zip((2, 0, 2), rounds, strict=True)
    ]
    whole = together(orders)
    assert whole.rows == 4
    [file] = work(taken(4), *whole.edges)["files"]
    assert {receiver: read_back(tmp_path, file, receiver) for receiver in (5, 6, 9)} == {
        5: [0, 1, 2],
        6: [3],
        9: [1, 2],
    }


# ---------------------------------------------------------------------- packing


def test_rows_are_packed_by_channel_in_the_order_of_taking(tmp_path: Path) -> None:
    report = work(taken(9), edge(tmp_path, [0, 2, 0, 2, 2, 0, 0, 2, 0], list(range(9))))
    assert (report["subtask"], report["rows"]) == (SUBTASK_NUMBER, 9)
    [file] = report["files"]
    assert file["index"] == [[5, 100, 0, 5], [9, 300, 5, 4]]
    assert file["rows"] == 9
    assert file["bytes"] == (tmp_path / file["path"]).stat().st_size
    assert read_back(tmp_path, file, 5) == [0, 2, 5, 6, 8]
    assert read_back(tmp_path, file, 9) == [1, 3, 4, 7]
    assert pq.read_schema(tmp_path / file["path"]).names == COLUMNS[:-1]
    assert str(Path(file["path"]).parent) == "batch_id=4/sender=2"


def test_row_groups_hold_one_channel_and_are_cut(tmp_path: Path) -> None:
    [file] = work(taken(11), edge(tmp_path, [0] * 9 + [1] * 2, list(range(11))))["files"]
    metadata = pq.ParquetFile(tmp_path / file["path"]).metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sizes == [4, 4, 1, 2]


@given(routes=st.lists(st.integers(0, 2), min_size=1, max_size=30), data=st.data())
def test_every_output_is_read_back_once(
    routes: list[int], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("exchange")
    indexes = st.lists(st.integers(0, 9), min_size=len(routes), max_size=len(routes))
    parents = sorted(data.draw(indexes))
    [file] = work(taken(10, first=50), edge(root, routes, parents))["files"]
    for channel, receiver in enumerate((5, 6, 9)):
        expected = [50 + p for p, route in zip(parents, routes, strict=True) if route == channel]
        if expected:
            assert read_back(root, file, receiver) == expected
        else:
            assert receiver not in [entry[0] for entry in file["index"]]


def test_each_edge_has_a_file_of_its_own(tmp_path: Path) -> None:
    one = edge(tmp_path / "one", [0, 1, 0], [0, 1, 2])
    none = edge(tmp_path / "none", [], [])
    two = edge(tmp_path / "two", [2, 2], [1, 1], folder="")
    files = work(taken(3), one, none, two)["files"]
    assert files[1] is None
    assert not (tmp_path / "none").exists()
    assert read_back(tmp_path / "two", files[2], 9) == [1, 1]


def test_a_sink_drops_what_is_hidden(tmp_path: Path) -> None:
    kind: dict[str, Any] = {"folder": "", "receivers": (0,), "first": (40,), "is_table": True}
    table = edge(tmp_path, [0] * 6, list(range(6)), **kind)
    report = work(taken(6, rounds=[3, 3, 5, 3, 4, 5]), table)
    [file] = report["files"]
    assert pq.read_table(tmp_path / file["path"]).to_pydict() == {
        "source": ["source"] * 6,
        "source_subtask": [SUBTASK_NUMBER] * 6,
        "number": list(range(6)),
    }


def test_a_sink_without_a_table_only_counts() -> None:
    assert work(taken(4)) == {"subtask": SUBTASK_NUMBER, "rows": 4, "files": []}


def test_a_partition_without_rows_reports_nothing(tmp_path: Path) -> None:
    [empty] = pa.Table.from_batches([taken(3)[0].slice(0, 0)]).to_batches() or [taken(3)[0][:0]]
    assert list(work_of(SubtaskOrder(0, ()), iter([]))) == []
    assert list(work_of(SubtaskOrder(0, ()), iter([empty]))) == []


@pytest.mark.parametrize("ordered", [3, 5])
def test_rows_that_the_ledger_did_not_order_are_refused(ordered: int, tmp_path: Path) -> None:
    order = SubtaskOrder(ordered, (edge(tmp_path, [0], [0]),))
    text = f"subtask 2 processes {ordered} rows, but 4 came: .* disagree"
    with pytest.raises(RunError, match=text):
        list(work_of(order, iter(taken(4))))
    assert list(tmp_path.iterdir()) == []
