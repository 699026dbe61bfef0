"""Which key and value an id of replayed rows stands for, at each window."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.layout import replay as under_test
from flowcontrol.layout.replay import LinkKeys, RowKeys, read_replayed
from flowcontrol.protocol.windows.contents import NO_VALUE

CITIES = ["Rome", "Bonn", None, "Rome", "Oslo"]
SIZES = [7, 3, 3, None, 7]
AT = [3, 1, 4, 1, 5]


@pytest.fixture
def path(rows_in_windows: ModuleType, tmp_path: Path) -> Path:
    return rows_in_windows.write(tmp_path, city=CITIES, size=SIZES, at=AT)


def shown(keys: RowKeys, edge: str) -> list[str]:
    """The text of the key of each id that comes over an edge."""
    stage = edge.split("->")[1]
    return [keys.names[stage][number] for number in keys.edges[edge].numbers.tolist()]


def test_keys_are_those_of_the_input(rows_in_windows: ModuleType, path: Path) -> None:
    made = rows_in_windows
    stages = {"source": made.source(path), "count": made.window(aggregate={"n": "sum(size)"})}
    found = read_replayed(made.job(stages, {"source->count": None}))
    assert found.keys.names == {"count": ("Bonn", "Oslo", "Rome", "null")}
    assert shown(found.keys, "source->count") == ["Bonn", "Oslo", "Rome", "Rome", "null"]
    assert found.keys.edges["source->count"].firsts.tolist() == [0, 1, 2, 4]
    columns = found.keys.columns_of("count")
    assert list(columns.by_name) == ["size"]
    assert columns.first.tolist() == [3, 7, 7, NO_VALUE, 3]
    assert columns.table.tolist() == found.keys.columns_of("source").first.tolist() == []
    ids = [stamp & ((1 << 21) - 1) for stamp in found.stamps["source", 0].tolist()]
    assert [shown(found.keys, "source->count")[one] for one in ids] == [
        "null" if city is None else city for city in CITIES
    ]


def test_each_id_has_a_value_in_each_column(rows_in_windows: ModuleType, path: Path) -> None:
    """The first one beside the others, in the order in which the window names them."""
    made = rows_in_windows
    more = {"a": "max(when)", "n": "count", "b": "sum(size)", "c": "min(size)", "d": "avg(far)"}
    rows = {"city": CITIES, "size": SIZES, "far": [0.5, None, 2.25, 1, 1]}
    other = made.write(path.parent, "more", when=AT, **rows)
    source = {**made.source(other), "event_time": {}}
    stages = {"source": source, "count": made.window(aggregate=more), "n": made.window()}
    found = read_replayed(made.job(stages, {"source->count": None, "source->n": None}))
    columns = found.keys.columns_of("count")
    assert list(columns.by_name) == ["when", "size", "far"]
    assert found.keys.further == columns.further == 2
    assert found.keys.columns_of("n").further == 0
    ids = [stamp & ((1 << 21) - 1) for stamp in found.stamps["source", 0].tolist()]
    assert [int(columns.first[one]) for one in ids] == AT
    sizes, ways = columns.table.reshape(-1, 2)[ids].T.tolist()
    assert sizes == [NO_VALUE if size is None else size for size in SIZES]
    assert ways == [50, NO_VALUE, 225, 100, 100]
    assert columns.table is columns.table


def test_an_edge_may_have_a_key_of_its_own(rows_in_windows: ModuleType, path: Path) -> None:
    """Two windows of the same rows, by other columns."""
    made = rows_in_windows
    stages = {
        "source": made.source(path),
        "cities": made.window(),
        "sizes": {**made.window(), "parallelism": 2},
    }
    hashed = {"partitioner": "hash", "key": "size"}
    edges = {"source->cities": None, "source->sizes": hashed}
    keys = read_replayed(made.job(stages, edges)).keys
    assert keys.names == {"cities": ("Bonn", "Oslo", "Rome", "null"), "sizes": ("3", "7", "null")}
    assert shown(keys, "source->cities") == ["Bonn", "Oslo", "Rome", "Rome", "null"]
    assert shown(keys, "source->sizes") == ["3", "7", "7", "null", "3"]
    assert keys.edges["source->sizes"].firsts.tolist() == [0, 1, 3]


def test_a_window_behind_a_window_has_its_keys(rows_in_windows: ModuleType, path: Path) -> None:
    made = rows_in_windows
    stages = {
        "source": made.source(path),
        "first": {**made.window(), "parallelism": 2},
        "map": {},
        "second": made.window(),
    }
    hashed = {"partitioner": "hash", "key": "size"}
    edges = {"source->first": hashed, "first->map": None, "map->second": None}
    edges["first->map"] = {"partitioner": "rebalance"}
    keys = read_replayed(made.job(stages, edges)).keys
    assert keys.names["second"] == keys.names["first"] == ("3", "7", "null")
    for number, first in enumerate(keys.edges["source->first"].firsts.tolist()):
        assert keys.edges["map->second"].numbers[first] == number


def test_without_a_key_all_have_one(rows_in_windows: ModuleType, path: Path) -> None:
    made = rows_in_windows
    source = made.source(path)
    del source["input"]["key"]
    keys = read_replayed(made.job({"s": source, "w": made.window()}, {"s->w": None})).keys
    assert keys.names == {"w": ("1",)}
    assert keys.edges["s->w"].numbers.tolist() == [0]


def two_sources(made: ModuleType, folder: Path, **more: Any) -> Any:
    one = made.write(folder, "one", city=["Oslo", "Rome"], at=[1, 2])
    other = made.write(folder, "other", town=["Rome", "Bonn"], at=[1, 2])
    source = made.source(other)
    source["input"]["key"] = "town"
    stages = {"one": made.source(one), "other": source, "count": made.window()}
    return made.job(stages, {"one->count": None, "other->count": None}, **more)


def test_a_window_looks_at_the_columns_of_its_own_sources(
    rows_in_windows: ModuleType, tmp_path: Path
) -> None:
    """Beside it another window has a column of that name, of decimals, and far larger ones."""
    made = rows_in_windows
    one = made.write(tmp_path, "one", city=["Oslo", "Rome"], size=[2**60 + 1, 2], at=[1, 2])
    other = made.write(tmp_path, "other", city=["Oslo", "Rome"], size=[0.5, 3.0], at=[1, 2])
    totals = made.window(aggregate={"total": "sum(size)"})
    stages = {"one": made.source(one), "other": made.source(other), "a": totals, "b": totals}
    keys = read_replayed(made.job(stages, {"one->a": None, "other->b": None})).keys
    assert keys.columns_of("a").by_name["size"].is_whole
    assert keys.columns_of("a").by_name["size"].of_ids.tolist()[:2] == [2**60 + 1, 2]
    own = keys.columns_of("b").by_name["size"]
    assert own.numbers(own.of_ids).tolist()[2:] == [0.5, 3.0]


def test_sources_have_ids_of_their_own(rows_in_windows: ModuleType, tmp_path: Path) -> None:
    """And keys in common, whatever their columns are called."""
    found = read_replayed(two_sources(rows_in_windows, tmp_path))
    assert found.keys.offsets == {"one": 0, "other": 2}
    assert found.keys.names == {"count": ("Bonn", "Oslo", "Rome")}
    assert shown(found.keys, "one->count")[:2] == ["Oslo", "Rome"]
    assert shown(found.keys, "other->count")[2:] == ["Bonn", "Rome"]
    assert found.keys.edges["one->count"].firsts.tolist() == [2, 0, 1]
    ids = [stamp & ((1 << 21) - 1) for stamp in found.stamps["other", 0].tolist()]
    assert ids == [3, 2]


@pytest.mark.parametrize(("most", "fits"), [(4, True), (3, False)])
def test_all_ids_must_fit_into_a_stamp(
    rows_in_windows: ModuleType, tmp_path: Path, most: int, fits: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(under_test, "IDS", most)
    job = two_sources(rows_in_windows, tmp_path)
    if fits:
        read_replayed(job)
        return
    with pytest.raises(ScenarioError) as caught:
        read_replayed(job)
    text = "stages: one, other have 4 different rows together, at most 3 are possible"
    assert text in str(caught.value)


def test_rows_without_windows_have_times_alone(rows_in_windows: ModuleType, path: Path) -> None:
    made = rows_in_windows
    found = read_replayed(made.job({"s": made.source(path), "sink": {}}, {"s->sink": None}))
    assert found.stamps["s", 0].tolist() == [at << 21 for at in AT]
    assert found.keys == RowKeys({"s": 0})


def test_windows_of_rows_without_times(rows_in_windows: ModuleType, path: Path) -> None:
    made = rows_in_windows
    source = {**made.source(path), "event_time": None, "watermark": None}
    stages = {"s": source, "w": {"window": {"kind": "global", "trigger": {"count": 2}}}}
    found = read_replayed(made.job(stages, {"s->w": None}))
    assert found.stamps["s", 0].tolist() == [2, 0, 3, 2, 1]
    assert isinstance(found.keys.edges["s->w"], LinkKeys)
