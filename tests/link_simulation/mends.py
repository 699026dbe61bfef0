"""Faults of the past: how each mend is taken out again, and a seed that finds the fault then.

A mend is taken out of the text of one function, so a change of that text is noticed. When a change
of the product or of the simulation makes another history of a seed, ``python -m
tests.link_simulation.mends`` looks for new ones.
"""

from __future__ import annotations

import inspect
import logging
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.log import DeltaLog, TableView
from flowcontrol.link.sender import LinkSender

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from .install import installed
from .running import run_one

MOST = 20_000
"""Seeds that are tried."""


class Mend(NamedTuple):
    """A mend of the past."""

    fault: str  # What went wrong without it
    commit: str  # That brought it
    seed: int
    owner: Any
    name: str  # Of the function that has it
    text: str
    without: str


MENDS = [
    Mend(
        "a process that had been taken over went on committing",
        "638878c3",
        7,
        Writer,
        "_check_epoch",
        "if newest != self.epoch:",
        "if False:",
    ),
    Mend(
        "a member saw nothing any more when the log had been cleaned behind it",
        "10b3e834",
        15,
        DeltaLog,
        "follow",
        "if self._restart_if_cut_off(at_once):",
        "if False:",
    ),
    Mend(
        "a commit made between two looks was taken for a gap in the log",
        "88b6d1f4",
        9,
        DeltaLog,
        "_is_cut_off",
        "if is_last or self._storage.exists(self.next_file):",
        "if is_last:",
    ),
    Mend(
        "what was committed before a claim, or a commit made anew, went unseen",
        "90f1bc23",
        1011082,
        TableView,
        "refresh_beyond",
        "if self._log.version <= seen:",
        "if False:",
    ),
    Mend(
        "rows that a killed sender had written were never counted",
        "2a84bd1d",
        1,
        LinkSender,
        "__init__",
        "rows = [log.records - known for log, known in zip(logs, records, strict=True)]",
        "rows = [0 for log in logs]",
    ),
    Mend(
        "news that came with a sender's own commit was lost",
        "5d44dd93",
        1656,
        LinkSender,
        "step",
        "self._commit(-1, none, none)",
        "self._commit(-1, none, none); self._acted_on = self.ledger.version",
    ),
]


def without(mend: Mend) -> Callable[..., Any]:
    """Return the function as it was before a mend.

    Raises ValueError if its text has changed.
    """
    function = getattr(mend.owner, mend.name)
    text = textwrap.dedent(inspect.getsource(function))
    if text.count(mend.text) != 1:
        raise ValueError(f"{function.__qualname__} has not once {mend.text!r}")
    found: dict[str, Any] = {}
    exec(text.replace(mend.text, mend.without), sys.modules[function.__module__].__dict__, found)
    made: Callable[..., Any] = found[mend.name]
    return made


@contextmanager
def taken_out(mend: Mend) -> Iterator[None]:
    """Run without a mend."""
    with mock.patch.object(mend.owner, mend.name, without(mend)):
        yield


def look_for(mend: Mend, first: int = 0) -> tuple[int, str]:
    """Return the first seed that finds a fault, and its error; -1 if none does."""
    with installed(), taken_out(mend):
        for seed in range(first, first + MOST):
            error = run_one(seed)[1]
            if error:
                return seed, error.strip().splitlines()[-1][:160]
    return -1, ""


if __name__ == "__main__":
    logging.disable()
    for one in MENDS:
        print(f"{one.fault}: {look_for(one)}", flush=True)
