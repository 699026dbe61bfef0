"""State that is declared once: a dataclass of integers, and of other such states.

A rule is a function of such state: ``channel.required = backlog + channel.initial``. The reference
runs it on the objects; the compiled kernel on one array of 64-bit integers, in which a field is a
cell, and the cells of a state stand in the order of its fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar, cast, get_type_hints

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


def as_tuple(state: Any) -> tuple[Any, ...]:
    """Return the values of a state, as :func:`dataclasses.astuple` does, but faster."""
    cls = type(state)
    values: tuple[Any, ...] = _values(cls)(state)
    if _is_flat(cls):
        return values
    return tuple(
        value if inner is None else as_tuple(value)
        for (_, inner), value in zip(members(cls), values, strict=True)
    )


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


# --- Objects whose state JSON takes: they name the attributes, and a walk does the rest.


PLAIN: Final = frozenset({bool, float, int, str, type(None)})
"""Types whose values JSON takes as they are; that of an enumeration is kept as one of them."""


class Kept:
    """An object that another process goes on with, made with the same arguments.

    A class names in ``_kept`` the attributes that :meth:`state` has besides those of its bases,
    without their underscores, and in ``_values`` the dataclasses and named tuples in them. Another
    :class:`Kept` in an attribute is given its state back in place, so it must stand there, in a
    list or dictionary too.
    """

    _kept: ClassVar[tuple[str, ...]] = ()
    _values: ClassVar[tuple[type[Any], ...]] = ()

    def state(self) -> dict[str, Any]:
        """Return what the calls to come need, as JSON takes it."""
        return attributes_of(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned.

        Raises ValueError if an object of another class did; nothing has changed then.
        """
        put_attributes_back(self, state)


def attributes_of(own: Any) -> dict[str, Any]:
    """Return the attributes that a class names in ``_kept``, as JSON takes them."""
    return {name.lstrip("_"): keep(getattr(own, name)) for name in _names(type(own))}


def put_attributes_back(own: Any, state: Mapping[str, Any]) -> None:
    """Give an object the attributes that :func:`attributes_of` returned."""
    wanted = {name.lstrip("_") for name in _names(type(own))}
    if state.keys() != wanted:
        has = ", ".join(sorted(state)) or "nothing"
        raise ValueError(
            f"the state of {type(own).__name__} has {', '.join(sorted(wanted))}; this one has "
            f"{has}: restore it into an object of the same kind"
        )
    for name in _names(type(own)):
        setattr(own, name, read(state[name.lstrip("_")], own._values, getattr(own, name)))


@per_class
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(name for one in reversed(kind.mro()) for name in vars(one).get("_kept", ()))


def keep(value: Any) -> Any:
    """Return a value as JSON takes it; what JSON has not is ``{"*type": its parts}``."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, Kept):
        return value.state()
    if isinstance(value, list):
        return [one if type(one) in PLAIN else keep(one) for one in value]
    parts: list[Any]
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("*") for key in value):
            return {key: keep(one) for key, one in value.items()}
        parts = [list(pair) for pair in value.items()]
    elif isinstance(value, tuple):
        parts = list(value)
    elif isinstance(value, set):
        parts = sorted(value, key=repr)
    elif isinstance(value, Fraction):
        parts = [value.numerator, value.denominator]
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        return value.value if isinstance(value, Enum) else value
    # Most are numbers: without a call for each of them it takes half the time.
    return {f"*{type(value).__name__}": [one if type(one) in PLAIN else keep(one) for one in parts]}


def read(kept: Any, kinds: tuple[type[Any], ...], old: Any = None) -> Any:
    """Return the value that was kept; ``old`` stands in its place so far."""
    if type(kept) in PLAIN:
        return kept
    if isinstance(old, Kept):
        old.restore(kept)
        return old
    if isinstance(kept, list):
        known = old if isinstance(old, list) and len(old) == len(kept) else [None] * len(kept)
        return [read(one, kinds, there) for one, there in zip(kept, known, strict=True)]
    name, parts = next(iter(kept.items()), ("", []))
    if not name.startswith("*") or name == "*dict":
        pairs = ((read(key, kinds), one) for key, one in parts) if name == "*dict" else kept.items()
        there = old if isinstance(old, dict) else {}
        return {key: read(one, kinds, there.get(key)) for key, one in pairs}
    values = [read(one, kinds) for one in parts]
    if name in {"*tuple", "*set"}:
        return tuple(values) if name == "*tuple" else set(values)
    classes: tuple[Any, ...] = (Fraction, *kinds)
    return next(one for one in classes if one.__name__ == name[1:])(*values)
