"""A stage as a process group of its own, with the ways in which it can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from at_start.kill_at import dying_at
from jvm import java_environment

ROOT = Path(__file__).resolve().parents[2]
STAGE = Path(__file__).with_name("stage.py")


class StageProcess:
    """A started stage.

    Parameters
    ----------
    folder : Path
        Of the pipeline.
    stage : str
        Which.
    start : int
        How often it was started before; names the log.
    kill_at : str, optional
        Named point at which it dies (``flowcontrol.spark.crash_points``).
    """

    def __init__(self, folder: Path, stage: str, start: int, kill_at: str | None = None) -> None:
        environment = dying_at(kill_at, {**os.environ, "PYTHONPATH": str(ROOT)})
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONHASHSEED": "0"}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= java_environment()
        environment["JDK_JAVA_OPTIONS"] += " -Xss16m"
        # The settings of this process's own Spark session are none of the stage's.
        for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
            environment.pop(name, None)
        self.log = folder / "logs" / f"{stage}-{start:04d}.log"
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(STAGE), str(folder), stage],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.started_at = time.monotonic()

    @property
    def status(self) -> int | None:
        """Exit status of the driver; None as long as it lives."""
        return self.process.poll()

    def kill(self, what: str) -> bool:
        """Kill the whole group, or only its ``jvm`` or ``planner``; False if there is none."""
        if what == "group":
            os.killpg(self.process.pid, signal.SIGKILL)
            return True
        wanted = b"java" if what == "jvm" else b"python_streaming_source_runner"
        found = [pid for pid, command in self._members() if wanted in command]
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return bool(found)

    def _members(self) -> list[tuple[int, bytes]]:
        """Return id and command line of the processes of the group."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, ProcessLookupError):
                if os.getpgid(int(folder.name)) == self.process.pid:
                    found.append((int(folder.name), (folder / "cmdline").read_bytes()))
        return found

    def ask_to_end(self) -> None:
        """Press no key, pull no plug: SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Kill what is left of the group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def said(self, most: int = 6000) -> str:
        """Return the end of what it has printed."""
        return self.log.read_text(errors="replace")[-most:]
