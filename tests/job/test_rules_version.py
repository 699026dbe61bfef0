"""What is begun under one set of rules is told from what other rules would make."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flowcontrol
from flowcontrol.version import OF_FIGURES, OF_LIVE_RUN, rules_version

PACKAGE = Path(flowcontrol.__file__).parent


def test_it_names_version_and_rules() -> None:
    version, _, digest = rules_version().partition("+")
    assert version == flowcontrol.__version__
    assert len(digest) == 12
    assert rules_version("analysis") != rules_version()


CHANGE_EACH = """
import sys
from pathlib import Path
from flowcontrol.version import rules_version
change, more, *files = sys.argv[1:]
for file in files:
    before = rules_version(*more.split())
    path = Path("flowcontrol", file)
    path.write_text(change.replace("...", path.read_text()))
    rules_version.cache_clear()
    print(file, before != rules_version(*more.split()))
"""


def changed(folder: Path, change: str, more: tuple[str, ...], files: list[str]) -> dict[str, bool]:
    """Return which files change the version when each gets other text."""
    shutil.copytree(PACKAGE, folder / "flowcontrol", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", CHANGE_EACH, change, " ".join(more), *files],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: told == "True" for name, told in map(str.split, done.stdout.splitlines())}


def version_in(folder: Path) -> str:
    """Return the version of the rules of a copy of the package."""
    code = "from flowcontrol.version import rules_version; print(rules_version())"
    env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_changed_rule_changes_it(tmp_path: Path) -> None:
    rules = ["protocol/network/rounds.py", "systems/tcp.py", "systems/throttles/pid_rate.py"]
    rules += ["protocol/tasks/operators.py", "layout/fault_tolerance.py", "kernel/loop.py"]
    found = changed(tmp_path, "...\nCHANGED = 1\n", (), [*rules, "topics/shown.py"])
    assert found == {**dict.fromkeys(rules, True), "topics/shown.py": False}


@pytest.mark.parametrize(
    ("more", "file"),
    [
        (OF_LIVE_RUN, "live/moves.py"),
        (OF_LIVE_RUN, "ledger/exchange.py"),
        (OF_LIVE_RUN, "live/replica.py"),
        (OF_FIGURES, "analysis/summary.py"),
    ],
)
def test_so_does_what_reads_the_state_that_is_gone_on_from(
    tmp_path: Path, more: tuple[str, ...], file: str
) -> None:
    assert changed(tmp_path, "...\nCHANGED = 1\n", more, [file]) == {file: True}


def test_comments_and_descriptions_change_nothing(tmp_path: Path) -> None:
    files = ["layout/sketch.py", "protocol/network/rounds.py", "live/moves.py"]
    text = '...\n# Changed.\n"""Of nothing."""\n\n\n'
    assert changed(tmp_path, text, OF_LIVE_RUN, files) == dict.fromkeys(files, False)


def test_nor_do_those_within_a_class(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "flowcontrol", ignore=shutil.ignore_patterns("__pycache__"))
    bare = "class One:\n    def two(self) -> int:\n        return 1\n"
    described = bare.replace(
        "        return", '        """Describe."""\n        # Why.\n        return'
    )
    more = bare.replace("return 1", "return 2")
    versions = []
    for text in (bare, described, more):
        (tmp_path / "flowcontrol" / "protocol" / "added.py").write_text(text)
        versions.append(version_in(tmp_path))
    assert versions[0] == versions[1] != versions[2]
