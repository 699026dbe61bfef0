"""Types of the numbers and texts of a scenario file, with their refusals.

A number is read exactly: YAML's 0.1 becomes one tenth. Truth values, text, NaN and infinity
are not numbers here, unlike in Python. A number is written as it was read.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from flowcontrol.scenario.problems import show
from flowcontrol.scenario.syntax import MEMORY_PATTERN, read_memory, read_table

MAX_SECONDS: Final = 10**9
"""Longest time that is read, seconds: some 30 years, and still exact in a double."""
MAX_RATE: Final = 10**12
"""Highest rate that is read, records/s: one a picosecond; more is a slip of the pen."""
MAX_PARALLELISM: Final = 32_768
"""Flink's ``KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM``, 2**15."""
MAX_BYTES: Final = 2**31 - 1
"""Largest record, bytes: a Java array's length."""
MAX_STATE_BYTES: Final = 2**53
"""Largest state of a subtask, bytes: whole numbers up to here are exact in a double."""
MAX_VARIATION: Final = 1000
"""Highest coefficient of variation: one record in ten thousand takes half of all the time."""

MAX_NAME: Final = 60
"""Most characters of a name, which becomes that of a folder."""

_THOUSANDS: Final = {"k": 1000, "K": 1000, "M": 1_000_000}
"""What people write behind a rate; a file has the number itself."""

_NUMBER_AND_MORE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([^\s0-9].*?)?\s*")

UNIT: Final = "x-unit"
"""Key of a JSON schema that has a number's unit in words; validators pass over it."""

MEMORY_TEXT: Final[JsonSchemaValue] = {
    "type": "string",
    "pattern": MEMORY_PATTERN,
    "patternErrorMessage": "Write a whole number and a unit, as 32kb, 4 MiB or 1g.",
}
"""JSON schema of a size with its unit; the message is for editors."""

T = TypeVar("T")


def refuse(message: str, *at: str | int) -> PydanticCustomError:
    """Return the pydantic error of a message, which may contain braces.

    ``at`` is the place inside the value, if the problem is only a part of it.
    """
    return PydanticCustomError("scenario", "{message}", {"message": message, "at": at})


def exact(value: object) -> Fraction | None:
    """Return a finite number of the file as a Fraction, None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Fraction):
        return Fraction(value)
    if isinstance(value, float) and math.isfinite(value):
        return Fraction(repr(value))
    return None


def write_number(value: Fraction | float) -> int | float:
    """Return a number as a file has it: a whole one as int, another as the double it came from."""
    if isinstance(value, int):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


def _instead(text: str) -> str:
    """Return what to write in the place of a text where a number should be."""
    found = _NUMBER_AND_MORE.fullmatch(text)
    if found is None:
        return ""
    if found[2] is None:
        return "; write it without quotes"
    if found[2] in _THOUSANDS:
        return f"; write {write_number(Fraction(found[1]) * _THOUSANDS[found[2]])}"
    return "; write a number alone, in this unit"


@dataclass(frozen=True)
class Number:
    """Range of a number: metadata of a field, whose type (int, float, Fraction) it is read as."""

    unit: str  # What it counts, for the refusal
    low: int  # low, high: smallest and largest value
    high: int
    is_low_allowed: bool = True  # False: it must be more than ``low``
    # The value must be a multiple of it: 1, or a microsecond or a millisecond in the unit.
    step: Fraction | None = None
    grain: str = "whole microseconds"  # The step in words; not shown where it is 1

    @property
    def limits(self) -> str:
        """The range in words."""
        edge = "at least" if self.is_low_allowed else "more than"
        steps = "" if self.step in {None, 1} else f", in {self.grain}"
        return f"{edge} {self.low} and at most {self.high}{steps}"

    def read(self, value: object) -> Fraction:
        """Return the number exactly.

        Raises PydanticCustomError if it is not a finite number within the limits.
        """
        number = exact(value)
        if number is None:
            hint = _instead(value) if isinstance(value, str) else ""
            what = "not a finite number" if isinstance(value, float) else "not a number"
            raise refuse(f"{show(value)} is {what}: needs {self.unit}, {self.limits}{hint}")
        is_above = number >= self.low if self.is_low_allowed else number > self.low
        is_on_step = self.step is None or (number / self.step).denominator == 1
        if not (is_above and is_on_step and number <= self.high):
            raise refuse(f"{show(value)} is out of range: needs {self.unit}, {self.limits}")
        return number

    def json_schema(self) -> JsonSchemaValue:
        """Return what an editor checks: type and range, with the unit in words."""
        low = "minimum" if self.is_low_allowed else "exclusiveMinimum"
        kind = "integer" if self.step == 1 else "number"
        return {"type": kind, low: self.low, "maximum": self.high, UNIT: self.unit}

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return self.json_schema()

    def __get_pydantic_core_schema__(self, kind: Any, _: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: kind(self.read(value)),
            serialization=core_schema.plain_serializer_function_ser_schema(write_number),
        )


@dataclass(frozen=True)
class Size(Number):
    """Bytes: a whole number, or a text with a unit such as ``4 KiB``."""

    def read(self, value: object) -> Fraction:
        """Return the bytes; errors as :class:`Number`."""
        if isinstance(value, str):
            try:
                value = read_memory(value)
            except ValueError as error:
                raise refuse(str(error)) from error
        return super().read(value)

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema of the number or of a text with a unit."""
        return {"anyOf": [MEMORY_TEXT, super().json_schema()]}


@dataclass(frozen=True)
class _OrNull:
    """Metadata of a type whose key may be null: left out."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "null"}]}


def _read_word(value: object, kind: str, symbols: str) -> str:
    """Return a short text that becomes a name of folders and tables."""
    rule = (
        f"needs {kind}: letters, digits and any of {symbols!r}, a letter or digit first, at most "
        f"{MAX_NAME} characters"
    )
    if not isinstance(value, str):
        raise refuse(f"{show(value)} is not text: {rule}")
    plain = all(c.isascii() and (c.isalnum() or c in symbols) for c in value)
    if not plain or not value or not value[0].isalnum() or len(value) > MAX_NAME:
        raise refuse(f"{show(value)} is not allowed: {rule}")
    return value


ONE: Final = Fraction(1)
_MICRO: Final = Fraction(1, 1_000_000)
_MILLI: Final = Fraction(1, 1_000)
_TIME = Number("a time in s", 0, MAX_SECONDS, step=_MICRO)
_LENGTH = Number("a time in s", 0, MAX_SECONDS, is_low_allowed=False, step=_MICRO)

_WHOLE_MS = "whole milliseconds"

PerSecond = Annotated[Fraction, Number("a rate in records/s", 0, MAX_RATE)]
Moment = Annotated[Fraction, _TIME]
PositiveSeconds = Annotated[Fraction, _LENGTH]
PositiveFloatSeconds = Annotated[float, _LENGTH]
PositiveMilliseconds = Annotated[
    float, Number("a time in ms", 0, MAX_SECONDS, is_low_allowed=False, step=_MILLI)
]
Milliseconds = Annotated[float, Number("a time in ms", 0, MAX_SECONDS, step=_MILLI)]
ControlMilliseconds = Annotated[float, Number("a time in ms", 0, 1000, step=_MILLI)]
"""Of a call of the control plane: when one takes much longer than a second, slots are given up
before a JobMaster confirms them."""
EventSeconds = Annotated[
    Fraction, Number("a time in s", 0, MAX_SECONDS, step=_MILLI, grain=_WHOLE_MS)
]
"""A time of event time, which counts in whole milliseconds, as Flink's timestamps do."""
PositiveEventSeconds = Annotated[
    Fraction,
    Number("a time in s", 0, MAX_SECONDS, is_low_allowed=False, step=_MILLI, grain=_WHOLE_MS),
]
EventOffset = Annotated[
    Fraction, Number("a time in s", -MAX_SECONDS, MAX_SECONDS, step=_MILLI, grain=_WHOLE_MS)
]
PositiveBytesPerSecond = Annotated[float, Number("bytes/s", 0, 10**15, is_low_allowed=False)]
Weight = Annotated[Fraction, Number("a share", 0, 10**12)]
Selectivity = Annotated[
    Fraction,
    Number("records out per record in", 0, 10**6),
    BeforeValidator(lambda value: 1 if value is None else value),
    _OrNull(),
]
Variation = Annotated[
    float, Number("a coefficient of variation", 0, MAX_VARIATION, is_low_allowed=False)
]
Parallelism = Annotated[int, Number("a whole number of subtasks", 1, MAX_PARALLELISM, step=ONE)]
Count = Annotated[int, Number("a whole number", 1, MAX_PARALLELISM, step=ONE)]
Index = Annotated[int, Number("a whole number", 0, MAX_PARALLELISM, step=ONE)]
Bytes = Annotated[int, Size("whole bytes", 1, MAX_BYTES, step=ONE)]
StateBytes = Annotated[int, Size("whole bytes", 0, MAX_STATE_BYTES, step=ONE)]
Share = Annotated[Fraction, Number("a share", 0, 1)]
Cores = Annotated[Fraction, Number("a number of processors", 0, 100_000, is_low_allowed=False)]
Seed = Annotated[int, Number("a whole number", 0, 2**63 - 1, step=ONE)]


def _word(symbols: str) -> WithJsonSchema:
    """Return the JSON schema of a text that :func:`_read_word` takes."""
    pattern = f"^[A-Za-z0-9][A-Za-z0-9{re.escape(symbols)}]{{0,{MAX_NAME - 1}}}$"
    return WithJsonSchema({"type": "string", "pattern": pattern})


read_name: Final = partial(_read_word, kind="a name", symbols="_-.")
read_stage_name: Final = partial(_read_word, kind="the name of a stage", symbols="_-")

Name = Annotated[str, PlainValidator(read_name), _word("_-.")]
StageName = Annotated[str, PlainValidator(read_stage_name), _word("_-")]
Text = Annotated[str, Field(strict=True, min_length=1)]

WorkedOut = Annotated[
    T, WrapValidator(lambda value, read: None if value is None else read(value)), _OrNull()
]
"""Type of a field that a file may leave out (null) because it follows from other keys.

Such a field is None until :mod:`flowcontrol.scenario.resolve` has
filled it in, and never in a scenario that was read; hence its type is without None.
"""


KEYS: Final = read_table("keys.yaml")
"""Meaning, example and Flink's name of each key, by model."""


def key(name: str, default: Any = None, **more: Any) -> Any:
    """Return the field of a key, with its meaning; None unless the file states it.

    - ``name``: model and key, as ``keys.yaml`` has them.
    - ``default``: ``...``: the file must state it.
    """
    model, _, own = name.partition(".")
    return Field(default=default, description=KEYS[model][own]["text"], **more)


def is_stated(model: object, key: str) -> bool:
    """Tell whether the file states a :data:`WorkedOut` field."""
    return getattr(model, key) is not None


class Mapping(BaseModel):
    """A mapping of the file: frozen, no key that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quiet: ClassVar[frozenset[str]] = frozenset()
    """Keys that are written down only where they are not at their default."""

    def is_written(self, key: str) -> bool:
        """Tell whether a key is written down."""
        return key not in self.quiet or getattr(self, key) != type(self).model_fields[key].default

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if self.is_written(key)}
