"""Objects whose state JSON takes: they name the attributes, and a walk does the rest."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Final

from flowcontrol.state.declared import per_class

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
