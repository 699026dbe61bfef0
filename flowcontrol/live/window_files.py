"""The windows of a stage at rest: a file a subtask and round in which they have changed.

A ledger's row of the task names the round of the file that has its windows. So the file is there
before the row, and the two newest that rows name stay: a batch may run again. A driver that dies
behind the row of the last round leaves an older one, which no later round deletes.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from operator import attrgetter
from pathlib import Path

import numpy as np

from flowcontrol.errors import LedgerError
from flowcontrol.job import Subtask
from flowcontrol.job.windowed_task import WindowRows
from flowcontrol.protocol.state import as_dict, columns
from flowcontrol.protocol.windows.keeping import put_entries_back, rows_of_entries
from flowcontrol.protocol.windows.states import WindowStore

_STORE = attrgetter(*columns(WindowStore))


class WindowFiles:
    """Keeps the windows of a stage's subtasks.

    Parameters
    ----------
    folder : Path
        Of the stage; made when the first file is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[int, tuple[object, ...]] = {}
        self._before: dict[int, int] = {}
        self._there: dict[int, deque[int]] = {}
        for path in sorted(folder.glob("*.npy"), key=_number):
            subtask, _, _ = path.stem.partition("-")
            self._there.setdefault(int(subtask), deque()).append(_number(path))

    def put_back(self, subtask: Subtask) -> None:
        """Give a restored subtask its windows.

        Raises
        ------
        LedgerError
            If the file that its row names is not there.
        """
        rows = subtask.window
        if rows is None or rows.kept_in < 0:
            return
        path = self._path(subtask.index, rows.kept_in)
        try:
            kept = np.load(path)
        except (OSError, ValueError) as error:
            raise LedgerError(f"{path}: the windows of a task cannot be read: {error}") from error
        put_entries_back(rows.windows, kept.tolist())
        self._seen[subtask.index] = _moment(subtask, rows)

    def keep(self, subtask: Subtask, number: int) -> None:
        """Write the windows of a subtask after a round, unless they are as they were kept last."""
        rows = subtask.window
        if rows is None:
            return
        self._before[subtask.index] = rows.kept_in
        now = _moment(subtask, rows)
        if rows.kept_in >= 0 and self._seen.get(subtask.index) == now:
            return
        values = np.array(rows_of_entries(rows.windows), np.int64)
        self._write(self._path(subtask.index, number), values)
        self._there.setdefault(subtask.index, deque()).append(number)
        self._seen[subtask.index], rows.kept_in = now, number

    def forget(self) -> None:
        """Delete the files that the rows of the two newest rounds, which are there, do not name."""
        for index, before in self._before.items():
            there = self._there.get(index, deque())
            while there and there[0] < before:
                self._path(index, there.popleft()).unlink(missing_ok=True)

    def _path(self, subtask: int, number: int) -> Path:
        return self._folder / f"{subtask}-{number}.npy"

    @staticmethod
    def _write(path: Path, values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
        """Replace a file in one step; a process that was thought dead may write the same one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
        with temporary.open("wb") as file:
            np.save(file, values)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def _moment(subtask: Subtask, rows: WindowRows) -> tuple[object, ...]:
    """Return what tells two states of windows apart: elements, time and results move them."""
    return _STORE(rows.windows.store), as_dict(rows.held), subtask.task.taken


def _number(path: Path) -> int:
    """Return the round of a file."""
    return int(path.stem.partition("-")[2])
