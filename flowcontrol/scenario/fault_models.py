"""What a file says of checkpoints and failures, beside Flink's own options."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final, Literal

from pydantic import Field

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.mapping import Mapping
from flowcontrol.scenario.schedule import MICROSECONDS

Guarantee = Literal["at-most-once", "at-least-once", "exactly-once"]
"""What the readers of a sink's table may rely on."""

FailureKind = Literal["task_manager", "subtask", "job_manager"]
"""What fails."""

_VICTIMS: Final = ("task_manager", "stage", "job_manager")


class State(Mapping):
    """What each subtask of a stage keeps, and a checkpoint writes."""

    bytes: f.StateBytes = Field(default=0, description="fixed size, bytes; default 0")
    bytes_per_key: f.StateBytes = Field(
        default=0,
        description="for each key of the subtask, bytes; needs an edge into the stage with "
        "partitioner hash that names its keys; default 0",
    )
    bytes_per_record: f.StateBytes = Field(
        default=0, description="growth for each record that is taken up, bytes; default 0"
    )
    incremental_share: f.Share = Field(
        default=Fraction(1),
        description="share of the state that a checkpoint writes, the rest being in the one "
        "before (Flink: execution.checkpointing.incremental); default 1",
    )
    sync_ms: f.Milliseconds = Field(
        default=0.0, description="time for which a snapshot blocks the task, ms; default 0"
    )

    @property
    def sync_us(self) -> int:
        """Time for which a snapshot blocks the task, microseconds."""
        return int(Fraction(repr(self.sync_ms)) * 1000)


class Savepoint(Mapping):
    """A savepoint that a user asks for."""

    quiet = frozenset({"stop"})

    at_s: f.Moment = Field(description="when it is asked for, s")
    stop: bool = Field(
        default=False,
        strict=True,
        description="true: the job stops with it (stop --no-drain); default false",
    )

    @property
    def at_us(self) -> int:
        """When it is asked for, microseconds."""
        return int(self.at_s * MICROSECONDS)


class Failure(Mapping):
    """Something that fails at a moment: a task manager, a subtask or the JobManager."""

    quiet = frozenset({"task_manager", "stage", "subtask", "job_manager"})

    at_s: f.Moment = Field(description="when it fails, s")
    task_manager: f.Index | None = f.or_none(
        "task manager that dies with all its subtasks and comes back, from 0"
    )
    stage: f.Text | None = f.or_none("stage of which a subtask fails")
    subtask: f.Index | None = f.or_none("which subtask of that stage, from 0")
    job_manager: bool = Field(
        default=False,
        strict=True,
        description="true: the JobManager dies and another takes over; default false",
    )

    @property
    def at_us(self) -> int:
        """When it fails, microseconds."""
        return int(self.at_s * MICROSECONDS)

    @property
    def kind(self) -> FailureKind:
        """What fails."""
        if self.task_manager is not None:
            return "task_manager"
        return "job_manager" if self.stage is None else "subtask"

    @property
    def victim(self) -> str:
        """What fails, in words."""
        if self.task_manager is not None:
            return f"task manager {self.task_manager}"
        return "the JobManager" if self.stage is None else f"subtask {self.subtask} of {self.stage}"

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys: a key, empty for all of them, and the refusal."""
        values = {key: getattr(self, key) for key in _VICTIMS}
        given = [key for key, value in values.items() if value is not None and value is not False]
        if not given:
            yield "", "nothing fails: state a task_manager, a stage and subtask, or job_manager"
        elif len(given) > 1:
            text = f"{' and '.join(given)} are given: state one of them, and another failure"
            yield given[1], text
        elif self.stage is not None and self.subtask is None:
            yield "subtask", f"is missing: which subtask of {self.stage!r} fails, from 0"
        if self.stage is None and self.subtask is not None:
            yield "subtask", f"{self.subtask} of which stage: state the stage, or take it out"
