"""The compiled kernel on disk: found again, but not after a change of what it is made of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

import flowcontrol
from flowcontrol.kernel import compiled, loop
from flowcontrol.kernel.cache import KERNEL
from flowcontrol.kernel.compiled import cache_folder, is_compiled
from flowcontrol.memory.parts import EVERYTHING
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

pytestmark = pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")

PACKAGE = Path(flowcontrol.__file__).parent

WHOLE = """
import json
from flowcontrol.scenario import parse_scenario
from flowcontrol.kernel import compiled
from flowcontrol.virtual import simulate
from flowcontrol.kernel.loop import kernel_with
from flowcontrol.memory.parts import BUFFERS

advance = kernel_with(BUFFERS)
network = "taskmanager.network.memory."
tables = simulate(parse_scenario({
    "schema": 1, "name": "cached", "duration_s": 2, "round_ms": 10,
    "options": {network + "buffers-per-channel": 2, network + "floating-buffers-per-gate": 3,
                "taskmanager.memory.segment-size": "4kb"},
    "stages": [{"name": "source", "emit_rate": 900, "record_bytes": 1000},
               {"name": "sink", "service_rate": 300}],
    "edges": [{"from": "source", "to": "sink", "partitioner": "forward"}],
})).tables
print(json.dumps({
    "folder": str(compiled.cache_folder(BUFFERS)),
    "kept_in": str(advance.folder),
    "is_new": advance.is_new,
    "channels": {k: v for k, v in tables["channels"].to_pydict().items() if k != "edge"},
}))
"""

SMALL = """
import json

import numpy as np

from flowcontrol.state.declared import width
from flowcontrol.kernel import compiled
from flowcontrol.memory.cells import view
from flowcontrol.memory.fields import KernelInputChannel
from flowcontrol.virtual.small import advance

memory = np.zeros(width(KernelInputChannel), np.int64)
channel = view(KernelInputChannel, memory)
channel.exclusive = channel.floating = 2
advance(memory, 1)
print(json.dumps({
    "folder": str(compiled.cache_folder()),
    "kept_in": str(advance.folder),
    "is_new": advance.is_new,
    "channels": {"exclusive_free": [view(KernelInputChannel, memory).exclusive], "consumed": [1]},
}))
"""

SMALL_ENTRY = """
from flowcontrol.protocol.network.credit_rules import request_buffer
from flowcontrol.kernel.compiled import compile_entry
from flowcontrol.memory.parts import BUFFERS
from flowcontrol.kernel.views import in_rows, whole


def _advance(memory, end):
    return request_buffer(in_rows(whole(memory, BUFFERS), 0, 1)[0])


advance = compile_entry(_advance)
"""

ENTRIES = {"small": SMALL, "whole": WHOLE}
"""Code that runs an entry: one that calls a single rule, and the kernel's own, which takes 15 s to
compile."""

MANY = 3
"""Processes that want a kernel at once."""

if "FLOWCONTROL_LONG" not in os.environ:
    del ENTRIES["whole"]
    MANY = 2


class Run(NamedTuple):
    """What a process said of its kernel, and what it computed."""

    folder: Path
    kept_in: str
    is_new: bool
    channels: dict[str, list[float]]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that may be changed."""
    target = tmp_path / "copy" / "flowcontrol"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    (target / "virtual" / "small.py").write_text(SMALL_ENTRY)
    return target


@pytest.fixture
def python(tmp_path: Path, package: Path) -> Callable[..., Any]:
    """A function that runs code with the copied package in a new process."""

    def run(code: str, place: Path | None = None, at_once: int = 1) -> Any:
        environment = {
            **os.environ,
            "PYTHONPATH": str(place or package.parent),
            "FLOWCONTROL_CACHE": str(tmp_path / "cache"),
        }
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=tmp_path if place else package.parent,
                env=environment,
                stdout=subprocess.PIPE,
            )
            for _ in range(at_once)
        ]
        said = [process.communicate()[0] for process in started]
        assert [process.returncode for process in started] == [0] * at_once
        found = [json.loads(text) for text in said]
        return found if at_once > 1 else found[0]

    return run


def run_of(found: dict[str, Any]) -> Run:
    return Run(Path(found.pop("folder")), **found)


def kernel_in(python: Callable[..., Any], entry: str) -> Run:
    return run_of(python(ENTRIES[entry]))


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


FLOATING_FIRST = """    if channel.floating > 0:
        channel.floating -= 1
        return TAKEN_FLOATING
"""
EXCLUSIVE_FIRST = """    if channel.exclusive > 0:
        channel.exclusive -= 1
        return TAKEN_EXCLUSIVE
"""


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_kernel_is_compiled_once_for_its_rules(
    python: Callable[..., Any], package: Path, tmp_path: Path, entry: str
) -> None:
    """By one of many processes, in an archive as on executors or not, until a rule changes."""
    archive = shutil.make_archive(
        str(tmp_path / "package"), "zip", package.parent, base_dir=package.name
    )
    workers = [run_of(found) for found in python(ENTRIES[entry], Path(archive), at_once=MANY)]
    assert sorted(worker.is_new for worker in workers) == [*[False] * (MANY - 1), True]
    first = workers[0]
    assert [worker.channels for worker in workers] == [first.channels] * MANY
    assert {worker.kept_in for worker in workers} == {first.kept_in}
    assert first.kept_in.startswith(str(first.folder))
    assert first.folder.parent == tmp_path / "cache"
    kept = files(first.folder)
    assert {path.name for path in kept} == {KERNEL, "lock"}

    again = kernel_in(python, entry)
    assert not again.is_new
    assert again.channels == first.channels
    assert files(first.folder) == kept

    rules = package / "protocol" / "network" / "credit_rules.py"
    before = rules.read_text()
    change(rules, FLOATING_FIRST + EXCLUSIVE_FIRST, EXCLUSIVE_FIRST + FLOATING_FIRST)
    other = kernel_in(python, entry)
    assert other.is_new
    assert other.folder != first.folder
    assert other.channels["exclusive_free"] != first.channels["exclusive_free"]

    rules.write_text(before)
    back = kernel_in(python, entry)
    assert not back.is_new
    assert (back.folder, back.channels) == (first.folder, first.channels)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_where_nothing_can_be_kept_it_is_compiled_each_time(
    python: Callable[..., Any], package: Path, tmp_path: Path, entry: str
) -> None:
    (tmp_path / "cache").write_text("no folder")
    found = kernel_in(python, entry)
    assert (found.is_new, found.kept_in) == (True, "None")
    assert found.channels["consumed"][-1] > 0
    assert not list(package.rglob("*.o"))


def test_the_kernels_own_entry_is_kept() -> None:
    entry = loop.kernel_with(EVERYTHING)
    assert entry.folder == cache_folder()


def compiled_modules() -> set[str]:
    """Names of the modules whose functions the kernel calls, found by following its code."""
    todo, seen = [loop._advance], set[FunctionType]()
    while todo:
        function = todo.pop()
        if function in seen:
            continue
        seen.add(function)
        names = set(names_in(function.__code__))
        for name in names:
            value = function.__globals__.get(name)
            found = [value]
            if isinstance(value, type):  # a worker: its methods are compiled as well
                found = list(vars(value).values())
            if isinstance(value, ModuleType):
                found = [getattr(value, other, None) for other in names]
            todo += [
                other
                for other in found
                if isinstance(other, FunctionType) and other.__module__.startswith("flowcontrol.")
            ]
    return {function.__module__ for function in seen}


def names_in(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names_in(constant)


def test_every_module_that_is_compiled_names_the_folder(
    python: Callable[..., Any], package: Path
) -> None:
    modules = compiled_modules()
    places = ("flowcontrol.state.", "flowcontrol.protocol.", "flowcontrol.systems.")
    rules = {name for name in modules if name.startswith(places)}
    assert {
        "flowcontrol.protocol.network.credit_rules",
        "flowcontrol.protocol.network.pool_rules",
    } <= rules
    assert {"flowcontrol.protocol.tasks.task", "flowcontrol.protocol.tasks.operators"} <= rules
    assert "flowcontrol.kernel.ages" in modules  # which only a worker's methods call
    # What draws random numbers has a compiled form of its own, in flowcontrol.kernel.
    places = ("flowcontrol.memory.", "flowcontrol.kernel.")
    own = {name for name in modules if name.startswith(places)}
    assert modules - rules - own <= {"flowcontrol.layout.work", "flowcontrol.layout.shares"}
    names = sorted(rules | own | {"flowcontrol.kernel.lowering", "flowcontrol.state.rows"})
    code = f"""
import json, pathlib
from flowcontrol.kernel.compiled import cache_folder
found = {{"": str(cache_folder())}}
for name in {names!r}:
    path = pathlib.Path(*name.split(".")).with_suffix(".py")
    text = path.read_text()
    path.write_text(text + "# changed\\n")
    found[name] = str(cache_folder())
    path.write_text(text)
print(json.dumps(found))
"""
    folders = python(code)
    assert len(set(folders.values())) == len(names) + 1
    assert folders[""] == python(code)[""]


def test_the_users_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FLOWCONTROL_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder().parent == tmp_path / ".cache" / "flowcontrol"
    monkeypatch.setenv("FLOWCONTROL_CACHE", str(tmp_path / "mine"))
    assert cache_folder().parent == tmp_path / "mine"


def test_without_a_compiler_the_entry_is_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(memory: Any, end: int) -> int:
        return end

    monkeypatch.setattr(compiled, "is_compiled", lambda: False)
    assert compiled.compile_entry(entry) is entry


def test_nothing_is_compiled_by_an_import() -> None:
    code = "import sys, flowcontrol.virtual.clock, flowcontrol.kernel.loop;"
    code += "print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


PAIR = {
    "schema": 1,
    "name": "pair",
    "duration_s": 1,
    "round_ms": 10,
    "stages": [{"name": "source", "emit_rate": 900}, {"name": "sink", "service_rate": 300}],
    "edges": [{"from": "source", "to": "sink", "partitioner": "forward"}],
}


def of_no_type(memory: Any, end: int) -> int:
    """An entry that numba refuses, and Python runs."""
    return next(iter({end} | set()))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is said; this process forgets afterwards that it cannot compile."""
    said: list[str] = []
    monkeypatch.setattr(compiled, "_FAILURES", [])
    monkeypatch.setattr(compiled, "warn", said.append)
    return said


def test_an_entry_that_cannot_be_compiled_runs_interpreted(
    failing: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLOWCONTROL_CACHE", str(tmp_path))
    assert compiled.compile_entry(of_no_type) is of_no_type
    [sentence] = failing
    assert "runs interpreted, slowly: numba 0." in sentence
    assert "Error: " in sentence
    assert "[virtual]" in sentence
    assert "\n" not in sentence
    assert not compiled.is_compiled()
    assert compiled.compile_entry(of_no_type) is of_no_type
    assert len(failing) == 1


def test_a_run_whose_kernel_cannot_be_lowered_is_the_same(
    failing: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from flowcontrol.kernel import loop

    scenario = parse_scenario(PAIR)
    before = simulate(scenario)
    assert compiled.is_compiled()

    def fail() -> None:
        raise AttributeError("module 'numba.core' has no attribute 'planted'")

    monkeypatch.setattr(compiled, "_register", fail)
    monkeypatch.setenv("FLOWCONTROL_CACHE", str(tmp_path))
    loop.kernel_with.cache_clear()
    loop._kernel.cache_clear()
    try:
        after = simulate(scenario)
    finally:
        loop.kernel_with.cache_clear()
        loop._kernel.cache_clear()
    assert after.tables == before.tables
    [sentence] = failing
    assert "(AttributeError: module 'numba.core' has no attribute 'planted')" in sentence
