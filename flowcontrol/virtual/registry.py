"""What is special about functions of the kernel: parts they belong to, states that they find.

Modules of the kernel register here when they are imported, and :mod:`.compiled`, which compiles
all their functions, reads it before. It imports nothing of the package, so that no module that
registers depends on numba.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

PARTS: Final[dict[Callable[..., Any], int]] = {}
"""The part of each function of the kernel that only some jobs need (:mod:`.parts`)."""

PLACED: Final[dict[Callable[..., Any], tuple[str, type[Any], type[Any] | None]]] = {}
"""Functions that find states of a class in memory: what they return, the class, and the owner."""

ONCE: Final[dict[Callable[..., Any], Callable[..., Any]]] = {}
"""Functions whose results the interpreted kernel remembers: what numba compiles in their place."""


def found_once(function: F) -> F:
    """Mark a function of the memory, and of a number or a row, that finds what has a fixed address.

    The interpreted kernel finds it once: ``found`` of the memory has it. Whoever has a gate or a
    partition use another global pool clears that.
    """

    @wraps(function)
    def find(m: Any, of: Any) -> Any:
        key = function, of
        here = m.found.get(key)
        if here is None:
            here = m.found[key] = function(m, of)
        return here

    ONCE[find] = function
    return cast(F, find)


def part_of(part: int) -> Callable[[F], F]:
    """Mark a function of the kernel that only jobs with a part need (:mod:`.parts`).

    Its first parameter is the memory, or a subtask in it. In a kernel without the part a call of it
    is 0, and nothing that only it calls is compiled; a job that needs the part is refused before
    its first round.
    """

    def mark(function: F) -> F:
        PARTS[function] = part
        return function

    return mark


def needs(part: int, *rules: Callable[..., Any]) -> None:
    """Mark rules likewise that stand in packages below this one."""
    PARTS.update(dict.fromkeys(rules, part))


def placed(function: F, form: str, cls: type[Any], owner: type[Any] | None = None) -> F:
    """Mark a function that finds states of a class in memory; compiled, it is an address.

    Parameters
    ----------
    function : callable
        Takes the memory, a place, and how many there are, where the form needs it.
    form : {"state", "transport", "rows", "queue", "ring", "rings"}
        What it returns: one state, the one of a transport, states one behind the other, a queue of
        them, one of a channel, those of several channels.
    cls : type
        The class of a state.
    owner : type, optional
        Of "rings": the class of the rows in which the rings stand.
    """
    PLACED[function] = form, cls, owner
    return function
