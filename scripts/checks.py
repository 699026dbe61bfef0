"""Every check of the project, in lanes beside each other: what ``run-tests.sh`` runs.

    python scripts/checks.py           the quick form: few examples of each property
    python scripts/checks.py --long    everything at full depth, with coverage

The tests that need Spark mostly wait, so the others run beside them, and those that share a session
beside those that start processes. What a part prints is kept in
a file while it runs, and shown when it ends. Everything runs even if something fails; the status
is 1 then. The last line counts all tests in pytest's own words.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
LOGS = Path(sys.prefix) / "flowcontrol" / "checks"

SHELL = ["spark-submit.sh", "run-tests.sh", "scripts/kafka.sh", ".ci/run"]
SHELL += ["scripts/build.sh", "scripts/docs.sh", "scripts/matrix.sh"]

FAST = ("-m", "not spark")
SHARED = ("-m", "spark and not starts")
STARTED = ("-m", "starts")
"""Between them these choose every test."""

KERNEL = """
from flowcontrol.kernel.loop import prepare
from flowcontrol.memory.parts import EVERYTHING
prepare(EVERYTHING)
"""
"""Compiles the kernel once, before several processes need it at the same time."""

DOCS = ("sphinx", "-W", "-E", "--keep-going", "-q", "-b", "html", "docs")
"""Builds the site; a warning is an error. All pages: one that is not read again does not warn."""

SEED = 20_261_122
"""Where the quick form begins: it draws the same examples every time, so that what fails is what
was changed. The long form begins somewhere else each time."""

LAST_LINE = re.compile(r"^=* ?(?P<counts>\d+ [a-z]+(, \d+ [a-z]+)*) in [\d.]+s\b.*$", re.MULTILINE)
WORDS = ["failed", "passed", "skipped", "xfailed", "xpassed", "warning", "error"]
"""What the last line counts, in pytest's order."""


@dataclass
class Part:
    """A check: one process, and what came of it.

    Attributes
    ----------
    name : str
        What it is called in the output.
    command : sequence of str
        What is started, in the checkout.
    env : mapping of str to str
        Variables that are set for it.
    status : int, optional
        Exit status; None before its end.
    took_s : float
        How long it ran, s.
    """

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    took_s: float = 0.0

    @property
    def log(self) -> Path:
        """Where its output is."""
        return LOGS / f"{self.name}.log"

    @property
    def counts(self) -> Counter[str]:
        """How many tests passed, failed and so on, by the last line that pytest printed."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        lines = list(LAST_LINE.finditer(text))
        pairs = lines[-1]["counts"].split(", ") if lines else ()
        words = (pair.split() for pair in pairs)
        counts = Counter({word.removesuffix("s"): int(number) for number, word in words})
        if self.status != 0 and not counts["failed"] + counts["error"]:
            counts["error"] += 1
        return counts


def python(name: str, *words: str, **env: str) -> Part:
    """Return a part that runs a module of this Python's."""
    return Part(name, [sys.executable, "-m", *words], env)


def behind(part: Part) -> Part:
    """Return a part that leaves the processors to those that mostly wait, whenever they do not."""
    return replace(part, command=["nice", "-n", "5", *part.command])


def lanes(*, is_long: bool, seed: int, workers: int) -> list[list[Part]]:
    """Return the parts of each lane, in their order.

    Parameters
    ----------
    is_long : bool
        Everything at full depth, with coverage.
    seed : int
        Where Hypothesis and the tests that kill begin.
    workers : int
        Processes for the tests that need no Spark.
    """
    pytest = ["pytest", f"--hypothesis-seed={seed}", "--durations=12", "--durations-min=5"]
    depth = {"FLOWCONTROL_SEED": str(seed)}
    cover = ["--cov", "--cov-report="] if is_long else []
    if is_long:
        depth |= {"FLOWCONTROL_FAULTS": "300"}
        depth |= {"HYPOTHESIS_PROFILE": "long", "FLOWCONTROL_KILLS": "200"}
        depth |= {"FLOWCONTROL_ROUNDS": "20000", "FLOWCONTROL_LONG": "1"}
    depth |= {name: os.environ[name] for name in depth if name in os.environ}
    classes = {"FLOWCONTROL_CLASSES": str(LOGS.parent / "classes")}
    started = {**depth, **classes, **data_file("start")}
    fast = [*FAST, "-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    # One thread for delta-rs: a tenth less processor time in small commits.
    alone = {**depth, "TOKIO_WORKER_THREADS": "1", **data_file("fast")}
    shell = ["shellcheck", "-x", *SHELL]
    return [
        [python("spark-tests", *pytest, *SHARED, *cover, **depth, **classes, **data_file("spark"))],
        [
            Part("classes", [sys.executable, "scripts/archive_classes.py", *classes.values()]),
            python("start-tests", *pytest, *STARTED, *cover, **started),
        ],
        [
            python("lint", "ruff", "check", "."),
            python("format", "ruff", "format", "--check", "."),
            *([Part("shell", shell)] if shutil.which("shellcheck") else []),
            behind(python("types", "mypy")),
            behind(python("docs", *DOCS, str(LOGS.parent / "docs"))),
            Part("kernel", [sys.executable, "-c", KERNEL]),
            behind(python("fast-tests", *pytest, *fast, *cover, **alone)),
        ],
    ]


def data_file(name: str) -> dict[str, str]:
    """Say where coverage notes what a part has run: two must not write one file."""
    return {"COVERAGE_FILE": str(LOGS / f"coverage-{name}")}


class Checks:
    """Runs parts, several at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self._is_stopped = False

    def run(self, part: Part) -> None:
        """Run one part to its end, and show what it printed."""
        began = time.monotonic()
        with part.log.open("wb") as log:
            with self._lock:
                if self._is_stopped:
                    return
                print(f"-- {part.name}: started, {part.log}", flush=True)
                process = subprocess.Popen(
                    part.command, cwd=ROOT, env={**os.environ, **part.env},
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                )  # fmt: skip
                self._running.append(process)
            part.status = process.wait()
        part.took_s = time.monotonic() - began
        with self._lock:
            self._running.remove(process)
            print(part.log.read_text(errors="replace"), end="")
            print(f"-- {part.name}: status {part.status}, {part.took_s:.0f} s", flush=True)

    def run_all(self, all_lanes: Sequence[Sequence[Part]]) -> None:
        """Run each lane's parts one after the other, the lanes beside each other."""
        threads = [threading.Thread(target=self._lane, args=(lane,)) for lane in all_lanes]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self.stop()
            for thread in threads:
                thread.join()
            raise

    def _lane(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self.run(part)

    def stop(self) -> None:
        """Ask what runs to end, and start nothing more."""
        with self._lock:
            self._is_stopped = True
            for process in self._running:
                process.send_signal(signal.SIGINT)


def cover(checks: Checks) -> Part:
    """Put together what both parts with tests have run, and print it."""
    files = sorted(map(str, LOGS.glob("coverage-*")))
    for name, words in (("combined", ["combine", "--keep", *files]), ("coverage", ["report"])):
        part = python(name, "coverage", *words)
        checks.run(part)
    return part


def plural(word: str, count: int) -> str:
    """Return the word as pytest has it with a count: ``2 errors``, but ``2 failed``."""
    return f"{word}s" if count != 1 and word in ("warning", "error") else word


def summary(parts: Sequence[Part], took_s: float) -> str:
    """Return the last line: all tests together, as pytest puts it.

    Parameters
    ----------
    parts : sequence of Part
        All that ran.
    took_s : float
        From the first to the last, s.
    """
    counts = sum((part.counts for part in parts), Counter[str]())
    found = (f"{counts[word]} {plural(word, counts[word])}" for word in WORDS if counts[word])
    said = ", ".join(found) or "no tests ran"
    minutes, seconds = divmod(round(took_s), 60)
    return f"==== {said} in {took_s:.2f}s ({minutes} min {seconds} s) ===="


def _end(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)


def main() -> int:
    """Run all checks; return the exit status."""
    parser = argparse.ArgumentParser(description="Run every check of the project.")
    parser.add_argument("--long", action="store_true", help="at full depth, with coverage: hours")
    is_long = parser.parse_args().long
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    usual = random.randrange(1 << 32) if is_long else SEED
    seed = int(os.environ.get("FLOWCONTROL_SEED", usual))
    print(f"-- seed: FLOWCONTROL_SEED={seed} repeats what is drawn", flush=True)
    workers = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1

    checks = Checks()
    work = lanes(is_long=is_long, seed=seed, workers=workers)
    checks.run_all(work)
    parts = [part for lane in work for part in lane]
    if is_long:
        parts.append(cover(checks))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"-- processor time: {used.ru_utime + used.ru_stime:.0f} s")
    for part in parts:
        verdict = "passed" if part.status == 0 else "FAILED"
        print(f"-- {part.name:12} {verdict} {part.took_s:6.0f} s")
    print(summary(parts, time.monotonic() - began))
    return int(any(part.status != 0 for part in parts))


if __name__ == "__main__":
    sys.exit(main())
