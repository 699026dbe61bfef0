"""Extract the cause from Spark's message of a failure."""

from __future__ import annotations

import re

_PYTHON_ERROR = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")


def cause_of(text: str) -> str:
    """Return the cause in the text of a streaming exception.

    Spark wraps what Python raised several times; the last line that names a Python exception
    is the one to read.
    """
    causes = [line for line in text.splitlines() if _PYTHON_ERROR.match(line)]
    lines = causes or [line for line in text.splitlines() if line.strip()]
    return lines[-1 if causes else 0].strip() if lines else "no reason given"
