"""Syntax of what a scenario states: strict YAML; sizes, durations and truth values as in Flink."""

import re
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.files import package_yaml

# --- Flink's value syntax: sizes of memory, durations and truth values.
#
# Only text and numbers live here; which option has which kind of value is in
# :mod:`flowcontrol.scenario.option_table`. Every reader raises ``ValueError`` with the value
# and the syntax; the caller adds the key.


LONG_MAX: Final = 2**63 - 1
"""Largest value of a Java long; Flink refuses a size of memory beyond it."""

_MEMORY_NAMES: Final = (
    ("b", "bytes"),
    ("k", "kb", "kib", "kibibytes"),
    ("m", "mb", "mib", "mebibytes"),
    ("g", "gb", "gib", "gibibytes"),
    ("t", "tb", "tib", "tebibytes"),
)

MEMORY_UNITS: Final[dict[str, int]] = {
    name: 1024**power for power, names in enumerate(_MEMORY_NAMES) for name in names
}
"""Bytes of each unit of memory. All multiples are binary, ``kb`` too. Flink has these names but for
``kib`` and its like, which say what is meant."""

_TIME_NAMES: Final = (
    (86_400 * 10**9, ("d", "day", "days")),
    (3_600 * 10**9, ("h", "hour", "hours")),
    (60 * 10**9, ("min", "m", "minute", "minutes")),
    (10**9, ("s", "sec", "secs", "second", "seconds")),
    (10**6, ("ms", "milli", "millis", "millisecond", "milliseconds")),
    (10**3, ("µs", "micro", "micros", "microsecond", "microseconds")),
    (1, ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
)

TIME_UNITS_NS: Final[dict[str, int]] = {
    name: nanoseconds for nanoseconds, names in _TIME_NAMES for name in names
}
"""Nanoseconds of each unit of time."""

_NUMBER_AND_UNIT: Final = re.compile(r"([0-9]+)\s*([^\s0-9]*)")


def _pattern(units: Iterable[str]) -> str:
    """Return the regular expression of a number with one of some units, in any case.

    In the dialect of JSON schemas (ECMA 262), which has no flag for upper and lower case.
    """
    letters = {unit: "".join(_either_case(letter) for letter in unit) for unit in units}
    return rf"^\s*[0-9]+\s*({'|'.join(letters.values())})?\s*$"


def _either_case(letter: str) -> str:
    return f"[{letter}{letter.upper()}]" if letter.isascii() else letter


MEMORY_PATTERN: Final = _pattern(MEMORY_UNITS)
"""What :func:`read_memory` takes as text, for JSON schemas."""

DURATION_PATTERN: Final = _pattern(TIME_UNITS_NS)
"""What :func:`read_duration_us` takes as text, but for -1."""


def _split(value: object, kind: str, syntax: str) -> tuple[int, str]:
    """Return number and unit (in lower case, perhaps empty) of one value."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not {kind}: write {syntax}")
    match = _NUMBER_AND_UNIT.fullmatch(str(value).strip().lower())
    if match is None:
        raise ValueError(f"{value!r} is not {kind}: write {syntax}")
    return int(match[1]), match[2]


def read_memory(value: object) -> int:
    """Read a size of memory.

    Flink's ``MemorySize``: whole numbers only, any case, blanks allowed around the unit. The one
    syntax of sizes: scenarios, links and options of the data source read theirs here.

    ``value``: ``32kb``, ``64 mb``, ``4 MiB``, ``1g``; a number without a unit counts bytes.

    Returns the number of bytes, at least 0. Raises ValueError if it is not a whole number with a
    known unit, or is beyond a Java long.

    Examples
    --------
    >>> read_memory("32kb"), read_memory("64 MiB"), read_memory(512)
    (32768, 67108864, 512)
    """
    syntax = "a whole number and a unit, as 32kb, 4 MiB or 1g (b, kb, mb, gb, tb, all binary)"
    number, unit = _split(value, "a size of memory", syntax)
    if unit and unit not in MEMORY_UNITS:
        raise ValueError(f"{value!r} has the unknown unit {unit!r}: write {syntax}")
    size = number * MEMORY_UNITS.get(unit, 1)
    if size > LONG_MAX:
        raise ValueError(f"{value!r} is more than the largest size of memory, {LONG_MAX} bytes")
    return size


def read_duration_us(value: object) -> int:
    """Read a duration.

    Flink's ``TimeUtils.parseDuration``; ``-1`` was the way to write "never" while the
    buffer timeout was a plain number of milliseconds.

    ``value``: ``100ms``, ``1 s``, ``5 min``; a number without a unit counts milliseconds. ``-1``
    means "never" where an option supports it.

    Returns microseconds, at least 0; -1 for ``-1`` (with or without a unit). Raises ValueError if
    it is not a whole number with a known unit, is another negative number, or is not a whole number
    of microseconds.

    Examples
    --------
    >>> read_duration_us("100ms"), read_duration_us("1 s"), read_duration_us(0)
    (100000, 1000000, 0)
    """
    syntax = "a whole number and a unit, as 100ms, 1 s or 5 min (d, h, min, s, ms, µs, ns)"
    if re.fullmatch(r"-1\s*(ms)?", str(value).strip()):
        return -1
    number, unit = _split(value, "a duration", syntax)
    if unit and unit not in TIME_UNITS_NS:
        raise ValueError(f"{value!r} has the unknown unit {unit!r}: write {syntax}")
    nanoseconds = number * TIME_UNITS_NS[unit or "ms"]
    if nanoseconds % 1000:
        raise ValueError(f"{value!r} is not a whole number of microseconds, the finest time here")
    return nanoseconds // 1000


def read_boolean(value: object) -> bool:
    """Read a truth value: YAML's own, or the text ``true`` or ``false`` in any case.

    Raises ValueError if it is anything else; 0 and 1, yes and no are refused as Flink refuses them.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ValueError(f"{value!r} is not a truth value: write true or false")


# --- Reading YAML strictly: no key twice, and plain words stay words.
#
# PyYAML reads YAML 1.1, where ``no`` is false, ``1:30`` is ninety and ``1e3`` is text. Here the
# core schema of YAML 1.2 counts: true and false, decimal numbers with or without an exponent.


_NULL: Final = re.compile(r"~|null|Null|NULL|")
_BOOL: Final = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9][0-9_]*")
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the words of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - how PyYAML names its table


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(str(loader.construct_scalar(node)).replace("_", ""))


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    """Build a mapping; a duplicate key is an error."""
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = (
            getattr(key_node, "value", None) if key_node.tag != "tag:yaml.org,2002:merge" else None
        )
        line = key_node.start_mark.line + 1
        if isinstance(key, str) and seen.setdefault(key, line) != line:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                f"the key {key!r} is repeated, first in line {seen[key]}: keep one",
                key_node.start_mark,
            )
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


for _tag, _regex, _first in (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("tTfF")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("merge", re.compile("<<"), ["<"]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_regex.pattern})$"), _first
    )
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_yaml_value(text: str) -> Any:
    """Return the value of one YAML text; ``yaml.YAMLError`` if it is none."""
    if _INT.fullmatch(text):  # as a sweep has thousands of
        return int(text.replace("_", ""))
    return yaml.load(text, Loader=_Loader)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file that holds one mapping.

    Raises ScenarioError if there is no such file, or it is not text in UTF-8, not YAML, empty, no
    mapping, or has a key twice. The place is ``file``, with line and column where YAML knows them.
    """
    try:
        value = read_yaml_value(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise _refusal(path, "file", f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _refusal(path, "file", f"is not text in UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        raise _refusal(path, *_yaml_fault(error)) from error
    except (ValueError, RecursionError) as error:
        raise _refusal(path, "file", f"is not YAML that can be read: {error}") from error
    if value is None:
        raise _refusal(path, "file", "is empty: write a mapping that begins with schema: 1")
    if not isinstance(value, dict):
        text = f"holds a {type(value).__name__}: write a mapping that begins with schema: 1"
        raise _refusal(path, "file", text)
    return value


def read_table(name: str) -> dict[str, Any]:
    """Return a table of this package, a YAML file: rows by name, or groups of them."""
    table: dict[str, Any] = package_yaml(__package__, name)
    return table


def _refusal(path: Path, place: str, message: str) -> ScenarioError:
    return ScenarioError([Problem(place, message)], str(path))


def _yaml_fault(error: yaml.YAMLError) -> tuple[str, str]:
    """Return place and reason of an error of PyYAML."""
    mark = getattr(error, "problem_mark", None)
    reason = str(getattr(error, "problem", None) or error)
    if mark is None:
        return "file", f"is not YAML: {reason}"
    place = f"line {mark.line + 1}, column {mark.column + 1}"
    return place, reason if "is repeated" in reason else f"is not YAML: {reason}"
