"""What a sink does about commits that hold its thread.

Source: ``CommitterOperator``: when it hears that a checkpoint is complete, it commits that one and
those before it, in order, on the task's thread.
"""

from typing import Final

from flowcontrol.protocol.tasks.snapshots import stand_still
from flowcontrol.state.network import TaskCheckpoint
from flowcontrol.state.tasks import Worker

LONGEST_US: Final = 1 << 60
"""More microseconds than a run has."""


def stage_commit(state: TaskCheckpoint, taken: int) -> None:
    """Note that a sink takes a checkpoint, having taken up so many records: files, if any came."""
    if taken > state.staged_at:
        state.staged += 1
    state.staged_at = taken


def hear_completed(state: TaskCheckpoint, checkpoint: int, arrives: int) -> int:
    """Have a sink commit a checkpoint from a round on: 1 if its commits take time."""
    if state.commit_us == 0:
        return 0
    if state.completed == 0:
        state.commits = arrives
    state.completed = max(state.completed, checkpoint)
    return 1


def take_commits(state: TaskCheckpoint) -> int:
    """Return how many checkpoints with files are committed together: up to the completed one."""
    later = max(0, state.handled - state.completed)
    count = max(0, state.staged - later)
    state.staged -= count
    state.completed = 0
    state.commits = -1
    return count


def commits_us(count: int, each_us: int) -> int:
    """Return what so many commits take, microseconds; beyond the end of any run what fits."""
    return min(count, LONGEST_US // each_us) * each_us


def may_commit(worker: Worker) -> int:
    """Tell whether a commit waits for the task's thread: 1 if so."""
    state = worker.checkpoint_state()
    return 1 if 0 <= state.commits <= worker.round_number() else 0


def commit(worker: Worker) -> None:
    """Begin to commit what is complete: the thread does nothing else until that is over."""
    state = worker.checkpoint_state()
    checkpoint = state.completed
    count = take_commits(state)
    length = commits_us(count, state.commit_us)
    worker.report_commit(checkpoint, length, count, state.commit_files)
    stand_still(state, worker.task, worker.service_phases(), worker.now_us(), length)
