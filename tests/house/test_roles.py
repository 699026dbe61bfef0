"""Every role in a docstring (``:func:`...```) points at something that is there."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "flowcontrol"
ROLE = re.compile(r":(?:py:)?(?:mod|func|class|meth|data):`([^`]*)`")
MISSING = object()


class Role(NamedTuple):
    """A role, and where it stands."""

    target: str
    module: str
    package: str
    owner: str | None
    """The class whose docstring, or whose method's, it is in."""


def roles_of(path: Path) -> Iterator[Role]:
    """Yield the roles in the docstrings of a file, those behind attributes too."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    package = ".".join(parts[:-1])
    yield from _roles_in(ast.parse(path.read_text(encoding="utf-8")), module, package, None)


def _roles_in(node: ast.AST, module: str, package: str, owner: str | None) -> Iterator[Role]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.ClassDef) else owner
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            text = child.value.value if isinstance(child.value.value, str) else ""
            for found in ROLE.findall(text):
                target = re.sub(r"\s+", " ", found)
                target = re.sub(r"^.* <(.*)>$", r"\1", target).lstrip("~")
                yield Role(target, module, package, owner)
        yield from _roles_in(child, module, package, inner)


def points_somewhere(role: Role) -> bool:
    """Whether a role's target can be imported, or is a name of its module or its class."""
    if role.target.startswith("."):
        return _found(role.package + role.target)
    module = importlib.import_module(role.module)
    owner = None if role.owner is None else getattr(module, role.owner, None)
    names = role.target.split(".")
    here = [place for place in (owner, module) if place is not None]
    return any(_within(place, names) for place in here) or _found(role.target)


def _found(name: str) -> bool:
    """Whether a full name is a module's, or that of something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return _within(module, parts[end:])
    return False


def _within(place: Any, names: list[str]) -> bool:
    for name in names:
        declared = getattr(place, "__annotations__", {})
        place = getattr(place, name, declared.get(name, MISSING))
        if place is MISSING:
            return False
    return True


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))
def test_roles_point_somewhere(room: str) -> None:
    lost = [
        f"{role.module}: {role.target}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for role in roles_of(path)
        if not points_somewhere(role)
    ]
    assert lost == []


def test_roles_of_the_package_itself_point_somewhere() -> None:
    paths = sorted(PACKAGE.glob("*.py"))
    assert [r for path in paths for r in roles_of(path) if not points_somewhere(r)] == []


@pytest.mark.parametrize(
    ("target", "is_there"),
    [
        ("flowcontrol.kernel.loop.advance", True),
        ("flowcontrol.kernel.loop.gone", False),
        (".views", True),
        (".places", False),
        ("run_tasks", True),
        ("gone", False),
        ("flowcontrol.gone", False),
    ],
)
def test_a_target_is_found_if_it_is_there(target: str, is_there: bool) -> None:
    role = Role(target, "flowcontrol.kernel.loop", "flowcontrol.kernel", None)
    assert points_somewhere(role) == is_there
