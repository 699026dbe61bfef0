"""Runs of the stand-in driver in processes of their own, which kill -9 ends at a named point.

:class:`Zygote` starts this file as a script once; that imports everything, and forks a process for
each run, so a kill costs a fraction of a second.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from at_start.kill_at import dying_at  # found by the line above
from jvm import java_environment

Place = tuple[str, int, str]
"""A stage, its round, and a named point of it."""


class Zygote:
    """Runs jobs in processes that it forks; itself it touches no table."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, scenario: dict[str, Any], root: Path, die_at: Place | None = None) -> int:
        """Run a job, or go on with it; return the exit status, negative for a signal.

        Parameters
        ----------
        scenario : dict
            The job.
        root : Path
            Folder of the run.
        die_at : (str, int, str), optional
            Where the process kills itself; without it all places that it passes are noted.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"scenario": scenario, "root": str(root), "die_at": die_at}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """End it."""
        self._process.communicate()


def emulate(scenario: Path, out: Path, die_at: Place) -> tuple[int, str]:
    """Run a job on Spark in a process of its own, which dies at a place; JVM and workers with it.

    Returns
    -------
    (int, str)
        The exit status, negative for a signal, and what it said.
    """
    environment = dying_at("{}:{}:{}".format(*die_at), os.environ) | java_environment()
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        environment.pop(name, None)  # of this process's own Spark session
    command = ["-m", "flowcontrol", "emulate", str(scenario), "--out", str(out)]
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=out.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # the whole group dies
    )
    return ended.returncode, ended.stdout


def places_of(root: Path) -> list[Place]:
    """Return the places that a run passed which nobody killed, in order."""
    found = json.loads((root / "places.json").read_text())
    return [(stage, number, point) for stage, number, point in found]


def _run(order: dict[str, Any]) -> None:
    """Run a job in this process."""
    from flowcontrol.spark import crash_points
    from modules import load

    driver, runs = load("tests/live/driver.py"), load("tests/live/runs.py")
    root, die_at, passed = Path(order["root"]), order["die_at"], list[Place]()

    def reach(stage: str, number: int, point: str) -> None:
        passed.append((stage, number, str(point)))
        if die_at is not None and passed[-1] == tuple(die_at):
            os.kill(os.getpid(), signal.SIGKILL)

    crash_points.hook = reach
    driver.Driver(runs.job_of(order["scenario"]), root, keeps=True).run()
    if die_at is None:
        (root / "places.json").write_text(json.dumps(passed))


def main() -> None:
    """Fork a process for each order; say how it ended."""
    from modules import load

    load("tests/live/driver.py")
    load("tests/live/runs.py")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _run(json.loads(line))
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        _, how = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(how), flush=True)


if __name__ == "__main__":
    main()
