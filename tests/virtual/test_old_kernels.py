"""Kernels that are kept: those in use, and those of the last month."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import flowcontrol
from flowcontrol.kernel.cache import UNUSED_S, drop_old_kernels
from flowcontrol.kernel.compiled import cache_folder

pytest.importorskip("numba")


def aged(folder: Path, age_s: float) -> Path:
    """Make a folder with a file in it that was last used so long ago."""
    folder.mkdir()
    (folder / "kernel.o").write_text("")
    os.utime(folder, (time.time() - age_s,) * 2)
    return folder


def test_what_nobody_used_for_a_month_goes(tmp_path: Path) -> None:
    own = aged(tmp_path / "kernel-own", 2 * UNUSED_S)
    recent = aged(tmp_path / "kernel-recent", UNUSED_S - 60)
    old = aged(tmp_path / "kernel-old", UNUSED_S + 60)
    foreign = aged(tmp_path / "something-else", 2 * UNUSED_S)
    began = time.time()
    drop_old_kernels(tmp_path, own)
    assert [folder.exists() for folder in (own, recent, old, foreign)] == [True, True, False, True]
    assert own.stat().st_mtime > began - 60


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    drop_old_kernels(tmp_path / "file", tmp_path / "file" / "kernel-own")
    assert (tmp_path / "file").read_text() == ""


def test_the_sources_are_found_in_a_zip_archive_too(tmp_path: Path) -> None:
    """Spark ships the package to other machines as an archive."""
    root = Path(flowcontrol.__file__).parent
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for file in (*root.rglob("*.py"), *root.rglob("*.yaml")):
            archive.write(file, file.relative_to(root.parent))
    code = "from flowcontrol.kernel import compiled; print(compiled.cache_folder())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "package.zip")}
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()) == cache_folder()
