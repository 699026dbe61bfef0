"""Changes to a scenario from a command line: ``stages.sink.service_rate=3000``."""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import yaml

from flowcontrol.errors import Problem
from flowcontrol.scenario.models import ScenarioHead
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.yaml_file import read_yaml_value

Overrides = Mapping[str, Any] | Sequence[str]
"""Changes: values by key, ``{"stages.sink.service_rate": 300}``, or ``KEY=VALUE`` as for --set."""

_KEYS: Final = {field.alias or name for name, field in ScenarioHead.model_fields.items()}
"""Keys of the top of a scenario."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_PART = re.compile(r'"([^"]*)"|\'([^\']*)\'|\[(\d+)\]|([^.\[\]"\'=]+)')


def split_path(path: str) -> tuple[str, ...]:
    """Return the parts of a key path.

    ``path``: keys with dots between them, positions or names of stages; a key with a dot in it is
    quoted: ``options."taskmanager.memory.segment-size"``, ``stages[0].emit_rate``.

    Raises ValueError if it is not a path.
    """
    parts, at = [], 0
    while at < len(path):
        match = _PART.match(path, at)
        if match is None:
            raise ValueError(f"{show(path)} is not a path of a key")
        parts.append(next(group for group in match.groups() if group is not None))
        at = match.end()
        if at < len(path) and path[at] == ".":
            at += 1
    if not parts or path.endswith("."):
        raise ValueError(f"{show(path)} is not a path of a key")
    return tuple(parts)


def split_key(key: str, mapping: Mapping[str, Any] = _NOTHING) -> tuple[str, ...]:
    """Return the parts of the key of a scenario, an option's own key being one part.

    ``key``: as :func:`split_path` takes it. The quotes around an option's key may be left out: a
    shell takes them away. Where it cannot be anything else, it may be as short as results have it:
    ``sink.service_rate`` for a key of a stage, ``buffers-per-channel`` for an option by the end of
    its key.

    Returns ``("stages", "sink", "service_rate")``, ``("options",
    "taskmanager.memory.segment-size")``. Raises ValueError if it is not a path.
    """
    first, *rest = split_path(key)
    if first == "options" and rest:
        return first, _whole_option(".".join(rest))
    if first in _KEYS:
        return first, *rest
    for kind in ("stages", "operators"):
        if rest and first in _names(mapping, kind):
            return kind, first, *rest
    option = _whole_option(".".join((first, *rest)))
    return ("options", option) if option in OPTIONS else (first, *rest)


def read_path(key: str, base: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the path of a key in its one form: the same for all ways to write it.

    - ``key``: as ``--set`` takes it.
    - ``base``: the scenario file; a stage may be given by its position.

    Returns ``("stages", "sink", "service_rate")``; an option's key is one part. Raises ValueError
    if it is not a path.
    """
    first, *rest = split_key(key, base)
    items = base.get(first)
    if first in ("stages", "operators") and rest and isinstance(items, list):
        rest[0] = _name_at(items, rest[0])
    return first, *rest


def _name_at(items: Sequence[Any], key: str) -> str:
    """Return the name of the stage at a position; anything else stays as it is."""
    if key.isdecimal() and int(key) < len(items) and isinstance(items[int(key)], Mapping):
        return str(items[int(key)].get("name", key))
    return key


def _names(mapping: Mapping[str, Any], kind: str) -> set[object]:
    stages = mapping.get(kind)
    found = stages if isinstance(stages, list) else []
    return {stage.get("name") for stage in found if isinstance(stage, Mapping)}


def _whole_option(key: str) -> str:
    """Return the one option whose key ends so; the key as it is if there is none, or several."""
    found = [known for known in OPTIONS if known.endswith(f".{key}")]
    return found[0] if len(found) == 1 and key not in OPTIONS else key


def as_texts(overrides: Overrides) -> list[str]:
    """Return changes as ``KEY=VALUE`` each.

    Raises ValueError if they are a text, or one of them is none, or a value that no file can state.
    """
    if isinstance(overrides, Mapping):
        return [f"{key}={_json(key, value)}" for key, value in overrides.items()]
    if isinstance(overrides, str) or not all(isinstance(one, str) for one in overrides):
        raise ValueError(f"overrides is {overrides!r}: needs a mapping, or a list of KEY=VALUE")
    return list(overrides)


def _json(key: str, value: Any) -> str:
    """Return a value as JSON, those of numpy too."""
    try:
        return json.dumps(value, default=lambda one: one.tolist())
    except (AttributeError, TypeError, ValueError) as error:
        text = f"overrides has {show(value)} for {key}: needs a value that a file can state"
        raise ValueError(text) from error


def apply_overrides(
    mapping: dict[str, Any], overrides: Sequence[str], problems: list[Problem]
) -> dict[str, Any]:
    """Return a copy of a scenario file with some of its values changed.

    - ``mapping``: the file; it is not changed.
    - ``overrides``: ``PATH=VALUE`` each, the value in YAML.
    - ``problems``: grows by every change that cannot be made.

    Returns the copy. A key that is not there yet is added (and refused later if unknown).
    """
    changed = copy.deepcopy(mapping)
    seen: set[tuple[str, ...]] = set()
    for override in overrides:
        path, equals, text = override.partition("=")
        try:
            if not equals:
                raise ValueError(f"{show(override)} is not of the form PATH=VALUE")
            if (key := read_path(path.strip(), changed)) in seen:
                raise ValueError("it is set twice: set it once")
            seen.add(key)
            _set(changed, split_key(path.strip(), changed), read_yaml_value(text))
        except (ValueError, yaml.YAMLError) as error:
            problems.append(Problem(path.strip() or override, f"cannot be set: {error}"))
    return changed


def _set(container: Any, parts: tuple[str, ...], value: Any) -> None:
    """Set one value, making the mappings on the way."""
    key, *rest = parts
    if isinstance(container, list):
        index = _position(container, key)
        if rest:
            _set(container[index], tuple(rest), value)
        else:
            container[index] = value
    elif not isinstance(container, dict):
        within = f"there is no {key!r} in {show(container)}"
        raise ValueError(f"{within}: write a mapping in its place, {{{key}: ...}}")
    elif rest:
        _set(container.setdefault(key, {}), tuple(rest), value)
    else:
        container[key] = value


def _position(items: list[Any], key: str) -> int:
    """Return the position of an item, by number or by its name."""
    if key.isdecimal() and int(key) < len(items):
        return int(key)
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    if key in names:
        return names.index(key)
    named = ", ".join(str(name) for name in names if name is not None)
    raise ValueError(f"{key!r} is none of {len(items)} items" + (f" ({named})" if named else ""))
