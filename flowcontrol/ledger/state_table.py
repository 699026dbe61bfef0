"""The state of a run's checkpoints: a row per checkpoint, stage and subtask, in one Delta table.

A stage appends what its subtasks held when they took a checkpoint, a file a round, and drops its
own files of checkpoints from which nothing can begin any more. Both are one transaction with the
round as its version, so a round that runs again adds nothing.
"""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.ledger.commit import NewFile, Writer, create_table
from flowcontrol.ledger.log import DeltaLog
from flowcontrol.records import STATE


class KeptCut(NamedTuple):
    """What one subtask held when it took a checkpoint: the columns of the table."""

    checkpoint_id: int  # Number of the checkpoint
    stage: str  # Its stage
    subtask: int  # Which of it
    batch_id: int  # Round in which it was taken
    state_bytes: int  # Size of its state, as the scenario states it
    cut: str  # JSON (what :mod:`flowcontrol.live.moves` notes)


class StateView:
    """What has been committed of the state of a run's checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = DeltaLog(path)
        self._files: dict[str, list[int]] = {}

    def refresh(self) -> None:
        """Read the commits since the last time."""
        for commit in self._log.follow(self._files.clear, at_once=True):
            for add in commit.adds:
                self._files[add.path] = [int(one) for one in add.stats["checkpoints"]]
            for path in commit.removes:
                self._files.pop(path, None)

    def cuts(self, checkpoint: int) -> list[KeptCut]:
        """Return what is kept of a checkpoint, as of the last refresh, in no order."""
        found = [
            KeptCut(**row)
            for path, checkpoints in self._files.items()
            if checkpoint in checkpoints
            for row in self._rows(path)
        ]
        return [one for one in found if one.checkpoint_id == checkpoint]

    def all_cuts(self, is_needed: Callable[[int], bool]) -> list[KeptCut]:
        """Return what is kept of the checkpoints with certain ids, as of the last refresh."""
        checkpoints = {one for found in self._files.values() for one in found}
        return [cut for one in sorted(checkpoints) if is_needed(one) for cut in self.cuts(one)]

    def _rows(self, path: str) -> list[dict[str, Any]]:
        with pq.ParquetFile(self.path / path) as file:
            rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
        return rows


class StateTable(StateView):
    """The table as one stage writes it.

    ``path``: the table; created if it is not there.
    """

    def __init__(self, path: Path, run_id: str, stage: str) -> None:
        create_table(path, STATE.arrow_schema(), STATE.meaning)
        super().__init__(path)
        self._schema, self._stage = STATE.arrow_schema(), stage
        self._writer = Writer(path, f"{run_id}/{stage}/state")

    def commit(
        self, number: int, cuts: Sequence[KeptCut], is_needed: Callable[[int], bool]
    ) -> bool:
        """Append what the stage's subtasks held in a round; False if that is there, or is nothing.

        ``is_needed``: given the number of a checkpoint, whether some attempt may yet begin from it,
        in this round too. Files of which none is needed go.
        """
        if not cuts or self._writer.last_batch() >= number:
            return False
        self.refresh()
        gone = [
            NewFile(path, (self.path / path).stat().st_size, 0)
            for path, checkpoints in self._files.items()
            if path.rsplit("-", 2)[0] == self._stage and not any(map(is_needed, checkpoints))
        ]
        done = self._writer.commit(number, [self._write(number, cuts)], gone)
        for file in gone if done else []:
            (self.path / file.path).unlink(missing_ok=True)
        return done

    def _write(self, number: int, cuts: Sequence[KeptCut]) -> NewFile:
        rows = [cut._asdict() for cut in cuts]
        table = pa.Table.from_pylist(rows, schema=self._schema)
        name = f"{self._stage}-{number:08d}-{uuid.uuid4().hex[:12]}.parquet"
        pq.write_table(table, self.path / name, compression="none" if len(table) < 64 else "zstd")
        checkpoints = sorted({cut.checkpoint_id for cut in cuts})
        size = (self.path / name).stat().st_size
        return NewFile(name, size, len(table), {"checkpoints": checkpoints})
