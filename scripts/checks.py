"""Every check of the project, in lanes beside each other: what ``run-tests.sh`` runs.

    python scripts/checks.py              the quick form: few examples of each property
    python scripts/checks.py --changed    of it, what reaches the nearest of what has changed
    python scripts/checks.py --all        the quick form with all of BY_CHANGE
    python scripts/checks.py --long       everything at full depth, with coverage

The tests that need Spark mostly wait, so the others run beside them, and those that share a session
beside those that start processes. What a part prints is kept in
a file while it runs, and shown when it ends. Everything runs even if something fails; the status
is 1 then. The last line counts all tests in pytest's own words.
"""

from __future__ import annotations

import argparse
import json
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

import changed

ROOT = Path(__file__).resolve().parent.parent
LOGS = Path(sys.prefix) / "flowcontrol" / "checks"
DURATIONS = LOGS.with_name("durations.json")

SHELL = ["spark-submit.sh", "run-tests.sh", "scripts/kafka.sh", ".ci/run"]
SHELL += ["scripts/build.sh", "scripts/docs.sh", "scripts/matrix.sh"]

FAST = ("-m", "not spark")
SHARED = ("-m", "spark and not starts")
STARTED = ("-m", "starts")
"""Between them these choose every test."""

BY_CHANGE = (
    *("tests/spec/", "tests/kafka/", "tests/notebooks/", "tests/real_flink/"),
    *("tests/link_live/test_connect.py", "tests/experiments/sweep/test_executor.py"),
    *("tests/virtual/test_new_transport.py", "tests/virtual/test_cache.py"),
    "tests/job/test_rules_version.py",
)
"""Test files that the quick form runs where a change since main is near: of objects that no run
uses, of systems at the border that take long to start, and those that compile kernels of their own
or copy the package. The same holds for building the site."""
NEAR = 2
"""Steps from a test file to what has changed: it imports it, or what it imports does."""
MOST_S = 300
"""Processor time of the tests that ``--changed`` runs, s: two minutes and a half on two cores."""
UNKNOWN_S, UNKNOWN_SPARK_S = 2.0, 20.0
"""What a test file that has never run here is taken to need, s."""

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
NO_TESTS = 5
"""Pytest's status where none of the chosen files has a test of the kind."""
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


@dataclass(frozen=True)
class Choice:
    """Which test files run, and whether the site is built."""

    files: tuple[str, ...]
    has_docs: bool
    why: str  # to be printed

    @property
    def on_spark(self) -> tuple[str, ...]:
        """Those with tests that need Spark: collecting the others for these takes half a minute."""
        return tuple(file for file in self.files if needs_spark(file))


def needs_spark(file: str) -> bool:
    """Tell whether some tests of a file need Spark."""
    return "mark.spark" in (ROOT / file).read_text(encoding="utf-8")


def everything(why: str = "everything runs") -> Choice:
    """Choose all."""
    return Choice(tuple(filter(changed.is_test, changed.tracked())), has_docs=True, why=why)


def changes() -> tuple[dict[str, changed.Reached], str]:
    """Return what is reached by what has changed since main, and the commit; nothing without it."""
    if not (since := changed.base()):
        return {}, ""
    graph = changed.Needs(changed.tracked()).graph()
    return changed.reach(changed.changed_files(since), graph), since


def without_far(reached: Mapping[str, changed.Reached], since: str) -> Choice:
    """Choose all but those of BY_CHANGE that nothing near has changed."""
    if not since:
        return everything("everything runs: git knows no commit to compare with")
    near = {file for file, one in reached.items() if one.distance <= NEAR}
    files = everything().files
    left_out = [file for file in files if file.startswith(BY_CHANGE) and file not in near]
    has_docs = any(is_documented(file) for file, one in reached.items() if one.distance == 0)
    said = f"{len(left_out)} test files, as of {BY_CHANGE[0]}" if left_out else "no test file"
    said += "" if has_docs else " and the site"
    why = f"left out, as nothing near changed since {since[:8]}: {said}; --all runs all"
    return Choice(tuple(file for file in files if file not in left_out), has_docs, why)


def is_documented(file: str) -> bool:
    """Tell whether the site shows a file: a page, or the module of a public name."""
    names = (ROOT / "flowcontrol" / "__init__.py").read_text(encoding="utf-8")
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return file.startswith("docs/") or file.endswith(".md") or f"{module} " in names


def nearest(
    reached: Mapping[str, changed.Reached], since: str, took_s: Mapping[str, float]
) -> Choice:
    """Choose the test files nearest to what has changed, as many as take MOST_S.

    Parameters
    ----------
    reached : mapping of str to Reached
        By file, the nearest first.
    since : str
        The commit compared with.
    took_s : mapping of str to float
        What test files took when they last ran, s.
    """
    files, left, spent_s = [], 0, 0.0
    chosen: dict[str, list[str]] = {}
    for file in filter(changed.is_test, reached):
        unknown_s = UNKNOWN_SPARK_S if needs_spark(file) else UNKNOWN_S
        spent_s += took_s.get(file, unknown_s)
        if spent_s > MOST_S and files:
            left += 1
            continue
        files.append(file)
        distance, through = reached[file]
        chosen.setdefault(f"by {through}" if distance else "changed", []).append(file)
    lines = [
        f"tests that a change since {since[:8] or 'the beginning'} reaches, the nearest first:"
    ]
    lines += [f"  {why}: {' '.join(found)}" for why, found in chosen.items()]
    if left:
        lines.append(f"  {left} more, farther away or too long for here: ./run-tests.sh runs them")
    has_docs = any(is_documented(file) for file, one in reached.items() if one.distance == 0)
    return Choice(tuple(files), has_docs, "\n".join(lines))


def lanes(*, is_long: bool, seed: int, workers: int, chosen: Choice) -> list[list[Part]]:
    """Return the parts of each lane, in their order; lanes without tests are left out.

    Parameters
    ----------
    is_long : bool
        Everything at full depth, with coverage.
    seed : int
        Where Hypothesis and the tests that kill begin.
    workers : int
        Processes for the tests that need no Spark.
    chosen : Choice
        What runs.
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
    spark, fast_files = chosen.on_spark, chosen.files
    found = [
        [
            python("lint", "ruff", "check", "."),
            python("format", "ruff", "format", "--check", "."),
            *([Part("shell", shell)] if shutil.which("shellcheck") else []),
            behind(python("types", "mypy")),
            *([behind(python("docs", *DOCS, str(LOGS.parent / "docs")))] * chosen.has_docs),
        ]
    ]
    if spark:
        shared = {**depth, **classes, **data_file("spark")}
        found += [
            [python("spark-tests", *pytest, *SHARED, *spark, *cover, **shared)],
            [
                Part("classes", [sys.executable, "scripts/archive_classes.py", *classes.values()]),
                python("start-tests", *pytest, *STARTED, *spark, *cover, **started),
            ],
        ]
    if fast_files:
        found.append(
            [
                Part("kernel", [sys.executable, "-c", KERNEL]),
                behind(python("fast-tests", *pytest, *fast, *fast_files, *cover, **alone)),
            ]
        )
    return found


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
            status = process.wait()
            part.status = 0 if status == NO_TESTS and "-tests" in part.name else status
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


def read_durations() -> dict[str, float]:
    """Return what test files took when they last ran here (``tests/conftest.py``), s."""
    if not DURATIONS.exists():
        return {}
    found: dict[str, float] = json.loads(DURATIONS.read_text())
    return found


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
    parser.add_argument("--all", action="store_true", help="also what no change is near to")
    parser.add_argument("--changed", action="store_true", help="what a change reaches, the nearest")
    given = parser.parse_args()
    is_long = given.long
    signal.signal(signal.SIGTERM, _end)
    began = time.monotonic()
    if is_long or given.all:
        chosen = everything()
    elif given.changed:
        chosen = nearest(*changes(), read_durations())
    else:
        chosen = without_far(*changes())
    print(f"-- {chosen.why}", flush=True)
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    usual = random.randrange(1 << 32) if is_long else SEED
    seed = int(os.environ.get("FLOWCONTROL_SEED", usual))
    print(f"-- seed: FLOWCONTROL_SEED={seed} repeats what is drawn", flush=True)
    workers = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1

    checks = Checks()
    work = lanes(is_long=is_long, seed=seed, workers=workers, chosen=chosen)
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
