"""Files below a folder: the same on this machine's disk and on a file system of pyarrow's."""

from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path

import pytest
from pyarrow import fs

from flowcontrol.ledger import storage as storage_module
from flowcontrol.ledger.storage import Storage


@pytest.fixture(params=["local", "remote"])
def storage(request, tmp_path, monkeypatch):
    """A folder, reached by the standard library or as an object store is."""
    if request.param == "local":
        return Storage(tmp_path / "root")
    # What an S3 bucket is to the code: a URI, and a file system that pyarrow finds for it.
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())

    class Known:
        @staticmethod
        def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
            return system, uri.removeprefix("s3://")

    monkeypatch.setattr("pyarrow.fs.FileSystem", Known)
    (tmp_path / "root").mkdir()
    return Storage("s3://root")


def write(storage: Storage, name: str, content: bytes) -> None:
    with storage.open_output(name) as file:
        file.write(content)


def test_what_is_written_is_read(storage, tmp_path):
    if not storage.is_local:
        (tmp_path / "root" / "a").mkdir()
    write(storage, "a/b.bin", b"content")
    assert storage.read("a/b.bin") == b"content"
    assert storage.size("a/b.bin") == 7
    with storage.open_input("a/b.bin") as file:
        file.seek(3)
        assert file.read() == b"tent"
    assert (tmp_path / "root" / "a" / "b.bin").read_bytes() == b"content"


def test_what_is_not_there_says_so(storage):
    assert not storage.exists("none")
    with pytest.raises(FileNotFoundError):
        storage.read("none")
    with pytest.raises(FileNotFoundError):
        storage.open_input("none")
    storage.delete("none")  # gone already is not an error


def test_a_file_is_created_once(storage):
    assert storage.create("link.json", b"first")
    assert not storage.create("link.json", b"second")
    assert storage.read("link.json") == b"first"
    assert storage.exists("link.json")


def test_a_file_is_deleted(storage):
    write(storage, "x", b"")
    storage.delete("x")
    assert not storage.exists("x")
    assert storage.files() == []


def test_all_files_are_listed_with_their_time(storage, tmp_path):
    assert storage.child("none").files() == []
    (tmp_path / "root").mkdir(exist_ok=True)
    (tmp_path / "root" / "sub" / "deep").mkdir(parents=True)
    began = time.time()
    for name in ("a", "sub/b", "sub/deep/c"):
        write(storage, name, b"1")
    found = storage.files()
    assert sorted(name for name, _ in found) == ["a", "sub/b", "sub/deep/c"]
    assert all(began - 5 < written <= time.time() + 5 for _, written in found)
    assert sorted(name for name, _ in storage.child("sub").files()) == ["b", "deep/c"]


def test_a_child_is_a_folder_below(storage):
    child = storage.child("x").child("y")
    assert str(child) == f"{storage}/x/y"
    assert child.is_local == storage.is_local


def test_it_travels_without_its_connection(storage):
    storage.create("x", b"1")
    assert storage.exists("x")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy._fs is None
    assert copy.read("x") == b"1"
    assert str(copy) == str(storage)


# ---------------------------------------------------------------------- places


@pytest.mark.parametrize("root", ["relative/links", Path("relative/links")])
def test_a_relative_path_is_made_absolute(root, tmp_path, monkeypatch):
    """The other end may run in another folder."""
    monkeypatch.chdir(tmp_path)
    assert str(Storage(root)) == f"{tmp_path}/relative/links"


@pytest.mark.parametrize(
    ("root", "place", "is_local"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b/", "/a/b", True),
        ("file:///a/b", "/a/b", True),
        ("s3://bucket/links/", "s3://bucket/links", False),
        ("hdfs://node:9000/links", "hdfs://node:9000/links", False),
    ],
)
def test_a_place_is_local_or_a_uri(root, place, is_local):
    storage = Storage(root, {"key": "value"})
    assert (str(storage), storage.is_local) == (place, is_local)
    assert storage.child("x").options == {"key": "value"}


def test_looking_often_is_for_local_disks(tmp_path):
    """A look at an object store is a request that is paid for."""
    assert Storage(tmp_path).waits_s == storage_module.LOCAL_WAIT_S
    assert Storage("s3://bucket/x").waits_s == storage_module.REMOTE_WAIT_S
    assert storage_module.LOCAL_WAIT_S[1] <= 0.1 <= storage_module.REMOTE_WAIT_S[1]


# ---------------------------------------------------------------------- at once


def test_of_many_that_create_at_once_one_does(tmp_path):
    storage, made = Storage(tmp_path / "new"), []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        if storage.create("link.json", b"%d" % number * 1000):
            made.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert storage.read("link.json") == b"%d" % made[0] * 1000
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["link.json"]


# ---------------------------------------------------------------------- no hard links


@pytest.fixture
def no_links(monkeypatch):
    """A file system such as a mount of Databricks, or one in user space."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.link", refuse)


def test_a_file_is_created_once_without_hard_links(no_links, tmp_path):
    storage = Storage(tmp_path / "new")
    assert storage.create("link.json", b"first")
    assert not storage.create("link.json", b"second")
    assert storage.read("link.json") == b"first"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["link.json"]


def test_of_many_that_create_at_once_one_does_without_hard_links(no_links, tmp_path):
    test_of_many_that_create_at_once_one_does(tmp_path)


def test_who_looked_before_another_was_done_does_not_replace_its_file(
    no_links, tmp_path, monkeypatch
):
    """It finds no file, then another makes it, and then it gets the claim."""
    storage, exists = Storage(tmp_path), Path.exists

    def late(path, **more):
        if path.name == "link.json":
            monkeypatch.setattr(Path, "exists", exists)
            assert storage.create("link.json", b"first")
            return False
        return exists(path, **more)

    monkeypatch.setattr(Path, "exists", late)
    assert not storage.create("link.json", b"second")
    assert storage.read("link.json") == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["link.json"]


def test_the_claim_of_a_killed_process_does_not_last(no_links, tmp_path, monkeypatch):
    (tmp_path / "link.json.claim.tmp").touch()
    monkeypatch.setattr(storage_module, "CLAIM_S", 0.0)
    assert Storage(tmp_path).create("link.json", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["link.json"]


def test_a_link_is_made_without_hard_links(no_links, tmp_path):
    from flowcontrol.link.link import Link

    made = Link(tmp_path / "link", channels=3)
    assert Link(tmp_path / "link").settings == made.settings
