"""What a user's path means: a folder of this machine, or a place in a store; read in one way.

A path that would mean one thing to Spark and another to Python is refused
by name, before anything is written below a folder called ``file:`` or ``~``.

A store is asked first whether it answers, by a process of its own: without credentials pyarrow's
Azure client ends the process, and its Google client tries again for a quarter of an hour.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from flowcontrol.errors import LedgerError

if TYPE_CHECKING:
    from pyarrow import fs

STORES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "hdfs": "hdfs",
    "abfs": "abfs",
    "abfss": "abfss",
}
"""Schemes of stores that both pyarrow and delta-rs reach, and the one under which both do."""

DBFS_MOUNT = "/dbfs"
"""Where Databricks shows ``dbfs:/`` to a process as a folder."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_NAMED = re.compile(rf"(file|dbfs|{'|'.join(STORES)}):", re.IGNORECASE)


class Place(NamedTuple):
    """A folder."""

    root: str  # An absolute path of this machine, or a URI without a slash at its end
    is_local: bool  # Which of the two


def read_place(place: str | Path) -> Place:
    """Return what a path means.

    ``place``: a path, relative or absolute; ``~/...``; a ``file:`` URI of this machine;
    ``dbfs:/...`` where it is mounted; or the URI of a store.

    Raises LedgerError if it is empty, names another machine, or a file system that is not known.
    """
    text = str(place)
    if not text or "\0" in text:
        raise LedgerError(f"{text!r} names no folder: give a path, or a URI such as s3://bucket/x")
    if "\n" in text:
        raise LedgerError(f"{text!r} has a line break: write the path without")
    match = _SCHEME.match(text) or _NAMED.match(text)
    if match is None:
        return Place(str(_expanded(text).absolute()), is_local=True)
    scheme = match[1].lower()
    if isinstance(place, Path) and scheme not in ("file", "dbfs"):
        text = f"{match[0]}//{text[match.end() :].lstrip('/')}"  # Path has joined its slashes
    if scheme == "file":
        return Place(_of_file(text), is_local=True)
    if scheme == "dbfs":
        return Place(_of_dbfs(text), is_local=True)
    return Place(_of_store(text, scheme), is_local=False)


def local_folder(place: str | Path) -> Path:
    """Return a folder that must be on this machine, such as that of a run's results.

    Raises LedgerError if the path means a place elsewhere, or nothing.
    """
    found = read_place(place)
    if not found.is_local:
        raise LedgerError(
            f"{place}: results are written to a folder of this machine, and this is a place in a "
            "store: give a path, and copy the folder when the run is done"
        )
    return Path(found.root)


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser() if text.startswith("~") else Path(text)
    except RuntimeError as error:
        raise LedgerError(
            f"{text}: this machine knows no such user: write the folder's path, or ./{text} for a "
            "folder of that name"
        ) from error


def _of_file(text: str) -> str:
    parts = urlsplit(text)
    if parts.netloc.lower() not in ("", "localhost"):
        raise LedgerError(
            f"{text}: names a file of the machine {parts.netloc!r}: a folder of this one has three "
            f"slashes, file:///{parts.netloc}{parts.path} or file://{parts.path}"
        )
    path = text.partition(":")[2].removeprefix("//")
    path = path[len(parts.netloc) :] if parts.netloc and not path.startswith("/") else path
    if not path.startswith("/"):
        raise LedgerError(
            f"{text}: a file: URI needs an absolute path: file:///folder, or ./folder"
        )
    if "%" in path:
        raise LedgerError(
            f"{text}: Spark reads '%' in a URI as it stands, Python as a code: give the path "
            f"without file:, {path}"
        )
    return str(Path("/", path.lstrip("/")))


def _of_dbfs(text: str) -> str:
    if not Path(DBFS_MOUNT).is_dir():
        raise LedgerError(
            f"{text}: a path of Databricks, which is not mounted at {DBFS_MOUNT} here: give a path "
            "of this machine, a Unity Catalog volume (/Volumes/...), or a store's URI "
            "(s3://, gs://, abfss://)"
        )
    return str(Path(DBFS_MOUNT, text.partition(":")[2].lstrip("/")))


def _of_store(text: str, scheme: str) -> str:
    if scheme not in STORES:
        known = ", ".join(f"{name}://" for name in STORES)
        raise LedgerError(
            f"{text}: no file system for {scheme}: is known, only file:, dbfs:/, {known}; a folder "
            f"of that name is ./{text}"
        )
    parts = urlsplit(text)
    if not text[len(scheme) + 1 :].startswith("//") or not parts.netloc:
        raise LedgerError(f"{text}: names no bucket: write {scheme}://bucket/folder")
    return f"{STORES[scheme]}{text[len(scheme) :]}".rstrip("/")


PATIENCE_S = 30.0
"""How long a store may take to answer for the first time."""

ASK = """
import sys
from pyarrow import fs
system, base = fs.FileSystem.from_uri(sys.stdin.read())
system.get_file_info(base)
"""
"""What the process does; the URI, which may hold a key, is not on its command line."""

CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role of the machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or an account of the machine",
    "abfs": "AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or an identity of the "
    "machine",
    "hdfs": "JAVA_HOME, HADOOP_HOME and CLASSPATH",
}
"""Where pyarrow finds what it needs, by scheme."""


def open_store(uri: str, *, is_checked: bool = False) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, and the path in it.

    ``is_checked``: whether it has answered before, to this process or to the one that sent the path
    here.

    Raises LedgerError if it cannot be reached: the network, or no credentials.
    """
    from pyarrow import fs

    scheme = urlsplit(uri).scheme
    if not is_checked and scheme != "s3":
        failure = _ask(uri)
        if failure:
            raise _unreachable(uri, failure)
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
        if not is_checked:
            found[0].get_file_info(found[1])
    except (ValueError, OSError) as error:
        raise _unreachable(uri, str(error)) from error
    return found


@functools.cache
def _ask(uri: str) -> str:
    """Let another process open a store; return its error, empty if there is none."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK],
            input=uri,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PATIENCE_S:g} s"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if done.returncode == 0:
        return ""
    return lines[-1] if lines else f"the client ended with status {done.returncode}"


def _unreachable(uri: str, failure: str) -> LedgerError:
    scheme, place = urlsplit(uri).scheme, uri.partition("?")[0]
    needed = CREDENTIALS.get("abfs" if scheme == "abfss" else scheme, "credentials")
    return LedgerError(
        f"{place}: the store cannot be reached: {failure}. Nothing was written; check the name and "
        f"the network, and that the environment has what its client needs: {needed}"
    )
