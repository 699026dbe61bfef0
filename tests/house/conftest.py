"""A checkout with a fake Python, a fake pip, a fake Spark and no network, to start scripts in."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FAKE_TOOL = Path(__file__).resolve().parent / "fake_tool.py"

# Every outside command that the start script may use. What is missing here must not be needed.
COMMANDS = (
    "basename bash cat cksum dirname grep ls mkdir mv readlink rm sed tail wc".split()  # noqa: SIM905
)


@dataclass
class Outcome:
    """What a start did: its status and streams, and the fake tools that it called."""

    status: int
    out: str
    err: str
    calls: list[dict[str, Any]]

    def named(self, tool: str) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["tool"] == tool]

    @property
    def pipeline(self) -> dict[str, Any]:
        """The one pipeline that was started."""
        (call,) = self.named("pipeline")
        return call

    @property
    def submitted(self) -> list[tuple[str, str | None]]:
        """Spark's options as pyspark will read them: pairs, in their order."""
        words = shlex.split(self.pipeline["env"]["PYSPARK_SUBMIT_ARGS"])
        assert words.pop() == "pyspark-shell"
        pairs, rest = [], iter(words)
        for word in rest:
            flag = word in {"--verbose", "-v", "--supervise", "--load-spark-defaults"}
            pairs.append((word, None if flag else next(rest)))
        return pairs

    @property
    def settings(self) -> dict[str, str]:
        """The --conf settings; of two with one key Spark takes the later."""
        given = [value for name, value in self.submitted if name == "--conf"]
        return dict(value.split("=", 1) for value in given if value)


@dataclass
class Checkout:
    """A copy of what the start script needs, in a folder whose name has a space."""

    root: Path
    home: Path
    commands: Path
    log: Path
    extra_env: dict[str, str] = field(default_factory=dict)

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    def environment(self, **env: str) -> dict[str, str]:
        return {
            "PATH": str(self.commands),
            "HOME": str(self.home),
            "FAKE_LOG": str(self.log),
            "FLOWCONTROL_PYTHON": str(self.commands / "python3"),
            **self.extra_env,
            **env,
        }

    def popen(self, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.commands / "bash"), str(self.root / "spark-submit.sh"), *args],
            cwd=self.root,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, *args: str, **env: str) -> Outcome:
        self.log.write_text("")
        process = self.popen(*args, **env)
        out, err = process.communicate()
        return Outcome(process.returncode, out, err, self.calls())

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def fake(self, name: str, text: str) -> None:
        path = self.commands / name
        path.write_text(text)
        path.chmod(0o755)


def inherited() -> dict[str, str]:
    """Return this process's environment, less what says where the real checkout keeps its own."""
    return {k: v for k, v in os.environ.items() if not k.startswith("FLOWCONTROL_")}


@pytest.fixture
def bare_checkout(tmp_path: Path) -> Checkout:
    """A checkout before its first start, on a machine with Java 17."""
    root = tmp_path / "my checkout"
    for name in ("spark-submit.sh", "setup.cfg", "pyproject.toml"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copytree(ROOT / "flowcontrol" / "spark", root / "flowcontrol" / "spark")
    (root / "flowcontrol" / "__init__.py").touch()
    (root / "pipeline.py").touch()
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in COMMANDS:
        (commands / name).symlink_to(shutil.which(name) or name)
    log = tmp_path / "calls.jsonl"
    log.touch()
    checkout = Checkout(root, tmp_path / "home", commands, log)
    checkout.extra_env = {"FAKE_REAL": sys.executable, "FAKE_TOOL": str(FAKE_TOOL)}
    checkout.fake("python3", FAKE_TOOL.with_name("fake_python.sh").read_text())
    checkout.fake("java", "#!/bin/sh\necho 'openjdk version \"17.0.9\" 2023-10-17' >&2\n")
    return checkout


@pytest.fixture
def checkout(bare_checkout: Checkout) -> Checkout:
    """A checkout whose environment is ready."""
    made = subprocess.run(
        [sys.executable, "-SE", str(FAKE_TOOL), "python", "-m", "venv", str(bare_checkout.venv)],
        env={**inherited(), **bare_checkout.environment()},
    )
    assert made.returncode == 0
    stamps = """
        FC_ROOT=$PWD && source scripts/env.sh && mkdir -p "$FC_STATE/jars"
        touch "$FC_STATE/jars/a.jar" "$FC_STATE/jars/b.jar"
        mark_ready ready-run "$(environment_key "$FC_EXTRAS")"
        mark_ready ready-jars "$(jars_key)"
    """
    subprocess.run(
        ["bash", "-c", stamps],
        cwd=bare_checkout.root,
        env={**inherited(), **bare_checkout.environment(PATH=os.environ["PATH"])},
        check=True,
    )
    return bare_checkout
