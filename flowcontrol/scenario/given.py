"""A scenario as a caller gives it: a file, the mapping in one, or a scenario; and changes to it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from flowcontrol import notices
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario.models import Scenario, ScenarioHead
from flowcontrol.scenario.option_table import ALIASES, OPTIONS
from flowcontrol.scenario.problems import key_path, show
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.scenario.syntax import read_yaml, read_yaml_value

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
    listed = f" ({named})" if named else ""
    raise ValueError(f"{key!r} is not one of the {len(items)} items{listed}")


Given = Scenario | Mapping[str, Any] | str | Path
"""A scenario, the mapping in its file, or the file."""

Texts = str | Sequence[str]
"""One text, or several."""


def as_list(texts: Texts) -> list[str]:
    """Return texts as a list; one alone is not taken for its letters."""
    return [texts] if isinstance(texts, str) else list(texts)


def load_scenario(path: str | Path, *, overrides: Overrides = ()) -> Scenario:
    """Read and check a scenario file.

    Parameters
    ----------
    path : str or Path
        The YAML file. Paths of inputs in it are relative to its folder.
    overrides : mapping or sequence of str, optional
        Changes: values by key, or ``PATH=VALUE`` each: ``stages.sink.service_rate=3000``,
        ``options."taskmanager.memory.segment-size"=4kb``.

    Returns
    -------
    Scenario
        Checked, with every default filled in.

    Raises
    ------
    ScenarioError
        With everything that is wrong, each with the path of its key.
    """
    file = Path(path)
    mapping = read_yaml(file)
    problems: list[Problem] = []
    changed = apply_overrides(mapping, as_texts(overrides), problems)
    if problems:
        raise ScenarioError(problems, str(file))
    return parse_scenario(changed, str(file), file.resolve().parent)


@dataclass(frozen=True)
class Base:
    """A scenario before it is checked, so that keys may be changed or missing."""

    mapping: Mapping[str, Any]  # Keys and values of its file
    source: str  # Its name in refusals
    folder: str  # Base of relative paths of inputs

    def scenario(self, changes: Sequence[tuple[Sequence[str | int], Any]] = ()) -> Scenario:
        """Return the scenario with some keys changed.

        Raises ScenarioError with every problem of the scenario.
        """
        overrides = [f"{key_path(list(path))}={json.dumps(value)}" for path, value in changes]
        mapping = _changed(self.mapping, overrides, self.source)
        return parse_scenario(mapping, self.source, Path(self.folder))


def as_scenario(given: Given, overrides: Overrides = ()) -> Scenario:
    """Return a checked scenario.

    ``overrides``: changes: values by key, or ``KEY=VALUE`` each.

    Raises ScenarioError with everything that is wrong, each with the path of its key.

    Examples
    --------
    >>> as_scenario("conf/experiment.yaml", {"duration_s": 20}).duration_s
    20.0
    """
    if isinstance(given, Scenario) and not overrides:
        return given
    return as_base(given, overrides).scenario()


def as_base(given: Given, overrides: Overrides = ()) -> Base:
    """Return a scenario that is still to be checked, with changes; as :func:`as_scenario`."""
    if isinstance(given, Scenario):
        mapping = given.canonical() if given.jobs else _shortened(given)
        source, folder = given.name, Path()
    elif isinstance(given, Mapping):
        mapping, source, folder = dict(given), str(given.get("name", "scenario")), Path()
    else:
        file = Path(given)
        mapping, source, folder = read_yaml(file), str(file), file.resolve().parent
    changed = _changed(mapping, as_texts(overrides), source)
    for text in _unitless(changed.get("options")):
        notices.warn(text)
    return Base(changed, source, str(folder.resolve()))


def _unitless(options: object) -> Iterator[str]:
    """Yield a sentence for each time that an option states as a bare number, as ``30``."""
    for key, value in options.items() if isinstance(options, Mapping) else ():
        option, text = OPTIONS.get(str(ALIASES.get(key, key))), str(value).strip()
        if option is not None and option.kind == "duration" and text.isdecimal() and int(text):
            yield f"options.{key}: {text} is {text} ms, as Flink reads it; {text}s would be seconds"


def differences(there: Any, here: Any, at: tuple[str | int, ...] = ()) -> Iterator[str]:
    """Yield each key that two scenarios, as plain JSON, state differently: ``KEY is X there ...``.

    Stages and operators are told apart by their names, all else in a list by its position.
    """
    if isinstance(there, list) and isinstance(here, list):
        there, here = _by_name(there), _by_name(here)
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in dict.fromkeys((*there, *here)):
            yield from differences(there.get(key), here.get(key), (*at, key))
    elif there != here:
        yield f"{key_path(at)} is {show(there)} there and {show(here)} here"


def _by_name(items: Sequence[Any]) -> dict[str | int, Any]:
    return {
        item["name"] if isinstance(item, Mapping) and "name" in item else number: item
        for number, item in enumerate(items)
    }


def _changed(mapping: Mapping[str, Any], overrides: Sequence[str], source: str) -> dict[str, Any]:
    problems: list[Problem] = []
    changed = apply_overrides(dict(mapping), overrides, problems)
    if problems:
        raise ScenarioError(problems, source)
    return changed


def _shortened(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as a file without redundant keys.

    Values filled in for each subtask (schedule, placement) no longer fit when the parallelism is
    varied, so they are left out where the file means the same without them.
    """
    mapping = scenario.canonical()
    kind = "operators" if scenario.operators else "stages"
    for stage in mapping[kind]:
        for key in ("emit_rate", "arrival_rate", "service_rate"):
            schedules = stage.get(key)
            if schedules and all(schedule == schedules[0] for schedule in schedules):
                stage[key] = schedules[0]
    bare = {
        **mapping,
        kind: [
            {key: value for key, value in stage.items() if key != "placement"}
            for stage in mapping[kind]
        ],
    }
    return bare if _means(bare, scenario) else mapping


def _means(mapping: Mapping[str, Any], scenario: Scenario) -> bool:
    try:
        return parse_scenario(mapping).canonical() == scenario.canonical()
    except ScenarioError:
        return False
