"""The programs: what each is run with, and what of a scenario is its own.

A system is a folder with a class, built with the profile of that name in ``pom.xml``. Its program
gets the file of the job and that of the samples.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import brokers
import pandas as pd
from flink_run import disturbed, go_first, repeated

HERE = Path(__file__).resolve().parent
TARGET = HERE / "target"

STOP_S = 120.0
"""Longest time that a program may take besides the duration of its job, s."""


@dataclass(frozen=True)
class Program:
    """A program that runs a job on a system.

    Attributes
    ----------
    system : str
        Of a scenario; what the emulation runs: a preset or parts.
    folder : str
        Of the program, and its profile.
    main : str
        Its class.
    opens : tuple of str
        Packages of the JDK that the system looks into.
    transports : tuple of str
        What else a scenario may state instead of the system's transport, as Storm's of one worker.
    broker : callable, optional
        Runs a broker in a folder and gives its address, which is ``broker`` of the job.
    """

    system: str
    folder: str
    main: str
    opens: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()
    broker: Callable[[Path], contextlib.AbstractContextManager[str]] | None = None


SPARK_OPENS = ("java.lang", "java.lang.invoke", "java.nio", "java.util", "sun.nio.ch")
PULSAR_OPENS = ("java.lang", "java.nio", "java.util.zip", "sun.net", "sun.nio.ch")

PROGRAMS = {
    program.folder: program
    for program in (
        Program("reactive-streams", "pekko", "Pekko"),
        Program("flink-1.4", "flink-1.4", "Flink14", ("java.lang", "java.nio", "java.util")),
        Program("hazelcast-jet", "hazelcast-jet", "Jet"),
        Program("storm-1", "storm-1", "Storm1"),
        Program("storm-2", "storm-2", "Storm2", transports=("blocking_queue",)),
        Program("reactor", "reactor", "Reactor"),
        Program("{transport: bdp_window}", "grpc", "Grpc"),
        Program("pulsar", "pulsar", "Pulsar", PULSAR_OPENS),
        Program("rabbitmq", "rabbitmq", "Rabbitmq", broker=brokers.rabbitmq),
        Program("kafka-streams", "kafka-streams", "StreamThread", broker=brokers.kafka),
        Program("kafka-streams", "kafka-consumer", "PollLoop", broker=brokers.kafka),
        Program(
            "structured-streaming",
            "structured-streaming",
            "MicroBatches",
            SPARK_OPENS,
            broker=brokers.kafka,
        ),
        Program(
            "spark-streaming", "spark-streaming", "DirectStream", SPARK_OPENS, broker=brokers.kafka
        ),
    )
}
"""By the name that ``run.sh`` takes."""


@dataclass(frozen=True)
class Measured:
    """What a program has shown.

    Attributes
    ----------
    samples : DataFrame
        Indexed by time, s: counters and levels.
    events : list of dict
        What happened, such as batches, each with its time ``t``, s.
    version : str
        Of the system.
    late_ms, latest_ms : float
        By how much a thread that woke up every 10 ms did so too late: in all, and at most.
    """

    samples: pd.DataFrame
    events: list[dict[str, float]]
    version: str
    late_ms: float
    latest_ms: float

    @property
    def disturbance(self) -> str | None:
        """What shows that the machine was busy with something else; None if nothing does."""
        return disturbed(self.late_ms, self.latest_ms, self.samples.index[-1])


def build(program: Program) -> None:
    """Compile a program; Maven fetches its system."""
    subprocess.run(
        [
            *("mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(HERE / "pom.xml")),
            *(f"-Dsystem={program.folder}", "compile", "dependency:build-classpath"),
            f"-Dmdep.outputFile={TARGET / program.folder / 'classpath'}",
        ],
        check=True,
    )


def command(program: Program) -> list[str]:
    """Return the command of a program that is built."""
    place = TARGET / program.folder
    classpath = (place / "classpath").read_text(encoding="utf-8").strip()
    return [
        *("java", "-Xmx1g", "-XX:+UseSerialGC"),
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in program.opens),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        *("-cp", f"{place / 'classes'}:{classpath}", program.main),
    ]


def run(program: Program, job: dict[str, str]) -> Measured:
    """Run a job once."""
    with contextlib.ExitStack() as beside:
        folder = beside.enter_context(tempfile.TemporaryDirectory())
        if program.broker is not None:
            job = {**job, "broker": beside.enter_context(program.broker(Path(folder)))}
        stated, out = Path(folder) / "job.properties", Path(folder) / "samples.jsonl"
        stated.write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        limit_s = float(job["duration_s"]) + STOP_S
        java, *rest = command(program)
        subprocess.run(
            [java, f"-Djava.io.tmpdir={folder}", *rest, str(stated), str(out)],
            check=True,
            timeout=limit_s,
            cwd=folder,  # What a system leaves in either place goes with the folder
            preexec_fn=go_first,
        )
        return read(out.read_text(encoding="utf-8").splitlines())


def read(lines: list[str]) -> Measured:
    """Read what a program has written: samples, events, and the end."""
    found = [json.loads(line) for line in lines]
    *_, end = found
    rows = [row for row in found if "t" in row and "event" not in row]
    events = [row for row in found if "event" in row]
    samples = pd.DataFrame(rows).set_index("t")
    return Measured(samples, events, end["version"], end["late_ms"], end["latest_ms"])


def undisturbed(program: Program, job: dict[str, str]) -> Measured:
    """Run a job, again if the machine was busy with something else; the last run counts."""
    return repeated(lambda: run(program, job))
