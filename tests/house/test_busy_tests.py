"""The plugin that lists which tests take the processor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

TESTS = """
import subprocess, sys, time
import pytest

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

@pytest.fixture(scope="module")
def made():
    work(0.3)

def test_first(made):
    work(0.1)

def test_second(made):
    pass

def test_child():
    code = "import time\\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_what_a_test_its_set_up_and_its_children_work_is_listed(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "test_b.py").write_text("import time\ndef test_waits(): time.sleep(0.3)\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "busy_tests", "-p", "no:cacheprovider", "-q"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    files, tests = run.stdout.split("processor time of tests")
    listed = {name: float(time_s) for time_s, name in re.findall(r"^ +([\d.]+) (.+)$", tests, re.M)}
    # In ticks of 10 ms, at both ends.
    assert listed["setup    test_a.py::test_first"] > 0.27
    assert listed["call     test_a.py::test_first"] > 0.07
    assert listed["setup    test_a.py::test_second"] < 0.2
    assert listed["call     test_a.py::test_child"] > 0.57
    assert listed["call     test_b.py::test_waits"] < 0.2  # waiting is no work
    assert "collection" in listed
    first, second = re.findall(r"^ +([\d.]+) (test_.\.py)$", files, re.M)
    assert (first[1], second[1]) == ("test_a.py", "test_b.py")
    assert float(first[0]) >= 0.9
