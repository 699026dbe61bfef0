"""The stand-in answers as delta-rs does: the same calls on both, one after the other."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import deltalake.transaction
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError, DeltaError

from link_simulation import delta
from link_simulation.files import DISK, Files, Likely
from link_simulation.machine import World
from link_simulation.scheduler import Process, Scheduler

LONG_AGO_S = 3000.0
"""Commits are older than that: whatever a checkpoint covers is cleaned away."""


class Real:
    """A table of delta-rs, and handles on it."""

    api, transaction = deltalake, deltalake.transaction

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / "table")
        schema = pa.schema([("id", pa.int64())])
        kept = {"delta.logRetentionDuration": "interval 60 seconds"}
        deltalake.DeltaTable.create(self.place, schema, configuration=kept)
        self.handles = [deltalake.DeltaTable(self.place) for _ in range(2)]

    def open(self) -> Any:
        return deltalake.DeltaTable(self.place)

    def age(self) -> None:
        for path in Path(self.place, "_delta_log").iterdir():
            os.utime(path, (time.time() - LONG_AGO_S,) * 2)

    def names(self) -> list[str]:
        return sorted(path.name for path in Path(self.place, "_delta_log").glob("0*"))

    def lose(self, name: str) -> None:
        Path(self.place, "_delta_log", name).unlink(missing_ok=True)


class InMemory(Real):
    """The same in memory."""

    api = transaction = delta  # type: ignore[assignment]

    def __init__(self) -> None:
        self.place = "/table"
        World.files.folders["/table"] = {}
        delta.DeltaTable.create(self.place)
        self.handles = [delta.DeltaTable(self.place) for _ in range(2)]

    def open(self) -> Any:
        return delta.DeltaTable(self.place)

    def age(self) -> None:
        World.scheduler.now += LONG_AGO_S

    def names(self) -> list[str]:
        return sorted(name for name in World.files.folders["/table/_delta_log"] if name[0] == "0")

    def lose(self, name: str) -> None:
        if World.files.find(f"/table/_delta_log/{name}"):
            World.files.drop(f"/table/_delta_log/{name}")


def commit(side: Real, handle: Any, adds: list[str], removes: list[str], app: int) -> None:
    api, kinds, now = side.api, side.transaction, 1_700_000_000_000
    stats = json.dumps({"numRecords": 1})
    actions = [kinds.AddAction(path, 1, {}, now, True, stats) for path in adds]
    actions += [kinds.RemoveAction(path, True, now, 1, {}) for path in removes]
    handle.create_write_transaction(
        actions,
        mode="append",
        schema=handle.schema(),
        partition_by=None,
        commit_properties=api.CommitProperties(
            max_commit_retries=None, app_transactions=[api.Transaction(f"app {app}", app)]
        ),
        post_commithook_properties=api.PostCommitHookProperties(
            create_checkpoint=False, cleanup_expired_logs=False
        ),
    )


def answer(act: Callable[[], Any]) -> Any:
    """Return what a call answers: of errors their kind, and what the product reads of the text."""
    try:
        return act()
    except CommitFailedError:
        return "conflict"
    except DeltaError as error:
        kinds = ("found gap", "Invalid table version", "not found", "hint")
        return "error", next((kind for kind in kinds if kind in str(error)), str(error)[:80])


def play(side: Real, seed: int) -> list[Any]:
    """Make calls to a table; return the answers."""
    chance, files, said = random.Random(seed), list[str](), list[Any]()
    for step in range(24):
        which = chance.randrange(2)
        kind = chance.choice(("commit",) * 4 + ("update",) * 3 + ("checkpoint", "age", "open"))
        handle = side.handles[which]
        if kind == "commit":
            adds = [f"file {step}"] if chance.random() < 0.8 else []
            removes = [chance.choice(files)] if files and chance.random() < 0.3 else []
            app = chance.randrange(3)
            found = answer(lambda: commit(side, handle, adds, removes, app))  # noqa: B023
            files += adds
        elif kind == "update":
            found = answer(handle.update_incremental)
        elif kind == "checkpoint":
            handle.update_incremental()
            found = answer(handle.create_checkpoint)
        elif kind == "age":
            side.age()
            found = answer(handle.cleanup_metadata)
        else:
            side.handles[which] = handle = side.open()
            found = None
        own = answer(handle.version)
        look = handle.transaction_version
        apps = [answer(partial(look, f"app {number}")) for number in range(3)]
        said.append((step, kind, found, own, apps, side.names()))
    return said


def in_memory(act: Callable[[], Any]) -> Any:
    """Run something in a simulation without faults."""
    scheduler = Scheduler(random.Random(0), 0.0, 1 << 30)
    World.scheduler, World.count = scheduler, 0
    World.files = Files(scheduler, DISK, Likely(), 0.0)
    found: list[Any] = []

    def work() -> None:
        found.append(act())
        scheduler.is_over = True

    scheduler.spawn(Process("one", 1, "one"), work, is_main=True)
    scheduler.run()
    return found[0]


@pytest.mark.parametrize("seed", range(40))
def test_it_answers_as_delta_rs_does(tmp_path: Path, seed: int) -> None:
    expected = play(Real(tmp_path), seed)
    found = in_memory(lambda: play(InMemory(), seed))
    for one, other in zip(found, expected, strict=True):
        # delta-rs remembers some transactions of files that are gone; here they are looked for.
        apps = zip(one[4], other[4], strict=True)
        same = [known if app == ("error", "not found") else app for app, known in apps]
        assert (*one[:4], same, one[5]) == other


def test_a_gap_is_told_as_delta_rs_tells_it(tmp_path: Path) -> None:
    def gap(side: Real) -> list[Any]:
        for number in range(5):
            commit(side, side.open(), [f"file {number}"], [], number)
        side.lose(f"{3:020d}.json")
        return [answer(side.handles[0].update_incremental), answer(side.open)]

    expected = gap(Real(tmp_path))
    assert in_memory(lambda: gap(InMemory())) == expected == [("error", "found gap")] * 2
