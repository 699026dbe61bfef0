"""The scenario that an experiment varies."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.scenario.clocks import Clock
from flowcontrol.scenario.overrides import apply_overrides
from flowcontrol.scenario.problems import key_path
from flowcontrol.scenario.yaml_file import read_yaml
from flowcontrol.virtual import choose_round_us


@dataclass(frozen=True)
class Base:
    """The scenario that is varied.

    Attributes
    ----------
    mapping : mapping
        Keys and values of its file; varied keys may be missing.
    source : str
        Its name in refusals.
    folder : str
        Base of relative paths of inputs.
    """

    mapping: Mapping[str, Any]
    source: str
    folder: str

    def scenario(self, changes: Sequence[tuple[Sequence[str], Any]]) -> Scenario:
        """Return the scenario with some keys changed.

        Parameters
        ----------
        changes : sequence of (path, value)
            Plain JSON values.

        Raises
        ------
        ScenarioError
            With every problem of the scenario.
        """
        overrides = [f"{key_path(list(path))}={json.dumps(value)}" for path, value in changes]
        problems: list[Problem] = []
        mapping = apply_overrides(dict(self.mapping), overrides, problems)
        if problems:
            raise ScenarioError(problems, self.source)
        return parse_scenario(mapping, self.source, Path(self.folder))


def job_for(scenario: Scenario, source: str, clock: Clock = "virtual") -> Job:
    """Return the job of a scenario, laid out as a clock would.

    Raises
    ------
    ScenarioError
        If the clock does not emulate it; ``source`` is its name there.
    """
    problems = check_clock(scenario, clock)
    if problems:
        raise ScenarioError(problems, source)
    round_us = choose_round_us(scenario) if clock == "virtual" else None
    return build_physical_graph(scenario, round_us=round_us)


def as_base(
    scenario: Scenario | Mapping[str, Any] | str | Path, overrides: Sequence[str] = ()
) -> Base:
    """Return the scenario to be varied.

    Parameters
    ----------
    scenario : str or Path, mapping, or Scenario
        A file, the mapping in a file, or a scenario.
    overrides : sequence of str, default ()
        Changes for all variants, ``KEY=VALUE`` each.

    Returns
    -------
    Base
        Not checked, since varied keys may be missing.

    Raises
    ------
    ScenarioError
        If the file cannot be read or has several jobs, or a change cannot be made.
    """
    if isinstance(scenario, Scenario):
        mapping = scenario.canonical() if scenario.jobs else _shortened(scenario)
        source, folder = scenario.name, Path()
    elif isinstance(scenario, Mapping):
        mapping, source, folder = dict(scenario), str(scenario.get("name", "scenario")), Path()
    else:
        file = Path(scenario)
        mapping, source, folder = read_yaml(file), str(file), file.resolve().parent
    problems: list[Problem] = []
    if "jobs" in mapping:
        text = "several jobs: they cannot be varied yet; take a scenario with stages and edges"
        raise ScenarioError([Problem("jobs", text)], source)
    changed = apply_overrides(mapping, overrides, problems)
    if problems:
        raise ScenarioError(problems, source)
    return Base(changed, source, str(folder.resolve()))


def _shortened(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as a file without redundant keys.

    Values filled in for each subtask (schedule, placement) no longer fit when the parallelism is
    varied, so they are left out where the file means the same without them.
    """
    mapping = scenario.canonical()
    for stage in mapping["stages"]:
        for key in ("emit_rate", "arrival_rate", "service_rate"):
            schedules = stage.get(key)
            if schedules and all(schedule == schedules[0] for schedule in schedules):
                stage[key] = schedules[0]
    bare = {
        **mapping,
        "stages": [
            {key: value for key, value in stage.items() if key != "placement"}
            for stage in mapping["stages"]
        ],
    }
    return bare if _means(bare, scenario) else mapping


def _means(mapping: Mapping[str, Any], scenario: Scenario) -> bool:
    try:
        return parse_scenario(mapping).canonical() == scenario.canonical()
    except ScenarioError:
        return False
