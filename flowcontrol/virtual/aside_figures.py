"""What the tasks of a run have put aside behind barriers, read from its memory."""

from flowcontrol.job.job import Job
from flowcontrol.systems.barrier_buffer import READ_BYTES, BarrierBuffer
from flowcontrol.virtual.aside_memory import puts_aside
from flowcontrol.virtual.checkpoint_fields import KernelCheckpoints
from flowcontrol.virtual.memory import Memory


def aside_figures(job: Job, memory: Memory) -> dict[str, dict[str, int]]:
    """Return what the tasks of each stage have put aside behind barriers.

    Parameters
    ----------
    job : Job
        What was run.
    memory : Memory
        After its last round.

    Returns
    -------
    dict of str to dict
        As ``put_aside`` of :class:`~flowcontrol.job.run.Run`; empty where no task does so.
    """
    found = dict[str, dict[str, int]]()
    for plan in job.stages if puts_aside(job) else ():
        if plan.is_source:
            continue
        own = [_task(memory, plan.name, index) for index in range(plan.stage.parallelism)]
        found[plan.name] = {
            "bytes_written": sum(one.written for one in own),
            "bytes_read": sum(one.read for one in own),
            "max_bytes": max(one.most for one in own),
            "read_memory_bytes": READ_BYTES * len(own),
        }
    return found


def _task(memory: Memory, stage: str, index: int) -> BarrierBuffer:
    at = int(memory.tasks["checkpoints"][memory.places.tasks[stage] + index])
    return memory.copy(memory.copy(at, KernelCheckpoints).aside, BarrierBuffer)
