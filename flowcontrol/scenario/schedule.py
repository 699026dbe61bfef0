"""Rates over time, exactly: piecewise constant, in Fractions and whole microseconds.

A rate of 0.1 records/s is one tenth here, not the nearest double, so that the number of
records due by a moment never depends on how a run was cut into rounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, lcm
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    PlainSerializer,
    Tag,
    ValidationInfo,
    model_validator,
)

from flowcontrol.scenario.fields import Moment, PerSecond, key, refuse, write_number
from flowcontrol.scenario.problems import show

MICROSECONDS: Final = 1_000_000
"""Microseconds of a second."""

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")

Span = tuple[int, int]
"""A time in microseconds: its first, and the one after its last."""


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans in the order of time, those that overlap or touch made one.

    ``spans``: first microsecond and the one after the last, in any order.

    Between two of them there is at least a microsecond.
    """
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return tuple(found)


class Phase(BaseModel):
    """One phase of a schedule: from a moment on, a rate."""

    model_config = _FROZEN

    at_us: int  # Start of the phase in emulated microseconds since the start of the run, at least 0
    rate: Fraction  # Records per emulated second, at least 0; 0 means that nothing happens

    @model_validator(mode="after")
    def _check(self) -> Phase:
        if self.at_us < 0 or self.rate < 0:
            raise ValueError(f"at_us and rate must be at least 0, not {self.at_us}, {self.rate}")
        return self


class Schedule(BaseModel):
    """A rate over the whole run; the last phase lasts for ever.

    Examples
    --------
    >>> slower = Phase(at_us=20_000_000, rate=Fraction(3000))
    >>> schedule = Schedule(phases=(Phase(at_us=0, rate=Fraction(6000)), slower))
    >>> schedule.records_until(21_000_000)
    123000
    """

    model_config = _FROZEN

    phases: tuple[Phase, ...]  # At least one; the first starts at 0, each later than the one before

    @model_validator(mode="after")
    def _check(self) -> Schedule:
        starts = [phase.at_us for phase in self.phases]
        if not starts or starts[0] != 0:
            raise ValueError("a schedule needs a first phase at 0")
        if any(later <= earlier for earlier, later in pairwise(starts)):
            raise ValueError(f"the phases of a schedule must start one after the other: {starts}")
        return self

    @classmethod
    def constant(cls, rate: Fraction | int) -> Schedule:
        """Return the schedule of one rate, records/s, at least 0."""
        return cls(phases=(Phase(at_us=0, rate=Fraction(rate)),))

    def integral(self, us: int) -> Fraction:
        """Return the exact number of records, fractions included, due by a moment.

        ``us``: emulated microseconds since the start, at least 0.

        Returns the integral of the rate from 0 to ``us``, in records. Raises ValueError if ``us``
        is negative.
        """
        if us < 0:
            raise ValueError(f"a schedule starts at 0; {us} us is before it")
        ends = [*(phase.at_us for phase in self.phases[1:]), us]
        parts = [
            (phase.rate, min(end, us) - phase.at_us)
            for phase, end in zip(self.phases, ends, strict=True)
            if phase.at_us < us
        ]
        unit = lcm(*(rate.denominator for rate, _ in parts))
        total = sum(rate.numerator * (unit // rate.denominator) * length for rate, length in parts)
        return Fraction(total, unit * MICROSECONDS)

    def records_until(self, us: int) -> int:
        """Return the whole records due by a moment: the floor of :meth:`integral`.

        ``us``: emulated microseconds since the start, at least 0.

        The number of records never falls as ``us`` grows.
        """
        integral = self.integral(us)
        return integral.numerator // integral.denominator

    def rate_at(self, us: int) -> Fraction:
        """Return the rate in force at a moment (a phase includes its start), records/s.

        ``us``: emulated microseconds since the start; before 0 the first phase counts.

        In records per emulated second.
        """
        at = bisect_right(self.phases, us, key=lambda phase: phase.at_us)
        return self.phases[max(0, at - 1)].rate

    def without(self, spans: Sequence[Span]) -> Schedule:
        """Return this schedule with a rate of 0 during some times.

        ``spans``: first microsecond and the one after the last, as :func:`merged` returns them.

        Outside the spans the rate is unchanged: lost records are not made up.
        """
        if not spans:
            return self
        starts = {phase.at_us for phase in self.phases} | {edge for span in spans for edge in span}
        phases: list[Phase] = []
        for at_us in sorted(starts):
            is_out = any(begin <= at_us < end for begin, end in spans)
            rate = Fraction(0) if is_out else self.rate_at(at_us)
            if not phases or rate != phases[-1].rate:
                phases.append(Phase(at_us=at_us, rate=rate))
        return Schedule(phases=tuple(phases))

    def divided(self, subtasks: int) -> tuple[Schedule, ...]:
        """Return the even part of each subtask, exactly: a third of 100 is 100/3.

        ``subtasks``: how many, at least 1.
        """
        parts = tuple(Phase(at_us=p.at_us, rate=p.rate / subtasks) for p in self.phases)
        return (Schedule(phases=parts),) * subtasks

    def after(self, us: int) -> Schedule:
        """Return this schedule from a moment on, which becomes 0 (microseconds, at least 0)."""
        later = [Phase(at_us=p.at_us - us, rate=p.rate) for p in self.phases if p.at_us > us]
        return Schedule(phases=(Phase(at_us=0, rate=self.rate_at(us)), *later))

    def times(self, factor: Fraction) -> Schedule:
        """Return this schedule with every rate multiplied by a number, at least 0."""
        phases = (Phase(at_us=p.at_us, rate=p.rate * factor) for p in self.phases)
        return Schedule(phases=tuple(phases))

    def reached_us(self, records: Fraction) -> int | None:
        """Return the first whole microsecond by which so many records are due; None: never."""
        before = Fraction(0)
        ends = [*(phase.at_us for phase in self.phases[1:]), None]
        for phase, end in zip(self.phases, ends, strict=True):
            left = (records - before) * MICROSECONDS
            if left <= 0:
                return phase.at_us
            if phase.rate > 0:
                needed = phase.at_us + ceil(left / phase.rate)
                if end is None or needed <= end:
                    return needed
            if end is not None:
                before += phase.rate * (end - phase.at_us) / MICROSECONDS
        return None

    def changes(self) -> tuple[int, ...]:
        """Return the moments after 0 at which the rate becomes another one, microseconds."""
        pairs = pairwise(self.phases)
        return tuple(later.at_us for earlier, later in pairs if later.rate != earlier.rate)


class PhaseSpec(BaseModel):
    """A phase in the form of the file."""

    model_config = _FROZEN

    at_s: Moment = key("PhaseSpec.at_s", ...)
    rate: PerSecond = key("PhaseSpec.rate", ...)


def _in_order(phases: tuple[PhaseSpec, ...]) -> Schedule:
    """Return a schedule; its first phase must start at 0, each of the others after another."""
    if phases[0].at_s != 0:
        text = f"{float(phases[0].at_s):g} is not 0: the first phase must have at_s: 0"
        raise refuse(text, 0, "at_s")
    for index, (before, phase) in enumerate(pairwise(phases), 1):
        if phase.at_s <= before.at_s:
            text = f"{float(phase.at_s):g} is not after {float(before.at_s):g}, the phase before"
            raise refuse(f"{text}: list the phases in order of time", index, "at_s")
    return Schedule(
        phases=tuple(Phase(at_us=int(p.at_s * MICROSECONDS), rate=p.rate) for p in phases)
    )


TAG_MARK: Final = "rate="
"""Begins the tags of :data:`Rates`, which pydantic puts into an error's place."""


def _kind_of_rate(value: Any) -> str:
    """Tell a number, a schedule (a list of mappings) and a list per subtask apart."""
    if isinstance(value, dict):
        return f"{TAG_MARK}schedule"
    if not isinstance(value, list | tuple):
        return f"{TAG_MARK}number"
    is_schedule = bool(value) and all(isinstance(item, dict) for item in value)
    return f"{TAG_MARK}schedule" if is_schedule else f"{TAG_MARK}subtasks"


_Constant = Annotated[PerSecond, AfterValidator(Schedule.constant), Tag(f"{TAG_MARK}number")]
_Phases = Annotated[tuple[PhaseSpec, ...], AfterValidator(_in_order), Tag(f"{TAG_MARK}schedule")]
_One = Annotated[_Constant | _Phases, Discriminator(_kind_of_rate)]
_PerSubtask = Annotated[tuple[_One, ...], Tag(f"{TAG_MARK}subtasks")]
_Written = Annotated[_Constant | _Phases | _PerSubtask, Discriminator(_kind_of_rate)]


def _one_a_subtask(
    read: Schedule | tuple[Schedule, ...], info: ValidationInfo
) -> tuple[Schedule, ...]:
    """Return the schedules as listed; a single one once for each subtask."""
    return (read,) * info.data.get("parallelism", 1) if isinstance(read, Schedule) else read


def _no_list(value: object) -> object:
    """Refuse a list with a rate per subtask; a schedule is a list of mappings."""
    if isinstance(value, list | tuple) and _kind_of_rate(value) == f"{TAG_MARK}subtasks":
        raise refuse(
            f"{show(value)} is not a rate of all subtasks together: write a number, or a schedule "
            "[{at_s, rate}]; emit_rate and service_rate take a list with one for each subtask"
        )
    return value


def _write_schedule(schedule: Schedule | None) -> list[dict[str, int | float]] | None:
    if schedule is None:
        return None
    return [
        {"at_s": write_number(Fraction(p.at_us, MICROSECONDS)), "rate": write_number(p.rate)}
        for p in schedule.phases
    ]


def _write_rates(schedules: tuple[Schedule, ...]) -> list[list[dict[str, int | float]] | None]:
    return [_write_schedule(schedule) for schedule in schedules]


if TYPE_CHECKING:  # what is kept; a file has another form
    Rate = Schedule
    Rates = tuple[Schedule, ...]
else:
    Rate = Annotated[_One, BeforeValidator(_no_list), PlainSerializer(_write_schedule)]
    Rates = Annotated[_Written, AfterValidator(_one_a_subtask), PlainSerializer(_write_rates)]
"""Rates of a stage, one schedule a subtask: written as a number, a schedule, or a list of either
for each subtask. The stage checks the length of the list. A ``Rate`` is one number or schedule."""
