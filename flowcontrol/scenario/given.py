"""A scenario as a caller gives it: a file, the mapping in one, or a scenario; and changes to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcontrol import notices
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario.models import Scenario
from flowcontrol.scenario.option_table import ALIASES, OPTIONS
from flowcontrol.scenario.overrides import Overrides as Overrides
from flowcontrol.scenario.overrides import apply_overrides
from flowcontrol.scenario.overrides import as_texts as as_texts
from flowcontrol.scenario.problems import key_path, show
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.scenario.yaml_file import read_yaml

Given = Scenario | Mapping[str, Any] | str | Path
"""A scenario, the mapping in its file, or the file."""

Texts = str | Sequence[str]
"""One text, or several."""


def as_list(texts: Texts) -> list[str]:
    """Return texts as a list; one alone is not taken for its letters."""
    return [texts] if isinstance(texts, str) else list(texts)


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
