"""A Kafka broker of the tests' own, which ends with them, and the pipeline as a user starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from jvm import CHEAP, java_environment

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "kafka.sh"


def environment(**changes: str) -> dict[str, str]:
    """Return what a script is started with: this environment, and nothing of a session's."""
    inherited = {**os.environ, "FLOWCONTROL_VENV": sys.prefix, **changes}
    inherited["JDK_JAVA_OPTIONS"] = CHEAP  # the broker's log settings are its own
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

    def asked(self, since: int = 0) -> tuple[list[str], int]:
        """Return what consumers have asked of the broker, and where in its log to go on."""
        with (self.folder / "broker.log").open("rb") as file:
            file.seek(since)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        return _ASKED.findall(whole.decode()), since + len(whole)


_ASKED = re.compile(r'"clientId":"consumer-.*"requestApiKeyName":"(FETCH|LIST_OFFSETS)"')


class Pipeline:
    """A started ``./spark-submit.sh pipelines/kafka_orders.py``, in a session of its own.

    Parameters
    ----------
    arguments : str
        Of the pipeline.
    cwd : Path
        Where it runs and is logged.
    """

    def __init__(self, *arguments: str, cwd: Path) -> None:
        jars = subprocess.run(
            [str(SCRIPT), "jars"], env=environment(), capture_output=True, text=True, check=True
        ).stdout.strip()
        self._log = (cwd / "pipeline.log").open("a+")
        self.process = subprocess.Popen(
            [str(ROOT / "spark-submit.sh"), "--master", "local[2]", "--jars", jars,
             str(ROOT / "pipelines" / "kafka_orders.py"), *arguments],
            cwd=cwd, env=environment() | java_environment(), stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def said(self) -> str:
        """Return all that this and earlier starts printed."""
        return Path(self._log.name).read_text()

    def runs(self) -> bool:
        """Whether it has not ended by itself."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End it and all its processes at once, as a machine does that fails."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


@pytest.fixture
def start_pipeline(tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """Return a function that starts the pipeline; what it started ends with the test."""
    started: list[Pipeline] = []

    def start(*arguments: str) -> Pipeline:
        started.append(Pipeline(*arguments, cwd=tmp_path))
        return started[-1]

    yield start
    for pipeline in started:
        pipeline.kill()


@pytest.fixture
def empty(tmp_path: Path) -> Broker:
    """Return a folder, not made yet, without a broker."""
    return Broker(tmp_path / "my broker")


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a broker that runs, and end it whatever becomes of the tests."""
    started = Broker(tmp_path_factory.mktemp("kafka") / "my broker")
    requests = Path(__file__).with_name("log4j2.properties")
    try:
        done = started.run("start", LOG4J_CONFIGURATION_FILE=str(requests))
        assert done.returncode == 0, done.stderr
        yield started
    finally:
        started.run("stop")
