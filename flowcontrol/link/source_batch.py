"""A source batch and its query: what identifies its rows, and whether the query was stopped.

The number of a batch is not enough: after a checkpoint was put back Spark gives the same number to
other rows. The checkpoint says what a batch holds: ``offsets/<batch>`` where it ends in each
source, and, for a source of files, whose offset only counts, ``sources/<n>/<count>`` the files. The
link stores the digest of both with the rows.

Whether a query was stopped Spark answers in private classes, which another version may have
changed. Then the public list of active queries is asked, and the log says so once.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_log import Newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("flowcontrol.link")

OFFSETS_VERSION = "v1"
"""First line of an offsets file that is understood here."""

FILE_LOG = "logOffset"
"""Key of the offset of a source of files."""


class Checkpoint:
    """Files of a query's checkpoint."""

    def __init__(self, root: str, session: Any = None) -> None:
        self.root, self._session = root, session
        parts = urlparse(root)
        is_local = parts.scheme in ("", "file")
        self._local = Path(unquote(parts.path) if parts.scheme else root) if is_local else None

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if it is not there."""
        if self._local is not None:
            path = self._local / name
            return path.read_text() if path.exists() else None
        jvm = self._session._jvm
        path = jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}")
        system = path.getFileSystem(self._session._jsparkSession.sessionState().newHadoopConf())
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def digest(self, batch_id: int) -> str | None:
        """Return what identifies the rows of a batch; None if the files do not say."""
        ends = self._offsets(batch_id)
        if ends is None:
            return None
        before = self._offsets(batch_id - 1) or []
        found: list[Any] = []
        for source, end in enumerate(ends):
            entry: list[Any] = [end]
            if isinstance(end, dict) and set(end) == {FILE_LOG}:
                start = before[source] if source < len(before) else None
                first = start[FILE_LOG] + 1 if isinstance(start, dict) and FILE_LOG in start else 0
                files = [self._files(source, n) for n in range(first, end[FILE_LOG] + 1)]
                if None in files:
                    return None
                entry.append(files)
            found.append(entry)
        return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:32]

    def _offsets(self, batch_id: int) -> list[Any] | None:
        """Return the offset of each source at the end of a batch, without the batch's time."""
        lines = (self.read(f"offsets/{batch_id}") or "").splitlines()
        if len(lines) < 3 or lines[0] != OFFSETS_VERSION:
            return None
        return [_parsed(line) for line in lines[2:]]

    def _files(self, source: int, number: int) -> list[str] | None:
        """Return the files that a source of files counts as one, with their times."""
        text = self.read(f"sources/{source}/{number}")
        if text is None:
            text = self.read(f"sources/{source}/{number}.compact")
        return None if text is None else sorted(_files_of(text, number))


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _files_of(text: str, number: int) -> Iterator[str]:
    for line in text.splitlines()[1:]:
        file = json.loads(line)
        if file["batchId"] == number:
            yield f"{file['path']} {file['timestamp']}"


def check_same(
    sender: str, batch_id: int, known: Newest, source: str | None, count: Callable[[], int] | None
) -> None:
    """Make sure that a batch that runs again has the rows that are in the link.

    ``count``: returns how many rows it has; asked where one of the two does not identify them.

    Raises LinkError if it has other rows.
    """
    if source and known.source:
        here, there = f"the source's offsets {source}", f"the source's offsets {known.source}"
    elif count is not None:
        here, there = f"{count()} rows", f"{known.rows} rows"
    else:
        return
    if here != there:
        raise LinkError(
            f"{sender} runs batch {batch_id} again with other rows: it has {here}, the batch "
            f"{batch_id} that is in the link had {there}. Its checkpoint was put back by a batch "
            "and the source has gone on. Nothing was written: use the newest checkpoint; if that "
            "is lost, a new one with link.sender(name, reset=True), then the source's rows come "
            "again from its start"
        )


def running_query(rows: DataFrame, query: str) -> Any:
    """Return the query that runs a batch, as the JVM has it; None if it runs no more.

    The session of a batch is a clone whose own manager knows no query: what all sessions of an
    application share is asked.
    """
    session: Any = rows.sparkSession
    active = session._jsparkSession.sharedState().activeStreamingQueries()
    return active.get(session._jvm.java.util.UUID.fromString(query))


def checkpoint_of(rows: DataFrame, query: str) -> Checkpoint | None:
    """Return the checkpoint of the query that runs a batch.

    Returns None where Spark does not say: with Spark Connect.
    """
    try:
        return Checkpoint(
            str(running_query(rows, query).resolvedCheckpointRoot()), rows.sparkSession
        )
    except Exception as error:  # py4j's, or an attribute that Spark Connect has not
        _log.info(
            "the checkpoint of query %s is not known here (%s): a batch that runs again is "
            "recognised by its number and its count of rows",
            query,
            type(error).__name__,
        )
        return None


_warned: set[str] = set()
_listed: set[str] = set()


def is_stopped(rows: DataFrame, query: str) -> bool:
    """Whether the query was asked to stop while its batch runs.

    Spark Connect does not say; it ends the process instead.
    """
    try:
        found = running_query(rows, query)
        return found is None or not found.isActive()
    except Exception as error:
        if _is_connect(rows):
            return False
        text = " ".join(str(error).split())[:200]
        _warn_once(
            "private",
            f"Spark's private list of running queries cannot be read ({type(error).__name__}: "
            f"{text}): the public one of the default session is used instead",
        )
        return _has_ended(query)


def _is_connect(rows: DataFrame) -> bool:
    return ".connect." in type(rows).__module__


def _has_ended(query: str) -> bool:
    """Whether the query is no more in the public list of active queries, where it was before."""
    from pyspark.sql import SparkSession

    try:
        active = {str(found.id) for found in SparkSession.builder.getOrCreate().streams.active}
    except Exception as error:
        _warn_once(
            "public",
            f"the list of active queries cannot be read either ({type(error).__name__}): a sender "
            "that waits for buffers does not see stop(); end the process instead",
        )
        return False
    if query in active:
        _listed.add(query)
        return False
    if query not in _listed:
        _warn_once(
            "unlisted",
            f"query {query} is not in the default session's list of active queries: while it waits "
            "for buffers it does not see stop(); start it from the default session",
        )
    return query in _listed


def _warn_once(what: str, text: str) -> None:
    if what not in _warned:
        _warned.add(what)
        _log.warning("%s", text)
