"""State that is declared once: a dataclass of integers, and of other such states.

A rule is a function of such state: ``channel.required = backlog + channel.initial``. The reference
runs it on the objects; the compiled kernel on one array of 64-bit integers, in which a field is a
cell, and the cells of a state stand in the order of its fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast, get_type_hints

R = TypeVar("R")


def per_class(function: Callable[[type[Any]], R]) -> Callable[[type[Any]], R]:
    """Have a function of a state class run once for each class."""
    return cast(Callable[[type[Any]], R], cache(function))


@per_class
def members(cls: type[Any]) -> tuple[tuple[str, type[Any] | None], ...]:
    """Return the fields of a state class in the order of its cells, each with its state class.

    An integer has None. A field that is a state itself takes as many cells as its class has.

    Raises TypeError if a field is neither.
    """
    kinds = get_type_hints(cls)
    for field in fields(cls):
        kind = kinds[field.name]
        if kind is not int and not is_dataclass(kind):
            raise TypeError(
                f"{cls.__name__}.{field.name} is {field.type}: a state has integers and states"
            )
    of = {name: None if kind is int else kind for name, kind in kinds.items()}
    return tuple((field.name, of[field.name]) for field in fields(cls))


@per_class
def columns(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of a state class's fields, in the order of its cells."""
    return tuple(name for name, _ in members(cls))


@per_class
def _places(cls: type[Any]) -> dict[str, int]:
    """Return where each field is, and under "" how many cells there are."""
    places, used = {}, 0
    for name, inner in members(cls):
        places[name] = used
        used += 1 if inner is None else width(inner)
    return {**places, "": used}


def width(cls: type[Any]) -> int:
    """Return how many cells a state of a class takes."""
    return _places(cls)[""]


def cell(cls: type[Any], name: str) -> int:
    """Return where a field is, cells from the first one of its state."""
    return _places(cls)[name]


def assign(state: Any, other: Any) -> None:
    """Give a state the integers of another one.

    One of the two may be a view of memory, or have more fields: those of the object count. Two
    views are of one class.
    """
    for name in columns(type(other) if is_dataclass(other) else viewed(state)):
        setattr(state, name, getattr(other, name))


def viewed(state: Any) -> type[Any]:
    """Return the class of a state, or that of which it is a view."""
    return cast(type[Any], getattr(state, "viewed", type(state)))


@per_class
def _values(cls: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads all fields of a state, in the order of its cells."""
    names = columns(cls)
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda state: (get(state),)


@per_class
def _is_flat(cls: type[Any]) -> bool:
    """Tell whether no field of a state is a state itself."""
    return all(inner is None for _, inner in members(cls))


def values_of(state: Any) -> tuple[Any, ...]:
    """Return the values of a state's fields, in the order of its cells."""
    return _values(type(state))(state)


def copied(state: R) -> R:
    """Return a copy of a state, and of the states in it."""
    cls = type(state)
    values = _values(cls)(state)
    if _is_flat(cls):
        return cls(*values)
    pairs = zip(members(cls), values, strict=True)
    return cls(*(value if inner is None else copied(value) for (_, inner), value in pairs))


def as_dict(state: Any) -> dict[str, Any]:
    """Return the values of a state by field, as :func:`dataclasses.asdict` does, but faster."""
    cls = type(state)
    values = _values(cls)(state)
    if _is_flat(cls):
        return dict(zip(columns(cls), values, strict=True))
    return {
        name: value if inner is None else as_dict(value)
        for (name, inner), value in zip(members(cls), values, strict=True)
    }


def put_back(state: Any, values: Mapping[str, int], cls: type[Any] | None = None) -> None:
    """Give a state the values that :func:`as_dict` returned for one of its class.

    Raises ValueError if it has other fields.
    """
    own = columns(cls or type(state))
    if set(own) != values.keys():
        odd = ", ".join(sorted(set(own) ^ values.keys()))
        raise ValueError(f"{type(state).__name__} is not the state that was kept: {odd}")
    for name, inner in members(cls or type(state)):
        if inner is None:
            setattr(state, name, values[name])
        else:
            put_back(getattr(state, name), cast(Mapping[str, int], values[name]))
