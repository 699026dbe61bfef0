"""What a committer has received: committables by checkpoint and subtask, and what became of them.

Source: ``CommittableCollector``, ``CheckpointCommittableManagerImpl``,
``SubtaskCommittableManager`` and ``CommitRequestState`` of Flink 1.20
(``org.apache.flink.streaming.runtime.operators.sink.committables``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

END_OF_INPUT: Final = 2**63 - 1
"""The checkpoint of what is committed after the end of input (``CommittableMessage.EOI``)."""


@dataclass
class SubtaskCommittables:
    """What one upstream subtask sends for one checkpoint (``SubtaskCommittableManager``)."""

    expected: int  # How many its summary announced
    waiting: list[Any] = field(default_factory=list)  # Received, and neither committed nor failed
    committed: int = 0  # committed, failed: how many are done
    failed: int = 0

    @property
    def received(self) -> int:
        """How many have arrived."""
        return len(self.waiting) + self.committed + self.failed

    @property
    def pending(self) -> int:
        """How many are neither committed nor failed, those that have not arrived included."""
        return self.expected - self.committed - self.failed

    @property
    def is_complete(self) -> bool:
        """Whether all have arrived (``hasReceivedAll``)."""
        return self.received == self.expected


class Committables:
    """What has arrived and is not finished, by checkpoint, then by subtask in order of arrival."""

    def __init__(self) -> None:
        self.checkpoints: dict[int, dict[int, SubtaskCommittables]] = {}

    def add_summary(self, checkpoint: int, subtask: int, count: int) -> None:
        """Take the summary of a subtask, which comes before its committables.

        Raises ValueError if there is one of this subtask and checkpoint, or the count is negative.
        """
        if count < 0:
            raise ValueError(
                f"the summary of subtask {subtask} for checkpoint {checkpoint} announces {count} "
                "committables: needs at least 0"
            )
        subtasks = self.checkpoints.setdefault(checkpoint, {})
        if subtask in subtasks:
            raise ValueError(
                f"a second summary of subtask {subtask} for checkpoint {checkpoint}: it announced "
                f"{subtasks[subtask].expected} committables before and {count} now; a subtask "
                "sends one a checkpoint (FLINK-25920)"
            )
        subtasks[subtask] = SubtaskCommittables(count)

    def add(self, checkpoint: int, subtask: int, value: Any) -> None:
        """Take a committable.

        Raises ValueError if there is no summary of this subtask and checkpoint, or as many have
        arrived as it announced.
        """
        known = self.checkpoints.get(checkpoint, {}).get(subtask)
        if known is None:
            raise ValueError(
                f"committable {value!r} of subtask {subtask} for checkpoint {checkpoint} without "
                "a summary: add the subtask's summary before"
            )
        if known.is_complete:
            raise ValueError(
                f"committable {value!r} of subtask {subtask} for checkpoint {checkpoint} is one "
                f"more than the {known.expected} that its summary announced"
            )
        known.waiting.append(value)

    def up_to(self, checkpoint: int) -> list[int]:
        """Return the checkpoints up to this one that are not finished, ascending.

        Finished ones are forgotten.
        """
        for number in [number for number in self.checkpoints if number <= checkpoint]:
            if all(subtask.pending == 0 for subtask in self.checkpoints[number].values()):
                del self.checkpoints[number]
        return sorted(number for number in self.checkpoints if number <= checkpoint)

    def totals(self, checkpoint: int) -> tuple[int, int, int]:
        """Return how many have arrived, are pending and failed, over a checkpoint's subtasks."""
        subtasks = self.checkpoints[checkpoint].values()
        return (
            sum(subtask.received for subtask in subtasks),
            sum(subtask.pending for subtask in subtasks),
            sum(subtask.failed for subtask in subtasks),
        )

    def to_json(self) -> list[list[Any]]:
        """Return a row for each checkpoint and subtask; it shares no list with this object."""
        return [
            [number, subtask, own.expected, list(own.waiting), own.committed, own.failed]
            for number, subtasks in self.checkpoints.items()
            for subtask, own in subtasks.items()
        ]

    @classmethod
    def from_json(cls, rows: list[list[Any]]) -> "Committables":
        """Return what :meth:`to_json` was called on."""
        made = cls()
        for number, subtask, expected, waiting, committed, failed in rows:
            own = SubtaskCommittables(expected, list(waiting), committed, failed)
            made.checkpoints.setdefault(number, {})[subtask] = own
        return made


def checked(state: Mapping[str, Any], wanted: set[str]) -> Mapping[str, Any]:
    """Return the state of a committer, if it has the fields that it must have.

    Raises ValueError if it has others.
    """
    if set(state) != wanted:
        raise ValueError(
            f"the state of a committer has {', '.join(sorted(wanted))}; this one has "
            f"{', '.join(sorted(state)) or 'nothing'}: open() takes what snapshot() returned, "
            "restore() what state() returned"
        )
    return state
