"""The committer of a sink: commits what the writers prepared, once their checkpoint completed.

Source: ``CommitterOperator`` of Flink 1.20
(``org.apache.flink.streaming.runtime.operators.sink``), section 5 of
``reference/checkpoints-and-time.md``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

# --- What a committer has received: committables by checkpoint and subtask, and what became of
# them.
#
# Source: ``CommittableCollector``, ``CheckpointCommittableManagerImpl``,
# ``SubtaskCommittableManager`` and ``CommitRequestState`` of Flink 1.20
# (``org.apache.flink.streaming.runtime.operators.sink.committables``).


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


RETRY_DELAY_MS: Final = 1000
"""After how long a commit that asked for it is tried again (``RETRY_DELAY``)."""

Outcome: TypeAlias = str | tuple[str, Any] | None
"""What a commit says: None (done), "already", "retry", ("retry", new value) or "failed"."""

Output: TypeAlias = tuple[Any, ...]
"""("summary", id, overall, pending, failed) or ("committable", subtask, id, value)."""


class Committer:
    """Commits committables of the checkpoints that have completed.

    Flink 1.20's rules. Of the checkpoint that completed last only subtasks whose committables have
    all arrived are committed, of older ones all that is there; what arrives later is committed on
    arrival. After the end of input any completion commits everything.

    It differs from Flink in three points. A retry is due 1000 ms after the first commit that asked
    for one, where Flink starts a timer after each. After the end of input Flink retries in a loop
    without end; this object waits for nothing, so there too it is 1000 ms later. And a committable
    of the end of input that comes after the last completion is committed on arrival.

    **After a failure of the job** make a new one and :meth:`open` it with what :meth:`snapshot`
    returned for the checkpoint that is restored: it commits at once, and again what was committed
    between the snapshot and the failure, so ``commit`` answers "already" or is idempotent. After
    an exception throw the object away.

    **After a kill of the process** between two calls, ``restore(state)`` a new one with what
    :meth:`state` returned after the last: it commits nothing. The values of committables must be
    plain JSON for that. After a kill inside a call, restore the state of before it and repeat it.

    - ``commit``: takes a value and returns an outcome: None, it is committed; "already", it was
      before; "retry", try it again later; ("retry", value), try this one instead; "failed", for a
      known reason: it is dropped and counted. What it raises is an unknown failure, which fails the
      job.
    - ``next_time`` (ms): when to call :meth:`tick` at the latest; None: no commit waits to be tried
      again.

    Examples
    --------
    >>> committer = Committer(lambda value: None)
    >>> committer.open(0)
    []
    >>> committer.add(1, ("summary", 0, 1, 1)), committer.add(1, ("committable", 0, 1, "file"))
    ([], [])
    >>> committer.notify_complete(5, 1)
    [('summary', 1, 1, 0, 0), ('committable', 0, 1, 'file')]
    """

    def __init__(self, commit: Callable[[Any], Outcome]) -> None:
        self._commit = commit
        self._received = Committables()
        self._completed = -1
        self._has_ended = False
        self.next_time: int | None = None

    def open(
        self, now: int, state: Mapping[str, Any] | None = None, checkpoint: int | None = None
    ) -> list[Output]:
        """Begin; with the state of a checkpoint commit at once what it holds.

        - ``now`` (ms): time.
        - ``state``: of the checkpoint that is restored, from :meth:`snapshot`; None: start without
          one.
        - ``checkpoint``: the number of that checkpoint. By default the newest that the state has
          committables of, those of the end of input aside: with committables in flight (unaligned
          barriers) the two may differ.

        Raises ValueError if it is not such a state; nothing is changed then.
        """
        kept = {"committables": []} if state is None else state
        received = Committables.from_json(checked(kept, {"committables"})["committables"])
        newest = max((id for id in received.checkpoints if id != END_OF_INPUT), default=-1)
        self._received = received
        self._completed = newest if checkpoint is None else checkpoint
        self._has_ended = False
        self.next_time = None
        return self._commit_all(now)

    def add(self, now: int, message: tuple[Any, ...]) -> list[Output]:
        """Take a message of a writer; commit if its checkpoint has completed already.

        - ``now`` (ms): time.
        - ``message``: ("summary", subtask, id, count), or ("committable", subtask, id, value); id
          :data:`END_OF_INPUT` for what a writer prepared at the end of its input.

        Raises ValueError if it is neither, a second summary of a subtask and checkpoint, a
        committable without a summary, or one more than was announced.
        """
        kind, subtask, checkpoint, content = message
        if kind == "summary":
            self._received.add_summary(checkpoint, subtask, content)
        elif kind == "committable":
            self._received.add(checkpoint, subtask, content)
        else:
            raise ValueError(f"a message is a 'summary' or a 'committable', not {kind!r}")
        return self._commit_all(now) if checkpoint <= self._completed else []

    def notify_complete(self, now: int, checkpoint: int) -> list[Output]:
        """Commit what the completion of a checkpoint allows.

        ``now`` (ms): time.

        For each checkpoint of which something was committed ("summary", id, overall, pending,
        failed), that is how many have arrived, are not done, and were dropped; then ("committable",
        subtask, id, value) for each that was committed now.
        """
        last = END_OF_INPUT if self._has_ended else checkpoint
        self._completed = max(self._completed, last)
        return self._commit_all(now)

    def end_of_input(self, now: int) -> list[Output]:
        """Note that no message will follow: the next completion commits everything."""
        self._has_ended = True
        return []

    def tick(self, now: int) -> list[Output]:
        """Try again what asked for it, if it is time; otherwise do nothing."""
        if self.next_time is None or now < self.next_time:
            return []
        self.next_time = None
        return self._commit_all(now)

    def snapshot(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: what was received and is not finished."""
        return {"committables": self._received.to_json()}

    def state(self) -> dict[str, Any]:
        """Return all that it remembers, as plain JSON if the values of committables are."""
        return {
            **self.snapshot(),
            "completed": self._completed,
            "has_ended": self._has_ended,
            "next_time": self.next_time,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, without a commit.

        Raises ValueError if it is not such a state; nothing is changed then.
        """
        kept = checked(state, set(self.state()))
        self._received = Committables.from_json(kept["committables"])
        self._completed, self._has_ended = kept["completed"], kept["has_ended"]
        self.next_time = kept["next_time"]

    def _commit_all(self, now: int) -> list[Output]:
        """Commit what may be (``commitAndEmitCheckpoints``)."""
        outputs: list[Output] = []
        is_retrying = False
        for checkpoint in self._received.up_to(self._completed):
            needs_all = not self._has_ended and checkpoint == self._completed
            done: list[Output] = []
            for subtask, own in self._received.checkpoints[checkpoint].items():
                if own.is_complete or not needs_all:
                    done += [("committable", subtask, checkpoint, v) for v in self._try(own)]
                    is_retrying |= bool(own.waiting)
            if done:
                outputs += [("summary", checkpoint, *self._received.totals(checkpoint)), *done]
        if not is_retrying:
            self.next_time = None
        elif self.next_time is None:
            self.next_time = now + RETRY_DELAY_MS
        return outputs

    def _try(self, own: SubtaskCommittables) -> list[Any]:
        """Commit what waits of one subtask, and return what was committed."""
        done, again, values = [], [], own.waiting
        tried = 0
        try:
            for value in values:
                outcome = self._commit(value)
                if outcome is None or outcome == "already":
                    own.committed += 1
                    done.append(value)
                elif outcome == "retry":
                    again.append(value)
                elif isinstance(outcome, tuple) and len(outcome) == 2 and outcome[0] == "retry":
                    again.append(outcome[1])
                elif outcome == "failed":
                    own.failed += 1
                else:
                    raise ValueError(
                        f"commit({value!r}) returned {outcome!r}: needs None, 'already', 'failed', "
                        "'retry' or ('retry', value)"
                    )
                tried += 1
        finally:
            # After an unknown failure that one and those behind it wait on.
            own.waiting = again + values[tried:]
        return done
