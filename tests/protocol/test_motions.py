"""How integers of states move: every field of the kernel's memory says it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, is_dataclass
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.operators import selectivity
from flowcontrol.operators import states as operators
from flowcontrol.protocol import states as protocol
from flowcontrol.protocol.motions import Level, Messages, Motion, cells_of_motion, motions
from flowcontrol.protocol.state import width
from flowcontrol.virtual import fields, header

UNSAID = {
    "Alignment",
    "AlignedChannel",
    "TrackedCheckpoint",
    "TaskCheckpoint",
    "CoordinatorMessage",
    "CheckpointReport",
}
"""State of checkpoints: a job that has some does not jump."""


def declared_in(module: ModuleType) -> list[type[Any]]:
    """State classes that a module declares."""
    found = [cls for _, cls in inspect.getmembers(module, is_dataclass)]
    return [cls for cls in found if cls.__module__ == module.__name__]


STATES = [
    cls
    for module in (protocol, operators, selectivity, fields, header)
    for cls in declared_in(module)
]


@dataclass
class Inner:
    """A state."""

    sent: Messages = 0
    queued: Level = 0


@dataclass
class Outer:
    """A state with another one in it."""

    first: Level = 0
    inner: Inner = field(default_factory=Inner)


@dataclass
class Careless:
    """A state with a field that does not say how it moves."""

    sent: Messages = 0
    queued: int = 0


@pytest.mark.parametrize("cls", [cls for cls in STATES if cls.__name__ not in UNSAID])
def test_every_field_says_how_it_moves(cls: type[Any]) -> None:
    assert list(motions(cls)) == list(range(width(cls)))


def test_what_says_nothing_is_what_does_not_jump() -> None:
    silent = {cls.__name__ for cls in STATES if not says(cls)}
    assert silent == UNSAID


def says(cls: type[Any]) -> bool:
    try:
        return bool(motions(cls))
    except TypeError:
        return False


def test_a_state_in_a_state_moves_as_it_says() -> None:
    assert motions(Outer) == {0: Motion.LEVEL, 1: Motion.MESSAGES, 2: Motion.LEVEL}
    assert cells_of_motion(Outer, Motion.LEVEL) == [0, 2]
    assert cells_of_motion(Outer, Motion.MESSAGES, Motion.WORK) == [1]


def test_a_field_that_does_not_say_it_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"Careless.queued does not say how it moves: declare it"):
        motions(Careless)
