"""Faults of all kinds, several at a time: each row comes once and unchanged, or an error says why.

Eight faults in an ordinary run; with ``FLOWCONTROL_FAULTS=300`` it is the long form, two to three
seconds a fault. ``FLOWCONTROL_SEED`` repeats the plan of a run, though not its timing.
The processes are real, and ``kill -9`` ends them; Spark has ``test_kill.py``.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

RUN = Path(__file__).with_name("faulty_run.py")


def in_a_namespace() -> list[str]:
    """Return the command that gives a process mounts of its own, where that is allowed."""
    if shutil.which("unshare") is None:
        return []
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return ["unshare", "-m"] if tried.returncode == 0 else []


def test_no_row_is_lost_doubled_or_changed_without_an_error(tmp_path: Path) -> None:
    wanted = int(os.environ.get("FLOWCONTROL_FAULTS", 8))
    seed = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))
    print(f"\n{wanted} faults, FLOWCONTROL_SEED={seed}, {tmp_path}", flush=True)
    (tmp_path / "run").mkdir()
    command = [sys.executable, str(RUN), str(tmp_path / "run"), str(wanted), str(seed)]
    said = []
    with subprocess.Popen(
        [*in_a_namespace(), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            said.append(line)
    assert process.returncode == 0, "".join(said[-60:])
    found = next(line for line in said if line.startswith("faults ")).removeprefix("faults ")
    met = re.findall(r"([a-z -]+): (\d+)", found)
    counts = {kind.strip(): int(count) for kind, count in met}
    assert sum(counts.values()) == wanted
    assert min(counts.values()) >= wanted // (3 * len(counts)), counts
    assert re.search(rf"total {wanted} faults, [1-9]\d+ rows checked", "".join(said))
