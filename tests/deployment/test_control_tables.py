"""The control plane by hand: lines of questions, and the answers of the reference."""

from __future__ import annotations

import re

import pytest

from modules import load

Asked = load("tests/deployment/controlling.py").Asked
RULES = load("tests/deployment/control_tables.py").TABLES
TABLES = RULES | load("tests/deployment/plane_tables.py").TABLES

LEAST = 40
ALL = [
    pytest.param(*table, id=f"{kind}: {name}")
    for kind, tables in TABLES.items()
    for name, table in tables.items()
]


@pytest.mark.parametrize(("setup", "steps"), ALL)
def test_by_hand(setup: str, steps: str) -> None:
    asked = Asked(setup)
    lines = [line.strip() for line in re.split(r"[;\n]", steps) if line.strip()]
    questions = [line.partition(" =")[0] for line in lines]
    answers = [f"{question} = {asked.answer(question)}" for question in questions]
    assert answers == lines


def test_there_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {kind: len(tables) for kind, tables in TABLES.items()}
    with capsys.disabled():
        print(f"\ntables of the control plane: {counts}, {sum(counts.values())} in all")
    assert sum(counts.values()) >= LEAST
