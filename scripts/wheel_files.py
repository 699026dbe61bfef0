"""Is everything of the package in a wheel? ``python scripts/wheel_files.py WHEEL``.

Names what is missing, and what is in it that the package has not; the exit status is 1 then.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def wanted_files(root: Path = ROOT) -> set[str]:
    """Return what a wheel must have: the package's files, and the modules that Spark looks for."""
    package = {
        path.relative_to(root).as_posix()
        for path in (root / "flowcontrol").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return package | {path.name for path in root.glob("pyspark_*.py")}


def files_of(wheel: Path) -> set[str]:
    """Return what a wheel has, without what describes it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def main(wheel: Path) -> int:
    """Compare; return the exit status."""
    wanted, found = wanted_files(), files_of(wheel)
    for name in sorted(wanted - found):
        print(f"{wheel.name} lacks {name}", file=sys.stderr)
    for name in sorted(found - wanted):
        print(f"{wheel.name} has {name}, which is not of the package", file=sys.stderr)
    print(f"{wheel.name}: {len(found & wanted)} of {len(wanted)} files")
    return int(wanted != found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
