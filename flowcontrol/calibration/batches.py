"""Reading the progress of a Spark query: StreamingQueryProgress as JSON, one a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from flowcontrol.calibration.draft import refuse

LEAST_BATCHES: Final = 4
"""Batches with rows, the first of each run left out: two sizes and their error."""

_FORM: Final = "a line holds one StreamingQueryProgress as JSON (progress.json)"


@dataclass(frozen=True)
class Batch:
    """A micro-batch with rows.

    Attributes
    ----------
    number : int
        Spark's batchId.
    run : str
        Spark's runId: of one start of the query.
    at_ms : float
        When its trigger started, ms since 1970.
    rows : int
        numInputRows.
    took_ms, work_ms : float
        triggerExecution, and addBatch of it.
    states : int
        Stateful operators.
    """

    number: int
    run: str
    at_ms: float
    rows: int
    took_ms: float
    work_ms: float
    states: int = 0


def read_progress(given: Any) -> tuple[list[Batch], str, str]:
    """Read the progress of one query.

    Parameters
    ----------
    given : str, Path or sequence
        A file with a JSON object a line, or the objects.

    Returns
    -------
    batches : list of Batch
        Those with rows, in order; without the first of each run, in which Spark warms up.
    name, source : str
        Of the query, and of the input.

    Raises
    ------
    ScenarioError
        If a line is no progress, or cut; if there are two queries; if there are too few batches.
    """
    source = str(given) if isinstance(given, str | Path) else "the progress"
    rows = _load(Path(given), source) if isinstance(given, str | Path) else _objects(given, source)
    queries = {str(row["id"]): row.get("name") for _, row in rows}
    if len(queries) > 1:
        names = ", ".join(f"{one} ({name or 'without a name'})" for one, name in queries.items())
        text = (
            f"progress of {len(queries)} queries, {names}: keep the lines of one of them, each "
            "query in a file of its own"
        )
        refuse("id", text, source)
    batches = [_batch(place, row, source) for place, row in rows if row.get("numInputRows")]
    _check_order(batches, source)
    firsts = {one.run: one.number for one in reversed(batches)}
    kept = [one for one in batches if one.number != firsts[one.run]]
    if len(kept) < LEAST_BATCHES:
        text = (
            f"{len(kept)} batches with rows behind the first one of a run, of at least "
            f"{LEAST_BATCHES}: let the query run for longer"
        )
        refuse("numInputRows", text, source)
    name = next((str(one) for one in queries.values() if one), "query")
    return kept, name, source


def _check_order(batches: list[Batch], source: str) -> None:
    """Refuse batches that come again: a query that began anew in the window."""
    for a, b in pairwise(batches):
        if b.number <= a.number or b.at_ms < a.at_ms:
            text = (
                f"batch {b.number} comes after batch {a.number}: the query was restarted from an "
                "older checkpoint in the window, or lines are out of order; keep the lines of one "
                "start"
            )
            refuse("batchId", text, source)


def _batch(place: str, row: Mapping[str, Any], source: str) -> Batch:
    try:
        durations = row["durationMs"]
        return Batch(
            number=int(row["batchId"]),
            run=str(row.get("runId", "")),
            at_ms=1000 * datetime.fromisoformat(str(row["timestamp"])).timestamp(),
            rows=int(row["numInputRows"]),
            took_ms=float(durations["triggerExecution"]),
            work_ms=float(durations["addBatch"]),
            states=len(row.get("stateOperators") or ()),
        )
    except (KeyError, TypeError, ValueError) as error:
        missing = f"no {error}" if isinstance(error, KeyError) else str(error)
        text = f"{missing}: {_FORM}, with durationMs.addBatch and triggerExecution"
        refuse(place, text, source)


def _load(path: Path, source: str) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        refuse("--spark", f"cannot be read ({why}); name a file of progress", source)
    found = []
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, line in lines:
        try:
            found.append((f"line {number}", json.loads(line)))
        except json.JSONDecodeError as error:
            is_last = number == lines[-1][0]
            what = "the line is cut" if is_last else f"no JSON ({error.msg})"
            refuse(f"line {number}, column {error.colno}", f"{what}: {_FORM}; take it out", source)
    return _objects([row for _, row in found], source, [place for place, _ in found])


def _objects(
    rows: Sequence[Any], source: str, places: Sequence[str] | None = None
) -> list[tuple[str, Mapping[str, Any]]]:
    places = places or [f"progress[{n}]" for n in range(len(rows))]
    for place, row in zip(places, rows, strict=True):
        if not isinstance(row, Mapping) or "id" not in row or "batchId" not in row:
            refuse(place, f"is no progress of a query: {_FORM}", source)
    if not rows:
        refuse("the file", f"holds no progress: {_FORM}", source)
    return list(zip(places, rows, strict=True))
