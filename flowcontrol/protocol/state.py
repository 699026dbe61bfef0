"""State that is declared once: a dataclass whose annotated fields are its columns.

A rule is a function of such state: ``channel.required = backlog + channel.initial``. The reference
runs it on the objects; the compiled kernel on one array of 64-bit integers, where a field is an
address. A field is one of

===============  =================================  =====================================
annotation       as an object                       in cells
===============  =================================  =====================================
``int``          an integer                         1
a state class    an object that is part of this     as many as it has
``Ints``         a list of integers                 2: where the first one is, how many
``Rows[S]``      a list of objects                  2: where the first one is, how many
``Ref[S]``       another object                     1: where it is
===============  =================================  =====================================

*Where* counts cells from the first cell of the state that has the field, so memory may move.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

__all__ = [
    "Column",
    "Ints",
    "Kind",
    "Ref",
    "Rows",
    "assign",
    "cell",
    "columns",
    "part",
    "paths",
    "per_class",
    "put_back",
    "to_json",
    "width",
]

R = TypeVar("R")
S = TypeVar("S")

Ints: TypeAlias = MutableSequence[int]
"""A row of integers of any length, which does not change."""

Rows: TypeAlias = Sequence[S]
"""Several states of one class."""

Ref: TypeAlias = Annotated[S, "ref"]
"""A state that belongs to another one."""


class Kind(Enum):
    """What a column holds."""

    INT = "int"
    PART = "part"
    INTS = "ints"
    ROWS = "rows"
    REF = "ref"


class Column(NamedTuple):
    """A field of a state class, and where it is.

    Attributes
    ----------
    name : str
        The field.
    at : int
        Its first cell, from that of the state.
    kind : Kind
        What it holds.
    state : type, optional
        Class of the part, of the rows, or of what is referred to.
    """

    name: str
    at: int
    kind: Kind
    state: type[Any] | None


def per_class(function: Callable[[type[Any]], R]) -> Callable[[type[Any]], R]:
    """Have a function of a state class run once for each class."""
    return cast(Callable[[type[Any]], R], cache(function))


def part(cls: type[S]) -> S:
    """Declare a field that is a state of its own: ``pool: LocalPool = part(LocalPool)``."""
    made: S = field(default_factory=cls)
    return made


@per_class
def columns(cls: type[Any]) -> Mapping[str, Column]:
    """Return the columns of a state class, in the order of its fields.

    Raises
    ------
    TypeError
        If a field is of no kind that a state may have.
    """
    hints = get_type_hints(cls, vars(sys.modules[cls.__module__]), include_extras=True)
    found: dict[str, Column] = {}
    at = 0
    for name in (each.name for each in fields(cls)):
        kind, state = _kind_of(cls, name, hints[name])
        found[name] = Column(name, at, kind, state)
        at += _cells(kind, state)
    return found


@per_class
def width(cls: type[Any]) -> int:
    """Return how many cells a state of a class takes."""
    last = list(columns(cls).values())[-1]
    return last.at + _cells(last.kind, last.state)


def _cells(kind: Kind, state: type[Any] | None) -> int:
    if kind is Kind.PART and state is not None:
        return width(state)
    return 1 if kind in (Kind.INT, Kind.REF) else 2


def _kind_of(cls: type[Any], name: str, hint: Any) -> tuple[Kind, Any]:
    if hint is int:
        return Kind.INT, None
    if hint == Ints:
        return Kind.INTS, None
    if is_dataclass(hint):
        return Kind.PART, hint
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated and arguments[1:] == ("ref",):
        return Kind.REF, arguments[0]
    if origin is Sequence and is_dataclass(arguments[0]):
        return Kind.ROWS, arguments[0]
    raise TypeError(f"{cls.__name__}.{name} is {hint}: a state has int, Ints, Rows, Ref and parts")


def cell(cls: type[Any], name: str) -> int:
    """Return where a field is, cells from the first one of its state."""
    return columns(cls)[name].at


def assign(state: Any, other: Any) -> None:
    """Give a state the integers of another one, those of its parts too.

    One of the two may be a view of memory, or have more fields: those of the object count.
    """
    cls = type(other) if is_dataclass(other) else type(state)
    for column in columns(cls).values():
        if column.kind is Kind.PART:
            assign(getattr(state, column.name), getattr(other, column.name))
        elif column.kind is Kind.INT:
            setattr(state, column.name, getattr(other, column.name))


def paths(cls: type[Any], before: str = "", at: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the integers of a state class by name, those of its parts as ``pool.size``."""
    for column in columns(cls).values():
        name = f"{before}{column.name}"
        if column.kind is Kind.PART and column.state is not None:
            yield from paths(column.state, f"{name}.", at + column.at)
        elif column.kind is Kind.INT:
            yield name, at + column.at


def to_json(state: Any) -> dict[str, Any]:
    """Return a state as JSON's own types; references are left out."""
    found: dict[str, Any] = {}
    for column in columns(type(state)).values():
        value = getattr(state, column.name)
        if column.kind is Kind.PART:
            found[column.name] = to_json(value)
        elif column.kind is Kind.ROWS:
            found[column.name] = [to_json(each) for each in value]
        elif column.kind is Kind.INTS:
            found[column.name] = list(value)
        elif column.kind is Kind.INT:
            found[column.name] = value
    return found


def put_back(state: Any, values: Mapping[str, Any]) -> None:
    """Give a state the values that :func:`to_json` returned for one of its class.

    Raises
    ------
    ValueError
        If it has other fields, or another number of rows.
    """
    wanted = {c.name for c in columns(type(state)).values() if c.kind is not Kind.REF}
    if wanted != values.keys():
        odd = ", ".join(sorted(wanted ^ values.keys()))
        raise ValueError(f"{type(state).__name__} is not the state that was kept: {odd}")
    for column in columns(type(state)).values():
        if column.kind is Kind.INT:
            setattr(state, column.name, values[column.name])
        elif column.kind is Kind.PART:
            put_back(getattr(state, column.name), values[column.name])
        elif column.kind is not Kind.REF:
            _restore_rows(getattr(state, column.name), column, values[column.name])


def _restore_rows(own: Any, column: Column, values: Sequence[Any]) -> None:
    if len(own) != len(values):
        raise ValueError(f"{column.name} has {len(own)} rows, kept were {len(values)}")
    for i, value in enumerate(values):
        if column.kind is Kind.INTS:
            own[i] = value
        else:
            put_back(own[i], value)
