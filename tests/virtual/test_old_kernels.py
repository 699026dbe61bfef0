"""Kernels that are kept: those in use, and those of the last month."""

from __future__ import annotations

import os
import time
from pathlib import Path

from flowcontrol.virtual.compiled import UNUSED_S, drop_old_kernels


def aged(folder: Path, age_s: float) -> Path:
    """Make a folder with a file in it that was last used so long ago."""
    folder.mkdir()
    (folder / "kernel.nbi").write_text("")
    os.utime(folder, (time.time() - age_s,) * 2)
    return folder


def test_what_nobody_used_for_a_month_goes(tmp_path: Path) -> None:
    own = aged(tmp_path / "kernel-own", 2 * UNUSED_S)
    recent = aged(tmp_path / "kernel-recent", UNUSED_S - 60)
    old = aged(tmp_path / "kernel-old", UNUSED_S + 60)
    foreign = aged(tmp_path / "something-else", 2 * UNUSED_S)
    drop_old_kernels(tmp_path, own)
    assert [folder.exists() for folder in (own, recent, old, foreign)] == [True, True, False, True]
    assert time.time() - own.stat().st_mtime < 60


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    drop_old_kernels(tmp_path / "file", tmp_path / "file" / "kernel-own")
    assert (tmp_path / "file").read_text() == ""
