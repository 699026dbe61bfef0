"""Named points at which a test can have the driver killed.

A point does nothing unless the environment variable :data:`VARIABLE` names it, as
``<stage>:<round>:<point>``; then the process group is killed as ``kill -9`` would. A round with a
``+`` after it means this one or a later one, whichever is the first to reach the point.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "FLOWCONTROL_KILL_AT"

BEFORE_EXCHANGE = "before-exchange"
"""The round's files are written, nothing is committed."""

BEFORE_LEDGER = "before-ledger"
"""The exchange log (a sink: its table) is committed, the ledger is not."""

BETWEEN_LEDGERS = "between-ledgers"
"""The ledger of a stage's first link is committed, those of its other links are not."""

AFTER_LEDGER = "after-ledger"
"""The ledger is committed, Spark has not noted the end of the batch."""

AFTER_CLAIM = "after-claim"
"""A side of a link has taken its place over, and nothing else; numbered by epoch."""

BEFORE_RELEASE = "before-release"
"""A sender has room for more messages; numbered, as the next, by its commits to the ledger."""

AFTER_RELEASE = "after-release"
"""The ledger says of more messages that they are released."""

BEFORE_RETURN = "before-return"
"""All of a sender's batch is released, its function has not returned."""

PLANNED = "planned"
"""Spark has noted what a receiver's batch reads, nothing is read."""


def reach(stage: str, number: int, point: str) -> None:
    """Die here if the environment says so."""
    name, _, rest = os.environ.get(VARIABLE, "").partition(":")
    wanted, _, where = rest.partition(":")
    if (name, where) != (stage, point):
        return
    if number == int(wanted.removesuffix("+")) or (
        wanted.endswith("+") and number > int(wanted[:-1])
    ):
        os.killpg(os.getpgid(0), signal.SIGKILL)
