"""Options as Spark hands them on: texts. What is wrong with each is noted, all at once."""

from __future__ import annotations

import json
from collections.abc import Mapping


def number(name: str, text: str | None, wrong: list[str]) -> float | None:
    """Return the number of an option, None if it is not given; note what is none."""
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if found != found:
        wrong.append(f"{name} is {text!r}: needs a number")
        return None
    return found


def truth(name: str, given: Mapping[str, str], wrong: list[str]) -> bool:
    """Return whether an option is true, false if it is not given; note what is neither."""
    text = given.get(name, "false")
    if text.lower() not in ("true", "false"):
        wrong.append(f"{name} is {text!r}: needs true or false")
    return text.lower() == "true"


def stored_options(text: str, wrong: list[str]) -> dict[str, str]:
    """Return the options of a store, from JSON; note what is none."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        wrong.append(f"storage_options is {text!r}: needs JSON, names with texts")
        return {}
    return found
