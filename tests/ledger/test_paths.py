"""What a path means: a folder of this machine, a place in a store, or a refusal by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.errors import LedgerError
from flowcontrol.ledger import paths
from flowcontrol.ledger.paths import local_folder, read_place
from flowcontrol.ledger.storage import Storage


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home and a working directory in which nothing may appear."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    yield tmp_path / "home"
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("FILE:/a/b", "/a/b"),
        ("file:////a/b", "/a/b"),
        ("file:///a b/ö", "/a b/ö"),
        (Path("/a/b"), "/a/b"),
        (Path("file:///a/b"), "/a/b"),
        ("/a/50%", "/a/50%"),
        ("/a/s3:/b", "/a/s3:/b"),
    ],
)
def test_a_path_of_this_machine(text, root):
    assert read_place(text) == (root, True)
    assert str(Storage(text)) == root
    assert local_folder(text) == Path(root)


@pytest.mark.parametrize("text", ["~", "~/links/a", Path("~/links/a")])
def test_a_tilde_is_the_home(text, home):
    assert read_place(text).root == str(text).replace("~", str(home))


@pytest.mark.parametrize("text", ["links/a", "./~", "12:30/x", "run:1", "./s3:/x", "a b"])
def test_a_relative_path_is_below_the_working_directory(text):
    assert read_place(text) == (str(Path.cwd() / text), True)


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("s3://bucket/links/", "s3://bucket/links"),
        ("s3a://bucket/links", "s3://bucket/links"),
        ("gs://bucket", "gs://bucket"),
        ("gcs://bucket/a", "gs://bucket/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
        ("hdfs://node:9000/a", "hdfs://node:9000/a"),
        (Path("s3://bucket/links"), "s3://bucket/links"),
    ],
)
def test_a_place_in_a_store(text, root):
    assert read_place(text) == (root, False)
    with pytest.raises(LedgerError, match="results are written to a folder of this machine"):
        local_folder(text)


def test_a_path_of_databricks_is_its_mount(tmp_path, monkeypatch):
    with pytest.raises(LedgerError, match=r"dbfs:/a: a path of Databricks, which is not mounted"):
        read_place("dbfs:/a")
    monkeypatch.setattr(paths, "DBFS_MOUNT", str(tmp_path))
    for text in ("dbfs:/a/b", "dbfs:///a/b", Path("dbfs:/a/b")):
        assert read_place(text) == (f"{tmp_path}/a/b", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no folder"),
        ("a\0b", "names no folder"),
        ("file://node7/a", "three slashes, file:///node7/a or file:///a"),
        ("file:a/b", "a file: URI needs an absolute path"),
        ("file:", "a file: URI needs an absolute path"),
        ("file:///a%20b", r"give the path without file:, /a%20b"),
        ("~nobody-of-that-name/x", "this machine knows no such user"),
        ("nonsense://bucket/x", "no file system for nonsense: is known, only file:, dbfs:/, s3:"),
        ("wasbs://c@a/x", "no file system for wasbs: is known"),
        ("c:/links", "no file system for c: is known"),
        ("s3:/bucket/x", "names no bucket: write s3://bucket/folder"),
        ("s3:bucket", "names no bucket"),
        ("gs://", "names no bucket"),
    ],
)
def test_what_is_neither_is_refused_by_name(text, message):
    with pytest.raises(LedgerError, match=message) as caught:
        Storage(text)
    assert text in str(caught.value) or "\0" in text


def test_a_line_break_is_no_part_of_a_path():
    with pytest.raises(LedgerError, match="has a line break: write the path without"):
        read_place("/tmp/a\n")
