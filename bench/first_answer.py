"""What a user waits for: the first answer of a small job, and what compiles before the first run.

    python bench/first_answer.py [REVISION] [--repeats 7] [--kinds] [--clones 3]

Processor time, beside that of an older commit, alternating in one run, medians:

1. ``flowcontrol --help``.
2. ``flowcontrol emulate conf/three-stages.yaml --clock virtual`` with its kernel on disk: until the
   bottleneck stands in the terminal, and until the page and the advice are there too.
3. The same where nothing is compiled.
4. With ``--kinds``: what each kind of job in ``conf/`` takes to compile, and the union of all. A
   kind is a set of the kernel's parts. This takes minutes, and no older commit runs beside it.
5. With ``--clones``: seconds from ``git clone`` to the bottleneck by the first command of README,
   each time in a new clone with an empty home. This installs packages, and nothing else runs.

Linux only: the time of a running process is read from ``/proc``. The older commit is checked out
into a temporary folder; both use this Python and its libraries, and each a kernel cache of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measured import note

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "6b1e9717"
"""The commit before issue 39."""
COMMAND = "from flowcontrol.cli.main import main; main()"
ANSWER = "Bottleneck: sink"
BLOCK = re.compile(r"^```bash\n(.+?)```", re.MULTILINE | re.DOTALL)
KEPT = ("PATH", "LANG", "JAVA_HOME", "FLOWCONTROL_PYTHON")
"""Variables of this machine that a new clone sees: no home, cache or setting is among them."""
GOALS = {"--help": 0.15, "the bottleneck": 1.2}
KIND_S, UNION_S = 12.0, 20.0
COMPILED = """
import time
began = time.process_time()
from flowcontrol.kernel.loop import prepare
prepare({parts})
print(time.process_time() - began)
"""
KINDS = """
import functools, glob, json, operator
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory.parts import parts_of
from flowcontrol.scenario import ScenarioError, load_scenario
from flowcontrol.virtual.choose import choose_round_us
kinds = {}
for name in sorted(glob.glob("conf/*.yaml")):
    try:
        scenario = load_scenario(name)
        job = build_physical_graph(scenario, round_us=choose_round_us(scenario))
    except Exception:  # rows that are not there, or a system of one clock
        continue
    kinds.setdefault(parts_of(job), name)
union = functools.reduce(operator.or_, kinds)
print(json.dumps({**kinds, union: "the union of all"}))
"""
UNION = "the union of all"


def environment(tree: Path, cache: Path) -> dict[str, str]:
    """Return the variables of a process that uses a checkout."""
    return {**os.environ, "PYTHONPATH": str(tree), "FLOWCONTROL_CACHE": str(cache)}


def used_s(process: int) -> float:
    """Return the processor time that a running process has used, s."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(tree: Path, cache: Path, arguments: list[str]) -> tuple[float, float]:
    """Run the command; return its processor time until the answer and until its end, s."""
    began = os.times()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=tree, env=environment(tree, cache), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    answer = 0.0
    for line in process.stdout:
        if line.startswith(ANSWER):
            answer = used_s(process.pid)
    assert process.wait() == 0
    ended = os.times()
    return answer, sum(ended[2:4]) - sum(began[2:4])


def alternated(
    trees: dict[str, Path], measure: Callable[[str, Path, int], tuple[float, ...]], repeats: int
) -> dict[str, list[float]]:
    """Measure each checkout in turn; return the medians of each figure."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in trees}
    for number in range(repeats):
        for name, tree in trees.items():
            found[name].append(measure(name, tree, number))
    return {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in found.items()
    }


def show(what: str, new: float, old: float, revision: str) -> None:
    """Print a figure beside that of the older commit."""
    print(f"{what:34}{new:8.2f} s  before {old:6.2f} s  {old / max(new, 0.01):5.2f} times as quick")
    goal = next((most for key, most in GOALS.items() if key in what), None)
    note(what, new, "s of processor time", beside=revision, goal=goal, is_met="at most")


def output(code: str, cache: Path) -> str:
    """Return what some code prints, in a process of its own on this checkout."""
    command, env = [sys.executable, "-c", code], environment(ROOT, cache)
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def measure_kinds(folder: Path) -> bool:
    """Print what each kind of job takes to compile; return whether one takes too long."""
    took = {}
    for parts, name in json.loads(output(KINDS, folder)).items():
        took[name] = float(output(COMPILED.format(parts=parts), folder / parts))
        print(f"  {name:34}{took[name]:8.2f} s", flush=True)
    union = took.pop(UNION)
    slowest = max(took, key=lambda name: took[name])
    what = f"compiling the slowest kind of {len(took)}, {slowest}"
    note(what, took[slowest], "s of processor time", goal=KIND_S, is_met="at most")
    note("compiling the union", union, "s of processor time", goal=UNION_S, is_met="at most")
    return took[slowest] > KIND_S or union > UNION_S


def first_command() -> list[str]:
    """Return the first command of README."""
    found = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    command = shlex.split(found[1], comments=True)
    assert command[-2:] == ["--clock", "virtual"], command
    return command


def answered_s(folder: Path) -> float:
    """Clone into a folder and run the first command; return the seconds until its sentence."""
    home, clone = folder / "home", folder / "flowcontrol"
    home.mkdir()
    kept = {name: text for name in KEPT if (text := os.environ.get(name))}
    proxies = {name: text for name, text in os.environ.items() if name.upper().startswith("PIP_")}
    proxies |= {name: text for name, text in os.environ.items() if name.lower().endswith("_proxy")}
    began = time.monotonic()
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    process = subprocess.Popen(
        first_command(), cwd=clone, env={**proxies, **kept, "HOME": str(home)},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    took_s = 0.0
    for line in process.stdout:
        if line.startswith(ANSWER) and not took_s:
            took_s = time.monotonic() - began
    assert process.wait() == 0
    assert took_s, f"nobody said {ANSWER!r}"
    return took_s


def measure_clones(folder: Path, count: int) -> None:
    """Print how long new users wait."""
    took = []
    for number in range(count):
        (own := folder / str(number)).mkdir()
        took.append(answered_s(own))
        print(f"  from git clone to the bottleneck {took[-1]:8.1f} s", flush=True)
    print(f"  median {statistics.median(took):8.1f} s")
    note("from git clone to the first answer", statistics.median(took), "s")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "revision", nargs="?", default=BEFORE, help="a commit of this repository (%(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--kinds", action="store_true", help="compile each kind of job")
    parser.add_argument(
        "--clones", type=int, default=0, help="new clones that answer; installs packages"
    )
    options = parser.parse_args()
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as name:
        folder, old = Path(name), Path(name) / "old"
        if options.clones:
            measure_clones(folder, options.clones)
            return 0
        if options.kinds:
            return int(measure_kinds(folder))
        add = [*git, "add", "--quiet", "--detach", str(old), options.revision]
        subprocess.run(add, check=True)
        job = ["emulate", "conf/three-stages.yaml", "--clock", "virtual", "--overwrite", "--out"]
        try:
            trees = {options.revision: old, "this": ROOT}

            def emulated(which: str, tree: Path, number: int, cache: str = "") -> tuple[float, ...]:
                return run(tree, folder / f"cache-{which}{cache}", [*job, str(folder / which)])

            def fresh(which: str, tree: Path, number: int) -> tuple[float, ...]:
                return emulated(which, tree, number, cache=f"-{number}")

            def helped(which: str, tree: Path, number: int) -> tuple[float, ...]:
                return run(tree, folder / f"cache-{which}", ["--help"])

            firsts = alternated(trees, fresh, max(2, options.repeats // 3))
            for which, tree in trees.items():  # compiled, and its modules too
                emulated(which, tree, 0)
            warm = alternated(trees, emulated, options.repeats)
            helps = alternated(trees, helped, options.repeats)
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    for what, place, found in (
        ("--help", 1, helps),
        ("until the bottleneck", 0, warm),
        ("until page and advice", 1, warm),
        ("nothing compiled, until the end", 1, firsts),
    ):
        show(what, found["this"][place], found[options.revision][place], options.revision)
    is_late = warm["this"][0] > GOALS["the bottleneck"] or helps["this"][1] > GOALS["--help"]
    return int(is_late)


if __name__ == "__main__":
    sys.exit(main())
