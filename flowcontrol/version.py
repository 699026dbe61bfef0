"""The version of the program, for code that must not load the whole package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    import ast
    from importlib.resources.abc import Traversable

__version__ = "0.1.0"


# --- Which rules a run is made under: what one set of them began no other continues


BOTH_CLOCKS: Final = (
    "state",
    "protocol",
    "systems",
    "layout",
    "trace",
    "memory",
    "kernel",
    "control",
    "results",
    "virtual",
)
"""Packages whose rules both clocks run."""

OF_LIVE_RUN: Final = ("live", "ledger")
"""Packages besides, that write and read what an unfinished live run goes on from."""

OF_FIGURES: Final = ("analysis", "topics")
"""Packages besides, that make the figures which an unfinished experiment has kept."""


@cache
def rules_version(*more: str) -> str:
    """Return the version of the program, and a hash of the rules that decide every figure.

    ``more``: further packages of ``flowcontrol`` that decide, such as those of :data:`OF_FIGURES`.

    Such as ``0.1.0+3f2a9c0d11e4``. Any change in the code of the rules changes it; one in comments,
    descriptions or layout does not.
    """
    import ast  # these take as long to load as all that a short command needs besides
    import hashlib
    from importlib import resources

    digest = hashlib.sha256()
    for package in (*BOTH_CLOCKS, *more):
        for name, text in sorted(_sources(resources.files(f"flowcontrol.{package}"), package)):
            tree = ast.parse(text)
            tree.body = _without_texts(tree.body)
            code = ast.dump(tree)
            digest.update(f"{name} {len(code)} {code}".encode())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def _without_texts(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a block, at every depth, that do something: descriptions do not."""
    import ast

    kept = []
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(getattr(statement, "body", None), list):
            statement.body = _without_texts(statement.body)  # type: ignore[attr-defined]
        kept.append(statement)
    return kept


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Name and text of every source file below a package, also of one in a zip archive."""
    for file in folder.iterdir():
        path = f"{name}/{file.name}"
        if file.is_dir():
            yield from _sources(file, path)
        elif file.name.endswith(".py"):
            yield path, file.read_bytes()


# --- How to install an extra of this package, from where the package itself was installed.
#
# It is on no package index: a bare ``pip install flowcontrol[report]`` finds nothing, or somebody
# else's. pip notes where a package came from (``direct_url.json``, PEP 610).


UNKNOWN = "PATH_TO_WHEEL"
"""Stands for the wheel that ``scripts/build.sh`` makes, where nothing says where that is."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra.

    ``extra``: as ``setup.cfg`` has it: ``report``, ``metrics``, ``flights``, ``tune``, ``virtual``,
    ``spark``.
    """
    place, is_editable = _installed_from()
    option = "-e " if is_editable else ""
    said = f'pip install {option}"{place}[{extra}]"'
    return said if place != UNKNOWN else f"{said} (the wheel that scripts/build.sh made)"


def _installed_from() -> tuple[str, bool]:
    """Return the wheel or checkout that pip installed this package from, and whether it stays."""
    try:
        noted = distribution("flowcontrol").read_text("direct_url.json")
    except PackageNotFoundError:  # a zip on the path of an executor
        noted = None
    if noted is None:
        return UNKNOWN, False
    found = json.loads(noted)
    parts = urlparse(found["url"])
    place = unquote(parts.path)
    if parts.scheme != "file" or not Path(place).exists():
        return UNKNOWN, False
    return place, bool(found.get("dir_info", {}).get("editable", False))
