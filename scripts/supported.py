"""docs/reference/supported.md: which Spark does what, made from scripts/supported.yaml.

    python scripts/supported.py            print the page
    python scripts/supported.py --write    put it into docs/reference/supported.md

Nothing of the page is written by hand but the words here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import yaml

from scripts.reference import FOLDER, ROOT, serve

TABLE = ROOT / "scripts" / "supported.yaml"
PAGE = FOLDER / "supported.md"

HEAD = """\
# Supported versions

<!-- made by scripts/supported.py: change scripts/supported.yaml, then run it with --write -->

`./spark-submit.sh` brings Spark {newest}. On a platform that has its own Spark, install the wheel
without the extra `spark`.
"""
FOOT = """\
## How this is checked

```bash
scripts/matrix.sh              # all versions; or name some: scripts/matrix.sh 4.0 4.1
```

makes an environment for each version in `.venv-matrix`, runs the live tests of the link and of the
job in each mode, and prints what passed. A version and mode of the table above that fails makes its
exit status 1. "Not run whole": the code is there and single tests have passed, but the tests of
that version and mode have not all passed in one run yet. The quick checks run 4.2, locally and
through Spark Connect.
"""


def supported() -> dict[str, Any]:
    """Return the table."""
    found: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found


def table(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the page's table."""
    modes = found["modes"]
    heads = [f"{mode['means']}: {part}" for mode in modes.values() for part in parts(mode)]
    yield f"| Spark | tested with | Delta | {' | '.join(heads)} | limits |"
    yield "| --- " * (4 + len(heads)) + "|"
    for version, row in found["versions"].items():
        cells = [_cell(name, row, part) for name, mode in modes.items() for part in parts(mode)]
        limits = " ".join(" ".join(limit.split()) for limit in row["limits"]) or "none"
        delta = row.get("delta", f"delta-spark {found['delta']}")
        told = [version, f"pyspark {row['pyspark']}", delta]
        yield f"| {' | '.join([*told, *cells, limits])} |"


def _cell(mode: str, row: dict[str, Any], part: str) -> str:
    if part not in parts_of(row):
        return "no"
    if mode in row["green"]:
        return "yes"
    return "not run whole" if mode in row["modes"] else "no"


def parts(mode: dict[str, Any]) -> list[str]:
    """Return which of the two, link and job, a mode has tests for."""
    return [part for part in ("link", "job") if mode[part]]


def parts_of(row: dict[str, Any]) -> list[str]:
    """Return which of the two a version runs."""
    found: list[str] = row.get("parts", ["link", "job"])
    return found


def page() -> str:
    """Return the page."""
    found = supported()
    newest = next(name for name, row in found["versions"].items() if "delta" not in row)
    lines = [HEAD.format(newest=newest), *table(found), ""]
    lines += [f"- {' '.join(text.split())}" for text in found["general"]]
    return "\n".join([*lines, "", FOOT])


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return serve(page, PAGE, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
