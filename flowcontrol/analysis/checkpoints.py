"""Checkpoints of a run in figures: how many ended how, how long they took, which part was slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoint_causes import find_cause, find_late
from flowcontrol.analysis.checkpoint_windows import find_windows
from flowcontrol.analysis.checkpoint_wording import checkpoint_sentences
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.slowest_subtask import PARTS, slowest_subtask
from flowcontrol.records import CHECKPOINT_TASKS, CHECKPOINTS
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

COMPLETED: Final = "completed"
IN_PROGRESS: Final = "in_progress"
FAILED: Final = ("expired", "declined", "aborted")
STATUSES: Final = (COMPLETED, *FAILED, IN_PROGRESS)
"""In the order in which they are shown."""

_SIZES = ("state_bytes", "processed_bytes", "persisted_bytes")


def checkpoint_frame(tables: Tables) -> pd.DataFrame:
    """Return the table ``checkpoints``; one that had not ended has the status ``in_progress``.

    ``tables``: results of a run; a missing table counts as empty.
    """
    table = tables.get("checkpoints")
    found: pd.DataFrame = (
        CHECKPOINTS.arrow_schema().empty_table() if table is None else table
    ).to_pandas()
    return found.assign(status=found["status"].mask(found["ended_s"].isna(), IN_PROGRESS))


def task_frame(tables: Tables) -> pd.DataFrame:
    """Return the subtasks that reported, with parts that do not overlap.

    ``tables``: results of a run; a missing table counts as empty.

    Returns the columns of ``checkpoint_tasks``. Behind a barrier that overtakes, the asynchronous
    part includes the wait for the last barrier, which is the alignment: ``async_ms`` here is
    without it, so that the four parts together are at most ``e2e_ms``.
    """
    table = tables.get("checkpoint_tasks")
    found: pd.DataFrame = (
        CHECKPOINT_TASKS.arrow_schema().empty_table() if table is None else table
    ).to_pandas()
    found = found[found["start_delay_ms"].notna()].reset_index(drop=True)
    twice = (found[list(PARTS)].sum(axis=1) - found["e2e_ms"]).clip(lower=0.0)
    return found.assign(async_ms=(found["async_ms"] - twice).clip(lower=0.0))


def checkpoint_summary(tables: Tables, scenario: Scenario, round_ms: float = 0.0) -> dict[str, Any]:
    """Return what ``summary.json`` says of checkpoints.

    Quantiles are those of Flink's page, at place p (n + 1) of the sorted values, so that those of
    few checkpoints are their extremes.

    - ``tables``: results of a run, with ``checkpoints`` and ``checkpoint_tasks``.
    - ``round_ms`` (ms): length of a round. What takes no longer than the messages of a checkpoint
      is not slow.

    Returns ``counts`` by status; ``savepoints``, how many of them are savepoints; of the completed
    ones ``e2e`` (``min_ms``, ``mean_ms``, ``p50_ms``, ``p99_ms``, ``max_ms``; null if there is
    none), ``state_bytes``, ``processed_bytes`` and ``persisted_bytes`` (means, and with ``max_``
    before them the largest) and ``slowest``, the subtask that most often acknowledged last, with
    the part of its time that was the longest, or null; ``cause``, what makes the slow ones slow, or
    null; ``late``, who had not acknowledged those that expired, or null; ``windows``, those that
    make them large because their watermark lags, or null; and ``sentences``.
    """
    checkpoints, tasks = checkpoint_frame(tables), task_frame(tables)
    done = checkpoints[checkpoints["status"] == COMPLETED]
    own = tasks[tasks["checkpoint_id"].isin(done["checkpoint_id"])]
    found: dict[str, Any] = {
        "counts": {status: int((checkpoints["status"] == status).sum()) for status in STATUSES},
        "savepoints": int((checkpoints["kind"] == "savepoint").sum()),
        "e2e": _durations(done["e2e_ms"]),
        **{name: float(done[name].mean()) if len(done) else 0.0 for name in _SIZES},
        **{f"max_{name}": int(done[name].max()) if len(done) else 0 for name in _SIZES},
        "slowest": slowest_subtask(own),
    }
    found["cause"] = find_cause(done, own, tables, scenario, round_ms)
    found["late"] = find_late(checkpoints, tasks, tables, scenario)
    found["windows"] = find_windows(done, tables, scenario)
    found["sentences"] = checkpoint_sentences(found, scenario)
    return found


def _durations(values: pd.Series[float]) -> dict[str, float] | None:
    import numpy as np

    if values.empty:
        return None
    p50, p99 = np.quantile(values, [0.5, 0.99], method="weibull")
    figures = {"min": values.min(), "mean": values.mean(), "p50": p50, "p99": p99}
    return {f"{name}_ms": float(value) for name, value in (figures | {"max": values.max()}).items()}


def checkpoint_metrics(tables: Tables) -> tuple[float | None, int | None, float | None]:
    """Return three figures by which runs are compared.

    Returns median end to end of the completed checkpoints, ms (None: there is none), how many
    expired, were declined or aborted (None: the job takes no checkpoints), and the mean of the
    bytes in flight that a completed one persisted (None: there is none).
    """
    if "checkpoints" not in tables:
        return None, None, None
    found = checkpoint_frame(tables)
    done = found[found["status"] == COMPLETED]
    e2e, failed = _durations(done["e2e_ms"]), int(found["status"].isin(FAILED).sum())
    return None if e2e is None else e2e["p50_ms"], failed, _mean(done["persisted_bytes"])


def _mean(values: pd.Series[float]) -> float | None:
    return float(values.mean()) if len(values) else None
