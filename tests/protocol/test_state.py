"""State that is declared once: its columns, JSON and back, and what is refused."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from flowcontrol.state import network
from flowcontrol.state.declared import (
    as_dict,
    assign,
    cell,
    columns,
    copied,
    members,
    put_back,
    width,
)

STATES = [cls for cls in vars(network).values() if isinstance(cls, type)]


@dataclass(slots=True)
class Point:
    """A state."""

    x: int = 0
    y: int = 0


@dataclass(slots=True)
class Longer(Point):
    """One with another field behind those of its base."""

    length: int = 0


@dataclass(slots=True)
class Line:
    """One with others in it."""

    start: Point = field(default_factory=Point)
    end: Longer = field(default_factory=Longer)
    colour: int = 0


@dataclass(slots=True)
class Named(Point):
    """One with a field that no state has."""

    name: str = ""


def test_columns_stand_in_the_order_of_the_fields() -> None:
    assert columns(Longer) == ("x", "y", "length")
    assert (width(Point), width(Longer), cell(Longer, "length")) == (2, 3, 2)


def test_a_field_that_is_neither_integer_nor_state_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Named\.name is str: a state has integers and states"):
        columns(Named)


def test_a_state_holds_another_one_in_its_midst() -> None:
    assert members(Line) == (("start", Point), ("end", Longer), ("colour", None))
    assert (width(Line), cell(Line, "end"), cell(Line, "colour")) == (6, 2, 5)


def test_json_and_back() -> None:
    fresh = Longer()
    put_back(fresh, asdict(Longer(1, 2, 3)))
    assert fresh == Longer(1, 2, 3)


@pytest.mark.parametrize(
    ("kept", "odd"), [({"x": 1}, "y"), ({"x": 1, "y": 2, "z": 3, "a": 4}, "a, z")]
)
def test_what_is_not_the_state_that_was_kept_is_refused(kept, odd) -> None:
    fresh = Point(7, 8)
    with pytest.raises(ValueError, match=f"Point is not the state that was kept: {odd}$"):
        put_back(fresh, kept)
    assert fresh == Point(7, 8)


def test_a_state_takes_the_integers_of_another() -> None:
    longer = Longer(length=3)
    assign(longer, Point(1, 2))
    assert longer == Longer(1, 2, 3)


@pytest.mark.parametrize(
    "state", [Point(1, 2), Line(Point(1, 2), Longer(3, 4, 5), 6), *(cls() for cls in STATES)]
)
def test_a_copy_has_the_values_and_nothing_in_common(state: Any) -> None:
    copy = copied(state)
    assert (copy, type(copy)) == (state, type(state))
    assert as_dict(copy) == asdict(state)
    for name, inner in members(type(state)):
        if inner is not None:
            assert getattr(copy, name) is not getattr(state, name)
    setattr(copy, columns(type(state))[0], None)
    assert copy != state


@dataclass(slots=True)
class Single:
    """A state of one field."""

    x: int = 0


def test_a_state_of_one_field_is_copied() -> None:
    assert copied(Single(7)) == Single(7)
    assert as_dict(Single(7)) == {"x": 7}


@pytest.mark.parametrize("cls", STATES, ids=lambda cls: cls.__name__)
def test_every_field_of_a_state_is_documented(cls: type) -> None:
    source = "".join(inspect.getsource(one) for one in cls.__mro__[:-1])
    for column in columns(cls):
        _, _, behind = source.partition(f"\n    {column}: ")
        assert behind.split("\n")[1].strip().startswith('"""'), column
