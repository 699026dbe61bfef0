"""Open a store's file system, and find out first whether it answers.

Without credentials pyarrow's Azure client ends the process, and its Google client tries again for a
quarter of an hour. So a process of its own asks first.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flowcontrol.errors import LedgerError

if TYPE_CHECKING:
    from pyarrow import fs

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

    Parameters
    ----------
    uri : str
        Of the folder.
    is_checked : bool, default False
        Whether it has answered before, to this process or to the one that sent the path here.

    Raises
    ------
    LedgerError
        If it cannot be reached: the network, or no credentials.
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
