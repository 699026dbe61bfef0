"""What an executor does with the rows of one subtask in a batch: pack them, or count them.

Rows arrive in the order in which the task processes them. For each output edge they are laid
out by receiver, each channel's rows in that order, and written as one Parquet file with row
groups cut by bytes. What comes back to the driver is names, sizes and counts, never rows.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.errors import RunError
from flowcontrol.ledger.staged import PARTIAL
from flowcontrol.live.take import RESULT, ROUND, SUBTASK
from flowcontrol.spark.workers import freeze_loaded

GROUP_BYTES = 1 << 20
"""Bytes of a row group, counted as the scenario counts them: a channel of many buffers is read
a part at a time."""


@dataclass(frozen=True)
class EdgeOrder:
    """How the rows of a subtask go out over one edge in a round.

    Attributes
    ----------
    root : str
        The exchange log; for a sink's output, its table.
    folder : str
        Folder of the file below the root; empty for the root itself.
    receivers : tuple of int
        Receiver of each subpartition.
    first : tuple of int
        Number of the first record on each channel.
    routes, parents : ndarray of int64
        Per output record: its subpartition, and the input row that it is made of.
    group_rows : int
        Most rows of a row group.
    name : str, default ""
        Name of the file: a round that is run again writes it again. Empty: one that no other has.
    is_table : bool, default False
        It is a table's: hidden columns are dropped.
    is_most_once : bool, default False
        Rows that an earlier attempt has emitted are left out: what a sink wrote of them is visible,
        what was on its way is lost.
    """

    root: str
    folder: str
    receivers: tuple[int, ...]
    first: tuple[int, ...]
    routes: np.ndarray[Any, np.dtype[np.int64]]
    parents: np.ndarray[Any, np.dtype[np.int64]]
    group_rows: int
    name: str = ""
    is_table: bool = False
    is_most_once: bool = False


@dataclass(frozen=True)
class SubtaskOrder:
    """What a subtask has to do: how many rows must come, and where they go.

    Attributes
    ----------
    rows : int
        Rows that it processes.
    edges : tuple of EdgeOrder
        Per output edge; then of each sink that writes a table, that table, once for each
        transaction that rows of the round belong to.
    """

    rows: int
    edges: tuple[EdgeOrder, ...]


class SubtaskWork:
    """What the task of each partition does with its rows, one subtask each.

    Parameters
    ----------
    orders : dict of int to SubtaskOrder
        By subtask.
    """

    def __init__(self, orders: dict[int, SubtaskOrder]) -> None:
        self.orders = orders

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the work of the subtask whose rows these are."""
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        subtask = table.column(SUBTASK)[0].as_py()
        order = self.orders[subtask]
        if len(table) != order.rows:
            raise RunError(
                f"subtask {subtask} processes {order.rows} rows, but {len(table)} came: the "
                "exchange log and the ledger disagree"
            )
        report: dict[str, Any] = {"subtask": subtask, "rows": len(table)}
        table = table.drop_columns([SUBTASK])
        report["files"] = [write_rows(table, edge) for edge in order.edges]
        yield pa.RecordBatch.from_pydict({RESULT: [json.dumps(report)]})
        freeze_loaded()


def _fresh(edge: EdgeOrder, table: pa.Table) -> EdgeOrder:
    """Return the order of a sink's file without the rows that were emitted before."""
    is_fresh = table.column(ROUND).to_numpy()[edge.parents] >= 0
    return replace(edge, routes=edge.routes[is_fresh], parents=edge.parents[is_fresh])


def write_rows(table: pa.Table, edge: EdgeOrder) -> dict[str, Any] | None:
    """Write one edge's file; return what the driver commits, or None for no rows.

    Parameters
    ----------
    table : pyarrow.Table
        What the rows are made of.
    edge : EdgeOrder
        Which of them go where.
    """
    if edge.is_most_once:
        edge = _fresh(edge, table)
    if edge.is_table:
        table = table.select([name for name in table.column_names if name != ROUND])
    if len(edge.routes) == 0:
        return None
    by_channel = np.argsort(edge.routes, kind="stable")
    laid = table.take(pa.array(edge.parents[by_channel]))
    counts = np.bincount(edge.routes, minlength=len(edge.receivers))
    name = str(Path(edge.folder) / (edge.name or f"{uuid.uuid4().hex}.parquet"))
    unlike = f"{name}.{uuid.uuid4().hex}{PARTIAL}"
    path = Path(edge.root) / (unlike if edge.name else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    index, row = [], 0
    with pq.ParquetWriter(path, laid.schema, compression="lz4") as writer:
        for channel, count in enumerate(counts.tolist()):
            if count:
                writer.write_table(laid.slice(row, count), row_group_size=edge.group_rows)
                index.append((edge.receivers[channel], edge.first[channel], row, count))
                row += count
    if edge.name:  # a process that was thought dead may write the same file
        path = path.replace(Path(edge.root) / name)
    return {"path": name, "bytes": path.stat().st_size, "rows": row, "index": index}
