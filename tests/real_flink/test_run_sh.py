"""bench/real_flink/run.sh, with stand-ins for Maven, the compiler and Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "real_flink" / "run.sh"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder of commands that note how they are called, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("mvn", "javac", "python"):
        tool = folder / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >> "{tmp_path}/calls"\n', encoding="utf-8")
        tool.chmod(0o755)
    dirname = shutil.which("dirname")
    assert dirname is not None
    (folder / "dirname").symlink_to(dirname)
    return folder


def run(tools: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, str(SCRIPT), *arguments],
        env={"PATH": str(tools), "FLOWCONTROL_VENV": str(tools.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_builds_measures_and_compares_the_same_runs(tools: Path) -> None:
    assert run(tools, "chain", "unaligned").returncode == 0
    calls = (tools.parent / "calls").read_text(encoding="utf-8").splitlines()
    assert calls == [
        "mvn -q -B -f bench/real_flink/pom.xml compile dependency:build-classpath "
        "-Dmdep.outputFile=target/1.20.1/classpath",
        "python bench/real_flink/measure.py out/real_flink chain unaligned",
        "python bench/real_flink/compare.py out/real_flink chain unaligned",
    ]


@pytest.mark.parametrize(
    "arguments", [("conf/three-stages.yaml", "--flink", "2"), ("--flink", "2", "mine.yml")]
)
def test_a_scenario_goes_to_the_program_that_runs_any_as_it_is_stated(
    tools: Path, arguments: tuple[str, ...]
) -> None:
    assert run(tools, *arguments).returncode == 0
    calls = (tools.parent / "calls").read_text(encoding="utf-8").splitlines()
    script = SCRIPT.parent / "scenario_run.py"
    assert calls == [f"python {script} {' '.join(arguments)}"]


@pytest.mark.parametrize("missing", ["mvn", "javac"])
def test_without_maven_or_a_compiler_it_says_in_a_line_what_to_install(
    tools: Path, missing: str
) -> None:
    (tools / missing).unlink()
    done = run(tools)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"run.sh needs {missing}: install Maven and a JDK, "
        "as with apt-get install maven default-jdk-headless"
    ]
    assert not (tools.parent / "calls").exists()
