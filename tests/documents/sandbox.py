"""A folder in which a page's commands run: the checkout's files, but results stay in it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from modules import load

pages = load("tests/documents/pages.py")
ROOT: Path = pages.ROOT

WIDTH = 80
"""Columns of the terminal for which pages show what is printed."""

LINKED = ("conf", "pipelines", "notebooks", "bench", "requirements", "setup.cfg")
"""What a command may name; ``out`` is the folder's own."""

SHORTER = {
    "./spark-submit.sh pipelines/emulate.py": ["--set", "duration_s=2"],
    "./spark-submit.sh pipelines/sweep.py": ["--sample", "2", "--replications", "1"],
    "./spark-submit.sh pipelines/compare.py": ["--systems", "flink,storm-1"],
    "flowcontrol sweep conf/": ["--sample", "2", "--replications", "1"],
}
"""By how a command begins, the words that are added so that it ends in seconds.

``--clock virtual`` is quick as it is."""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


class Sandbox:
    """A folder with links to what the checkout has.

    Parameters
    ----------
    root : Path
        An empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in LINKED:
            (root / name).symlink_to(ROOT / name)
        script = root / "spark-submit.sh"
        script.write_text(f'#!/usr/bin/env bash\nexec "{ROOT}/spark-submit.sh" "$@"\n')
        script.chmod(0o755)

    def run(self, command: str) -> Done:
        """Run a command of a page in this folder, which is the current one."""
        command = command.replace(".venv/bin/", "")
        if "FLOWCONTROL_LONG" not in os.environ:
            # Processes are tests/experiments' matter: each imports all that is here already.
            command = command.replace("--processes 2", "--processes 1")
        words = pages.words_of(command)
        if words[:1] == ["flowcontrol"]:
            return self._call([*words[1:], *added(command)])
        line = " ".join([command, *added(command)])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line], cwd=self.root, env=environment(), text=True,
            capture_output=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    @staticmethod
    def _call(words: Sequence[str]) -> Done:
        """Run flowcontrol in this process: what it imports and compiles is there already."""
        from flowcontrol.cli.main import main

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main(words)
            except SystemExit as end:  # argparse
                status = end.code if isinstance(end.code, int) else 0
        return Done(status, out.getvalue(), err.getvalue())

    def execute(self, block: Any, names: dict[str, Any]) -> str:
        """Execute a block of Python; return what it prints."""
        text = block.text.replace("`out/", f"`{self.root}/out/")  # Spark has a folder of its own
        out = io.StringIO()
        with contextlib.redirect_stdout(out), mock.patch("flowcontrol.emulate", short_emulate):
            exec(compile(text, block.place, "exec"), names)
        return out.getvalue()

    @staticmethod
    def imports(block: Any, names: dict[str, Any]) -> None:
        """Execute only what a block of Python imports, for the blocks behind it."""
        lines = block.text.splitlines() if block.is_python else []
        imports = [line for line in lines if line.startswith(("import ", "from "))]
        exec("\n".join(imports), names)


def short_emulate(scenario: Any, *, clock: str = "live", **given: Any) -> Any:
    """Emulate as the call says, two seconds of it on the live clock."""
    from flowcontrol.run.emulate import emulate

    if clock == "live":
        given["overrides"] = {**dict(given.get("overrides", {})), "duration_s": 2}
    return emulate(scenario, clock=clock, **given)


def python_needs_spark(text: str) -> bool:
    """Tell whether a block of Python needs a session."""
    is_live = re.search(r"\b(emulate|sweep|compare)\(", text) and "virtual" not in text
    return bool(re.search(r"\bspark\b", text) or (is_live and "processes" not in text))


def added(command: str) -> list[str]:
    """Return the words that make a command end in seconds."""
    if "--clock virtual" in command:
        return []
    return next((more for begins, more in SHORTER.items() if command.startswith(begins)), [])


def environment() -> dict[str, str]:
    """Return the variables of a process: this environment's programs, a terminal of 80 columns."""
    from jvm import java_environment

    given = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    given.pop("SPARK_CONF_DIR", None)
    path = f"{Path(sys.executable).parent}{os.pathsep}{given['PATH']}"
    mine = {"PATH": path, "COLUMNS": str(WIDTH), "FLOWCONTROL_VENV": sys.prefix}
    return {**given, **mine, "SPARK_MASTER": "local[2]", **java_environment()}


def needs_spark(command: str) -> bool:
    """Tell whether a command starts a JVM."""
    if "--clock virtual" in command or "--processes" in command:
        return False
    if "spark-submit.sh" in command:
        pipeline = next((word for word in command.split() if word.startswith("pipelines/")), "")
        return "# needs no Java" not in (ROOT / pipeline).read_text()
    words = pages.words_of(command)
    return words[:1] == ["flowcontrol"] and words[1:2] in (["emulate"], ["sweep"])


def shows(printed: str, promised: str) -> str:
    """Return what a page promises and a command did not print; empty if all is there.

    Blanks at the ends of lines and empty lines do not count; ``...`` in a line of its own stands
    for any lines.
    """
    lines, at = _lines(printed), 0
    is_open = False  # after an ellipsis the next line may stand anywhere further down
    for number, line in enumerate(_lines(promised)):
        if line.strip() in {"...", "…"}:
            is_open = True
            continue
        where = lines.index(line, at) if line in lines[at:] else -1
        if where < 0 or (where != at and not is_open and number > 0):
            return line
        at, is_open = where + 1, False
    return ""


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]
