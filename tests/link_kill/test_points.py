"""A named point kills whoever reaches it, at the number that is asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from at_start.kill_at import dying_at

CODE = """
from flowcontrol.spark.crash_points import crash_point
for number in range(3):
    crash_point("other", number, "here")
    crash_point("stage", number, "there")
    crash_point("stage", number, "here")
    print(number)
"""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("stage:1:here", "0"),
        ("stage:2:here", "0 1"),
        ("stage:1+:here", "0"),
        ("stage:0+:here", ""),
        ("other:1:here", "0"),
        ("stage:3:here", "0 1 2"),
        ("stage:3+:here", "0 1 2"),
        ("nobody:0+:here", "0 1 2"),
        ("stage:0+:nowhere", "0 1 2"),
        ("", "0 1 2"),
    ],
)
def test_a_point_is_reached_by_name_and_number(asked: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-u", "-c", CODE],
        env=dying_at(asked, os.environ),
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.stdout.split() == said.split()
    assert done.returncode == (0 if said == "0 1 2" else -signal.SIGKILL)
