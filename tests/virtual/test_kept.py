"""How a kernel is kept on disk, with one that takes no time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flowcontrol.kernel import cache as kept

RUN = """
import json, pathlib, sys, time
from flowcontrol.kernel import cache as kept
made = []
def compile_it():
    made.append(time.sleep(0.2))  # whoever comes meanwhile finds the kernel missing
    return b"machine code"
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
assert kept.compiled_once(folder, compile_it) == (b"machine code", True)
print(len(made))
"""


def start(folder: Path, count: int = 1) -> list[int]:
    """Have some processes ask for a kernel at once; return how often each compiled it."""
    root = str(Path(kept.__file__).parents[2])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(folder)],
            env={**os.environ, "PYTHONPATH": root},
            stdout=subprocess.PIPE,
        )
        for _ in range(count)
    ]
    said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0] * count
    return [int(text) for text in said]


def test_one_process_compiles(tmp_path: Path) -> None:
    assert sorted(start(tmp_path / "kernel", 4)) == [0, 0, 0, 1]
    assert start(tmp_path / "kernel") == [0]


@pytest.mark.parametrize("size", [0, 20, 40])
def test_a_damaged_kernel_is_compiled_again(tmp_path: Path, size: int) -> None:
    """A power cut leaves files without content, or with a part of it."""
    path = tmp_path / kept.KERNEL
    kept.compiled_once(tmp_path, lambda: b"machine code")
    path.write_bytes(path.read_bytes()[:size])
    assert kept.has_kernel(tmp_path)
    assert kept.read(tmp_path) is None
    assert kept.compiled_once(tmp_path, lambda: b"new") == (b"new", True)
    assert kept.read(tmp_path) == b"new"


def test_a_changed_kernel_is_compiled_again(tmp_path: Path) -> None:
    path = tmp_path / kept.KERNEL
    kept.compiled_once(tmp_path, lambda: b"machine code")
    path.write_bytes(path.read_bytes().replace(b"code", b"coda"))
    assert kept.compiled_once(tmp_path, lambda: b"new") == (b"new", True)


def test_a_full_disk_stops_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "write_atomically", full)
    assert kept.compiled_once(tmp_path, lambda: b"machine code") == (b"machine code", False)
    assert not kept.has_kernel(tmp_path)


def test_a_kernel_may_come_with_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built, own = tmp_path / "built", tmp_path / "cache" / "kernel-1-8"
    built.mkdir()
    own.mkdir(parents=True)
    monkeypatch.setattr(kept, "_built", lambda: built)
    assert kept.ends_of_kernels(own, "kernel-1-") == set()
    for name, code in (("kernel-1-8", b"code"), ("kernel-1-12", b"more"), ("kernel-2-8", b"old")):
        kept.compiled_once(tmp_path, lambda code=code: code)
        (tmp_path / kept.KERNEL).rename(built / name)
    assert kept.compiled_once(own, lambda: b"new") == (b"code", True)
    assert list(own.glob("*.o")) == []
    assert kept.ends_of_kernels(own, "kernel-1-") == {"8", "12"}
    (built / "kernel-1-8").write_bytes(b"damaged")
    assert kept.compiled_once(own, lambda: b"new") == (b"new", True)


def folder(monkeypatch: pytest.MonkeyPatch, home: str, temporary: Path) -> Path:
    """Return where kernels are kept by somebody with such a home."""
    monkeypatch.delenv("FLOWCONTROL_CACHE", raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return kept.folder_named({"a": b"b"}, "1").parent


def test_without_a_home_the_temporary_folder_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = folder(monkeypatch, "/dev/null", tmp_path)
    assert found == tmp_path / f"flowcontrol-{os.getuid()}"
    assert found.stat().st_mode & 0o777 == 0o700
    assert folder(monkeypatch, str(tmp_path / "home"), tmp_path).parent.name == ".cache"


@pytest.mark.parametrize("planted", ["link", "open"])
def test_what_others_may_write_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, planted: str
) -> None:
    """Code is loaded from there; in a common folder anybody may have made it."""
    place = tmp_path / f"flowcontrol-{os.getuid()}"
    if planted == "link":
        (tmp_path / "theirs").mkdir()
        place.symlink_to(tmp_path / "theirs")
    else:
        place.mkdir()
        place.chmod(0o777)
    assert folder(monkeypatch, "/dev/null", tmp_path) == Path("/dev/null/.cache/flowcontrol")
