"""Put faults into copies of the checkout, one by one, and see whether the tests catch them.

    python scripts/mutants.py                    all of scripts/mutants.yaml
    python scripts/mutants.py --only 3,7,21      some of them, by their places in it
    python scripts/mutants.py --at-once 1        one at a time rather than two
    python scripts/mutants.py --whole            with the kernel compiled, where it is interpreted

For each the tests that cover its module run in the quick profile up to the first failure. The
status is 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".yaml")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
PASSED, FAILURES, ERRORS = 0, 1, 2
"""Statuses of pytest: tests failed, or it was interrupted, which an error of a collection does."""
MOST_S, MOST_BYTES = 3600, 12 << 30
"""What a run may take: a fault without an end, or one that fills the memory, is caught by that."""


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes
    ----------
    number : int
        Its place in the list, from 1.
    file : str
        Where, below the checkout.
    old, new : str
        A text that the file has exactly once, and its replacement.
    tests : tuple of str
        Files and folders of tests that cover it.
    is_interpreted : bool
        Whether the kernel runs interpreted rather than compiled.
    """

    number: int
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    is_interpreted: bool

    def applied(self, text: str) -> str:
        """Return the file's text with the fault.

        Raises
        ------
        ValueError
            If the file does not have the old text exactly once.
        """
        if (count := text.count(self.old)) != 1:
            raise ValueError(
                f"mutant {self.number}: {self.file} has {count} times {self.old!r}, needs it"
                " once: write another text into scripts/mutants.yaml"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """What came of a mutant: the test that caught it, empty if none did."""

    mutant: Mutant
    caught_by: str
    took_s: float


def read_mutants() -> list[Mutant]:
    """Return the list."""
    found = yaml.safe_load(LIST.read_text())
    mutants = []
    for number, entry in enumerate(found["mutants"], 1):
        group = found["groups"][entry["group"]]
        mutants.append(
            Mutant(
                number,
                f"flowcontrol/{entry['file']}",
                entry["old"],
                entry["new"],
                tuple(group["tests"]),
                bool(group.get("interpreted", False)),
            )
        )
    return mutants


def copy_checkout(folder: Path) -> Path:
    """Copy what git knows or would add; return where it is."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of processes that use a copy's package."""
    known = {name: text for name, text in os.environ.items() if name != "FLOWCONTROL_LONG"}
    # Byte code that is kept does not distinguish files that change twice in a second.
    own = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**known, **own, "HYPOTHESIS_PROFILE": "quick"}


def try_mutant(mutant: Mutant, folder: Path, *, compile_all: bool) -> Outcome:
    """Run the tests against one fault in a copy, and take the fault out again."""
    path, began = folder / mutant.file, time.monotonic()
    before = path.read_text()
    path.write_text(mutant.applied(before))
    env = environment(folder)
    if mutant.is_interpreted and not compile_all:
        env["NUMBA_DISABLE_JIT"] = "1"
    tests = [test for test in mutant.tests if (folder / test).exists()]
    command = ["-m", "pytest", "-x", "-q", "-m", "not spark", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL, timeout=MOST_S, preexec_fn=_limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(mutant, "(no end)", time.monotonic() - began)
    finally:
        path.write_text(before)
    if done.returncode not in (PASSED, FAILURES, ERRORS):
        raise RuntimeError(f"mutant {mutant.number}: pytest ended with {done.returncode}:\n"
                           f"{done.stdout[-3000:]}{done.stderr[-3000:]}")  # fmt: skip
    found = FAILED.search(done.stdout)
    caught_by = "" if done.returncode == PASSED else found[1] if found else "(a crash)"
    return Outcome(mutant, caught_by, time.monotonic() - began)


def _limit() -> None:
    """Let a process that fills the memory fail, and not the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def check_copy(folder: Path) -> None:
    """Make sure that a copy's processes use the copy's package."""
    code = "import flowcontrol; print(flowcontrol.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(folder), check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    if not found.startswith(str(folder)):
        raise RuntimeError(f"the copy {folder} is not used: {found}")


def try_all(mutants: Sequence[Mutant], at_once: int, *, compile_all: bool) -> list[Outcome]:
    """Try mutants, several at once, each in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as root:
        free: queue.Queue[Path] = queue.Queue()
        for number in range(at_once):
            folder = copy_checkout(Path(root).resolve() / str(number))
            check_copy(folder)
            free.put(folder)

        def one(mutant: Mutant) -> Outcome:
            folder = free.get()
            try:
                outcome = try_mutant(mutant, folder, compile_all=compile_all)
            finally:
                free.put(folder)
            said = f"caught by {outcome.caught_by}" if outcome.caught_by else "SURVIVED"
            print(f"{mutant.number:3} {outcome.took_s:5.0f} s  {mutant.file}: {said}", flush=True)
            return outcome

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, mutants))


def main() -> int:
    """Try the mutants that are asked for; return the exit status."""
    parser = argparse.ArgumentParser(description="See whether the tests catch planted faults.")
    parser.add_argument("--only", help="places in the list, from 1, with commas between them")
    parser.add_argument("--at-once", type=int, default=2, help="default: 2")
    parser.add_argument("--whole", action="store_true", help="compile the kernel for each")
    given = parser.parse_args()
    mutants = read_mutants()
    if given.only:
        wanted = {int(number) for number in given.only.split(",")}
        if unknown := wanted - {mutant.number for mutant in mutants}:
            parser.error(f"--only: there is no mutant {sorted(unknown)}; there are {len(mutants)}")
        mutants = [mutant for mutant in mutants if mutant.number in wanted]
    for mutant in mutants:  # before anything runs
        mutant.applied((ROOT / mutant.file).read_text())
    outcomes = try_all(mutants, given.at_once, compile_all=given.whole)
    survived = [outcome.mutant.number for outcome in outcomes if not outcome.caught_by]
    print(f"{len(outcomes) - len(survived)} of {len(outcomes)} caught, survived: {survived or '-'}")
    return int(bool(survived))


if __name__ == "__main__":
    sys.exit(main())
