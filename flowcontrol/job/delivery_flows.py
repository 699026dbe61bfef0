"""What becomes of records on their way: the rows of them that reach each subtask of the sinks.

Of records that are in a channel it is known how many go to which task. From there on they are
counted by the ratios of the stages, and shared out over channels as the records before them were.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from flowcontrol.job.graph import JobEdge, JobVertex
from flowcontrol.job.job import Job

Counts = Mapping[str, Sequence[int]]
"""Records by the name of an edge, of each of its channels in their order."""


def rows_of_inputs(
    job: Job,
    inputs: Sequence[int],
    routed: Counts,
    groups: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> dict[str, list[int]]:
    """Return how many rows reach the sinks of records that tasks take up.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    inputs : sequence of int
        Records that each task takes up, or emits if it is a source, in the order of the job.
    routed : mapping of str to sequence of int
        Records so far of each channel: how tasks share out what they write.
    groups : mapping of str to sequence of sequence of int, optional
        By the name of a sink: its subtasks that restart together; by default all of them.

    Returns
    -------
    dict of str to list of int
        Rows by the name of the sink, of each subtask. The sum of a group is exact where the ratios
        are whole; what is left of a row there is no row.
    """
    flows, found = [Fraction(count) for count in inputs], {}
    for plan in job.stages:
        own = [flows[task] for task in job.tasks[plan.name]]
        for member in plan.members:
            if member.is_sink:
                rows, name = [flow * member.ratio_in for flow in own], member.stage.name
                parts = [range(len(rows))] if groups is None else groups[name]
                counts = dict[int, int]()
                for part in parts:
                    counts.update(zip(part, whole([rows[index] for index in part]), strict=True))
                found[name] = [counts[index] for index in range(len(rows))]
        for link in plan.outputs if any(own) else ():
            at = job.tasks[link.edge.receiver].start
            for receiver, flow in _share_out(plan, link, own, routed[link.name]):
                flows[at + receiver] += flow
    return found


def _share_out(
    plan: JobVertex, link: JobEdge, inputs: Sequence[Fraction], routed: Sequence[int]
) -> list[tuple[int, Fraction]]:
    """Return what goes to which receiver of what the subtasks of a stage take up."""
    ratio, found = plan.member(link).ratio_out, []
    totals = [0] * len(inputs)
    for channel, count in zip(link.channels, routed, strict=True):
        totals[channel.sender] += count
    for channel, count in zip(link.channels, routed, strict=True):
        share = Fraction(1)
        if link.edge.partitioner != "broadcast":
            total, outgoing = totals[channel.sender], link.outgoing(channel.sender)
            if total > 0:
                share = Fraction(count, total)
            elif link.edge.partitioner == "global":
                share = Fraction(channel == outgoing[0])
            else:
                share = Fraction(1, len(outgoing))
        found.append((channel.receiver, inputs[channel.sender] * ratio * share))
    return found


def whole(shares: Sequence[Fraction]) -> list[int]:
    """Return whole numbers whose sum is that of the shares, rounded down; the largest rest first.

    Examples
    --------
    >>> whole([Fraction(3, 2), Fraction(1, 4), Fraction(1, 4)])
    [2, 0, 0]
    """
    counts = [int(share) for share in shares]
    rests = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], i))
    for i in rests[: int(sum(shares)) - sum(counts)]:
        counts[i] += 1
    return counts
