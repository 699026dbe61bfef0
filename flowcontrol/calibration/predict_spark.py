"""What a run in batches says of its batches: how long they take, how large they are."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from flowcontrol.analysis.frames import Tables
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.predict import Predicted


def predict_batches(tables: Tables, draft: Draft) -> Predicted:
    """Return the figures of the batches of a run after its warm-up.

    Notes
    -----
    A batch is read at once, so it begins at the sample in which its records were emitted. It is
    done when the sink has taken the last of them, processed it, and the overhead is over.
    """
    source, sink = draft.batches["source"], draft.batches["sink"]
    out = _series(tables, source, "records_out")
    taken = _series(tables, sink, "records_in")
    batches = _batches(out, taken)
    cost = draft.batches["cost"]
    kept = [one for one in batches if one[0] > draft.warm_up_s]
    if len(kept) < 2:
        return {}
    starts = [at for at, _, _ in kept]
    passed = sum(rows for _, rows, _ in kept[:-1])
    return {
        (sink, "batch_ms"): fmean(1000 * took for _, _, took in kept)
        + cost.row_ms
        + cost.overhead_ms,
        (sink, "rows"): fmean(rows for _, rows, _ in kept),
        (sink, "rows_per_s"): passed / (starts[-1] - starts[0]),
    }


def _series(tables: Tables, stage: str, column: str) -> list[tuple[float, int]]:
    rows: list[dict[str, Any]] = tables["stages"].select(["t_s", "stage", column]).to_pylist()
    return [(row["t_s"], row[column]) for row in rows if row["stage"] == stage]


def _batches(
    out: list[tuple[float, int]], taken: list[tuple[float, int]]
) -> list[tuple[float, int, float]]:
    """Return of each batch when it began (s), its rows, and until its last one was taken (s)."""
    found, before, later = [], 0, 0
    for at, count in out:
        if count > before:
            while later < len(taken) and taken[later][1] < count:
                later += 1
            if later == len(taken):
                break
            found.append((at, count - before, taken[later][0] - at))
            before = count
    return found
