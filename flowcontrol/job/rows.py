"""How much room a channel has at the start of a run."""

from flowcontrol.job.graph import JobEdge
from flowcontrol.job.job import Job
from flowcontrol.protocol.partition_kinds import has_quota, kind_of

LOCAL = -1
"""Initial credit that marks a local channel, which knows no credit."""


def queue_depth(job: Job, link: JobEdge, sender: int) -> int:
    """Most buffers of a partition that stand in the queue of one of its channels.

    A channel at its quota stops the task before the next record, so beyond the quota go only
    the buffers that the outputs of one more record need. Some kinds of partition have none.
    """
    size, options = job.sizes.partitions[link.name, sender], job.scenario.options
    if job.scenario.system.transport == "tcp":  # knows no quota
        return size.size
    width = len(link.places("sender", sender))
    kind = kind_of(link.edge.partition_type, width, options.sort_min_parallelism)
    if has_quota(kind) == 0:
        return size.size + size.overdraft
    each = link.record_bytes // options.segment_bytes + 2
    most = job.stage(link.edge.sender).member(link).most_outputs
    return min(size.size + size.overdraft, options.max_buffers_per_channel + 1 + most * each)
