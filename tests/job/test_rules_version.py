"""What is begun under one set of rules is told from what other rules would make."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import flowcontrol
from flowcontrol.job.rules_version import rules_version

PACKAGE = Path(flowcontrol.__file__).parent


def test_it_names_version_and_rules() -> None:
    version, _, digest = rules_version().partition("+")
    assert version == flowcontrol.__version__
    assert len(digest) == 12
    assert rules_version("virtual") != rules_version()


CHANGE_EACH = """
import sys
from pathlib import Path
from flowcontrol.job.rules_version import rules_version
for file in sys.argv[1:]:
    before = rules_version()
    with (Path("flowcontrol") / file).open("a") as source:
        source.write("# changed")
    rules_version.cache_clear()
    print(file, before != rules_version())
"""


def test_a_changed_rule_changes_it(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "flowcontrol", ignore=shutil.ignore_patterns("__pycache__"))
    rules = ["protocol/rounds.py", "systems/tcp_connection.py", "systems/throttles/pid_rate.py"]
    rules += ["operators/selectivity.py", "job/subtask.py"]
    done = subprocess.run(
        [sys.executable, "-c", CHANGE_EACH, *rules, "report/html.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found == {**dict.fromkeys(rules, "True"), "report/html.py": "False"}
