"""The coordinator's state as JSON takes it: plain lists and dictionaries, tasks by their index.

Tasks are whatever the caller names them, so their names are not kept: the coordinator that reads
the state back was made with the same tasks in the same order.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flowcontrol.protocol.checkpoints.checkpoint import Checkpoint
from flowcontrol.protocol.checkpoints.failures import FailureCounter
from flowcontrol.protocol.checkpoints.lifecycle import Action, Lifecycle
from flowcontrol.protocol.checkpoints.reasons import FailureReason
from flowcontrol.protocol.checkpoints.requests import CheckpointRequest
from flowcontrol.protocol.checkpoints.statistics import CheckpointCounts, TaskStatistics

PLAIN = ("is_suspended", "requests", "last_id", "pause_ends")
"""Fields of a life cycle that JSON takes as they are."""


def keep(life: Lifecycle) -> dict[str, Any]:
    """Return all that has happened, as JSON takes it."""
    index = {task: place for place, task in enumerate(life.tasks)}
    failures = life.failures
    return {
        "tasks": len(life.tasks),
        "ticks": [life.ticks.next, life.ticks.starts],
        "queue": [keep_request(request) for request in life.queue],
        "failures": [failures.count, failures.last_success, sorted(failures.counted)],
        "checkpoints": [keep_checkpoint(each, index) for each in life.checkpoints.values()],
        "retained": list(life.retained),
        "finished": sorted(index[task] for task in life.finished),
        "failed": sorted(index[task] for task in life.failed),
        "actions": [keep_action(action, index) for action in life.actions],
        "counts": asdict(life.counts),
        **{name: getattr(life, name) for name in PLAIN},
    }


def put_back(life: Lifecycle, state: Mapping[str, Any]) -> None:
    """Give a life cycle of the same tasks the state that was kept.

    Raises
    ------
    ValueError
        If the state is that of another number of tasks; nothing has changed then.
    """
    if state["tasks"] != len(life.tasks):
        raise ValueError(
            f"the state has {state['tasks']} tasks, the job {len(life.tasks)}: needs the "
            "coordinator of the same job"
        )
    tasks = life.tasks
    life.ticks.next, life.ticks.starts = state["ticks"]
    life.queue.replace(read_request(kept) for kept in state["queue"])
    count, last_success, counted = state["failures"]
    life.failures = FailureCounter(life.failures.tolerable, count, last_success, set(counted))
    read = [read_checkpoint(kept, tasks) for kept in state["checkpoints"]]
    life.checkpoints = {each.id: each for each in read}
    life.pending = {each.id: each for each in read if each.is_pending}
    life.retained = list(state["retained"])
    life.finished = {tasks[place] for place in state["finished"]}
    life.failed = {tasks[place] for place in state["failed"]}
    life.actions = [read_action(kept, tasks) for kept in state["actions"]]
    life.counts = CheckpointCounts(**state["counts"])
    for name in PLAIN:
        setattr(life, name, state[name])


def keep_request(request: CheckpointRequest) -> dict[str, Any]:
    """Return a request as JSON takes it."""
    kept = asdict(request)
    return kept | {"reason": None if request.reason is None else str(request.reason)}


def read_request(kept: Mapping[str, Any]) -> CheckpointRequest:
    """Return the request that was kept."""
    reason = kept["reason"]
    fields = {**kept, "reason": None if reason is None else FailureReason(reason)}
    return CheckpointRequest(**fields)


def keep_checkpoint(checkpoint: Checkpoint, index: Mapping[Hashable, int]) -> dict[str, Any]:
    """Return a checkpoint as JSON takes it; ``index`` gives the place of a task."""
    return {
        "id": checkpoint.id,
        "request": keep_request(checkpoint.request),
        "triggered": checkpoint.triggered,
        "expires": checkpoint.expires,
        "tasks": [index[task] for task in checkpoint.tasks],
        "finished": checkpoint.finished,
        "acknowledgements": [
            [index[task], *report] for task, report in checkpoint.acknowledgements.items()
        ],
        "acknowledged": checkpoint.acknowledged,
        "status": checkpoint.status,
        "ended": checkpoint.ended,
    }


def read_checkpoint(kept: Mapping[str, Any], tasks: Sequence[Hashable]) -> Checkpoint:
    """Return the checkpoint that was kept."""
    request = read_request(kept["request"])
    state = request.state
    checkpoint = Checkpoint(
        kept["id"],
        request,
        kept["triggered"],
        kept["expires"],
        [tasks[place] for place in kept["tasks"]],
        kept["finished"],
    )
    request.state = state
    in_time = kept["acknowledged"]
    for place, *report in kept["acknowledgements"][:in_time]:
        checkpoint.acknowledge(tasks[place], TaskStatistics(*report))
    checkpoint.status, checkpoint.ended = kept["status"], kept["ended"]
    for place, *report in kept["acknowledgements"][in_time:]:
        checkpoint.acknowledge(tasks[place], TaskStatistics(*report))
    return checkpoint


def keep_action(action: Action, index: Mapping[Hashable, int]) -> list[Any]:
    """Return an action as JSON takes it."""
    name, *rest = action
    return [name, index[rest[0]], *rest[1:]] if rest else [name]


def read_action(kept: Sequence[Any], tasks: Sequence[Hashable]) -> Action:
    """Return the action that was kept."""
    name, *rest = kept
    return (name, tasks[rest[0]], *rest[1:]) if rest else (name,)
