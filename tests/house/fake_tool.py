"""The fake Python and spark-submit: write down each call, and do what the real one leaves behind.

Called as ``fake_tool.py python|spark-submit ARGUMENTS``. FAKE_LOG is the file of the calls,
FAKE_STATUS what a pipeline ends with, FAKE_PIP_STATUS and FAKE_PIP_UNTIL what pip does.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def record(tool: str, argv: list[str]) -> None:
    line = (
        json.dumps({"tool": tool, "argv": argv, "pid": os.getpid(), "env": dict(os.environ)}) + "\n"
    )
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(line)


def make_venv(folder: Path) -> int:
    scripts = folder / "bin"
    spark = folder / "lib/python3.11/site-packages/pyspark/bin"
    scripts.mkdir(parents=True)
    spark.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    shutil.copy(HERE / "fake_python.sh", scripts / "python")
    (scripts / "python").chmod(0o755)
    submit = spark / "spark-submit"
    submit.write_text('#!/bin/sh\nexec "$FAKE_REAL" -SE "$FAKE_TOOL" spark-submit "$@"\n')
    submit.chmod(0o755)
    return 0


def install() -> int:
    while (until := os.environ.get("FAKE_PIP_UNTIL")) and not Path(until).exists():
        time.sleep(0.05)
    status = int(os.environ.get("FAKE_PIP_STATUS", "0"))
    if status:
        print("Collecting things\nERROR: No matching distribution\nmore text")
    return status


def resolve(argv: list[str]) -> int:
    if os.environ.get("FAKE_IVY_STATUS"):
        unresolved = ":: unresolved dependency: io.delta#delta: not found"
        text = os.environ.get("FAKE_IVY_TEXT", unresolved)
        print(f"some lines\n{text}\nat java.lang")
        return 1
    (ivy,) = (word.partition("=")[2] for word in argv if word.startswith("spark.jars.ivy="))
    jars = Path(ivy) / "jars"
    jars.mkdir(parents=True)
    (jars / "delta.jar").touch()
    return 0


def main(tool: str, argv: list[str]) -> int:
    if argv[:2] == ["-m", "venv"]:
        record("venv", argv)
        return make_venv(Path(argv[-1]))
    if argv[:2] == ["-m", "pip"] and "install" in argv:
        record("pip", argv)
        return install()
    if argv[:2] == ["-m", "pip"]:
        return 0
    if tool == "spark-submit" and argv[-1].endswith("nothing.py"):
        record("resolve", argv)
        return resolve(argv)
    record("pipeline" if tool == "python" else tool, argv)
    return int(os.environ.get("FAKE_STATUS", "0"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
