"""The modules of the package import each other one way, and say so at the top."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import flowcontrol.scenario

PACKAGE = Path(flowcontrol.scenario.__file__).parent
NAME = "flowcontrol.scenario"


def imported(nodes: list[ast.AST]) -> set[str]:
    """Modules of the package among the imports; what the package itself exports is the package."""
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    found = {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
    found |= {node.module or "" for node in froms}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    names = {name.removeprefix(f"{NAME}.").split(".")[0] for name in found if name.startswith(NAME)}
    return names & modules | ({"__init__"} if NAME in found and not names & modules else set())


def test_there_is_no_circle() -> None:
    graph = {
        path.stem: imported(list(ast.walk(ast.parse(path.read_text()))))
        for path in PACKAGE.glob("*.py")
    }
    assert graph["__init__"] > {"models", "resolve"}
    order = list(TopologicalSorter(graph).static_order())
    assert order[-1] == "__init__"


def test_no_import_is_hidden_in_a_function() -> None:
    for path in PACKAGE.glob("*.py"):
        functions = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)
        ]
        hidden = imported([inner for function in functions for inner in ast.walk(function)])
        assert hidden == set(), path.name
