"""From a scenario file to a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario.models import Scenario
from flowcontrol.scenario.overrides import apply_overrides
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.scenario.yaml_file import read_yaml

__all__ = ["load_scenario", "load_with_options"]


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
    return load_with_options(path, overrides=overrides)[0]


def load_with_options(
    path: str | Path, *, overrides: Sequence[str] = ()
) -> tuple[Scenario, dict[Any, Any]]:
    """Read and check a scenario file; return with it Flink's options as they are stated.

    As :func:`load_scenario`. A scenario knows what its options mean, not which of several
    options for the same thing were stated.
    """
    file = Path(path)
    mapping = read_yaml(file)
    problems: list[Problem] = []
    changed = apply_overrides(mapping, overrides, problems)
    if problems:
        raise ScenarioError(problems, str(file))
    scenario = parse_scenario(changed, str(file), file.resolve().parent)
    return scenario, dict(changed.get("options", {}))
