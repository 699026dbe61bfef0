"""The list of faults that the tests must catch: each still fits the code."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from modules import load

mutants = load("scripts/mutants.py")

ROOT = Path(__file__).resolve().parent.parent.parent


def test_each_fits_its_file_exactly_once_and_is_python():
    found = mutants.read_mutants()
    for mutant in found:
        text = (ROOT / mutant.file).read_text()
        changed = mutant.applied(text)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)), mutant
        assert all((ROOT / test).exists() for test in mutant.tests), mutant
    assert len(found) == len({(mutant.file, mutant.old, mutant.new) for mutant in found}) >= 40
    folders = {mutant.file.split("/")[1] for mutant in found}
    rooms = {"state", "protocol", "systems", "layout", "memory", "kernel", "control"}
    assert folders == {*rooms, "spec", "ledger", "link", "live"}


def test_a_text_that_is_gone_or_doubled_is_refused():
    one = mutants.read_mutants()[0]
    for text in ("", one.old + one.old):
        with pytest.raises(ValueError, match=r"mutant 1: .* needs it once"):
            one.applied(text)


def test_only_some_are_tried_and_the_status_tells_what_survived(monkeypatch, capsys):
    tried = []

    def pretend(chosen, at_once, *, compile_all):
        tried.extend((mutant.number, at_once, compile_all) for mutant in chosen)
        return [mutants.Outcome(mutant, "" if mutant.number == 7 else "a test", 1.0)
                for mutant in chosen]  # fmt: skip

    monkeypatch.setattr(mutants, "try_all", pretend)
    monkeypatch.setattr(sys, "argv", ["mutants.py", "--only", "3,7"])
    assert mutants.main() == 1
    assert tried == [(3, 2, False), (7, 2, False)]
    assert "1 of 2 caught, survived: [7]" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["mutants.py", "--only", "3", "--at-once", "1", "--whole"])
    assert mutants.main() == 0
    assert tried[-1] == (3, 1, True)
