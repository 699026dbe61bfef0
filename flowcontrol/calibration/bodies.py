"""JSON that somebody else wrote: read from a file, and taken apart with a place to each refusal."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from flowcontrol.calibration.draft import refuse
from flowcontrol.calibration.foreign import kind_of_bytes

MOST_SUBTASKS: Final = 32_768
"""Largest parallelism that Flink has (``KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM``)."""

_GZIP: Final = b"\x1f\x8b"
"""First bytes of a compressed file."""

_LONGEST: Final = 60
"""Characters of a value that a refusal shows."""


def read_text(path: Path, place: str, wanted: str, source: str) -> str:
    """Return the text of a file, compressed or not, with or without a byte order mark.

    Raises ScenarioError if it cannot be read, or is cut.
    """
    if path.is_dir():
        is_link = (path / "link.json").exists()
        what = "the folder of a link, for --link" if is_link else "a folder"
        refuse(place, f"is {what}; name {wanted}", source)
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        if kind := kind_of_bytes(content):
            refuse(place, f"{kind}; needs {wanted}", source)
        return content.decode("utf-8-sig")
    except EOFError:
        refuse("the end", "the file is cut: nothing of it can be read; make it again", source)
    except UnicodeDecodeError as error:
        text = f"is not a text in UTF-8 (byte {error.start}: {error.reason}); write it as UTF-8"
        refuse(place, text, source)
    except (OSError, zlib.error, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        refuse(place, f"cannot be read ({why}); name {wanted}", source)


def read_json(text: str, place: str, otherwise: str, source: str) -> Any:
    """Return what some JSON holds that is syntactically right; ``JSONDecodeError`` if it is not.

    Raises ScenarioError if it is nested too deeply, or has a number with too many digits.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        refuse(place, f"cannot be read ({why}): {otherwise}", source)


def plain(text: str) -> str:
    """Return a text in one line, of printable characters alone: for files, comments, terminals."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def mapping_at(value: Any, place: str, source: str) -> Mapping[str, Any]:
    """Return a value that has to be a mapping.

    Raises ScenarioError if it is none.
    """
    if not isinstance(value, Mapping):
        refuse(place, f"{shown(value)} is not a mapping, as Flink answers there", source)
    return value


def known(value: Any) -> Mapping[str, Any]:
    """Return a mapping; an empty one of anything else, such as the error that Flink answers."""
    return value if isinstance(value, Mapping) else {}


def known_rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none of anything else."""
    return [row for row in value if isinstance(row, Mapping)] if _is_list(value) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def rows_at(value: Any, place: str, source: str) -> list[Mapping[str, Any]]:
    """Return a value that has to be a list of mappings; without one, none.

    Raises ScenarioError if it is something else.
    """
    if value is None:
        return []
    if not _is_list(value):
        refuse(place, f"{shown(value)} is not a list, as Flink answers there", source)
    return [mapping_at(row, f"{place}[{number}]", source) for number, row in enumerate(value)]


def word_at(row: Mapping[str, Any], key: str, place: str, source: str) -> str:
    """Return a text of a mapping that has to be there.

    Raises ScenarioError if it is missing or empty.
    """
    value = row.get(key)
    if not isinstance(value, str | int) or value == "":
        refuse(f"{place}.{key}", f"{shown(value)} is not a text: dump the body as it is", source)
    return str(value)


def width_at(row: Mapping[str, Any], place: str, source: str) -> int:
    """Return the parallelism of a vertex.

    Raises ScenarioError if it is not a whole number from 1 to :data:`MOST_SUBTASKS`.
    """
    value = row.get("parallelism")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_SUBTASKS:
        text = f"{shown(value)} is not a whole number from 1 to {MOST_SUBTASKS:,}"
        text += ": dump the body as it is"
        refuse(f"{place}.parallelism", text, source)
    return value


def shown(value: Any) -> str:
    """Return a value as a refusal shows it, cut if it is long."""
    text = "nothing" if value is None else plain(json.dumps(value, default=str)[: 2 * _LONGEST])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
