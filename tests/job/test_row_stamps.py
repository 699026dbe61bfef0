"""Stamps of replayed rows: their times, their ids, and rows that cannot have one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.layout import row_stamps
from flowcontrol.layout.row_stamps import RowNeeds, RowStamper, StampedRows, row_needs, stamp_rows
from flowcontrol.protocol.event_time import LAST_TIME, id_of, time_of

MS_OF_2013 = 1_356_998_400_000


def needs(time: str | None = None, keys: Any = (), values: Any = ()) -> RowNeeds:
    return RowNeeds("stages[0]", "rows.csv", time, tuple(keys), tuple(values))


def stamped(table: pa.Table, wanted: RowNeeds, rows: int = 3) -> StampedRows:
    return stamp_rows(wanted, table.to_batches(max_chunksize=rows))


def times(found: StampedRows) -> list[int]:
    return [time_of(stamp) for stamp in found.stamps.tolist()]


def ids(found: StampedRows) -> list[int]:
    return [id_of(stamp) for stamp in found.stamps.tolist()]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([datetime(2013, 1, 1)], pa.timestamp("s"), MS_OF_2013),
        ([datetime(2013, 1, 1, 0, 0, 0, 7000)], pa.timestamp("ms"), MS_OF_2013 + 7),
        ([datetime(2013, 1, 1, 0, 0, 0, 7999)], pa.timestamp("us"), MS_OF_2013 + 7),
        ([datetime(2013, 1, 1, 0, 0, 0, 7999)], pa.timestamp("ns"), MS_OF_2013 + 7),
        ([datetime(1969, 12, 31, 23, 59, 59, 999_999)], pa.timestamp("us"), -1),
        ([datetime(2013, 1, 1, tzinfo=UTC)], pa.timestamp("s", "Europe/Rome"), MS_OF_2013),
        ([date(2013, 1, 1)], pa.date32(), MS_OF_2013),
        ([date(2013, 1, 1)], pa.date64(), MS_OF_2013),
        (["2013-01-01 00:00:00.5"], pa.string(), MS_OF_2013 + 500),
        (["2013-01-01T01:00:00+01:00"], pa.string(), MS_OF_2013),
    ],
)
def test_times_are_milliseconds(values: Any, kind: pa.DataType, expected: int) -> None:
    """Rounded down, as are those before 1970; without a zone they are UTC."""
    assert times(stamped(pa.table({"at": pa.array(values, kind)}), needs("at"))) == [expected]


CITIES = pa.table(
    {
        "city": ["Rome", "Bonn", None, "Rome", "Rome"],
        "size": [7, 3, 3, None, 7],
        "at": pa.array([3, 1, 4, 1, 5], pa.timestamp("ms")),
    }
)


def test_ids_follow_keys_then_values() -> None:
    found = stamped(CITIES, needs("at", ["city"], ["size"]))
    assert times(found) == [3, 1, 4, 1, 5]
    assert ids(found) == [1, 0, 3, 2, 1]
    assert found.ids.to_pydict() == {
        "key:city": ["Bonn", "Rome", "Rome", "null"],
        "value:size": [3, 7, None, 3],
        "rows": [1, 2, 1, 1],
    }


def test_without_a_column_there_is_one_id() -> None:
    found = stamped(CITIES, needs("at"))
    assert ids(found) == [0] * 5
    assert found.ids.to_pydict() == {"rows": [5]}


def test_a_column_may_be_key_and_value() -> None:
    found = stamped(CITIES, needs(None, ["size"], ["size"]))
    assert times(found) == [0] * 5
    assert found.ids.column("key:size").to_pylist() == ["3", "7", "null"]
    assert found.ids.column("value:size").to_pylist() == [3, 7, None]


KINDS = st.sampled_from(["a", "b", "B", "", None])
ROWS = st.lists(
    st.tuples(KINDS, st.integers(-3, 3) | st.none(), st.sampled_from([0.5, -1.0, None])), min_size=1
)


@given(rows=ROWS, size=st.integers(1, 7))
def test_the_table_of_ids_gives_each_row_back(rows: list[Any], size: int) -> None:
    """However the rows come in batches; equal rows have equal ids, and others others."""
    names, kinds = ["k", "n", "x"], [pa.string(), pa.int64(), pa.float64()]
    columns = zip(names, zip(*rows, strict=True), kinds, strict=True)
    table = pa.table({name: pa.array(column, kind) for name, column, kind in columns})
    found = stamped(table, needs(None, ["k"], ["n", "x"]), size)
    back = found.ids.take(pa.array(ids(found)))
    assert back.column("key:k").to_pylist() == ["null" if k is None else k for k, *_ in rows]
    assert back.column("value:n").to_pylist() == [n for _, n, _ in rows]
    assert back.column("value:x").to_pylist() == [x for *_, x in rows]
    texts = [("null" if k is None else k, n, x) for k, n, x in rows]
    assert len(found.ids) == len(set(texts))
    assert found.ids.column("rows").to_pylist() == np.bincount(ids(found)).tolist()
    whole = stamped(table, needs(None, ["k"], ["n", "x"]), len(rows))
    assert (whole.stamps.tolist(), whole.ids) == (found.stamps.tolist(), found.ids)


def refused(table: pa.Table, wanted: RowNeeds, rows: int = 3) -> str:
    with pytest.raises(ScenarioError) as caught:
        stamped(table, wanted, rows)
    [problem] = caught.value.problems
    return str(problem)


def test_a_row_without_a_time_is_refused() -> None:
    at = pa.array([1, 2, 3, 4, None, None], pa.timestamp("ms"))
    text = refused(pa.table({"at": at}), needs("at"))
    assert text.startswith("stages[0].event_time.column: 'at' of rows.csv has no value in row 5")
    assert "leave these rows out" in text


@pytest.mark.parametrize(("ms", "fits"), [(LAST_TIME, True), (LAST_TIME + 1, False)])
@pytest.mark.parametrize("is_before", [False, True])
def test_times_that_no_stamp_can_hold_are_refused(ms: int, fits: bool, is_before: bool) -> None:
    ms = -ms - 1 if is_before else ms
    table = pa.table({"at": pa.array([0, ms], pa.timestamp("ms"))})
    if fits:
        assert times(stamped(table, needs("at"))) == [0, ms]
        return
    text = refused(table, needs("at"))
    year = "1830-08-19" if is_before else "2109-05-15"
    for part in (year, "row 2", "between the years 1830 and 2109", "leave it out"):
        assert part in text


def test_seconds_beyond_64_bits_of_milliseconds_are_refused() -> None:
    table = pa.table({"at": pa.array([1 << 62], pa.timestamp("s"))})
    assert "row 1" in refused(table, needs("at"))


@pytest.mark.parametrize(
    ("wanted", "fitting", "place", "noun"),
    [
        (needs("x"), "2013-01-01 05:00:00", "stages[0].event_time.column", "timestamp"),
        (needs(None, (), ["x"]), "3.5", "stages[0].input", "number"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 2, 6, 7, 12])
def test_a_row_of_another_type_is_named(
    wanted: RowNeeds, fitting: str, place: str, noun: str, before: int
) -> None:
    """A CSV file's column is of texts as soon as one of them is not a time, or no number."""
    rows = [*[fitting] * before, "abc", fitting, "abc", fitting]
    text = refused(pa.table({"x": rows}), wanted, 7)
    assert text.startswith(f"{place}: 'x' of rows.csv is 'abc' in row {before + 1}, which is no")
    for part in (noun, "mend the row", "name another column"):
        assert part in text


def test_a_missing_number_among_texts_is_none() -> None:
    found = stamped(pa.table({"x": ["1", "", "NA", "2.5"]}), needs(None, (), ["x"]))
    assert found.ids.column("value:x").to_pylist() == [1, 2.5, None]
    assert "is 'abc' in row 3" in refused(
        pa.table({"x": ["1", "", "abc", "2"]}), needs(None, (), ["x"])
    )


def test_an_infinite_value_is_refused() -> None:
    text = refused(pa.table({"x": [1.0, float("-inf")]}), needs(None, (), ["x"]))
    assert "stages[0].input: 'x' of rows.csv is -inf in row 2, which is not a finite number" in text


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1 << 63, pa.uint64()), (-(1 << 63), pa.int64()), (-(1 << 63) + 1, pa.int64())],
)
def test_a_whole_number_beyond_what_windows_hold_is_refused(value: int, kind: Any) -> None:
    """It is a number: the text says which ones there may be."""
    values = pa.array([1, value], kind)
    text = refused(pa.table({"x": values}), needs(None, (), ["x"]))
    assert f"is {value} in row 2, which a window cannot add up: whole numbers lie between" in text
    assert "between -9,223,372,036,854,775,806 and 9,223,372,036,854,775,807: mend the row" in text
    ends = pa.array([-(1 << 63) + 2, (1 << 63) - 1], pa.int64())
    found = stamped(pa.table({"x": ends}), needs(None, (), ["x"]))
    assert sorted(found.ids.column("value:x").to_pylist()) == ends.to_pylist()


@pytest.mark.parametrize(
    ("keys", "kind"),
    [([[1], [2]], "list"), ([{"a": 1}, None], "struct"), ([b"\xff", b"a"], "binary")],
)
def test_a_key_without_a_text_is_refused(keys: Any, kind: str) -> None:
    table = pa.table({"k": keys})
    text = refused(table, needs(None, ["k"]))
    assert text.startswith("stages[0].input: 'k' of rows.csv is not a key: values of its type,")
    assert kind in text
    assert "name another column" in text


@pytest.mark.parametrize("count", [7, 8, 9])
def test_more_rows_than_ids_are_refused(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stamps, "IDS", 8)
    table = pa.table({"k": [str(i) for i in range(count)], "n": [0] * count})
    if count <= 8:
        assert len(stamped(table, needs(None, ["k"])).ids) == count
        return
    text = refused(table, needs(None, ["k"]))
    assert "stages[0].input: rows.csv has 9 different rows of 'k', at most 8 are possible" in text
    assert "name a key with fewer values" in text
    assert "aggregate fewer columns" in refused(table, needs(None, ["k"], ["n"]))


def test_rows_that_nobody_looks_at_need_no_stamps(jobs: Any) -> None:
    job = jobs.single()
    assert row_needs(job, job.stage(job.scenario.sources[0].name)) is None


def test_no_rows_have_no_stamps() -> None:
    assert len(RowStamper(needs("at", ["k"])).finish().stamps) == 0
