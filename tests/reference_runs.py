"""Reference runs that are not whole and honest: resumed from ledger rows, or tampered with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from flowcontrol.job import Job, Outgoing, Subtask, Work
from flowcontrol.job.reference import RoundRows, control_of, new_subtasks, run_rounds
from flowcontrol.job.snapshot import restore

Tamper = Callable[[int, Subtask, list[list[Outgoing]]], None]


def resumed(job: Job, after: RoundRows) -> Iterator[RoundRows]:
    """Go on after a round, with subtasks that are restored from its rows alone."""
    subtasks = restored(job, after)
    control = control_of(job, subtasks)
    if control is not None:
        control.resume()
    return run_rounds(job, subtasks, control, after.rows, after.number + 1)


def restored(job: Job, after: RoundRows) -> list[Subtask]:
    """Return subtasks that are restored from the rows of a round alone."""
    subtasks = new_subtasks(job)
    for subtask in subtasks:
        sides = [
            [
                [row for row in after.rows[link.name][side] if row[side] == subtask.index]
                for link, _ in links
            ]
            for side, links in (("receiver", subtask.in_links), ("sender", subtask.out_links))
        ]
        restore(subtask, *sides)
    return subtasks


def tampered(job: Job, tamper: Tamper) -> Iterator[RoundRows]:
    """Run a job whose senders see what something makes of their receivers' cursors."""
    subtasks = new_subtasks(job)
    for subtask in subtasks:
        subtask.step = partial(_step, subtask, subtask.step, tamper)
    return run_rounds(job, subtasks, None)


def _step(
    subtask: Subtask, step: Callable[..., Work], tamper: Tamper, number: int, incoming, outgoing
) -> Work:
    tamper(number, subtask, outgoing)
    return step(number, incoming, outgoing)
