"""What a live run with windows must have written: rows and results of the virtual clock."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.live.rows import row_schemas
from flowcontrol.results.windows import window_stages
from flowcontrol.virtual.clock import run_job


def written(root: Path, stage: str) -> pd.DataFrame:
    """Return the rows of a table of a stage, in an order that says nothing."""
    table = DeltaTable(str(root / "output" / stage)).to_pyarrow_table()
    return in_order(table)


def in_order(table: pa.Table) -> pd.DataFrame:
    """Return the rows of a table, sorted by all columns."""
    frame = table.to_pandas()
    return frame.sort_values(list(frame.columns), ignore_index=True)


def assert_is_virtual(job: Job, root: Path, runs: ModuleType) -> Any:
    """Assert that rows, tables and results are those of the virtual clock; return the rows."""
    ledgers, expected = runs.assert_is_virtual(job, root), run_job(job).tables
    for stage in window_stages(job):
        assert (root / "output" / f"{stage}_late" / "_delta_log").exists()
        due = in_order(expected[f"output/{stage}"])
        pd.testing.assert_frame_equal(written(root, stage), due, check_exact=True)
    return ledgers


def has_equal_inputs(job: Job) -> bool:
    """Tell whether no stage takes up rows and results; such a job is refused."""
    try:
        return bool(row_schemas(job, {}))
    except ScenarioError:
        return False
