"""The checkpoint of a sender's query: who the query is, and what identifies the rows of a batch.

The number of a batch is not enough: after a checkpoint was put back Spark gives the same number to
other rows. The checkpoint says what a batch holds: ``offsets/<batch>`` where it ends in each
source, and, for a source of files, whose offset only counts, ``sources/<n>/<count>`` the files. The
link stores the digest of both with the rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from flowcontrol.ledger.storage import Storage

OFFSETS_VERSION = "v1"
"""First line of an offsets file that is understood here."""

FILE_LOG = "logOffset"
"""Key of the offset of a source of files."""


METADATA = "metadata"
"""File with the query's identity; Spark writes it before the first batch."""


class Checkpoint:
    """Files of a query's checkpoint.

    ``session``: reads a checkpoint in a store as Spark does; without one pyarrow does.
    """

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
        if self._session is None:
            try:
                return Storage(self.root).read(name).decode()
            except FileNotFoundError:
                return None
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

    def query(self) -> str | None:
        """Return the identity of the query; None if there is no checkpoint."""
        text = self.read(METADATA)
        return None if text is None else str(json.loads(text)["id"])

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
