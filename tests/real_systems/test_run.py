"""Which scenarios a program takes, and what run.sh needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from programs import HERE, PROGRAMS
from run import check

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario.given import as_scenario

SHAPES = sorted((HERE / "shapes").glob("*/*.yaml"))


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_program_takes_its_shapes(path: Path) -> None:
    check(PROGRAMS[path.parent.name], as_scenario(path, []), path, [])


def test_a_program_refuses_a_scenario_of_another_system() -> None:
    path = HERE / "shapes" / "storm-2" / "slow-sink.yaml"
    with pytest.raises(ScenarioError, match="blocking_queue"):
        check(PROGRAMS["pekko"], as_scenario(path, []), path, [])


def test_the_script_says_which_tool_is_missing(tmp_path: Path) -> None:
    for tool in ("bash", "dirname"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    done = subprocess.run(
        ["bash", str(HERE / "run.sh"), "pekko"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "run.sh needs mvn" in done.stderr
