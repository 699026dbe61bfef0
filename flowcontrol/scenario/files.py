"""From a scenario file to a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario.models import Scenario
from flowcontrol.scenario.overrides import apply_overrides
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.scenario.yaml_file import read_yaml

__all__ = ["load_scenario"]


def load_scenario(path: str | Path, *, overrides: Sequence[str] = ()) -> Scenario:
    """Read and check a scenario file.

    Parameters
    ----------
    path : str or Path
        The YAML file. Paths of inputs in it are relative to its folder.
    overrides : sequence of str, optional
        Changes, ``PATH=VALUE`` each: ``stages.sink.service_rate=3000``,
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
    changed = apply_overrides(mapping, overrides, problems)
    if problems:
        raise ScenarioError(problems, str(file))
    return parse_scenario(changed, str(file), file.resolve().parent)
