"""The numbers and texts of a scenario file: what each may be, and the refusal if it is not.

A number is read exactly: YAML's 0.1 becomes one tenth. Truth values, text, NaN and infinity
are no numbers here, whatever Python thinks of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from flowcontrol.scenario.problems import show
from flowcontrol.scenario.units import read_memory

__all__ = [
    "Bytes",
    "Count",
    "Index",
    "Milliseconds",
    "Moment",
    "Name",
    "Parallelism",
    "PerSecond",
    "PositiveBytesPerSecond",
    "PositiveMilliseconds",
    "PositiveSeconds",
    "Seed",
    "StageName",
    "Variation",
    "Weight",
    "exact",
]

MAX_SECONDS: Final = 10**9
"""Longest time that is read, seconds: some 30 years, and still exact in a double."""
MAX_RATE: Final = 10**12
"""Highest rate that is read, records/s: one a picosecond; more is a slip of the pen."""
MAX_PARALLELISM: Final = 32_768
"""Flink's ``KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM``, 2**15."""
MAX_BYTES: Final = 2**31 - 1
"""Largest record, bytes: a Java array's length."""
MAX_VARIATION: Final = 1000
"""Highest coefficient of variation: one record in ten thousand takes half of all the time."""


def refuse(message: str) -> PydanticCustomError:
    """Return the error that carries a finished sentence through pydantic (braces and all)."""
    return PydanticCustomError("scenario", "{message}", {"message": message})


def exact(value: object) -> Fraction | None:
    """Return a finite number of the file as a Fraction, None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Fraction):
        return Fraction(value)
    if isinstance(value, float) and math.isfinite(value):
        return Fraction(repr(value))
    return None


@dataclass(frozen=True)
class Number:
    """What a number may be; calling it reads one.

    Attributes
    ----------
    unit : str
        What it counts, for the refusal.
    low, high : int
        Smallest and largest value.
    is_low_allowed : bool
        False: it must be more than ``low``.
    step : Fraction or None
        The value must be a multiple of it: 1, or a microsecond in the unit.
    """

    unit: str
    low: int
    high: int
    is_low_allowed: bool = True
    step: Fraction | None = None

    @property
    def limits(self) -> str:
        """The range in words."""
        edge = "at least" if self.is_low_allowed else "more than"
        steps = ""
        if self.step is not None:
            steps = "" if self.step == 1 else ", in whole microseconds"
        return f"{edge} {self.low} and at most {self.high}{steps}"

    def __call__(self, value: object) -> Fraction:
        """Return the number exactly.

        Raises
        ------
        PydanticCustomError
            If it is not a finite number within the limits.
        """
        number = exact(value)
        if number is None:
            hint = "; write it without quotes" if isinstance(value, str) else ""
            what = "not a finite number" if isinstance(value, float) else "not a number"
            raise refuse(f"{show(value)} is {what}: needs {self.unit}, {self.limits}{hint}")
        is_above = number >= self.low if self.is_low_allowed else number > self.low
        is_on_step = self.step is None or (number / self.step).denominator == 1
        if not (is_above and is_on_step and number <= self.high):
            raise refuse(f"{show(value)} is out of range: needs {self.unit}, {self.limits}")
        return number


@dataclass(frozen=True)
class Whole(Number):
    """A :class:`Number` that is read as an int."""

    step: Fraction | None = Fraction(1)

    def __call__(self, value: object) -> int:  # type: ignore[override]
        """Return the number; errors as :class:`Number`."""
        return int(super().__call__(value))


@dataclass(frozen=True)
class Size(Whole):
    """Bytes: a whole number, or a text with a unit such as ``4 KiB``."""

    def __call__(self, value: object) -> int:  # type: ignore[override]
        """Return the bytes; errors as :class:`Number`."""
        if isinstance(value, str):
            try:
                value = read_memory(value)
            except ValueError as error:
                raise refuse(str(error)) from error
        return super().__call__(value)


@dataclass(frozen=True)
class Word:
    """A short text that becomes a name of folders and tables; calling it reads one."""

    kind: str
    symbols: str = "_-"
    longest: int = 60

    def __call__(self, value: object) -> str:
        """Return the text.

        Raises
        ------
        PydanticCustomError
            If it is not text, too long, or holds what a folder's name should not.
        """
        rule = (
            f"needs {self.kind}: letters, digits and any of {self.symbols!r}, a letter or digit "
            f"first, at most {self.longest} characters"
        )
        if not isinstance(value, str):
            raise refuse(f"{show(value)} is not text: {rule}")
        plain = all(c.isascii() and (c.isalnum() or c in self.symbols) for c in value)
        if not plain or not value or not value[0].isalnum() or len(value) > self.longest:
            raise refuse(f"{show(value)} is not allowed: {rule}")
        return value


_MICRO = Fraction(1, 1_000_000)
_MILLI = Fraction(1, 1_000)


def _reads(reader: Any) -> Any:
    return PlainValidator(reader)


PerSecond = Annotated[Fraction, _reads(Number("a rate in records/s", 0, MAX_RATE))]
Moment = Annotated[Fraction, _reads(Number("a time in s", 0, MAX_SECONDS, step=_MICRO))]
PositiveSeconds = Annotated[
    Fraction, _reads(Number("a time in s", 0, MAX_SECONDS, is_low_allowed=False, step=_MICRO))
]
PositiveMilliseconds = Annotated[
    Fraction, _reads(Number("a time in ms", 0, MAX_SECONDS, is_low_allowed=False, step=_MILLI))
]
Milliseconds = Annotated[Fraction, _reads(Number("a time in ms", 0, MAX_SECONDS, step=_MILLI))]
PositiveBytesPerSecond = Annotated[
    Fraction, _reads(Number("bytes/s", 0, 10**15, is_low_allowed=False))
]
Weight = Annotated[Fraction, _reads(Number("a share", 0, 10**12))]
Selectivity = Annotated[Fraction, _reads(Number("records out per record in", 0, 10**6))]
Variation = Annotated[
    Fraction, _reads(Number("a coefficient of variation", 0, MAX_VARIATION, is_low_allowed=False))
]
Parallelism = Annotated[int, _reads(Whole("a whole number of subtasks", 1, MAX_PARALLELISM))]
Count = Annotated[int, _reads(Whole("a whole number", 1, MAX_PARALLELISM))]
Index = Annotated[int, _reads(Whole("a whole number", 0, MAX_PARALLELISM))]
Bytes = Annotated[int, _reads(Size("whole bytes", 1, MAX_BYTES))]
Seed = Annotated[int, _reads(Whole("a whole number", 0, 2**63 - 1))]
Name = Annotated[str, _reads(Word("a name", symbols="_-."))]
StageName = Annotated[str, _reads(Word("the name of a stage"))]
