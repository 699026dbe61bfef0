"""Which rules a run is made under: what one set of them began no other continues."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from flowcontrol.version import __version__

BOTH_CLOCKS: Final = ("protocol", "operators", "systems", "job")
"""Packages whose rules both clocks run."""


@cache
def rules_version(*more: str) -> str:
    """Return the version of the program, and a hash of the rules that decide every figure.

    Parameters
    ----------
    *more : str
        Further packages of ``flowcontrol`` that decide, such as ``virtual``.

    Returns
    -------
    str
        Such as ``0.1.0+3f2a9c0d11e4``. Any change in a source file of the rules changes it.
    """
    digest = hashlib.sha256()
    for package in (*BOTH_CLOCKS, *more):
        for name, text in sorted(_sources(resources.files(f"flowcontrol.{package}"), package)):
            digest.update(f"{name} {len(text)} ".encode())
            digest.update(text)
    return f"{__version__}+{digest.hexdigest()[:12]}"


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Name and text of every source file below a package, also of one in a zip archive."""
    for file in folder.iterdir():
        path = f"{name}/{file.name}"
        if file.is_dir():
            yield from _sources(file, path)
        elif file.name.endswith(".py"):
            yield path, file.read_bytes()
