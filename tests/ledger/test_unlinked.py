"""Commits where the file system has no hard links: of two writers that race one wins."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from flowcontrol.ledger import appending as unlinked
from flowcontrol.ledger.appending import claimed, has_hard_links
from flowcontrol.ledger.commit import Writer, create_table

SCHEMA = pa.schema([("a", pa.int64())])


@pytest.fixture(params=[errno.EPERM, errno.ENOTSUP, errno.EXDEV])
def no_links(request, monkeypatch):
    """A mount on which ``os.link`` fails, in one of the ways in which mounts do."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr("os.link", refuse)


def test_that_there_are_hard_links_is_tried(tmp_path):
    assert has_hard_links(tmp_path)
    assert has_hard_links(tmp_path / "missing")
    assert not list(tmp_path.iterdir())


def test_that_there_are_none_is_found_out(no_links, tmp_path):
    assert not has_hard_links(tmp_path)
    assert not list(tmp_path.iterdir())


def test_of_many_that_commit_at_once_each_number_has_one(no_links, tmp_path):
    table, start, failures = tmp_path / "table", threading.Barrier(4), []

    def work(number: int) -> None:
        try:
            start.wait()
            create_table(table, SCHEMA, "text")
            writer = Writer(table, f"app{number}")
            writer.claim()
            for batch in range(5):
                assert writer.commit(batch, [])
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = DeltaTable(table)
    assert found.version() == 4 * 6
    assert [found.transaction_version(f"app{number}") for number in range(4)] == [4] * 4
    assert not list((table / unlinked.FOLDER).iterdir())


def test_two_that_look_at_once_cannot_both_win(no_links, tmp_path, monkeypatch):
    """Both have seen the same newest commit; the second renames only behind a look of its own."""
    create_table(tmp_path, SCHEMA, "text")
    one, two = Writer(tmp_path, "one"), Writer(tmp_path, "two")
    write, done = Writer._write, []

    def between(writer, *arguments, **named):
        if writer is one:
            monkeypatch.setattr(Writer, "_write", write)
            other = threading.Thread(target=lambda: done.append(two.commit(0, [])))
            other.start()
            other.join(0.2)
            assert other.is_alive()  # it waits for the claim
            done.append(other)
        write(writer, *arguments, **named)

    monkeypatch.setattr(Writer, "_write", between)
    assert one.commit(0, [])
    done[0].join()
    assert done[1] is True
    found = DeltaTable(tmp_path)
    assert found.version() == 2
    assert [found.transaction_version(name) for name in ("one", "two")] == [0, 0]


def claim_and_die(table: Path) -> None:
    """Have another process claim the next commit, and kill it."""
    text = (
        "import os, sys; from flowcontrol.ledger.appending import claimed\n"
        "with claimed(sys.argv[1], 1) as is_ours: os._exit(int(is_ours))"
    )
    assert subprocess.run([sys.executable, "-c", text, str(table)], check=False).returncode == 1


def test_the_claim_of_a_killed_writer_stops_nobody(no_links, tmp_path):
    create_table(tmp_path, SCHEMA, "text")
    claim_and_die(tmp_path)
    assert [path.name for path in (tmp_path / unlinked.FOLDER).iterdir()] == [f"{1:020d}.0"]
    assert Writer(tmp_path, "app").commit(0, [])
    assert DeltaTable(tmp_path).version() == 1
    assert not list((tmp_path / unlinked.FOLDER).iterdir())


def test_the_claim_of_another_machine_lasts_for_a_while(no_links, tmp_path, monkeypatch):
    create_table(tmp_path, SCHEMA, "text")
    claim_and_die(tmp_path)
    monkeypatch.setattr(unlinked, "_machine", lambda: "another")
    monkeypatch.setattr(unlinked, "CLAIM_S", 0.3)
    began = time.monotonic()
    assert Writer(tmp_path, "app").commit(0, [])
    assert time.monotonic() - began > 0.3


def test_a_claim_that_was_given_up_is_the_next_ones(tmp_path):
    create_table(tmp_path, SCHEMA, "text")
    with pytest.raises(ValueError, match="disk"), claimed(tmp_path, 1) as is_ours:
        assert is_ours
        raise ValueError("disk")
    with claimed(tmp_path, 1) as is_ours:
        assert is_ours
    with claimed(tmp_path, 0) as is_ours:
        assert not is_ours  # the commit is there


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_delta_rs_commits_where_the_system_refuses_hard_links(tmp_path):
    """Not only Python: a library before the system's makes every hard link fail."""
    source, library = tmp_path / "refuse.c", tmp_path / "refuse.so"
    source.write_text(
        "#include <errno.h>\n"
        "int link(const char *a, const char *b) { errno = EPERM; return -1; }\n"
        "int linkat(int a, const char *b, int c, const char *d, int e)"
        " { errno = EPERM; return -1; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    text = (
        "import sys; import pyarrow as pa\n"
        "from flowcontrol.ledger.commit import Writer, create_table\n"
        "from flowcontrol.link.link import Link\n"
        "create_table(sys.argv[1], pa.schema([('a', pa.int64())]), 'text')\n"
        "writer = Writer(sys.argv[1], 'app')\n"
        "writer.claim()\n"
        "assert all(writer.commit(batch, []) for batch in range(30))\n"
        "link = Link(sys.argv[1] + '-link', channels=2)\n"
        "assert link.alter(target_batch_s=2).target_batch_s == 2\n"
    )
    subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "table")],
        env={**os.environ, "LD_PRELOAD": str(library)},
        check=True,
    )
    assert DeltaTable(tmp_path / "table").version() == 31
