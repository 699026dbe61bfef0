"""The progress of Spark queries, found in any text and read into batches."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

from flowcontrol.calibration.bodies import kind_of, known_rows, plain, read_json, read_text, shown
from flowcontrol.calibration.draft import refuse

# --- Finding the progress of Spark queries in any text: JSON, logs, event logs, Python's print.


FORM: Final = (
    "needs StreamingQueryProgress, as query.recentProgress, a StreamingQueryListener, the driver's "
    "log or Spark's event log have it"
)

Placed = tuple[str, Mapping[str, Any]]
"""A progress, behind where it stands."""

_DEPTH: Final = 6
"""How deep a progress may be in what carries it, as an event or a line of a log in JSON."""

_DECODER: Final = json.JSONDecoder()
_MARK: Final = re.compile(r"""["'](numInputRows|batchId|durationMs|triggerExecution)\\?["']""")
"""A key of a progress: a text with one of them that cannot be read is a damaged progress."""

_OPENING: Final = re.compile(r"\{|\[(?=\s*[\[{])")
"""Where a mapping begins, or a list of some."""

_NEW_LINE: Final = re.compile(r"\n(?=[^\s}\]])")
"""The end of what may be over several lines: those behind the first are indented, or a bracket."""

_STEP: Final = re.compile(r"""["'{}\[\]]""")
_STRINGS: Final = {
    '"': re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL),
    "'": re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL),
}


def progress_in_text(text: str, source: str) -> list[Placed]:
    """Return each progress in a text, in order; what else stands there is passed over.

    ``text``: JSON, in one line or several; or such values with anything between them; or what
    Python prints of them.

    Raises ScenarioError if what begins as a progress, or a line that is JSON from its beginning,
    cannot be read.
    """
    found: list[Placed] = []
    at, line, counted = 0, 1, 0
    while (begin := _next(text, at)) >= 0:
        line, counted = line + text.count("\n", counted, begin), begin
        value, end = _value(text, begin)
        if end < 0:
            end = _passed(text, begin, line, source)
        else:
            own = list(progress_in(value))
            places = [f"line {line}{f', progress {n}' if n else ''}" for n in range(len(own))]
            found += zip(places, own, strict=True)
        at = end
    return found


def progress_in(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield each progress that a value is or holds: a list, an event, a line of a log in JSON."""
    if isinstance(value, Mapping):
        if "durationMs" in value or ("numInputRows" in value and "sources" in value) or (
            "id" in value and "batchId" in value
        ):  # fmt: skip
            yield value
            return
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    elif isinstance(value, str) and _MARK.search(value):
        at = _next(value, 0)
        inner = [_value(value, at)[0]] if at >= 0 else []
    else:
        return
    for one in inner if depth < _DEPTH else ():
        yield from progress_in(one, depth + 1)


def _next(text: str, at: int) -> int:
    """Return where the next mapping, or list of some, begins; -1: there is none."""
    match = _OPENING.search(text, at)
    return match.start() if match else -1


def _value(text: str, begin: int) -> tuple[Any, int]:
    """Return the value that begins there and where it ends; -1 if there is none to read."""
    try:
        return _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        pass
    # Python's print: quotes are single ones, and None, True and False are not JSON's.
    end = _closing(text, begin) if re.match(r"[\[{\s]*'", text[begin : begin + 80]) else -1
    if end > 0:
        try:
            return ast.literal_eval(text[begin:end]), end
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
    return None, -1


def _closing(text: str, begin: int) -> int:
    """Return where the bracket that opens there is closed, of Python's or JSON's syntax."""
    depth, at = 0, begin
    while match := _STEP.search(text, at):
        mark, at = match.group(), match.end()
        if mark in _STRINGS:
            string = _STRINGS[mark].match(text, match.start())
            if string is None:
                return -1
            at = string.end()
            continue
        depth += 1 if mark in "{[" else -1
        if depth == 0:
            return at
    return -1


def _passed(text: str, begin: int, line: int, source: str) -> int:
    """Return where to go on behind something in brackets that is not a value.

    Raises ScenarioError if it is a progress that is damaged or cut; of lines of JSON, whatever it
    is.
    """
    start = text.rfind("\n", 0, begin) + 1
    is_line = text.lstrip().startswith("{") and not text[start:begin].strip()
    new = _NEW_LINE.search(text, begin)
    rest = text[begin : new.start() if new else len(text)]
    closed = _closing(rest, 0)
    rest = rest[:closed] if closed > 0 else rest
    # What is in a list can be told better one by one.
    if text[begin] == "[" or not (is_line or _MARK.search(rest)):
        return begin + 1
    try:
        read_json(rest, f"line {line}", FORM, source)
    except json.JSONDecodeError as error:
        column = error.colno + (begin - start if error.lineno == 1 else 0)
        is_cut = not text[begin + error.pos :].strip() or not text[begin + len(rest) :].strip()
        what = "the line is cut" if is_cut else f"no JSON ({error.msg})"
        place = f"line {line + error.lineno - 1}, column {column}"
        refuse(place, f"{what}: {FORM}; remove it", source)
    return begin + len(rest)


# --- Reading the progress of a Spark query, StreamingQueryProgress, into batches.


LEAST_BATCHES: Final = 4
"""Batches with rows, the first of each run left out: two sizes and their error."""

_MOST: Final = 2**63 - 1
"""Largest number that Spark's progress has, a long."""

_LONGEST_MS: Final = 1_000_000_000
"""Longest time of a batch, some eleven days."""


@dataclass(frozen=True)
class Batch:
    """A micro-batch with rows."""

    number: int  # Spark's batchId
    run: str  # Spark's runId: of one start of the query
    at_ms: float  # When its trigger started, ms since 1970
    rows: int  # numInputRows
    took_ms: float  # took_ms, work_ms: triggerExecution, and addBatch of it
    work_ms: float
    states: int = 0  # Stateful operators


def read_progress(given: Any, wanted: str | None = None) -> tuple[list[Batch], str, str]:
    """Read the progress of one query.

    ``wanted``: id or name of the query; by default the only one.

    Returns ``batches``: those with rows, in order; without the first of each run, in which Spark
    warms up. Raises ScenarioError if there is no progress, or it is cut; if there are two queries;
    if there are too few batches, or no rows of them were counted.
    """
    source = plain(str(given)) if isinstance(given, str | Path) else "the progress"
    rows = _load(Path(given), source) if isinstance(given, str | Path) else _objects(given, source)
    rows = _of_query(rows, wanted, source)
    # Who asks for lastProgress again and again has some of it twice.
    rows = [rows[0], *(b for a, b in pairwise(rows) if a[1] != b[1])]
    counted = [(n, place, row) for n, (place, row) in enumerate(rows) if _rows(row)]
    batches = [_batch(place, row, n, source) for n, place, row in counted]
    _check_order(batches, source)
    firsts = {one.run: one.number for one in reversed(batches)}
    kept = [one for one in batches if one.number != firsts[one.run]]
    if len(kept) < LEAST_BATCHES:
        _refuse_few([row for _, row in rows], len(kept), source)
    if not any(a.run == b.run for a, b in pairwise(kept[len(kept) // 2 :])):
        text = (
            f"the query was started {len({one.run for one in kept})} times, and no two batches "
            "behind the first one of a start are in a row: let it run for longer"
        )
        refuse("runId", text, source)
    name = next((plain(str(row["name"])) for _, row in rows if row.get("name")), "") or "query"
    return kept, name, source


def _of_query(rows: list[Placed], wanted: str | None, source: str) -> list[Placed]:
    """Return the progress of one query.

    Raises ScenarioError if there are several to choose from, or the wanted one is not there.
    """
    queries = {str(row.get("id", "")): row.get("name") for _, row in rows}
    pairs = [(plain(one), plain(str(name or "without a name"))) for one, name in queries.items()]
    names = ", ".join(f"{one} ({name})" for one, name in pairs)
    if wanted is not None:
        found = [(place, row) for place, row in rows if wanted in (row.get("id"), row.get("name"))]
        if not found:
            text = f"{plain(wanted)}: there is no progress of such a query; there are: {names}"
            refuse("--job", text, source)
        rows = found
        queries = dict.fromkeys(str(row.get("id", "")) for _, row in rows)
    if len(queries) > 1:
        text = (
            f"progress of {len(queries)} queries, {names}: name one of them with --job, or keep "
            "each query in a file of its own"
        )
        refuse("id", text, source)
    return rows


def _rows(row: Mapping[str, Any]) -> Any:
    """Return numInputRows, which an event log has of the sources alone."""
    if "numInputRows" in row:
        return row["numInputRows"]
    counts = [one.get("numInputRows") for one in known_rows(row.get("sources"))]
    return sum(one for one in counts if isinstance(one, int))


def _refuse_few(rows: list[Mapping[str, Any]], kept: int, source: str) -> NoReturn:
    """Refuse progress of too few batches with rows, by what is the matter with it."""
    silent = [row for row in rows if not _rows(row)]
    moved = [row for row in silent if any(map(_has_moved, known_rows(row.get("sources"))))]
    if len(moved) > kept:
        text = (
            f"it is 0 in {len(moved)} of {len(rows)} batches although their offsets move: Spark "
            "did not count the rows, as where a cached table is part of the plan; take cache() "
            "out, or count the rows yourself (df.observe) and write them in its place"
        )
    elif len(rows) == 1:
        text = (
            "there is the progress of one batch, as query.lastProgress gives it: give that of "
            f"{LEAST_BATCHES + 1} or more, as query.recentProgress does"
        )
    elif len(silent) > len(rows) / 2:
        text = (
            f"{kept} batches with rows behind the first one of a run, of at least {LEAST_BATCHES}; "
            f"{len(silent)} of {len(rows)} are without rows: let the query run while rows come"
        )
    else:
        text = (
            f"{kept} batches with rows behind the first one of a run, of at least "
            f"{LEAST_BATCHES}: let the query run for longer"
        )
    refuse("numInputRows", text, source)


def _has_moved(source: Mapping[str, Any]) -> bool:
    end = source.get("endOffset")
    return end is not None and end != source.get("startOffset")


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


def _batch(place: str, row: Mapping[str, Any], number: int, source: str) -> Batch:
    """Return a batch; Spark before 2.3 has no batchId, so that its place is its number."""
    try:
        durations = row["durationMs"]
        return Batch(
            number=_whole(row, "batchId", 0) if "batchId" in row else number,
            run=str(row.get("runId", "")),
            at_ms=1000 * datetime.fromisoformat(str(row["timestamp"])).timestamp(),
            rows=_whole({"numInputRows": _rows(row)}, "numInputRows", 1),
            took_ms=_time(durations, "triggerExecution", 1),
            work_ms=_time(durations, "addBatch", 0),
            states=len(row.get("stateOperators") or ()),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        missing = f"no {error}" if isinstance(error, KeyError) else str(error)
        text = f"{missing}: {FORM}, with durationMs.addBatch and triggerExecution"
        refuse(place, text, source)


def _whole(row: Mapping[str, Any], key: str, least: int) -> int:
    value = row[key]
    is_read = isinstance(value, str | int) or (isinstance(value, float) and value.is_integer())
    found = int(value) if is_read else -1
    if isinstance(value, bool) or not least <= found <= _MOST:
        raise ValueError(f"{key} {shown(value)} is not a whole number from {least}")
    return found


def _time(row: Mapping[str, Any], key: str, least: int) -> float:
    found = float(row[key])
    if not least <= found <= _LONGEST_MS:
        raise ValueError(
            f"{key} {shown(row[key])} is not a time from {least} ms to {_LONGEST_MS:,} ms"
        )
    return found


def _load(path: Path, source: str) -> list[Placed]:
    text = read_text(path, "--spark", "a file of progress", source)
    found = progress_in_text(text, source)
    if not found:
        kind = kind_of(text)
        what = f"{kind}, and holds no progress of a query" if kind else "is no progress of a query"
        refuse("line 1" if text.strip() else "the file", f"{what}: {FORM}", source)
    return found


def _objects(rows: Any, source: str) -> list[Placed]:
    if not isinstance(rows, Sequence):
        refuse("the progress", f"is not a list: {FORM}", source)
    found: list[Placed] = []
    for number, row in enumerate(rows):
        place = f"progress[{number}]"
        own = [(place, one) for one in progress_in(row)]
        if not own:
            refuse(place, f"is no progress of a query: {FORM}", source)
        found += own
    if not rows:
        refuse("the progress", f"is empty: {FORM}", source)
    return found
