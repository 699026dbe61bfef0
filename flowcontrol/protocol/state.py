"""State that is declared once: a dataclass of integers.

A rule is a function of such state: ``channel.required = backlog + channel.initial``. The reference
runs it on the objects; the compiled kernel on one array of 64-bit integers, in which a field is a
cell, and the cells of a state stand in the order of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast

__all__ = ["assign", "cell", "columns", "per_class", "put_back", "width"]

R = TypeVar("R")


def per_class(function: Callable[[type[Any]], R]) -> Callable[[type[Any]], R]:
    """Have a function of a state class run once for each class."""
    return cast(Callable[[type[Any]], R], cache(function))


@per_class
def columns(cls: type[Any]) -> tuple[str, ...]:
    """Return the fields of a state class, in the order of its cells.

    Raises
    ------
    TypeError
        If a field is no integer.
    """
    for field in fields(cls):
        if field.type not in ("int", int):
            raise TypeError(f"{cls.__name__}.{field.name} is {field.type}: a state has int alone")
    return tuple(field.name for field in fields(cls))


def width(cls: type[Any]) -> int:
    """Return how many cells a state of a class takes."""
    return len(columns(cls))


def cell(cls: type[Any], name: str) -> int:
    """Return where a field is, cells from the first one of its state."""
    return columns(cls).index(name)


def assign(state: Any, other: Any) -> None:
    """Give a state the integers of another one.

    One of the two may be a view of memory, or have more fields: those of the object count.
    """
    for name in columns(type(other) if is_dataclass(other) else type(state)):
        setattr(state, name, getattr(other, name))


def put_back(state: Any, values: Mapping[str, int]) -> None:
    """Give a state the values that :func:`dataclasses.asdict` returned for one of its class.

    Raises
    ------
    ValueError
        If it has other fields.
    """
    own = columns(type(state))
    if set(own) != values.keys():
        odd = ", ".join(sorted(set(own) ^ values.keys()))
        raise ValueError(f"{type(state).__name__} is not the state that was kept: {odd}")
    for name in own:
        setattr(state, name, values[name])
