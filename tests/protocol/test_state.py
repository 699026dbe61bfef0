"""State that is declared once: its columns, JSON and back, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from flowcontrol.protocol import states
from flowcontrol.protocol.state import (
    Ints,
    Kind,
    Ref,
    Rows,
    assign,
    cell,
    columns,
    part,
    paths,
    put_back,
    to_json,
    width,
)


@dataclass(slots=True)
class Point:
    """A part of others."""

    x: int = 0
    y: int = 0


@dataclass(slots=True)
class Line:
    """A state with a field of each kind."""

    number: int = 0
    begin: Point = part(Point)
    end: Point = part(Point)
    points: Rows[Point] = field(default_factory=list)
    marks: Ints = field(default_factory=list)
    other: Ref[Line] = None  # type: ignore[assignment]


@dataclass(slots=True)
class Longer(Line):
    """One with another field behind those of its base."""

    length: int = 0


@dataclass(slots=True)
class Named:
    """One with a field that no state has."""

    name: str = ""


def line() -> Line:
    return Line(7, Point(1, 2), Point(3, 4), [Point(5, 6), Point(7, 8)], [9, 10, 11])


def test_columns_follow_each_other_without_gaps() -> None:
    found = [(c.name, c.at, c.kind, c.state) for c in columns(Line).values()]
    assert found == [
        ("number", 0, Kind.INT, None),
        ("begin", 1, Kind.PART, Point),
        ("end", 3, Kind.PART, Point),
        ("points", 5, Kind.ROWS, Point),
        ("marks", 7, Kind.INTS, None),
        ("other", 9, Kind.REF, Line),
    ]
    assert (width(Point), width(Line), width(Longer)) == (2, 10, 11)
    assert cell(Longer, "length") == 10
    assert dict(paths(Line)) == {"number": 0, "begin.x": 1, "begin.y": 2, "end.x": 3, "end.y": 4}


def test_a_field_that_no_state_has_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Named\.name is <class 'str'>: a state has int, Ints"):
        columns(Named)


def test_parts_are_each_states_own() -> None:
    one, other = Line(), Line()
    one.begin.x = 5
    assert (other.begin.x, one.end.x) == (0, 0)


def test_json_and_back() -> None:
    kept = to_json(line())
    assert kept == {
        "number": 7,
        "begin": {"x": 1, "y": 2},
        "end": {"x": 3, "y": 4},
        "points": [{"x": 5, "y": 6}, {"x": 7, "y": 8}],
        "marks": [9, 10, 11],
    }
    fresh = Line(points=[Point(), Point()], marks=[0, 0, 0])
    put_back(fresh, kept)
    assert fresh == line()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"begin": {"x": 1}}, "Point is not the state that was kept: y"),
        ({"more": 1}, "Line is not the state that was kept: more"),
        ({"marks": [1]}, "marks has 3 rows, kept were 1"),
        ({"points": []}, "points has 2 rows, kept were 0"),
    ],
)
def test_what_is_not_the_state_that_was_kept_is_refused(change, text) -> None:
    fresh = Line(points=[Point(), Point()], marks=[0, 0, 0])
    with pytest.raises(ValueError, match=text):
        put_back(fresh, to_json(line()) | change)


def test_a_state_takes_the_integers_of_another() -> None:
    longer = Longer(length=3)
    assign(longer, line())
    assert (longer.number, longer.begin, longer.end) == (7, Point(1, 2), Point(3, 4))
    assert (longer.length, longer.points, longer.marks) == (3, [], [])


@pytest.mark.parametrize("name", states.__all__)
def test_every_field_of_a_state_is_documented(name: str) -> None:
    import inspect

    cls = getattr(states, name)
    source = inspect.getsource(cls)
    for column in columns(cls):
        _, _, behind = source.partition(f"\n    {column}: ")
        assert behind.split("\n")[1].strip().startswith('"""'), column
