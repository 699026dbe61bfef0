"""The driver dies before and after every single commit of a run: nothing is lost or doubled.

A stand-in for Spark runs the real reader, the real foreachBatch function and the real tables,
so that hundreds of crashes take seconds; tests/live/test_kill.py does it with processes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.commit import CONFIGURATION
from flowcontrol.ledger.exchange import TRIM_EVERY
from flowcontrol.ledger.ledger import COMPACT_EVERY
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")

CHECKPOINTING = "execution.checkpointing."

IS_LONG = "FLOWCONTROL_LONG" in os.environ
SHAPES = ["FAN_OUT", "LOCAL"]
if IS_LONG:
    SHAPES += ["KILLED", "COMPETE", "LARGE"]


@pytest.mark.parametrize("name", SHAPES)
def test_a_crash_around_every_commit(name: str, tmp_path: Path) -> None:
    job = runs.job_of({**getattr(cases, name), "duration_s": 0.7 if IS_LONG else 0.5})
    driver.die_everywhere(job, runs, tmp_path)


LATE = range(4, 6)
"""Rounds in which the quick form dies: the first checkpoint is under way."""


@pytest.mark.parametrize("at", [pytest.param(None, marks=pytest.mark.long), LATE])
def test_a_crash_around_every_commit_of_a_job_with_checkpoints(
    at: range | None, tmp_path: Path
) -> None:
    """The coordinator goes on too: some of the crashes are in the middle of a checkpoint."""
    case = {**cases.STAGES, "duration_s": 1.0}
    slow = [*case["stages"][:2], {**case["stages"][2], "service_rate": 100}]
    options = {
        f"{CHECKPOINTING}interval": "200ms",
        f"{CHECKPOINTING}unaligned": True,
        f"{CHECKPOINTING}aligned-checkpoint-timeout": "200ms",
    }
    job = runs.job_of({**case, "stages": slow, "options": {**case["options"], **options}})
    driver.die_everywhere(job, runs, tmp_path, at)
    tables = runs.live_results(job, tmp_path / "killed")
    statuses = tables["checkpoints"].column("status").to_pylist()
    assert "completed" in statuses
    assert sum(tables["checkpoints"].column("persisted_bytes").to_pylist()) > 0


def test_crashes_where_files_are_compacted_trimmed_and_checkpointed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "CHECKPOINT_EVERY", 10)
    rounds = COMPACT_EVERY + 6
    job = runs.job_of({**cases.SINGLE, "duration_s": rounds / 10})
    assert job.rounds == rounds > 2 * TRIM_EVERY

    class Few(driver.Crashes):  # type: ignore[name-defined, misc]
        """Dies only near a compaction and a trim."""

        def reach(self, *place: object) -> None:
            if place[-1] in {TRIM_EVERY - 1, TRIM_EVERY, COMPACT_EVERY - 1, COMPACT_EVERY}:
                super().reach(*place)

    crashes = Few()
    driver.Driver(job, tmp_path / "run", crashes).run()
    assert len(crashes.places) == 4 * (2 * 4 + 2)
    ledgers = runs.assert_is_virtual(job, tmp_path / "run")
    came = runs.rows_in_order(tmp_path / "run" / "output" / "sink")
    [numbers] = runs.delivered(job, ledgers).values()
    assert [number for _, _, number in came] == numbers
    [link] = job.links
    folder = tmp_path / "run" / "links" / link.folder
    exchange = DeltaTable(str(folder / "exchange")).to_pyarrow_table()
    assert min(exchange.column("batch_id").to_pylist()) > COMPACT_EVERY - 12  # the rest is trimmed
    assert len(DeltaTable(str(folder / "ledger")).file_uris()) < 2 * COMPACT_EVERY


def test_real_rows_and_crashes(tmp_path: Path) -> None:
    """Replayed rows, more than can be sent in time for the last ones to arrive and fewer."""
    table = pa.table({"key": [f"key {i % 5}" for i in range(300)], "value": range(300)})
    pq.write_table(table, tmp_path / "rows.parquet")
    source = cases.source(
        rate=400,
        parallelism=2,
        placement=[0, 0],
        input={"format": "parquet", "path": str(tmp_path / "rows.parquet"), "key": "key"},
    )
    sink = cases.sink(rate=400, parallelism=3, placement=[1, 1, 1])
    job = runs.job_of(
        cases.scenario("real", [source, sink], [cases.edge("source", "sink", "hash")], rounds=10)
    )
    root = tmp_path / "run"
    schema = runs.split_input(job, "source", root)
    crashes = driver.Crashes()
    driver.Driver(job, root, crashes, {"source": schema}).run()
    assert len(crashes.places) > 10 * 2 * 3
    came = DeltaTable(str(root / "output" / "sink")).to_pyarrow_table()
    assert sorted(came.to_pylist(), key=lambda row: row["value"]) == table.to_pylist()
    order: dict[tuple[str, int], list[int]] = {}
    for _, rows in runs.batches_of(root / "output" / "sink"):
        for row in rows.to_pylist():  # subtask i of the source replays rows i, i + 2 ...
            order.setdefault((row["key"], row["value"] % 2), []).append(row["value"])
    assert len(order) == 10
    kept = {
        str(log.parent.relative_to(root)): DeltaTable(str(log.parent)).metadata().configuration
        for log in root.rglob("_delta_log")
    }
    assert len(kept) == 3
    for name, properties in kept.items():  # only what is ours is kept short
        assert properties == ({} if name == "output/sink" else CONFIGURATION), name
    assert all(values == sorted(values) for values in order.values())
