"""The reference pages that are made from code, all of them.

    python scripts/reference.py            name those that are not what the code makes; status 1
    python scripts/reference.py --write    write them

Each is made by a module of its own here, which has ``PAGE``, its file, and ``page()``, its text.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"

MADE = (
    "scenario_reference",
    "commands_reference",
    "tables_reference",
    "systems_reference",
    "held",
    "supported",
    "emulated_page",
)
"""The modules, in the order of the site's contents."""


def table(heads: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table as Markdown."""
    heads = tuple(heads)
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(escaped, line))} |\n" for line in lines)


def escaped(cell: str) -> str:
    """Return a cell such that nothing of it is Markdown's or HTML's; code stands as it is."""
    parts = cell.replace("|", r"\|").split("`")
    return "`".join(part if at % 2 else part.replace("<", "&lt;") for at, part in enumerate(parts))


def serve(page: Callable[[], str], path: Path, arguments: list[str]) -> int:
    """Print one page, or write it; return the exit status."""
    if arguments != ["--write"]:
        sys.stdout.write(page())
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(), encoding="utf-8")
    return 0


def main(arguments: list[str]) -> int:
    """Compare all pages with what the code makes, or write them; return the exit status."""
    modules = [importlib.import_module(f"scripts.{name}") for name in MADE]
    if arguments == ["--write"]:
        return max(serve(module.page, module.PAGE, arguments) for module in modules)
    stale = [one.PAGE for one in modules if read(one.PAGE) != one.page()]
    for path in stale:
        print(f"{path.relative_to(ROOT)}: run python scripts/reference.py --write")
    return int(bool(stale))


def read(path: Path) -> str:
    """Return a page as it is now; empty if there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
