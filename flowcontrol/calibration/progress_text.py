"""Finding the progress of Spark queries in any text: JSON, logs, event logs, Python's print."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowcontrol.calibration.bodies import read_json
from flowcontrol.calibration.draft import refuse

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
        refuse(place, f"{what}: {FORM}; take it out", source)
    return begin + len(rest)
