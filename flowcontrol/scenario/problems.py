"""Wording of problems: key paths, values as in the file, nearest known names."""

import difflib
import re
from collections.abc import Iterable, Sequence

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN_CHARACTERS = 60


def key_path(parts: Sequence[str | int]) -> str:
    """Return the path of a key, as ``stages[1].service_rate[0].rate``.

    ``parts``: keys and positions from the top of the file; a key with a dot in it is quoted.

    Returns the path; empty for the file as a whole.
    """
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += "." if text else ""
            text += part if _PLAIN_KEY.fullmatch(part) else f'"{part}"'
    return text


def show(value: object) -> str:
    """Return a value as its author wrote it in YAML, cut after 60 characters."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def nearest(word: str, words: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known word, or nothing if none is near."""
    candidates = sorted(set(words))
    lower = {candidate.lower(): candidate for candidate in candidates}
    begins = [name for name in lower if word and name.startswith(word.lower())]
    found = begins or difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""


def known(word: str, words: Iterable[str], kind: str) -> str:
    """Return the text that refuses an unknown word and lists the known ones.

    ``kind``: kind of the word, such as ``key`` or ``partitioner``.
    """
    listed = list(words)
    return f"unknown {kind} {word!r}{nearest(word, listed)} (known: {', '.join(listed)})"
