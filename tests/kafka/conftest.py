"""A Kafka broker of the tests' own, which ends with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "kafka.sh"


def environment(**changes: str) -> dict[str, str]:
    """Return what a script is started with: this environment, and nothing of a session's."""
    inherited = {**os.environ, "FLOWCONTROL_VENV": sys.prefix, **changes}
    # A JVM that lives for seconds is not worth compiling for: half of its time.
    inherited["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
        inherited.pop(name, None)
    return inherited


@dataclass(frozen=True)
class Broker:
    """A folder for ``scripts/kafka.sh``, and the address of the broker in it, if one was started.

    Attributes
    ----------
    folder : Path
        What ``--dir`` names.
    """

    folder: Path

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``."""
        return (self.folder / "address").read_text().strip()

    @property
    def pid(self) -> int:
        """The broker's process."""
        return int((self.folder / "pid").read_text())

    def run(self, *words: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the script on this folder."""
        return subprocess.run(
            [str(SCRIPT), *words, "--dir", str(self.folder)],
            input=given, env=environment(**env), capture_output=True, text=True, check=False,
        )  # fmt: skip

    def do(self, *words: str, given: str = "") -> str:
        """Run a command that must go well; return what it printed."""
        done = self.run(*words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def empty(tmp_path: Path) -> Broker:
    """Return a folder, not made yet, without a broker."""
    return Broker(tmp_path / "my broker")


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a broker that runs, and end it whatever becomes of the tests."""
    started = Broker(tmp_path_factory.mktemp("kafka") / "my broker")
    try:
        started.do("start")
        yield started
    finally:
        started.run("stop")
