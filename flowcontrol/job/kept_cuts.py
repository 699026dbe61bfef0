"""Cuts at rest: a task's part of a checkpoint as JSON has it, and back."""

from collections.abc import Mapping
from typing import Any

from flowcontrol.job.cuts import TaskCut
from flowcontrol.job.graph import JobVertex
from flowcontrol.protocol.state import as_dict, put_back


def cut_document(cut: TaskCut) -> dict[str, Any]:
    """Return a cut as JSON takes it."""
    return {
        "taken": cut.taken,
        "position": cut.position,
        "operators": [as_dict(operator) for operator in cut.operators],
        "routed": cut.routed,
        "written": cut.written,
        "processed": cut.processed,
        "marks": cut.marks,
        "marks_taken": cut.marks_taken,
        "windows": cut.windows,
    }


def cut_from(document: Mapping[str, Any], plan: JobVertex) -> TaskCut:
    """Return the cut of which :func:`cut_document` was kept.

    Parameters
    ----------
    document : mapping
        As JSON has held it.
    plan : JobVertex
        The task's stage: its operators are of these kinds.
    """
    operators = plan.new_operators()
    for operator, values in zip(operators, document["operators"], strict=True):
        put_back(operator, values)
    return TaskCut(
        document["taken"],
        document["position"],
        tuple(operators),
        _counts(document["routed"]),
        _counts(document["written"]),
        _counts(document["processed"]),
        document["marks"],
        _counts(document["marks_taken"]),
        document["windows"],
    )


def _counts(kept: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, kept))
