"""How many conversations were worked out by hand: checkpoints and restarts, and event time."""

from __future__ import annotations

import ast

import pytest

from modules import ROOT, load

FOLDER = "tests/protocol/"
TABLES = {
    "barriers": ["checkpoints/tables.py"],
    "coordinator": ["checkpoints/test_triggers.py", "checkpoints/test_ends.py"],
    "restart strategies": ["restarts/test_strategies.py"],
    "windows": ["windows/tables.py", "windows/trigger_tables.py"],
    "watermarks": ["event_time/valve_tables.py", "event_time/source_tables.py"],
}
"""Modules whose ``TABLES`` are steps and their answers."""
PHASES = ("commits/test_two_phase.py", "commits/test_committer.py")
"""Modules in which a test is a table: calls of a sink, and after each what must be so."""
LEAST = 60
EVENT_TIME = {"watermarks", "windows"}
LEAST_OF_EVENT_TIME = 80
STEPS = 3


def steps_of_phases(path: str) -> dict[str, int]:
    """What each test of a module asserts, counted; a test of refusals has no steps."""
    tree = ast.parse((ROOT / FOLDER / path).read_text())
    tests = [
        one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name[:5] == "test_"
    ]
    found = {test.name: sum(isinstance(x, ast.Assert) for x in ast.walk(test)) for test in tests}
    return {name: count for name, count in found.items() if count >= STEPS}


def test_there_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {
        kind: sum(len(load(FOLDER + path).TABLES) for path in paths)
        for kind, paths in TABLES.items()
    }
    counts["commit phases"] = sum(len(steps_of_phases(path)) for path in PHASES)
    with capsys.disabled():
        print(f"\nstep tables: {counts}, {sum(counts.values())} in all")
    assert min(counts.values()) >= STEPS
    assert sum(counts[kind] for kind in EVENT_TIME) >= LEAST_OF_EVENT_TIME
    assert sum(counts[kind] for kind in TABLES.keys() - EVENT_TIME) >= LEAST
