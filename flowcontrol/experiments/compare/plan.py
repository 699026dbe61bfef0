"""The plan of a comparison: a scenario, a clock and systems."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.given import Base, Given, Overrides, Texts, as_texts
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.system import ALIASES, PRESETS
from flowcontrol.version import OF_FIGURES, rules_version


@dataclass(frozen=True)
class Comparison:
    """The plan of a comparison."""

    base: Base  # The scenario; its own system is ignored
    clock: Clock  # Which clock runs it
    systems: tuple[str, ...]  # Names of presets, each once
    scenario: Scenario  # The scenario under the first system for which it is valid

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @property
    def identity(self) -> str:
        """Hash of all that decides the results."""
        canonical: dict[str, Any] = {**self.scenario.canonical(), "system": None}
        text = json.dumps([rules_version(*OF_FIGURES), self.clock, sorted(self.systems), canonical])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_systems(names: Texts | None) -> tuple[str, ...]:
    """Return the named systems; by default all presets.

    ``names``: names of presets, or other names of theirs; in a text with commas between them.

    Returns each once, in the order given. Raises ScenarioError if one is unknown or repeated.
    """
    if names is None:
        return tuple(PRESETS)
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    problems = []
    found: list[str] = []
    for name in names:
        system = ALIASES.get(name, name)
        if system not in PRESETS:
            problems.append(Problem("--systems", known(name, [*PRESETS, *ALIASES], "system")))
        elif system in found:
            problems.append(Problem("--systems", f"{name!r} is repeated: name it once"))
        else:
            found.append(system)
    if not names:
        problems.append(Problem("--systems", "names no system: name one, or leave it out"))
    if problems:
        raise ScenarioError(problems, "command")
    return tuple(found)


def plan_comparison(
    scenario: Given,
    *,
    systems: Texts | None = None,
    clock: Clock = "virtual",
    overrides: Overrides = (),
) -> Comparison:
    """Read the plan of a comparison.

    On the virtual clock each system runs in rounds of the length that suits it, unless a change
    states ``round_ms``: the scenario's own is made for Flink's buffers, and a small window would be
    slow because of it alone.

    - ``systems``: names of presets; by default all of them.
    - ``overrides``: changes of the scenario for all systems: values by key, or ``KEY=VALUE`` each.

    Returns its scenario is valid under some system; refusals of the clock are checked later. Raises
    ScenarioError if the scenario is valid under no system, or an argument is wrong.
    """
    names = read_systems(systems)
    changes = as_texts(overrides)
    if clock == "virtual" and not any(text.startswith("round_ms=") for text in changes):
        changes.append("round_ms=null")
    base = varied_base(scenario, changes)
    first: ScenarioError | None = None
    for system in dict.fromkeys(("flink", *names)):
        try:
            found = base.scenario([(("system",), system)])
        except ScenarioError as error:
            first = first or error
        else:
            return Comparison(base, clock, names, found)
    raise first or ScenarioError([Problem("--systems", "names no system")], "command")
