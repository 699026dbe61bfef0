"""Names of what the page shows, as they stand in its state and in ``data-`` attributes."""

from functools import cache
from typing import Any, Final

import yaml

from flowcontrol.job.round_state import TaskState
from flowcontrol.report.markup import asset

PACKAGE: Final = "flowcontrol.stepview"

CELL: Final = ("kind", "records", "bytes", "checkpoint", "watermarks")
"""What is known of a buffer or an event in a queue."""

TOKEN: Final = (*CELL, "arrives")
"""What is known of one on the wire; it arrives in a round, -1: it waits for the sender's socket."""

TOLD: Final = ("name", "amount", "arrives")
"""What is known of a message from a receiver to a sender."""

LISTS: Final = {"out": CELL, "queue": CELL, "wire": TOKEN, "told": TOLD}
"""Fields of a channel that are lists, and what each of their items has, in order."""


def task_name(stage: str, subtask: int) -> str:
    """Return the name of a subtask, ``A[0]``."""
    return f"{stage}[{subtask}]"


def name_of(task: TaskState) -> str:
    """Return the name of a task."""
    return task_name(task.stage, task.subtask)


def channel_name(edge: str, sender: int, receiver: int) -> str:
    """Return the name of a channel, ``A->B:0:1``."""
    return f"{edge}:{sender}:{receiver}"


def gate_name(edge: str, receiver: int) -> str:
    """Return the name of a gate, ``A->B:in:1``."""
    return f"{edge}:in:{receiver}"


def partition_name(edge: str, sender: int) -> str:
    """Return the name of a result partition, ``A->B:out:0``."""
    return f"{edge}:out:{sender}"


@cache
def table(name: str) -> dict[str, Any]:
    """Return one of the tables beside this module."""
    found: dict[str, Any] = yaml.safe_load(asset(PACKAGE, name))
    return found
