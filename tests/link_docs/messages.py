"""The texts that a link refuses or warns with, read from the code; nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

HOLE = "\0"
"""Stands for what a text fills in."""

LEAST_WORDS = 3
"""Of a text of its own; shorter ones are parts of another, or names."""

FILES = [
    *sorted((ROOT / "flowcontrol/link").rglob("*.py")),
    *(
        ROOT / "flowcontrol/ledger" / f"{name}.py"
        for name in ("commit", "link_index", "link_ledger", "link_log", "log", "paths", "storage")
    ),
    ROOT / "flowcontrol/spark/versions.py",
    ROOT / "flowcontrol/spark/session.py",
    ROOT / "flowcontrol/cli/link.py",
    ROOT / "flowcontrol/cli/watch.py",
]

LISTS = {"wrong", "found", "problems"}
"""Names of the lists that a refusal is made of."""

PROGRAMMING = {"TypeError", "AssertionError", "FileNotFoundError", "KeyError", "OSError"}
"""Errors that nobody gets to read but who changes the code."""


OF_RUNS = {"check_writers", "delta", "fetch", "require_java"}
"""Functions beside those of links whose texts a link never shows."""


class Message(NamedTuple):
    """A text with holes, and where it stands."""

    place: str
    text: str


def messages() -> list[Message]:
    """Return all texts."""
    found = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        tree.body = [one for one in tree.body if getattr(one, "name", "") not in OF_RUNS]
        for node in [*walk(tree)]:
            text = template(node)
            if len(text.replace(HOLE, " ").split()) >= LEAST_WORDS:
                found.append(Message(f"{path.relative_to(ROOT)}:{node.lineno}", text))
    return found


def walk(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that become a text for somebody to read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if is_told(name):
                yield from node.args
        elif isinstance(node, ast.FunctionDef) and node.name.startswith(("_wrong", "_why")):
            yield from (one.value for one in ast.walk(node) if is_result(one))
        elif isinstance(node, ast.FunctionDef):
            yield from raised_by_name(node)


def is_told(name: str) -> bool:
    """Whether a function of this name, called, tells somebody its arguments."""
    last = name.split(".")[-1]
    if name.endswith(".append"):
        return name.split(".")[0] in LISTS
    is_error = last.endswith("Error") and last not in PROGRAMMING
    return is_error or last in {"warning", "info", "_warn_once", "note", "refuse"}


def is_result(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.Return) and node.value is not None


def raised_by_name(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield texts that are put together in a name before an error is raised with it."""
    raised = {
        argument.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and is_told(ast.unparse(node.func))
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in raised:
            yield node.value


def template(node: ast.AST) -> str:
    """Return the text of an expression, with holes; empty if it is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) or HOLE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (template(node.left) or HOLE) + (template(node.right) or HOLE)
    return ""


def is_quoted(message: str, quote: str) -> bool:
    """Whether a quote, in which ``...`` leaves something out, is of a message."""
    at = 0
    for part in quote.split("..."):
        part = part.strip()
        found = message.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
