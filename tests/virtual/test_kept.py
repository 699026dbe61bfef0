"""How a kernel is kept on disk, with one that compiles in no time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.kernel import kept
from flowcontrol.kernel.compiled import is_compiled

pytestmark = pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")

TINY = """
def entry(number):
    return 2 * number
"""

RUN = """
import json, pathlib, sys, time
import tiny
from flowcontrol.kernel import compiled, kept
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
source = tiny.__loader__.get_data(tiny.__file__)
found = compiled._cached(kept.addressed(tiny.entry, source, folder), folder, {})
compile_it = found.compile
def slowly(signature):  # whoever comes meanwhile finds the kernel missing
    time.sleep(0.2)
    return compile_it(signature)
found.compile = slowly
kept.compiled_once(found, folder)
assert found(21) == 42
counts = (found.stats.cache_hits, found.stats.cache_misses)
print(json.dumps([sum(count.values()) for count in counts]))
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A module in an archive."""
    path = tmp_path / "tiny.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("tiny.py", TINY)
    return path


def start(archive: Path, folder: Path, count: int = 1) -> list[tuple[int, int]]:
    """Run the entry in some processes at once; return hits and misses of each."""
    root = str(Path(kept.__file__).parents[2])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(folder)],
            env={**os.environ, "PYTHONPATH": f"{archive}:{root}"},
            stdout=subprocess.PIPE,
        )
        for _ in range(count)
    ]
    said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0] * count
    return [(hits, misses) for hits, misses in map(json.loads, said)]


def test_one_process_compiles_what_stands_in_an_archive(archive: Path, tmp_path: Path) -> None:
    found = start(archive, tmp_path / "kernel", 4)
    assert sorted(found) == [(0, 1), (1, 0), (1, 0), (1, 0)]
    assert start(archive, tmp_path / "kernel") == [(1, 0)]


@pytest.mark.parametrize(
    ("ending", "size"), [("nbc", 20), pytest.param("nbi", 0, marks=pytest.mark.long)]
)
def test_a_damaged_kernel_is_compiled_again(
    archive: Path, tmp_path: Path, ending: str, size: int
) -> None:
    """A power cut leaves files without content, or with a part of it."""
    folder = tmp_path / "kernel"
    start(archive, folder)
    (path,) = folder.rglob(f"*.{ending}")
    path.write_bytes(path.read_bytes()[:size])
    assert start(archive, folder)[0][0] == 0
    assert start(archive, folder) == [(1, 0)]


def test_a_full_disk_stops_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from numba.core.caching import IndexDataCacheFile

    from flowcontrol.kernel import compiled

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_save_data", full)
    space: dict[str, Any] = {"__name__": "tiny"}
    exec(TINY, space)
    entry = kept.addressed(space["entry"], TINY.encode(), tmp_path)
    found = kept.compiled_once(compiled._cached(entry, tmp_path, {}), tmp_path)
    assert found(21) == 42
    assert not kept.has_kernel(tmp_path)


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
