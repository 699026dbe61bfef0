"""What tasks held when they took their checkpoints: the state from which an attempt begins.

A cut of a task has the counters that mean something beyond an attempt: how far a source is, what
its operators remember, how many records went to each channel. Buffers, credit and barriers are not
part of it: channels begin anew. What was in flight follows: written by the sender before its
barrier, less what the receiver had processed at its own.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

C = TypeVar("C")


class Cuts(Generic[C]):
    """The cuts of all tasks by checkpoint, in whatever form a clock has them.

    Notes
    -----
    A task that had finished before a checkpoint took no part in it: its last state counts.
    """

    def __init__(self) -> None:
        self._taken: dict[int, dict[Hashable, C]] = {}
        self._finished: dict[Hashable, C] = {}

    def note(self, checkpoint: int, task: Hashable, cut: C) -> None:
        """Keep what a task held when it took a checkpoint."""
        self._taken.setdefault(checkpoint, {})[task] = cut

    def finish(self, task: Hashable, cut: C) -> None:
        """Keep what a task held when it finished."""
        self._finished[task] = cut

    def of(self, checkpoint: int, task: Hashable) -> C | None:
        """Return what a task restores from a completed checkpoint; None: it begins anew."""
        if checkpoint < 0:
            return None
        taken = self._taken.setdefault(checkpoint, {})
        if task not in taken and task in self._finished:
            taken[task] = self._finished[task]  # a later attempt may finish elsewhere
        return taken.get(task)

    def has(self, checkpoint: int, task: Hashable) -> bool:
        """Tell whether it is known what a task held when it took a checkpoint."""
        return task in self._taken.get(checkpoint, {})

    def forget(self, before: int) -> None:
        """Forget the checkpoints with ids below ``before``."""
        for checkpoint in [one for one in self._taken if one < before]:
            del self._taken[checkpoint]

    def forget_finished(self, tasks: Iterable[Hashable]) -> None:
        """Forget that tasks have finished: they were restarted."""
        for task in tasks:
            self._finished.pop(task, None)
