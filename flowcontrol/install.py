"""How to install an extra of this package, from where the package itself was installed.

It is on no package index: a bare ``pip install flowcontrol[report]`` finds nothing, or somebody
else's. pip notes where a package came from (``direct_url.json``, PEP 610).
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

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
