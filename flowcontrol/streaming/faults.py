"""Named points at which a test can have the driver killed.

A point does nothing unless the environment variable :data:`VARIABLE` names it, as
``<stage>:<round>:<point>``; then the process group is killed as ``kill -9`` would.
"""

from __future__ import annotations

import os
import signal

__all__ = [
    "AFTER_LEDGER",
    "BEFORE_EXCHANGE",
    "BEFORE_LEDGER",
    "BETWEEN_LEDGERS",
    "VARIABLE",
    "reach",
]

VARIABLE = "FLOWCONTROL_KILL_AT"

BEFORE_EXCHANGE = "before-exchange"
"""The round's files are written, nothing is committed."""

BEFORE_LEDGER = "before-ledger"
"""The exchange log (a sink: its table) is committed, the ledger is not."""

BETWEEN_LEDGERS = "between-ledgers"
"""The ledger of a stage's first link is committed, those of its other links are not."""

AFTER_LEDGER = "after-ledger"
"""The ledger is committed, Spark has not noted the end of the batch."""


def reach(stage: str, number: int, point: str) -> None:
    """Die here if the environment says so."""
    if os.environ.get(VARIABLE) == f"{stage}:{number}:{point}":
        os.killpg(os.getpgid(0), signal.SIGKILL)
