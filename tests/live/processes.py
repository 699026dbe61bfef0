"""emulate.py as a user starts it: a process of its own, which may be killed or interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from at_start.kill_at import dying_at
from jvm import java_environment

ROOT = Path(__file__).resolve().parents[2]
MARK = "FLOWCONTROL_TEST_PROCESS"
"""Environment variable that all processes of a start inherit, workers of the JVM too."""

PATIENCE_S = 1800.0
"""What takes so long hangs: no machine is as slow as that."""


class Emulation:
    """A started ``./spark-submit.sh pipelines/emulate.py``, in a session of its own.

    Parameters
    ----------
    scenario : Path
        The file.
    arguments : str
        What follows it.
    kill_at : str, optional
        Named point at which the driver dies (``flowcontrol.spark.crash_points``).
    cwd : Path
        Current folder of the process.
    """

    def __init__(
        self, scenario: Path, *arguments: str, cwd: Path, kill_at: str | None = None
    ) -> None:
        self.mark = uuid.uuid4().hex
        environment = dying_at(kill_at, os.environ)
        environment |= {MARK: self.mark, "FLOWCONTROL_VENV": sys.prefix}
        # The settings of this process's own Spark session are none of the start script's.
        for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
            environment.pop(name, None)
        environment |= java_environment()
        self._log = (cwd / f"process-{self.mark}.log").open("w+")
        self.process = subprocess.Popen(
            [str(ROOT / "spark-submit.sh"), str(ROOT / "pipelines" / "emulate.py"),
             str(scenario), *arguments],
            cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=self._log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def wait(self) -> int:
        """Wait for the end; return the exit status, negative for a signal."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.end()
            pytest.fail(f"the process did not end:\n{self.said()}")

    def interrupt(self) -> None:
        """Press Ctrl-C: a terminal sends the signal to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def said(self) -> str:
        """Return all that was printed so far."""
        return Path(self._log.name).read_text()

    def left(self) -> list[str]:
        """Return the command lines of processes that descend from this one and live."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (OSError, ValueError):
                continue
        return found

    def assert_nothing_left(self) -> None:
        """Assert that no process of this start outlives it for long."""
        deadline = time.monotonic() + PATIENCE_S
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.2)
        assert self.left() == []

    def end(self) -> None:
        """Kill what is left of the group; for tests that fail half way."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()
