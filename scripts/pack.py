"""Zip the package for executors on other machines: ``python scripts/pack.py TARGET.zip``."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path


def pack(package: Path, target: Path) -> None:
    """Write the files of a package to a zip, in one step, so that no reader sees half of one."""
    unfinished = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(package.parent))
    unfinished.replace(target)


if __name__ == "__main__":
    pack(Path(__file__).resolve().parent.parent / "flowcontrol", Path(sys.argv[1]))
