"""Reading YAML strictly: no key twice, and plain words stay words.

PyYAML reads YAML 1.1, where ``no`` is false, ``1:30`` is ninety and ``1e3`` is text. Here the
core schema of YAML 1.2 counts: true and false, decimal numbers with or without an exponent.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.files import package_yaml

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


for _tag, _pattern, _first in (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("tTfF")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("merge", re.compile("<<"), ["<"]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern.pattern})$"), _first
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
