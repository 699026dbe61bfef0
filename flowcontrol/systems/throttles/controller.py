"""What all controllers have in common: when they look, and how they are kept between rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple

from flowcontrol.systems.throttles.observation import Command, JobObservation, SourceObservation

NEVER = 1 << 62
"""A time that does not come, microseconds: no look is due."""


class ControllerSettings(NamedTuple):
    """What a controller is made from.

    Attributes
    ----------
    values : mapping of str to float
        Every parameter of the throttle.
    round_us : int
        Length of a round, microseconds.
    spouts_above : mapping of str to sequence of str
        By stage that is no source, the source stages from which it can be reached.
    """

    values: Mapping[str, float]
    round_us: int
    spouts_above: Mapping[str, Sequence[str]]


class Controller(ABC):
    """What slows the sources of a job.

    The clock asks :meth:`first` before round 0, and then calls :meth:`observe` at the end of the
    first round that ends at or after :meth:`next_look_us`. While :attr:`wants_empty` is true it
    also calls at the end of every round in which the job is empty.

    Attributes
    ----------
    has_log : bool
        The sources stand before a durable log: what is not emitted waits there and is not lost.
    needs_ages : bool
        It looks at when the oldest record was emitted (``JobObservation.oldest_us``).
    messages : int
        Control messages sent so far, counted once per receiver: claims, events, rates. What a
        message is, each controller says.
    """

    has_log: ClassVar[bool] = False
    needs_ages: ClassVar[bool] = False

    _kept: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that change from round to round; plain JSON all of them."""

    def __init__(self) -> None:
        self.messages = 0

    @property
    def wants_empty(self) -> bool:
        """Whether it must also be called as soon as the job is empty."""
        return False

    @abstractmethod
    def first(self, sources: Sequence[SourceObservation]) -> list[Command]:
        """Return a command for each source, in force from round 0 on."""

    @abstractmethod
    def next_look_us(self) -> int:
        """Return the time of its next look, microseconds; :data:`NEVER` if none is due."""

    @abstractmethod
    def observe(self, job: JobObservation) -> list[Command]:
        """Return a command for each source, in the order of ``job.sources``.

        Parameters
        ----------
        seen : JobObservation
            The job at the end of a round, later than the one before.
        """

    def state(self) -> dict[str, Any]:
        """Return what it remembers: numbers, strings, lists and mappings by name.

        Notes
        -----
        JSON keeps a float exactly, so a controller that is restored from it goes on as if it had
        never stopped.
        """
        return {name: deepcopy(getattr(self, name)) for name in self._names()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` of a controller of the same kind has returned.

        Raises
        ------
        ValueError
            If it is not the state of such a controller; nothing is changed then.
        """
        names = set(self._names())
        if set(state) != names:
            found = ", ".join(sorted(state)) or "nothing"
            wanted = ", ".join(sorted(names))
            raise ValueError(
                f"the state of {type(self).__name__} has {wanted}; this one has {found}: "
                "restore it into a controller of the same throttle"
            )
        for name in names:
            setattr(self, name, deepcopy(state[name]))

    def _names(self) -> tuple[str, ...]:
        return ("messages", *self._kept)


def interval_us(interval_ms: float, round_us: int) -> int:
    """Return the time between two looks, microseconds; at least a round, for none is finer."""
    return max(round(interval_ms * 1000), round_us)


def next_tick_us(now_us: int, every_us: int) -> int:
    """Return the first multiple of an interval after a time, so that looks do not drift."""
    return (now_us // every_us + 1) * every_us
