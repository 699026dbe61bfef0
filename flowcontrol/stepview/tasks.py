"""What the page shows of tasks, of task managers and of connections."""

from typing import Any, Final

from flowcontrol.job.job import Job
from flowcontrol.job.round_state import ConnectionState, RoundState, TaskState
from flowcontrol.protocol.event_time.bounds import MAX_TIME, MIN_TIME

THREAD: Final = ("busy", "idle", "blocked")


def shown_task(task: TaskState) -> dict[str, Any]:
    """Return what is shown of a task after a round."""
    source, time, window = task.source, task.time, task.window
    return {
        "is_running": int(task.is_running),
        "is_finished": task.state.is_finished,
        "taken": task.taken,
        "total_taken": task.state.taken,
        "busy_us": task.busy_us,
        "idle_us": task.idle_us,
        "blocked_us": task.backpressured_us,
        "queued_records": task.state.queued,
        "watermark_ms": None if time is None else _time(time.watermark),
        "is_idle": 0 if time is None else int(time.is_idle),
        "open_windows": 0 if window is None else window.open_windows,
        "lag_records": 0 if task.log is None else task.log.end - task.log.position,
        "is_stopped": 0 if source is None else source.is_stopped,
        "gap_ns": 0 if source is None else source.gap_ns,
        "may_emit": -1 if source is None else source.admitted,
        "holds_senders": int(task.holds_senders),
        **_checkpoint(task),
    }


def _time(ms: int) -> int | None:
    return None if ms in (MIN_TIME, MAX_TIME) else ms


def _checkpoint(task: TaskState) -> dict[str, int]:
    """Return how far a task is with its barriers; zeros of one without checkpoints."""
    held = task.checkpoints
    if held is None:
        return dict.fromkeys(("checkpoint", "is_aligning", "barriers", "barriers_of", "aside"), 0)
    return {
        "checkpoint": held.state.handled,
        "is_aligning": held.alignment.is_pending,
        "barriers": held.alignment.barriers,
        "barriers_of": held.alignment.target,
        "aside": 0 if held.aside is None else len(held.aside.behind) + len(held.aside.again),
    }


def overtaken_of(task: TaskState) -> list[int]:
    """Return, by channel of all its gates, whether a barrier in it is pulled to the front."""
    held = task.checkpoints
    return [] if held is None else [channel.is_overtaken for channel in held.channels]


def shown_managers(job: Job, state: RoundState) -> dict[str, dict[str, int]]:
    """Return the network pool of each task manager: all that it has, and what is free.

    A job alone has its memory in shares, one a gate and partition; jobs that come and go share one.
    """
    is_shared = bool(job.scenario.jobs)
    found: dict[str, dict[str, int]] = {
        str(number): {"total": 0, "free": 0} for number in range(job.scenario.cluster.task_managers)
    }
    seen: set[str] = set()
    for task in state.tasks:
        manager = str(task.task_manager)
        pools = [gate.segments for gate in task.gates]
        pools += [part.segments for part in task.partitions]
        for pool in pools[: 1 if is_shared else None]:
            if is_shared and manager in seen:
                continue
            seen.add(manager)
            found[manager]["total"] += pool.total
            found[manager]["free"] += pool.free
    return found


def connection_name(one: ConnectionState) -> str:
    """Return the name of a connection: task managers, and the edge if it is of one alone."""
    return f"{one.sender_manager}->{one.receiver_manager} {one.edge}".strip()


def shown_connection(one: ConnectionState) -> dict[str, Any]:
    """Return what is shown of a connection that is a bottleneck."""
    wire = one.tcp
    if wire is None:
        return {"waiting": len(one.waiting)}
    return {
        "waiting": len(one.waiting),
        "pending_bytes": wire.pending,
        "high_mark_bytes": wire.high_mark,
        "low_mark_bytes": wire.low_mark,
        "is_writable": wire.is_writable,
        "held_bytes": wire.held,
        "kernel_bytes": wire.kernel_bytes,
        "auto_read": wire.auto_read,
        "staged": wire.read - wire.delivered,
    }
