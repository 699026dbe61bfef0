"""Graphs by hand: lines of a graph, questions, and the answers of the reference."""

from __future__ import annotations

import pytest

from flowcontrol.errors import FlowControlError
from modules import load

asking = load("tests/deployment/asking.py")
chaining = load("tests/deployment/chaining_tables.py")
placing = load("tests/deployment/placing_tables.py")
REFUSALS = load("tests/deployment/refusal_tables.py").REFUSALS

TABLES = {
    "chaining": chaining.TABLES,
    "stream and job graph": chaining.GRAPHS,
    "channels": placing.CHANNELS,
    "regions and restarts": placing.REGIONS,
    "slot sharing": placing.SHARING,
    "slot assignment": placing.ASSIGNING,
}
LEAST = 80
CONDITIONS = 8
ALL = [
    pytest.param(*table, id=f"{kind}: {name}")
    for kind, tables in TABLES.items()
    for name, table in tables.items()
]


@pytest.mark.parametrize(("graph", "steps"), ALL)
def test_by_hand(graph: str, steps: str) -> None:
    asked = asking.Asked(graph)
    lines = [line.strip() for line in steps.splitlines() if line.strip()]
    questions = [line.partition(" =")[0] for line in lines]
    answers = [f"{question} = {asked.answer(question)}".rstrip() for question in questions]
    assert answers == lines


@pytest.mark.parametrize(("graph", "question", "words"), REFUSALS.values(), ids=list(REFUSALS))
def test_refused(graph: str, question: str, words: str) -> None:
    with pytest.raises((ValueError, FlowControlError)) as refused:
        asked = asking.Asked(graph)
        assert question, "the stream graph was made"
        asked.answer(question)
    assert words in str(refused.value)


def test_there_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {kind: len(tables) for kind, tables in TABLES.items()} | {"refusals": len(REFUSALS)}
    with capsys.disabled():
        print(f"\ntables of graphs: {counts}, {sum(counts.values())} in all")
    assert sum(counts.values()) >= LEAST


def test_every_condition_of_chaining_has_its_table() -> None:
    answers = "\n".join(steps for _, steps in chaining.TABLES.values())
    for number in range(1, CONDITIONS + 1):
        assert f"= {number}\n" in f"{answers}\n"
