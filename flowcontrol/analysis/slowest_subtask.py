"""Who acknowledges checkpoints last, and what its time consisted of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

PARTS: Final = ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms")
"""Parts of a subtask's time, in the order in which they pass."""


def slowest_subtask(tasks: pd.DataFrame) -> dict[str, Any] | None:
    """Return who most often acknowledged last, and its time by parts, mean over those times.

    ``tasks``: the subtasks that acknowledged, as of ``task_frame``.

    Returns ``stage``, ``subtask``, ``part`` (the longest), ``checkpoints`` (how often it was last),
    ``e2e_ms`` and each of ``PARTS``; None without any row.
    """
    last = _last_of_each(tasks)
    if last.empty:
        return None
    owners = last.groupby(["stage", "subtask"])["e2e_ms"].agg(["count", "sum"])
    stage, subtask = owners.sort_values(["count", "sum"]).index[-1]
    rows = last[(last["stage"] == stage) & (last["subtask"] == subtask)]
    parts = {name: float(rows[name].mean()) for name in PARTS}
    return {
        "stage": str(stage),
        "subtask": int(subtask),
        "part": max(parts, key=lambda name: parts[name]).removesuffix("_ms"),
        "checkpoints": len(rows),
        "e2e_ms": float(rows["e2e_ms"].mean()),
        **parts,
    }


def _last_of_each(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the row of the subtask that acknowledged last, of each checkpoint."""
    ordered = tasks.sort_values(["checkpoint_id", "e2e_ms"], kind="stable")
    return ordered.drop_duplicates("checkpoint_id", keep="last")
