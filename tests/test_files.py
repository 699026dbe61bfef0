"""A file is replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from flowcontrol.files import write_atomically


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_atomically(path, "one — è")
    write_atomically(path, "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half \ud800")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_others_may_read_it_as_any_new_file(tmp_path: Path) -> None:
    plain, written = tmp_path / "plain", tmp_path / "written"
    plain.touch()
    write_atomically(written, "x")
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "report.html", "x")


def test_it_is_on_the_disk_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the name leads to the old text or to the new one, never to none."""
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_sync(handle: int) -> None:
        done.append(f"sync {os.fstat(handle).st_size}")
        fsync(handle)

    def note_replace(path: Path, target: Path) -> Path:
        done.append("rename")
        return replace(path, target)

    monkeypatch.setattr("os.fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    write_atomically(tmp_path / "run.json", "12345")
    assert done == ["sync 5", "rename"]


def test_the_umask_of_other_threads_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the process's: a file that another thread makes meanwhile would be open to all."""
    monkeypatch.setattr("os.umask", lambda mask: pytest.fail(f"umask {mask:o} is set"))
    write_atomically(tmp_path / "run.json", "x")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_umask_decides(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "run.json", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o666 & ~mask
