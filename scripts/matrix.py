"""Run the live tests of a version of Spark in each mode: what ``scripts/matrix.sh`` starts.

python scripts/matrix.py run VERSION RESULTS.json    with the Python of that version
python scripts/matrix.py table RESULTS.json...       print what passed; status 1 if not all
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from supported import parts, parts_of, supported  # noqa: E402

PATIENCE_S = 120.0
"""How long a master and a worker may take to start."""

LATE = "Python worker failed to connect back"
"""Spark gives a worker 10 s to start, which no setting changes: on a busy machine a test runs again
for that reason, and for no other."""

LONG = {"FLOWCONTROL_LONG": "1"}
"""Has the tests run that the quick form leaves out: the job's on a cluster is one of them."""

OUTCOMES = ("passed", "failed", "skipped")

# pyspark before 4.2 leaves the socket of every collect() to the garbage collector.
OLDER = ["-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]


def free_port() -> int:
    """Return a port of the loopback that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def spark_home() -> Path:
    """Return where this Python's Spark is."""
    import pyspark

    return Path(pyspark.__file__).parent


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Have a standalone cluster of one worker on the loopback; its master's address."""
    port, address = free_port(), "127.0.0.1"
    master = f"spark://{address}:{port}"
    env = {**os.environ, "SPARK_LOCAL_IP": address, "SPARK_CONF_DIR": str(folder / "none")}
    deploy, here = "org.apache.spark.deploy", ["--host", address, "--webui-port", "0"]
    commands = [
        [f"{deploy}.master.Master", *here, "--port", str(port)],
        [f"{deploy}.worker.Worker", *here, "--cores", "2", "--memory", "2g",
         "--work-dir", str(folder / "work"), master],
    ]  # fmt: skip
    logs = [folder / "master.log", folder / "worker.log"]
    with contextlib.ExitStack() as stack:
        for command, log, ready in zip(
            commands, logs, ("Starting Spark master", "Successfully registered"), strict=True
        ):
            out = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(
                [str(spark_home() / "bin" / "spark-class"), *command],
                env=env, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            until = time.monotonic() + PATIENCE_S
            while ready not in log.read_text(errors="replace"):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"the cluster did not start: {log.read_text()[-2000:]}")
                time.sleep(0.2)
        yield master


def chosen(tests: list[str], left_out: list[str], env: Mapping[str, str], *more: str) -> list[str]:
    """Return the command that runs tests, but for those whose name has a part that is left out."""
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "spark"]
    if "FLOWCONTROL_MASTER" in env:  # those that start processes start local ones
        words[-1] = "spark and not starts"
    if left_out:
        words += ["-k", " and ".join(f"not {name}" for name in left_out)]
    return [*words, *more, *tests]


def run_tests(
    tests: list[str], left_out: list[str], report: Path, attempts: int = 3, **env: str
) -> dict[str, Any]:
    """Run tests; return how many passed, failed and were skipped, and which failed."""
    command = chosen(tests, left_out, env, *OLDER, f"--junitxml={report}")
    log = report.with_suffix(".log")
    with log.open("wb") as out:
        subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False,
            env={**os.environ, **LONG, **env},
        )  # fmt: skip
    if not report.exists():
        return {"passed": 0, "failed": 1, "skipped": 0, "names": [f"pytest did not run: {log}"]}
    counts, late = outcome(report)
    if late and attempts > 1:
        print(f"matrix: {len(late)} again: Spark's worker was late", file=sys.stderr, flush=True)
        second = run_tests(late, [], report.with_stem(f"{report.stem}-again"), attempts - 1, **env)
        counts["passed"] += second["passed"]
        counts["failed"] += second["failed"] - len(late)
        own = {f"{place.removesuffix('.py').replace('/', '.')}::{name}" for place, name in
               (test.split("::", 1) for test in late)}  # fmt: skip
        counts["names"] = [n for n in counts["names"] if n not in own] + second["names"]
    return counts


def outcome(report: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what a report counts, and the tests that failed because a worker was late."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    bad, late = [], []
    for case in cases:
        found = [node for kind in ("failure", "error") if (node := case.find(kind)) is not None]
        if found:
            place, name = case.get("classname", ""), case.get("name", "")
            bad.append(f"{place}::{name}")
            if any(LATE in (node.text or "") for node in found):
                late.append(f"{place.replace('.', '/')}.py::{name}")
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(bad) - skipped
    return {"passed": passed, "failed": len(bad), "skipped": skipped, "names": bad}, late


def run(version: str, results: Path) -> None:
    """Run every mode of a version, and write what came of it."""
    found = supported()
    row = found["versions"][version]
    rows = []
    for name, mode in found["modes"].items():
        for part in [one for one in parts(mode) if one in parts_of(row)]:
            report = results.with_name(f"{results.stem}-{name}-{part}.xml")
            report.unlink(missing_ok=True)
            print(f"matrix: Spark {row['pyspark']}, {name}, {part}", file=sys.stderr, flush=True)
            with contextlib.ExitStack() as stack:
                env = {}
                if name == "cluster":
                    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                    env["FLOWCONTROL_MASTER"] = stack.enter_context(cluster(folder))
                left_out = row["not_supported"]
                counts = run_tests(mode[part], left_out, report, **env)
            rows.append(
                {
                    "version": version,
                    "pyspark": row["pyspark"],
                    "mode": name,
                    "part": part,
                    "not supported": len(left_out),
                    "is_listed": name in row["modes"],
                    **counts,
                }
            )
            results.write_text(json.dumps(rows, indent=1))


def show(rows: list[dict[str, Any]]) -> int:
    """Print the table; return 1 if something fails that is listed as supported."""
    print(
        f"{'Spark':8}{'mode':10}{'part':6}{'passed':>8}{'failed':>8}{'skipped':>9}  not supported"
    )
    is_bad = not rows
    for row in rows:
        counts = "".join(f"{row[name]:>{len(name) + 2}}" for name in OUTCOMES)
        print(
            f"{row['pyspark']:8}{row['mode']:10}{row['part']:6}{counts}  {row['not supported']:>13}"
        )
        broken = row["failed"] > 0 or row["passed"] == 0
        is_bad = is_bad or (row["is_listed"] and broken)
        for name in row["names"]:
            print(f"    failed: {name}")
    return int(is_bad)


def main(arguments: list[str]) -> int:
    """Run or show."""
    what, *rest = arguments
    if what == "run":
        version, results = rest
        run(version, Path(results))
        return 0
    return show([row for file in rest for row in json.loads(Path(file).read_text())])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
