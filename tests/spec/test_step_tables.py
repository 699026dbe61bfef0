"""How many conversations were worked out by hand: checkpoints and restarts, and event time."""

from __future__ import annotations

import ast

import pytest

from modules import ROOT, load

TABLES = {
    "barriers": ["spec/checkpoints/tables.py"],
    "coordinator": ["protocol/checkpoints/test_triggers.py", "protocol/checkpoints/test_ends.py"],
    "restart strategies": ["protocol/restarts/test_strategies.py"],
    "windows": ["spec/windows/tables.py", "spec/windows/trigger_tables.py"],
    "watermarks": ["spec/event_time/valve_tables.py", "spec/event_time/source_tables.py"],
    "Spark's event time": ["spec/spark_time/test_tables.py"],
}
"""Modules whose ``TABLES`` are steps and their answers."""
PHASES = ("protocol/commits/test_two_phase.py", "spec/commits/test_committer.py")
"""Modules in which a test is a table: calls of a sink, and after each what must be so."""
LEAST = 60
EVENT_TIME = {"watermarks", "windows"}
LEAST_OF_EVENT_TIME = 80
STEPS = 3


def steps_of_phases(path: str) -> dict[str, int]:
    """What each test of a module asserts, counted; a test of refusals has no steps."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    tests = [
        one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name[:5] == "test_"
    ]
    found = {test.name: sum(isinstance(x, ast.Assert) for x in ast.walk(test)) for test in tests}
    return {name: count for name, count in found.items() if count >= STEPS}


def test_there_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {
        kind: sum(len(load(f"tests/{path}").TABLES) for path in paths)
        for kind, paths in TABLES.items()
    }
    counts["commit phases"] = sum(len(steps_of_phases(path)) for path in PHASES)
    with capsys.disabled():
        print(f"\nstep tables: {counts}, {sum(counts.values())} in all")
    assert min(counts.values()) >= STEPS
    assert sum(counts[kind] for kind in EVENT_TIME) >= LEAST_OF_EVENT_TIME
    assert sum(counts[kind] for kind in TABLES.keys() - EVENT_TIME) >= LEAST
