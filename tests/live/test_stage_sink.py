"""The two-phase commit of a stage, against the rows themselves: kills, failures and restarts.

A sink without Spark and without a job: subtasks take up rows with positions, checkpoints are taken,
complete or are aborted, subtasks die and begin anew, and the process is killed in between.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.live.sink import Heard, Piece, StageSink, pieces_of, staged_orders, staged_prefix
from flowcontrol.live.stage_rows import SubtaskRound
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, TAKEN
from flowcontrol.spark import crash_points
from flowcontrol.spark.crash_points import CrashPoint
from flowcontrol.state.network import CheckpointReport

ROUND_US = 100_000


class Killed(Exception):
    """The process dies here."""


@dataclass
class World:
    """What survives a kill: the table, the ledger, the files; and what the subtasks do.

    Attributes
    ----------
    path : Path
        Folder of the table.
    count : int
        Subtasks.
    versions : dict of int to list of str
        Files of each Delta transaction, by its version.
    ledger : list of list of str
        By round: text of each subtask.
    """

    path: Path
    count: int
    versions: dict[int, list[str]] = field(default_factory=dict)
    ledger: list[list[str]] = field(default_factory=list)

    def commit(self, version: int, files: Any) -> bool:
        """Commit as the writer of a Delta table does."""
        if version <= max(self.versions, default=-1):
            return False
        paths = [file.path for file in files]
        assert all((self.path / path).exists() for path in paths)
        self.versions[version] = paths
        return True

    def rows(self, side: str, number: int) -> list[dict[str, Any]]:
        """Return what the ledger holds of a round."""
        assert side == "receiver"
        found = self.ledger[number]
        return [{"receiver": i, "task_state": text} for i, text in enumerate(found)]

    def new_sink(self) -> StageSink:
        """Return the sink as a process has it that starts now."""
        stage = SimpleNamespace(name="sink", parallelism=self.count, transaction_timeout_us=None)
        plan: Any = SimpleNamespace(stage=stage, is_source=False)
        return StageSink(plan, plan, self, "run", self, ROUND_US)  # type: ignore[arg-type]

    def visible(self) -> Counter[tuple[int, int]]:
        """Return the rows that a reader sees."""
        return _rows(self.path / path for paths in self.versions.values() for path in paths)

    def written(self) -> Counter[tuple[int, int]]:
        """Return the rows of all files."""
        return _rows(self.path.iterdir())


def _rows(files: Iterable[Path]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for file in files:
        found.update((index, position) for index, position in json.loads(file.read_text()))
    return found


@dataclass
class Round:
    """What happens in a round: what the stage hears, and what each subtask does.

    Attributes
    ----------
    heard : Heard
        What the sink hears.
    rows : dict of int to tuple of int
        By subtask that runs: its position, and how many rows it takes up.
    taken : dict of int to list of (int, int)
        By subtask: a checkpoint, and the position at which it is taken.
    """

    heard: Heard
    rows: dict[int, tuple[int, int]]
    taken: dict[int, list[tuple[int, int]]]

    def subtask(self, index: int) -> SubtaskRound:
        first, count = self.rows.get(index, (0, 0))
        reports = [
            CheckpointReport(kind=TAKEN, checkpoint=checkpoint, records=at)
            for checkpoint, at in self.taken.get(index, [])
        ]
        others = [CheckpointReport(kind=ACKNOWLEDGED, checkpoint=one.checkpoint) for one in reports]
        of_job: Any = (None, None, index)
        return SubtaskRound(*of_job, first + count, first, count, (), (), (), (), reports + others)


def run_round(world: World, sink: StageSink, number: int, now: Round) -> None:
    """Have a round run as the batch of a stage does."""
    sink.begin_round(number, now.heard)
    subtasks, written = [now.subtask(index) for index in range(world.count)], {}
    for subtask in subtasks:
        if subtask.records:
            files: list[dict[str, Any] | None] = []
            prefix, every = staged_prefix("run", "sink"), np.arange(subtask.records)
            for order in staged_orders(world.path, prefix, number, subtask, every):
                positions = (subtask.first + order.parents).tolist()
                text = json.dumps([[subtask.index, position] for position in positions])
                if positions:
                    (world.path / order.name).write_text(text)
                found = {"path": order.name, "bytes": len(text), "rows": len(positions)}
                files.append(found if positions else None)
            written[subtask.index] = files
    sink.end_round(number, subtasks, written)
    states = [sink.state_of(index) for index in range(world.count)]
    world.ledger.append([json.dumps({"sink": {"sink": state}}) for state in states])
    sink.after_ledger(number)


class Job:
    """Decides what happens in each round, and knows what must be visible."""

    def __init__(self, world: World, draw: Any) -> None:
        self.world, self.draw = world, draw
        self.position = [0] * world.count
        self.dead: set[int] = set()
        self.next_id, self.completed, self.published = 1, -1, -1
        self.pending: dict[int, dict[int, int]] = {}
        self.cuts: dict[int, dict[int, int]] = {}
        self.arriving: list[tuple[int, int]] = []
        self.met: Counter[str] = Counter()

    def flip(self, once_in: int) -> bool:
        return bool(self.draw(st.integers(1, once_in)) == once_in)

    def next_round(self) -> Round:
        """Draw what happens in the round to come."""
        restored = self._restore() if self.dead and self.flip(3) else []
        if not self.dead and not restored and self.flip(8):
            self._fail()
        completed = [one for one in self.arriving if one[0] not in self.dead]
        self.arriving = []
        for _, checkpoint in completed + restored:
            self.published = max(self.published, checkpoint)
        if not self.dead and len(self.pending) < 3 and self.flip(2):
            self.pending[self.next_id] = {}
            self.next_id += 1
        rows, taken = {}, {}
        for index in set(range(self.world.count)) - self.dead:
            start = self.position[index]
            for checkpoint, cut in self.pending.items():
                before = [one for n, one in self.pending.items() if n < checkpoint]
                if index not in cut and all(index in one for one in before) and self.flip(2):
                    self.position[index] += self.draw(st.integers(0, 2))
                    cut[index] = self.position[index]
                    taken.setdefault(index, []).append((checkpoint, cut[index]))
            self.position[index] += self.draw(st.integers(0, 2))
            rows[index] = start, self.position[index] - start
        self._complete()
        return Round(Heard(completed, restored), rows, taken)

    def _fail(self) -> None:
        victims = st.sets(st.integers(0, self.world.count - 1), min_size=1)
        self.dead = self.draw(victims)
        self.pending.clear()
        self.met["a part fails"] += len(self.dead) < self.world.count
        self.met["fails before it hears"] += self.completed > self.published

    def _restore(self) -> list[tuple[int, int]]:
        """Restore some of the dead, and what is complete as it is."""
        back = self.draw(st.sets(st.sampled_from(sorted(self.dead)), min_size=1))
        for index in back:
            self.position[index] = self.cuts.get(self.completed, {}).get(index, 0)
        self.dead -= back
        self.met["restored from nothing" if self.completed < 0 else "restored"] += 1
        return [(index, self.completed) for index in sorted(back)]

    def _complete(self) -> None:
        for checkpoint, cut in list(self.pending.items()):
            if len(cut) < self.world.count or checkpoint not in self.pending or self.flip(2):
                continue
            if self.flip(4):  # it expires
                del self.pending[checkpoint]
                continue
            self.completed, self.cuts[checkpoint] = checkpoint, cut
            self.pending = {n: one for n, one in self.pending.items() if n > checkpoint}
            if not self.flip(5):  # else the notification is lost
                self.arriving += [(index, checkpoint) for index in range(self.world.count)]
            self.met["waiting beside a complete one"] += bool(self.pending)

    def check(self) -> None:
        """Assert that the last checkpoint that was heard of is visible, and nothing else.

        What is not visible is staged once; of what was aborted nothing is left.
        """
        cut = self.cuts.get(self.published, {})
        expected = {(index, place) for index, count in cut.items() for place in range(count)}
        visible = self.world.visible()
        assert set(visible) == expected
        assert set(visible.values()) <= {1}
        written = self.world.written()
        assert set(written) == {
            (index, place) for index, count in enumerate(self.position) for place in range(count)
        }
        assert set(written.values()) <= {1}
        self.met["rows are visible"] += bool(visible)


POINTS = [
    CrashPoint.BEFORE_PRE_COMMIT,
    CrashPoint.AFTER_PRE_COMMIT,
    CrashPoint.BEFORE_COMMIT,
    CrashPoint.AFTER_COMMIT,
    CrashPoint.AFTER_COMMIT_NOTED,
    CrashPoint.BEFORE_RESTORE,
    CrashPoint.AFTER_RESTORE,
    CrashPoint.BEFORE_ABORT,
    CrashPoint.AMID_ABORT,
    CrashPoint.AFTER_ABORT,
    CrashPoint.AFTER_RESTORE_NOTED,
]


def test_a_reader_sees_what_the_last_checkpoint_has_whatever_fails_and_is_killed(
    draw_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: Counter[str] = Counter()

    @given(st.data(), st.integers(1, 3))
    def look(data: st.DataObject, count: int) -> None:
        with TemporaryDirectory() as folder:
            world = World(Path(folder), count)
            job, sink = Job(world, data.draw), world.new_sink()
            for number in range(data.draw(st.integers(5, 25))):
                now, die_at = job.next_round(), data.draw(st.sampled_from([None, *POINTS]))

                def hook(stage: str, at: int, point: str, die_at: Any = die_at) -> None:
                    if point == die_at:
                        raise Killed(point)

                monkeypatch.setattr(crash_points, "hook", hook)
                try:
                    run_round(world, sink, number, now)
                except Killed as killed:
                    met[str(killed)] += 1
                    monkeypatch.setattr(crash_points, "hook", None)
                    sink = world.new_sink()
                    if len(world.ledger) == number:
                        run_round(world, sink, number, now)
                job.check()
            met.update(job.met)

    wanted = {
        *map(str, POINTS),
        *("a part fails", "fails before it hears", "restored", "restored from nothing"),
        *("waiting beside a complete one", "rows are visible"),
    }
    draw_until(look, lambda: all(met[one] for one in wanted), 10)
    assert {one for one in wanted if not met[one]} == set()


@pytest.mark.parametrize(
    ("taken", "pieces"),
    [
        ([], [Piece(0, 5, None)]),
        ([(1, 100)], [Piece(0, 0, 1), Piece(0, 5, None)]),
        ([(1, 103)], [Piece(0, 3, 1), Piece(3, 5, None)]),
        ([(1, 105)], [Piece(0, 5, 1), Piece(5, 5, None)]),
        ([(1, 102), (2, 102), (3, 104)], [Piece(0, 2, 1), Piece(2, 2, 2), Piece(2, 4, 3),
                                          Piece(4, 5, None)]),
    ],
)  # fmt: skip
def test_a_round_is_cut_where_the_task_took_a_checkpoint(
    taken: list[tuple[int, int]], pieces: list[Piece]
) -> None:
    assert pieces_of(Round(Heard(), {0: (100, 5)}, {0: taken}).subtask(0)) == pieces


def test_a_task_without_checkpoints_has_one_piece() -> None:
    assert pieces_of(Round(Heard(), {0: (7, 2)}, {}).subtask(0)) == [Piece(0, 2, None)]
