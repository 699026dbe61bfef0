"""From the progress of a Spark query to a scenario: a source, and the query as one stage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, linear_regression, median
from typing import Any, Final

from flowcontrol.analysis.frames import Tables, result_frame
from flowcontrol.analysis.wording import join_words
from flowcontrol.calibration import rates
from flowcontrol.calibration.batches import Batch, read_progress
from flowcontrol.calibration.draft import Contradiction, Cost, Draft
from flowcontrol.calibration.predict import Predicted

# --- What a batch costs: so much a row, and so much whatever its rows.


DIFFERENT: Final = 1.2
"""How many times as many rows as the smallest batch the largest must have to tell both costs."""

OUTLIER: Final = 4.0
"""Batches whose time is so many mean deviations off the line are not its points: a pause."""


def cost_of(draft: Draft, batches: list[Batch], key: str) -> Cost:
    """Return what batches cost by a line through their times.

    addBatch over numInputRows, a + b n; the rest of triggerExecution is overhead as well.

    - ``batches``: with rows, of at least two sizes.
    - ``key``: of the service rate.
    """
    over = "system.throttle.overhead_ms"
    beside = fmean(one.took_ms - one.work_ms for one in batches)
    rows = [one.rows for one in batches]
    if max(rows) < DIFFERENT * min(rows):
        each = sum(one.work_ms for one in batches) / sum(rows)
        why = (
            f"all batches have about {rows[0]} rows, so what a batch costs beside them is not "
            "known but for what is outside addBatch: calibrate on batches of different sizes"
        )
        draft.assumed(key, rates.rounded(1000 / each), why)
        draft.assumed(over, rates.rounded(beside, 5), why)
        return Cost(each, beside)
    kept, (row_ms, base) = _line(batches)
    if row_ms <= 0:
        draft.assumed(key, None, "addBatch does not grow with numInputRows: rows cost nothing")
        row_ms, base = 0.0, fmean(one.work_ms for one in kept)
    elif base < 0:
        row_ms = linear_regression(*_points(kept), proportional=True).slope
        base = 0.0
    error = _error(kept, row_ms, base)
    if row_ms > 0:
        text = "1000 / slope of addBatch over numInputRows"
        draft.measured(key, rates.rounded(1000 / row_ms), text, error)
    text = "addBatch at 0 rows, and triggerExecution less addBatch"
    draft.measured(over, rates.rounded(base + beside, 5), text)
    if len(kept) < len(batches):
        off = [str(one.number) for one in batches if one not in kept]
        which = f"batch {off[0]} is" if len(off) == 1 else f"batches {join_words(off)} are"
        text = f"{which} far off the line of the others: a pause, or another load"
        draft.notes.append(text)
    for one in batches:
        if one.work_ms > one.took_ms + 1:
            text = (
                f"batch {one.number}: addBatch {one.work_ms:g} ms is more than the whole trigger's "
                f"{one.took_ms:g} ms"
            )
            draft.contradictions.append(Contradiction(key.split(".")[1], text))
    return Cost(row_ms, base + beside)


def _points(batches: list[Batch]) -> tuple[list[float], list[float]]:
    return [float(one.rows) for one in batches], [one.work_ms for one in batches]


def _line(batches: list[Batch]) -> tuple[list[Batch], tuple[float, float]]:
    """Return the batches that make the line, and its slope and intercept."""
    found = linear_regression(*_points(batches))
    off = [abs(one.work_ms - found.intercept - found.slope * one.rows) for one in batches]
    mean = fmean(off)
    kept = [one for one, gap in zip(batches, off, strict=True) if gap <= OUTLIER * mean]
    sizes = {one.rows for one in kept}
    if len(kept) < len(batches) and len(sizes) > 1:
        found = linear_regression(*_points(kept))
        return kept, (found.slope, found.intercept)
    return batches, (found.slope, found.intercept)


def _error(batches: list[Batch], row_ms: float, base: float) -> float:
    """Return the standard error of the slope, relative."""
    if row_ms <= 0 or len(batches) < 3:
        return 1.0
    mean = fmean(one.rows for one in batches)
    spread = sum((one.rows - mean) ** 2 for one in batches)
    left = sum((one.work_ms - base - row_ms * one.rows) ** 2 for one in batches)
    return float((left / (len(batches) - 2) / spread) ** 0.5 / row_ms) if spread else 1.0


# --- From the progress of a Spark query to a scenario: a source, and the query as one stage.


QUERY: Final = "query"
SOURCE: Final = "source"

BACK_TO_BACK: Final = 0.05
"""Largest part of a batch's time between its end and the next start without a trigger."""

BATCHES: Final = 25
ROUNDS: Final = 400
SAMPLES: Final = 20
"""Batches that are run, and rounds and samples of each."""

SAME: Final = 0.02
"""Variation of sizes up to which batches are of one size."""

AMPLE: Final = 3.0
"""A source with a backlog has so many times what passes."""


def fit_progress(given: Any, wanted: str | None = None) -> Draft:
    """Return the scenario that a query's progress makes.

    ``wanted``: id or name of the query; by default the only one.

    Raises ScenarioError if the progress is damaged, of two queries, or has too few batches with
    rows.
    """
    batches, name, source = read_progress(given, wanted)
    draft = Draft({}, source)
    cost = cost_of(draft, batches, f"stages.{QUERY}.service_rate")
    interval_ms = _interval(draft, batches)
    load = _load(draft, batches, interval_ms)
    throttle: dict[str, Any] = {"name": "static_admission"}
    throttle["overhead_ms"] = rates.rounded(cost.overhead_ms, 5)
    if interval_ms:
        throttle["interval_ms"] = interval_ms
    if load.max_records is not None:
        throttle["max_records"] = load.max_records
    batch_s = fmean(one.took_ms for one in load.settled) / 1000
    every_s = max(batch_s, interval_ms / 1000)
    round_ms = max(1, round(1000 * every_s / ROUNDS))
    stage: dict[str, Any] = {"name": QUERY}
    if cost.row_ms > 0:
        stage["service_rate"] = rates.rounded(1000 / cost.row_ms)
    draft.mapping = {
        "schema": 1,
        "name": _name(name),
        "duration_s": rates.rounded(BATCHES * every_s, 4),
        "round_ms": round_ms,
        "sample_interval_s": round_ms * (ROUNDS // SAMPLES) / 1000,
        "cluster": {"task_managers": 1},
        "system": {"transport": "unbounded", "throttle": throttle},
        "stages": [{"name": SOURCE, "emit_rate": load.emit_rate}, stage],
        "edges": [{"from": SOURCE, "to": QUERY, "partitioner": "forward"}],
    }
    draft.warm_up_s = 5 * every_s
    draft.batches = {"source": SOURCE, "sink": QUERY, "cost": cost}
    # A query is the one stage there is: it limits if the next batch waits for it.
    draft.bottleneck = QUERY if load.max_records is not None else None
    _notes(draft, batches)
    _see(draft, load.settled)
    return draft


def _name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.")[:48] or "query"


def _interval(draft: Draft, batches: list[Batch]) -> int:
    """Return the interval of the query's trigger, ms; 0: a batch as soon as the last is done."""
    gaps = [b.at_ms - a.at_ms - a.took_ms for a, b in _pairs(batches)]
    apart = [b.at_ms - a.at_ms for a, b in _pairs(batches)]
    took = fmean(one.took_ms for one in batches)
    key = "system.throttle.interval_ms"
    if fmean(gaps) <= BACK_TO_BACK * took:
        draft.measured(key, 0, "each batch begins when the one before is done", 0.0)
        return 0
    usual = median(apart)
    # Ticks are whole multiples of the interval; the first batch begins between two of them.
    on_time = [abs(gap - usual * round(gap / usual)) <= 0.1 * usual for gap in apart]
    if sum(on_time) >= 0.8 * len(on_time):
        found = round(usual, -2 if usual > 2000 else -1)
        return int(draft.measured(key, int(found), "starts of batches are so far apart", 0.02))
    return int(draft.assumed(key, 0, "batches begin at no interval: the source had no rows yet"))


def _pairs(batches: list[Batch]) -> list[tuple[Batch, Batch]]:
    return [(a, b) for a, b in pairwise(batches) if a.run == b.run]


@dataclass(frozen=True)
class _Load:
    """What the source offers."""

    settled: list[Batch]  # The batches whose figures are compared
    emit_rate: float  # Records/s that come
    max_records: int | None = None  # What a batch takes of a backlog; None: all that came


def _load(draft: Draft, batches: list[Batch], interval_ms: int) -> _Load:
    """Return what the source offers: a backlog of which a batch takes so much, or a rate.

    Rows that come at a rate make a batch as large as the time since the last start. A source with
    a backlog fills each batch up to its own limit, whatever the time was.
    """
    late = batches[len(batches) // 2 :]
    per_s = [1000 * b.rows / (b.at_ms - a.at_ms) for a, b in _pairs(batches)]
    by_rate, by_rows = _variation(per_s), _variation([float(one.rows) for one in batches])
    key = f"stages.{SOURCE}.emit_rate"
    if interval_ms or (by_rows > SAME and by_rate <= by_rows / 4):
        arrived = sum(b.rows for _, b in _pairs(late)) / sum(
            b.at_ms - a.at_ms for a, b in _pairs(late)
        )
        rate = rates.rounded(1000 * arrived, 5)
        text = "numInputRows / time between starts, second half"
        error = by_rate / max(1, len(per_s)) ** 0.5
        return _Load(late, draft.measured(key, rate, text, error))
    mean = max(1, round(fmean(one.rows for one in batches)))
    why = "a batch does not grow with the time: a backlog, of which more waits than passes"
    ample = draft.assumed(key, rates.rounded(AMPLE * _passed(batches), 3), why)
    error = _variation([float(one.rows) for one in batches]) / len(batches) ** 0.5
    draft.measured("system.throttle.max_records", mean, "mean of numInputRows", error)
    return _Load(batches, ample, mean)


def _passed(batches: list[Batch]) -> float:
    """Return the rows/s that went through: each batch's until the next one starts."""
    pairs = _pairs(batches)
    return 1000 * sum(a.rows for a, _ in pairs) / sum(b.at_ms - a.at_ms for a, b in pairs)


def _variation(values: list[float]) -> float:
    mean = fmean(values)
    deviation = fmean((one - mean) ** 2 for one in values) ** 0.5
    return float(deviation / mean) if mean else 0.0


def _notes(draft: Draft, batches: list[Batch]) -> None:
    draft.notes.append(
        "Spark's progress shows a query as one stage: reading, transformations, shuffles and the "
        "sink are one time (addBatch), so which of them limits cannot be told"
    )
    states = batches[-1].states
    if states:
        draft.notes.append(
            f"{states} stateful operator{'s' if states > 1 else ''}: the time of their state is "
            "part of the batch's, and may grow with the state"
        )


def _see(draft: Draft, settled: list[Batch]) -> None:
    """Note what the settled batches were like."""
    draft.see(QUERY, "batch_ms", fmean(one.took_ms for one in settled), "ms")
    draft.see(QUERY, "rows", fmean(one.rows for one in settled), "rows")
    draft.see(QUERY, "rows_per_s", _passed(settled), "rows/s")


# --- What a run in batches says of its batches: how long they take, how large they are.


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
