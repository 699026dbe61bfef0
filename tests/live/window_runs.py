"""What a live run with windows must have written: rows, windows and results of a reference run."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable

from flowcontrol.errors import ScenarioError
from flowcontrol.job import Job
from flowcontrol.job.reference import run_reference
from flowcontrol.job.window_table import window_stages, window_table
from flowcontrol.live.take import row_schemas
from flowcontrol.protocol.state import as_dict
from flowcontrol.protocol.windows.states import NONE, WindowEntry


def reference_windows(job: Job) -> tuple[dict[str, pa.Table], dict[tuple[str, int], list[Any]]]:
    """Return the results of a reference run by stage, and what each task holds after each round."""
    results: dict[str, list[Any]] = {stage: [] for stage in window_stages(job)}
    held: dict[tuple[str, int], list[Any]] = {}
    for after in run_reference(job):
        for task in after.state.tasks:
            if task.window is not None:
                results[task.stage] += task.window.results
                own = [as_dict(entry) for entry in task.window.entries]
                held.setdefault((task.stage, task.subtask), []).append(own)
    tables = {}
    for stage, found in results.items():
        columns = np.array(
            [(one.start, one.end, one.key, one.records, one.round) for one in found], np.int64
        )
        tables[stage] = window_table(job, stage, *columns.reshape(-1, 5).T)
    return tables, held


def written(root: Path, stage: str) -> pd.DataFrame:
    """Return the rows of a table of a stage, in an order that says nothing."""
    table = DeltaTable(str(root / "output" / stage)).to_pyarrow_table()
    return in_order(table)


def in_order(table: pa.Table) -> pd.DataFrame:
    """Return the rows of a table, sorted by all columns."""
    frame = table.to_pandas()
    return frame.sort_values(list(frame.columns), ignore_index=True)


def kept(root: Path, stage: str, index: int, number: int) -> list[dict[str, int]]:
    """Return the windows that a file has, the one that began first in front."""
    rows = np.load(root / "windows" / stage / f"{index}-{number}.npy").tolist()
    names = list(as_dict(WindowEntry()))
    entries = [dict(zip(names, row, strict=True)) for row in rows]
    begun = [one for one in entries if one["event_place"] + one["clock_place"] != NONE]
    return sorted(({**one, "chain": NONE} for one in begun), key=lambda one: one["order"])


def kept_in(ledgers: Any, stage: str, index: int) -> list[int]:
    """Return the round of the file that each row of a task names."""
    found = {
        row["batch_id"]: row["task_state"]["kept_in"]
        for edge, rows in ledgers.items()
        for row in rows
        if edge.endswith(f"->{stage}") and row["side"] == "receiver" and row["receiver"] == index
        if row["task_state"] is not None
    }
    return [found[number] for number in sorted(found)]


def assert_is_reference(job: Job, root: Path, runs: ModuleType, died_in: int = -1) -> Any:
    """Assert that rows, windows and results are those of the reference run; return the rows.

    A file more than a run needs is left where the driver died behind the last row that it wrote: no
    round comes that would delete it.
    """
    most = 3 if died_in == job.rounds - 1 else 2
    runs.assert_is_reference(job, root)
    expected, held = reference_windows(job)
    for stage, table in expected.items():
        assert (root / "output" / f"{stage}_late" / "_delta_log").exists()
        pd.testing.assert_frame_equal(written(root, stage), in_order(table))
    ledgers = runs.comparable(runs.live_tables(job, root), latency=True)
    for (stage, index), each in held.items():
        named = kept_in(ledgers, stage, index)
        assert len(named) == len(each) == job.rounds
        files = {
            int(path.stem.split("-")[1]) for path in (root / "windows" / stage).glob(f"{index}-*")
        }
        assert files >= {number for number in named[-2:] if number >= 0}
        assert len(files) <= most
        if named[-1] >= 0:
            own = [one for one in each[-1] if one["event_place"] + one["clock_place"] != NONE]
            assert kept(root, stage, index, named[-1]) == own
    return ledgers


def has_equal_inputs(job: Job) -> bool:
    """Tell whether no stage takes up rows and results; such a job is refused."""
    try:
        return bool(row_schemas(job, {}))
    except ScenarioError:
        return False
