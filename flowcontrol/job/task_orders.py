"""What the coordinator of checkpoints tells tasks."""

from typing import Final, NamedTuple

from flowcontrol.protocol.states import CoordinatorMessage

TRIGGER: Final = "trigger"
ABORTED: Final = "abort"
COMPLETED: Final = "complete"
SLOWED: Final = "slowed"
RELIEVED: Final = "relieved"


class TaskOrder(NamedTuple):
    """What the coordinator tells one task.

    Attributes
    ----------
    task : int
        Which, in the order of the job.
    kind : str
        TRIGGER, ABORTED or COMPLETED; SLOWED, its task manager uploads from now on, or RELIEVED.
    message : CoordinatorMessage
        Which checkpoint, and the round in which the task hears of it; of SLOWED and RELIEVED that
        round alone.
    """

    task: int
    kind: str
    message: CoordinatorMessage
