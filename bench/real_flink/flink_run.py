"""Runs a job on a real Flink and polls it: what comes back is what its REST API said.

``run.sh`` compiles the program for a version of Flink first.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import rest
import times

HERE = Path(__file__).resolve().parent
TARGET = HERE / "target"

VERSIONS = {"1.20": "1.20.1", "1": "1.20.1", "2": "2.3.0"}
"""Versions that are run by a short name."""

HEAP = "-Xmx1g"
OPENED = (
    "java.util",
    "java.lang",
    "java.util.concurrent",
    "java.nio",
    "java.time",
    "java.net",
    "java.io",
)
"""Packages of the JDK that Flink's serialisers look into."""

LATE_SHARE, LATEST_MS = 0.1, 250.0
"""How late threads may be, of all time, and once, before a run counts as disturbed."""

ATTEMPTS = 3
"""So often a run is made until nothing disturbs it."""

LEAST_POLL_S = 1.0
"""Flink's metrics are asked for at most so often."""


class Disturbable(Protocol):
    """A run that knows whether the machine was busy."""

    @property
    def disturbance(self) -> str | None:
        """What shows that the machine was busy with something else; None if nothing does."""


Run = TypeVar("Run", bound=Disturbable)


@dataclass(frozen=True)
class FlinkRun:
    """A job that ran on Flink.

    Attributes
    ----------
    polls : list of mapping
        What its REST API said, from poll to poll; the first also holds what does not change, the
        last the checkpoints.
    latencies : list of mapping
        What the sinks saw, a row a sample and subtask.
    requests : list of mapping
        What was sent and answered, likewise; columns of the table ``requests``.
    windows, pauses : list of mapping
        Windows that were open and that had fired, and for how long sources had waited for others
        by event time, likewise.
    results : dict
        By ``stage/subtask``, the results of windows: start, end, ms; key; records; when, s.
    faults : dict
        What became of planned failures (`faults.restarts_table`); empty without any.
    start_ms : int
        When sources began, ms since 1970.
    flink, java : str
        Versions.
    duration_s : float
        How long its sources emitted, s.
    late_ms, latest_ms : float
        By how much a thread that woke up every 10 ms did so too late: in all, and at most.
    """

    polls: list[rest.Poll]
    latencies: list[dict[str, Any]]
    start_ms: int
    flink: str
    java: str
    duration_s: float
    late_ms: float
    latest_ms: float
    requests: list[dict[str, Any]] = field(default_factory=list)
    windows: list[dict[str, Any]] = field(default_factory=list)
    pauses: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, list[list[Any]]] = field(default_factory=dict)
    faults: dict[str, Any] = field(default_factory=dict)

    @property
    def disturbance(self) -> str | None:
        """What shows that the machine was busy with something else; None if nothing does."""
        return disturbed(self.late_ms, self.latest_ms, self.duration_s)


def disturbed(late_ms: float, latest_ms: float, duration_s: float) -> str | None:
    """Return what shows that the machine was busy with something else; None if nothing does."""
    share = late_ms / 1000 / duration_s
    if share > LATE_SHARE:
        return f"threads woke up late for {100 * share:.1f} % of the time"
    if latest_ms > LATEST_MS:
        return f"a thread woke up {latest_ms:.0f} ms late"
    return None


def build(version: str) -> None:
    """Compile the program for a version of Flink, which Maven fetches."""
    subprocess.run(
        [
            *(
                "mvn",
                "-q",
                "-B",
                "-Dstyle.color=never",
                "-f",
                str(HERE / "pom.xml"),
                f"-Dflink.version={version}",
                f"-Dflink.major={version.partition('.')[0]}",
            ),
            *("compile", "dependency:build-classpath"),
            f"-Dmdep.outputFile={TARGET / version / 'classpath'}",
        ],
        check=True,
    )


def go_first() -> None:
    """Take precedence over other processes, where that is allowed: the jobs mostly sleep."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)


def java(version: str, program: str, *arguments: str) -> list[str]:
    """Return the command of a program of ``src/``."""
    classpath = (TARGET / version / "classpath").read_text(encoding="utf-8").strip()
    return [
        *("java", HEAP, "-XX:+UseSerialGC"),
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        *("-cp", f"{TARGET / version / 'classes'}:{classpath}"),
        *(program, *arguments),
    ]


@contextlib.contextmanager
def _running(job: Mapping[str, Any], version: str, latencies: Path) -> Iterator[IO[str]]:
    """Run a job until the block is left."""
    with tempfile.TemporaryDirectory() as folder:
        stated = Path(folder) / "job.json"
        stated.write_text(json.dumps(_with_folder(job, folder)), encoding="utf-8")
        command = java(version, "ScenarioRun", str(stated), str(latencies))
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=go_first
        )
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"Flink ended with status {process.returncode}; what it says is above")


def _with_folder(job: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return a job that writes its files there: state that is too large for memory, and rows."""
    stored = {
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": Path(folder).as_uri(),
    }
    options = job["options"] | (stored if any(stage["state"] for stage in job["stages"]) else {})
    return {**job, "folder": folder, "options": options}


def run_flink(job: Mapping[str, Any], version: str, duration_s: float) -> FlinkRun:
    """Run a job and poll it.

    Parameters
    ----------
    job : mapping
        From `translate.flink_job`.
    version : str
        Of Flink, compiled.
    duration_s : float
        How long its sources emit.
    """
    every_s = max(job["sample_s"], LEAST_POLL_S)
    job = {**job, "sample_s": every_s, "options": {**job["options"], **rest.OPTIONS}}
    operators = [
        f"{stage['name']}.{metric}"
        for stage in job["stages"]
        for metric in ("numRecordsIn", "numRecordsOut")
    ]
    operators += [f"{stage['name']}_calls.numRecordsOut" for stage in job["stages"]]
    operators += times.metrics(job["stages"])
    operators += [
        f"Source__{stage['name']}.{metric}"
        for stage in job["stages"]
        for metric in ("numRecordsIn", "numRecordsOut", "pendingRecords")
    ]
    with tempfile.TemporaryDirectory() as folder:
        latencies = Path(folder) / "latencies.json"
        with _running(job, version, latencies) as output:
            line = output.readline()
            if not line:
                raise SystemExit("Flink ended before the job ran; what it says is above")
            started = json.loads(line)
            ask = rest.asking(started["rest"])
            polls = [rest.first_poll(ask, started["jobs"])]
            for at_s in rest.moments(every_s, duration_s):
                time.sleep(max(0.0, started["start_ms"] / 1000 + at_s - time.time()))
                polls.append(rest.poll(ask, started["jobs"], operators))
            polls[-1] |= rest.last_poll(ask, started["jobs"][0])
            fixed = polls.pop(0)
            polls[0] = fixed | polls[0]
        found = json.loads(latencies.read_text(encoding="utf-8"))
    own = {key: started[key] for key in ("start_ms", "flink", "java")}
    return FlinkRun(polls=polls, duration_s=duration_s, **found, **own)


def undisturbed(job: Mapping[str, Any], version: str, duration_s: float) -> FlinkRun:
    """Run a job, again if the machine was busy with something else; the last run counts."""
    return repeated(lambda: run_flink(job, version, duration_s))


def repeated(run: Callable[[], Run]) -> Run:
    """Run until nothing disturbs it, at most `ATTEMPTS` times; return the last run."""
    for attempt in range(1, ATTEMPTS + 1):
        found = run()
        if found.disturbance is None:
            break
        again = "Run it again on an idle machine." if attempt == ATTEMPTS else "Trying again."
        print(f"The machine was busy: {found.disturbance}. {again}", flush=True)
    return found
