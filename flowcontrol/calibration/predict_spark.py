"""What a run in batches says of its batches: how long they take, how large they are."""

from __future__ import annotations

from statistics import fmean

from flowcontrol.analysis.frames import Tables, result_frame
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.predict import Predicted


def predict_batches(tables: Tables, draft: Draft) -> Predicted:
    """Return the figures of the batches of a run after its warm-up.

    A batch is read at once, so it begins in the sample in which its records were emitted, and it
    takes what the sink is busy until the next one begins, and the overhead.
    """
    source, sink = draft.batches["source"], draft.batches["sink"]
    rows = result_frame(tables, "stages")
    emitted = rows[rows["stage"] == source]
    busy = (rows["busy_ms_per_s"] * rows["interval_s"])[rows["stage"] == sink]
    batches: list[tuple[float, int, float]] = []  # when it began, its rows, what it took
    before = 0
    samples = zip(emitted["t_s"], emitted["records_out"], busy, strict=True)
    for at, count, busy_ms in samples:
        if count > before:
            batches.append((at, count - before, 0.0))
            before = count
        if batches:
            began, own, took_ms = batches[-1]
            batches[-1] = began, own, took_ms + busy_ms
    # The last one may not be over, and others end with their last sample.
    kept = [one for one in batches[:-1] if one[0] > draft.warm_up_s]
    if len(kept) < 2:
        return {}
    overhead_ms = draft.batches["cost"].overhead_ms
    return {
        (sink, "batch_ms"): fmean(took_ms for _, _, took_ms in kept) + overhead_ms,
        (sink, "rows"): fmean(own for _, own, _ in kept),
        (sink, "rows_per_s"): sum(own for _, own, _ in kept[:-1]) / (kept[-1][0] - kept[0][0]),
    }
