"""Reading the progress of a Spark query: StreamingQueryProgress as JSON, one a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from flowcontrol.calibration.bodies import plain, read_json, read_text, shown
from flowcontrol.calibration.draft import refuse

LEAST_BATCHES: Final = 4
"""Batches with rows, the first of each run left out: two sizes and their error."""

_MOST: Final = 2**63 - 1
"""Largest number that Spark's progress has, a long."""

_LONGEST_MS: Final = 1_000_000_000
"""Longest time of a batch, some eleven days."""

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
    source = plain(str(given)) if isinstance(given, str | Path) else "the progress"
    rows = _load(Path(given), source) if isinstance(given, str | Path) else _objects(given, source)
    queries = {str(row["id"]): row.get("name") for _, row in rows}
    if len(queries) > 1:
        pairs = [
            (plain(one), plain(str(name or "without a name"))) for one, name in queries.items()
        ]
        names = ", ".join(f"{one} ({name})" for one, name in pairs)
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
    if not any(a.run == b.run for a, b in pairwise(kept[len(kept) // 2 :])):
        text = (
            f"the query was started {len({one.run for one in kept})} times, and no two batches "
            "behind the first one of a start are in a row: let it run for longer"
        )
        refuse("runId", text, source)
    name = next((plain(str(one)) for one in queries.values() if one), "") or "query"
    return kept, name, source


def _check_order(batches: list[Batch], source: str) -> None:
    """Refuse batches that come again: a query that began anew in the window."""
    for a, b in pairwise(batches):
        if b.number <= a.number or b.at_ms <= a.at_ms:
            later = "" if b.number <= a.number else " and began no later"
            text = (
                f"batch {b.number} comes after batch {a.number}{later}: the query was restarted "
                "from an older checkpoint in the window, or lines are out of order; keep the lines "
                "of one start"
            )
            refuse("batchId", text, source)


def _batch(place: str, row: Mapping[str, Any], source: str) -> Batch:
    try:
        durations = row["durationMs"]
        return Batch(
            number=_whole(row, "batchId", 0),
            run=str(row.get("runId", "")),
            at_ms=1000 * datetime.fromisoformat(str(row["timestamp"])).timestamp(),
            rows=_whole(row, "numInputRows", 1),
            took_ms=_time(durations, "triggerExecution", 1),
            work_ms=_time(durations, "addBatch", 0),
            states=len(row.get("stateOperators") or ()),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        missing = f"no {error}" if isinstance(error, KeyError) else str(error)
        text = f"{missing}: {_FORM}, with durationMs.addBatch and triggerExecution"
        refuse(place, text, source)


def _whole(row: Mapping[str, Any], key: str, least: int) -> int:
    value = row[key]
    is_read = isinstance(value, str | int) or (isinstance(value, float) and value.is_integer())
    found = int(value) if is_read else -1
    if isinstance(value, bool) or not least <= found <= _MOST:
        raise ValueError(f"{key} {shown(value)} is no whole number from {least}")
    return found


def _time(row: Mapping[str, Any], key: str, least: int) -> float:
    found = float(row[key])
    if not least <= found <= _LONGEST_MS:
        raise ValueError(
            f"{key} {shown(row[key])} is no time from {least} ms to {_LONGEST_MS:,} ms"
        )
    return found


def _load(path: Path, source: str) -> list[tuple[str, Mapping[str, Any]]]:
    text = read_text(path, "--spark", "a file of progress", source)
    found = []
    # Not splitlines: JSON may hold other ends of a line, as U+2028, in a name.
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    for number, line in lines:
        place = f"line {number}"
        try:
            found.append((place, read_json(line, place, _FORM, source)))
        except json.JSONDecodeError as error:
            is_last = number == lines[-1][0]
            what = "the line is cut" if is_last else f"no JSON ({error.msg})"
            refuse(f"{place}, column {error.colno}", f"{what}: {_FORM}; take it out", source)
    return _objects([row for _, row in found], source, [place for place, _ in found])


def _objects(
    rows: Sequence[Any], source: str, places: Sequence[str] | None = None
) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(rows, Sequence):
        refuse("the progress", f"is no list: {_FORM}", source)
    places = places or [f"progress[{n}]" for n in range(len(rows))]
    for place, row in zip(places, rows, strict=True):
        if not isinstance(row, Mapping) or "id" not in row or "batchId" not in row:
            refuse(place, f"is no progress of a query: {_FORM}", source)
    if not rows:
        refuse("the file", f"holds no progress: {_FORM}", source)
    return list(zip(places, rows, strict=True))
